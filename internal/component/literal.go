package component

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/reference"
)

// configurer is implemented by modules with rules for their config that a schema can't express.
// Faults have pointers into the config.
type configurer interface {
	CheckConfig(config json.RawMessage) []fault.Detail
}

// wholeChecker is implemented by modules with rules for input and config together. bound are the
// inputs with connections. Faults have pointers below /input or /config.
type wholeChecker interface {
	CheckWhole(input, config json.RawMessage, bound []string) []fault.Detail
}

// CheckLiterals returns all faults of an incomplete call, with pointers below /input or /config.
// bound are the inputs, by name or dotted path, that receive their values at run time. Strings with
// references are incomplete, too: the final value is a string, or possibly of another type if
// the string consists of one reference. known reports whether a name in an expression starts a path.
func (e *Entry) CheckLiterals(input, config json.RawMessage, bound []string, known func(name string) bool) []fault.Detail {
	paths := make([][]string, len(bound))
	for i, path := range bound {
		paths[i] = strings.Split(path, ".")
	}
	details := e.input.later(paths).faults("/input", input)
	configured := e.config.later(nil).faults("/config", config)
	if len(configured) == 0 {
		for _, detail := range e.checkConfig(config, known) {
			detail.Pointer = "/config" + detail.Pointer
			configured = append(configured, detail)
		}
	}
	if module, ok := e.module.(wholeChecker); ok && len(details)+len(configured) == 0 {
		details = module.CheckWhole(input, config, bound)
	}
	return slices.Concat(details, configured)
}

// checkConfig returns the faults of a config that its schema can't express, with pointers into the config.
func (e *Entry) checkConfig(config json.RawMessage, known func(name string) bool) (details []fault.Detail) {
	if module, ok := e.module.(configurer); ok {
		details = module.CheckConfig(config)
	}
	if check := e.Flow().Expressions; check != nil {
		details = append(details, check(config, known)...)
	}
	return details
}

// faults is like check and returns an error of check as a fault, too.
func (s shape) faults(pointer string, data json.RawMessage) []fault.Detail {
	details, err := s.check(pointer, data)
	if failure, ok := err.(*fault.Error); ok {
		return failure.Details
	}
	if err != nil {
		return []fault.Detail{fault.NewDetail(pointer, "cannot be checked")}
	}
	return details
}

// later returns the shape for incomplete data. It ignores faults that may disappear once the data
// is complete.
func (s shape) later(bound [][]string) shape {
	s.excusedFunc = func(root any, at []string, byName bool) bool {
		for _, path := range bound {
			if hasPrefix(path, at) || hasPrefix(at, path) {
				return true
			}
		}
		return !byName && open(inside(root, at))
	}
	return s
}

// hasPrefix reports whether a path starts with the other path.
func hasPrefix(path, with []string) bool {
	return len(path) >= len(with) && slices.Equal(path[:len(with)], with)
}

// open reports whether a value contains a reference.
func open(value any) bool {
	switch value := value.(type) {
	case string:
		return reference.In(value)
	case []any:
		return slices.ContainsFunc(value, open)
	case map[string]any:
		for _, member := range value {
			if open(member) {
				return true
			}
		}
	}
	return false
}

// inside returns the value at a path, or nil if the path doesn't exist.
func inside(value any, at []string) any {
	for _, token := range at {
		switch outer := value.(type) {
		case map[string]any:
			value = outer[token]
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(outer) {
				return nil
			}
			value = outer[i]
		default:
			return nil
		}
	}
	return value
}

// RepeatOfLiterals returns the repeat rule of a call of which only the literal values are known: the
// values without environment variables, and the inputs without connections. bound are the inputs, by
// name or dotted path, that receive their values at run time. If the literals don't show that a repeat
// is safe, the rule is RepeatUnsafe.
func (e *Entry) RepeatOfLiterals(input, config json.RawMessage, bound []string) Repeat {
	if _, depends := e.module.(repeater); !depends {
		return e.Repeat
	}
	known, err := literals(input, bound)
	if err != nil {
		return RepeatUnsafe
	}
	settings, err := literals(config, nil)
	if err != nil {
		return RepeatUnsafe
	}
	return e.RepeatFor(Call{Input: known, Config: settings})
}

// literals returns data without the values that are not literal.
func literals(data json.RawMessage, bound []string) (json.RawMessage, error) {
	if len(data) == 0 {
		return json.RawMessage(`{}`), nil
	}
	var fields map[string]any
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, err
	}
	for _, path := range bound {
		steps := strings.Split(path, ".")
		at := fields
		for _, step := range steps[:len(steps)-1] {
			at, _ = at[step].(map[string]any) // a nil map has no fields to delete
		}
		delete(at, steps[len(steps)-1])
	}
	return json.Marshal(withoutReferences(fields))
}

// withoutReferences removes the fields whose strings contain references.
func withoutReferences(fields map[string]any) map[string]any {
	for name, value := range fields {
		if inner, ok := value.(map[string]any); ok {
			fields[name] = withoutReferences(inner)
		} else if open(value) || reference.In(name) {
			delete(fields, name)
		}
	}
	return fields
}
