package contract

import (
	"cmp"
	"errors"
	"slices"

	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/jsonschema"
)

// invalid is one INVALID_INPUT of all faults, or nil when there is none.
func invalid(details []fault.Detail) error {
	if len(details) == 0 {
		return nil
	}
	slices.SortFunc(details, func(a, b fault.Detail) int {
		return cmp.Or(cmp.Compare(a.Pointer, b.Pointer), cmp.Compare(a.Message, b.Message))
	})
	return fault.Malformed(details)
}

// Together returns one INVALID_INPUT with the details of two, either of which may be nil. It
// returns the first error that is not such a list of details.
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
		all = append(all, e.Details...)
	}
	return invalid(all)
}

// detail is one fault at the place that the names lead to.
func detail(names []string, message string) fault.Detail {
	return fault.NewDetail(fault.Pointer("", names...), message)
}

// check returns what is wrong with a value below base, and stops after one more fault than an
// error holds. No message has the value.
func check(schema *jsonschema.Compiled, value any, base ...string) (details []fault.Detail) {
	for violation := range jsonschema.Violations(schema, value, nil) {
		details = append(details, detail(slices.Concat(base, violation.At), violation.Message))
		if len(details) > fault.MaxDetails {
			break
		}
	}
	return details
}
