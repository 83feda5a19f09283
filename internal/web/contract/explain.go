package contract

import (
	"cmp"
	"errors"
	"slices"

	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/jsonschema"
)

// invalid returns one INVALID_INPUT with all faults, sorted, or nil if there are no faults.
func invalid(details []fault.Detail) error {
	if len(details) == 0 {
		return nil
	}
	slices.SortFunc(details, func(a, b fault.Detail) int {
		return cmp.Or(cmp.Compare(a.Pointer, b.Pointer), cmp.Compare(a.Message, b.Message))
	})
	return fault.Malformed(details)
}

// Together merges two INVALID_INPUT errors into one. Either may be nil. If one of the two is a
// different kind of error, Together returns that error. Faults of the second at or below a pointer of
// the first are consequences of it and left out.
func Together(first, second error) error {
	if first == nil || second == nil {
		return cmp.Or(first, second)
	}
	var all []fault.Detail
	for _, err := range []error{first, second} {
		e, ok := errors.AsType[*fault.Error](err)
		if !ok || e.Code != fault.InvalidInput || len(e.Details) == 0 {
			return err
		}
		all = fault.Beyond(all, e.Details)
	}
	return invalid(all)
}

// detail returns a fault at the field with this path of names.
func detail(names []string, message string) fault.Detail {
	return fault.NewDetail(fault.Pointer("", names...), message)
}

// check returns the violations of a schema by a value, with pointers below base. It stops when it
// has found one more violation than an error can hold. No message contains the value.
func check(schema *jsonschema.Compiled, value any, base ...string) (details []fault.Detail) {
	if schema.Validate(value) == nil {
		return nil // the usual case, without the cost of an iterator
	}
	for violation := range jsonschema.Violations(schema, value, nil) {
		details = append(details, detail(slices.Concat(base, violation.At), violation.Message))
		if len(details) > fault.MaxDetails {
			break
		}
	}
	return details
}
