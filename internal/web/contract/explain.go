package contract

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/weft-automation/weft/internal/kit/fault"
)

const maxPointer = 100 // bytes: names in it are the caller's own

// invalid is one INVALID_INPUT of all faults, or nil when there is none.
func invalid(details []fault.Detail) error {
	if len(details) == 0 {
		return nil
	}
	slices.SortFunc(details, func(a, b fault.Detail) int {
		return cmp.Or(cmp.Compare(a.Pointer, b.Pointer), cmp.Compare(a.Message, b.Message))
	})
	message := fault.AndMore(strings.TrimPrefix(details[0].Pointer+": ", ": ")+details[0].Message, len(details))
	return &fault.Error{Code: fault.InvalidInput, Message: message, Details: details[:min(len(details), fault.MaxDetails)]}
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

// token writes a name as a token of a JSON pointer.
var token = strings.NewReplacer("~", "~0", "/", "~1")

// detail is one fault at the place that the tokens name.
func detail(tokens []string, message string) fault.Detail {
	var pointer strings.Builder
	for _, name := range tokens {
		pointer.WriteString("/" + token.Replace(name))
	}
	return fault.Detail{Code: string(fault.InvalidInput), Message: message, Pointer: cut(pointer.String())}
}

func cut(pointer string) string {
	if len(pointer) <= maxPointer {
		return pointer
	}
	end := maxPointer
	for !utf8.RuneStart(pointer[end]) {
		end--
	}
	return pointer[:end]
}

// explain turns what the validator found below base into faults, and stops after one more
// than an error holds.
func explain(err error, base ...string) []fault.Detail {
	found, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return nil
	}
	at := slices.Concat(base, found.InstanceLocation)
	switch k := found.ErrorKind.(type) {
	case *kind.Required:
		var details []fault.Detail
		for _, name := range k.Missing {
			details = append(details, detail(slices.Concat(at, []string{name}), "is required"))
		}
		return details
	}
	var details []fault.Detail
	for _, cause := range found.Causes {
		if len(details) > fault.MaxDetails {
			break
		}
		if wanted, ok := cause.ErrorKind.(*kind.Type); ok && slices.Equal(wanted.Want, []string{"null"}) {
			continue // the other branch of what may be null says more
		}
		details = append(details, explain(cause, base...)...)
	}
	if len(details) == 0 {
		details = append(details, detail(at, expected(found.ErrorKind)))
	}
	return details
}

// patternRules are the messages for patterns that are hard to read.
var patternRules = map[string]string{
	`^[^\x00-\x1F\x7F-\x9F]*[^\s\x00-\x1F\x7F-\x9F][^\x00-\x1F\x7F-\x9F]*$`: "must not be blank or have control characters",
}

// expected says what would have been right, never what came.
func expected(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Type:
		wanted := slices.DeleteFunc(slices.Clone(k.Want), func(name string) bool { return name == "null" && len(k.Want) > 1 })
		return "must be of type " + strings.Join(wanted, " or ")
	case *kind.Format:
		return "must be a valid " + k.Want
	case *kind.Pattern:
		if text, ok := patternRules[k.Want]; ok {
			return text
		}
		return "must match " + k.Want
	case *kind.MinLength:
		return "must have at least " + fault.Count(k.Want, "character")
	case *kind.MaxLength:
		return "must have at most " + fault.Count(k.Want, "character")
	case *kind.MinItems:
		return "must have at least " + fault.Count(k.Want, "item")
	case *kind.MaxItems:
		return "must have at most " + fault.Count(k.Want, "item")
	case *kind.MaxProperties:
		return "must have at most " + fault.Count(k.Want, "member")
	case *kind.Minimum:
		return "must be at least " + k.Want.RatString()
	case *kind.Maximum:
		return "must be at most " + k.Want.RatString()
	case *kind.Enum:
		return fmt.Sprintf("must be one of %v", k.Want)
	}
	return "breaks the rule " + strings.Join(k.KeywordPath(), ".")
}
