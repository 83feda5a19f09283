package component

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/strictjson"
)

// Decode reads an input or config that passed the module's schema into a
// struct. Data of another form is INVALID_INPUT, without its values.
func Decode[T any](data json.RawMessage) (T, error) {
	var value T
	if err := json.Unmarshal(data, &value); err != nil {
		return value, &Error{Code: CodeInvalidInput, Message: "the call does not have the form of the module's schema", Err: err}
	}
	return value, nil
}

// Encode makes the result of a module whose output is v. Characters that HTML
// would escape stay as they are: escaped, a page of text grows sixfold and
// past the limit.
func Encode(v any) (Result, error) {
	output, err := strictjson.Encode(v)
	if err != nil {
		return Result{}, fmt.Errorf("encode output: %w", err)
	}
	return Result{Output: output}, nil
}

// Integer is a whole number as JSON Schema sees it: 1, 1.0 and 1e0 are one.
type Integer int64

// UnmarshalJSON reads a whole number below 2^53.
func (i *Integer) UnmarshalJSON(data []byte) error {
	if n, err := strconv.ParseInt(string(data), 10, 64); err == nil {
		*i = Integer(n)
		return nil
	}
	f, err := strconv.ParseFloat(string(data), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) >= 1<<53 {
		return errors.New("not a whole number")
	}
	*i = Integer(f)
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
	if len(f.Details) == 1 && f.Message == f.Details[0].Pointer+": "+f.Details[0].Message {
		moved.Message = pointer + f.Message
	}
	for i := range moved.Details {
		moved.Details[i].Pointer = pointer + moved.Details[i].Pointer
	}
	return moved
}
