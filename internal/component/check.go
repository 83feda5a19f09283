package component

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/weft-automation/weft/internal/kit/envref"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/jsonschema"
	"github.com/weft-automation/weft/internal/kit/reference"
	"github.com/weft-automation/weft/internal/kit/strictjson"
)

// Check validates a call of a module.
//
// It returns INVALID_INPUT at /module for an unknown module. For an input or a config that violates
// the schema, it returns INVALID_INPUT, Unprocessable, with all faults, each with its JSON pointer
// below /input or /config, the expected and the actual value. Messages contain neither the values
// of secret fields, even if they also occur elsewhere, nor the given secrets.
func (r *Registry) Check(module string, input, config json.RawMessage, secrets ...string) error {
	entry, ok := r.entries[module]
	if !ok {
		return fault.Invalid("/module", "%s", r.Unknown(module))
	}
	hiddenFunc := sync.OnceValue(func() *Redactor { return entry.Redactor(input, config, secrets...) })
	details, err := entry.input.hiding(hiddenFunc).check("/input", input)
	if err != nil {
		return err
	}
	more, err := entry.config.hiding(hiddenFunc).check("/config", config)
	if err != nil {
		return err
	}
	return fault.Unprocessable(slices.Concat(details, more, entry.userInfo(input, config)))
}

// CheckMode returns INVALID_INPUT at /module, with a suggestion, if a module doesn't support the
// mode. It returns nil for an unknown module, which Check reports.
func (r *Registry) CheckMode(module string, mode Mode) error {
	entry, ok := r.entries[module]
	switch {
	case !ok || slices.Contains(entry.Modes, mode):
		return nil
	case mode == ModeComponent:
		return fault.Invalid("/module", "%s works only inside a workflow (its mode is WORKFLOW): write one that has it into a file, and weft workflows run FILE tries it; or save it by POST /v1/sdk/workflows", module)
	}
	return fault.Invalid("/module", "%s works only on its own, not inside a workflow: POST /v1/sdk/components executes it", module)
}

// hiding returns the shape with a redactor for its messages. The redactor is created only if there
// is a fault.
func (s shape) hiding(whatFunc func() *Redactor) shape {
	s.hiddenFunc = whatFunc
	return s
}

// hidden returns the redactor for messages, or nil.
func (s shape) hidden() *Redactor {
	if s.hiddenFunc == nil {
		return nil
	}
	return s.hiddenFunc()
}

func (s shape) check(pointer string, data json.RawMessage) ([]fault.Detail, error) {
	if err := strictjson.Check(data); err != nil {
		return nil, rebase(pointer, err)
	}
	value, err := strictjson.Decode(data)
	if err != nil {
		return nil, fault.Invalid(pointer, "is not valid JSON")
	}
	schema, err := s.compiledFunc()
	if err != nil {
		return nil, fmt.Errorf("compile the schema of %s: %w", pointer, err)
	}
	var details []fault.Detail
	for violation := range jsonschema.Violations(schema, value, s.show(value)) {
		if detail, ok := s.detail(pointer, value, violation); ok {
			details = append(details, detail)
		}
		if len(details) > fault.MaxDetails {
			break
		}
	}
	slices.SortFunc(details, func(a, b fault.Detail) int {
		return cmp.Or(cmp.Compare(a.Pointer, b.Pointer), cmp.Compare(a.Message, b.Message))
	})
	return slices.Compact(details), nil
}

// show returns a function that formats the value at a path below root for a message. The
// function doesn't show secrets.
func (s shape) show(root any) func(at []string, value any) string {
	return func(at []string, value any) string {
		_, isText := value.(string)
		switch secret := isSecret(s.secrets, at) || s.hidden().In(inside(root, at)); {
		case secret && isText:
			return "a string that is not shown because it is secret"
		case secret:
			return "a value that is not shown because it is secret"
		}
		return jsonschema.Show(value)
	}
}

// notHere is appended to the fault of a string with a reference if the string is in a field where
// references aren't evaluated.
const notHere = "; references in double braces are evaluated only in the literals of a workflow, not in single calls or in values"

// booleans are words for boolean values in other languages. In a YAML file they are strings.
var booleans = map[string]bool{"yes": true, "no": false, "on": true, "off": false, "y": true, "n": false, "true": true, "false": false}

// detail returns a violation as a fault with a pointer below the given pointer. It returns false if
// the violation is excused. The pointer shows no secret.
func (s shape) detail(pointer string, root any, v jsonschema.Violation) (fault.Detail, bool) {
	text, _ := inside(root, v.At).(string)
	namesVariable := !v.Presence && reference.In(text)
	_, anyType := reference.Whole(text)
	anyType = anyType && !envref.All(text) // a variable is a string, or a number
	byName := v.Presence || namesVariable && !anyType && v.Allowed != 0 && !v.Allowed.AllowsText()
	if s.excusedFunc != nil && s.excusedFunc(root, v.At, byName) {
		return fault.Detail{}, false
	}
	if namesVariable && !byName {
		v.Message += notHere
	}
	if meant, ok := booleans[strings.ToLower(text)]; ok && v.Allowed.IsBoolean() && !isSecret(s.secrets, v.At) {
		v.Message += fmt.Sprintf("; write %t without quotes", meant)
	}
	at := make([]string, len(v.At))
	for i, name := range v.At {
		at[i] = s.hidden().Text(name)
	}
	return fault.NewDetail(fault.Pointer(pointer, at...), v.Message), true
}

const maxQuoted = 48 // characters of a caller's string in an error message

// quote returns a caller's string for an error message.
func quote(text string) string { return fault.Quote(text, maxQuoted) }
