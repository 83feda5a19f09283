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

// Decode decodes an input or a config into a struct. It returns INVALID_INPUT, without values, if
// the data doesn't match the struct.
func Decode[T any](data json.RawMessage) (T, error) {
	var value T
	if err := json.Unmarshal(data, &value); err != nil {
		return value, &Error{Code: CodeInvalidInput, Message: "the call does not match the module's schema", Err: err}
	}
	return value, nil
}

// Encode returns a result with the output v. It doesn't escape characters for HTML, because escaped
// output can be six times as large and exceed the limit.
func Encode(v any) (Result, error) {
	output, err := strictjson.Encode(v)
	if err != nil {
		return Result{}, fmt.Errorf("encode output: %w", err)
	}
	return Result{Output: output}, nil
}

// Integer is an integer as JSON Schema defines it, including 1.0 and 1e0.
type Integer int64

// UnmarshalJSON decodes an integer. With a fraction or an exponent, it must be below 2^53.
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

// rebase prefixes the pointers of a fault inside a value with the value's pointer.
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
