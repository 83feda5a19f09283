package component

import (
	"encoding/json"
	"slices"

	"github.com/weft-automation/weft/internal/fault"
)

// storable checks that data is JSON that PostgreSQL can hold.
func storable(data json.RawMessage) error {
	if !json.Valid(data) {
		return fault.Invalid("", "is not valid JSON")
	}
	return nil
}

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
