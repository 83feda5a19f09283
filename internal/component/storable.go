package component

import (
	"encoding/json"
	"slices"

	"github.com/weft-automation/weft/internal/fault"
	"github.com/weft-automation/weft/internal/strictjson"
)

// storable checks that data is JSON that means one thing and that PostgreSQL
// can hold. Its error is a *fault.Error with a pointer into data.
func storable(data json.RawMessage) error { return strictjson.Check(data) }

// rebase moves a fault found inside a value to the value's own pointer.
func rebase(pointer string, err error) error {
	f, ok := err.(*fault.Error)
	if !ok {
		return err
	}
	moved := new(*f)
	moved.Details = slices.Clone(f.Details)
	for i := range moved.Details {
		moved.Details[i].Pointer = pointer + moved.Details[i].Pointer
	}
	return moved
}
