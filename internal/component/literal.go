package component

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/weft-automation/weft/internal/kit/envref"
	"github.com/weft-automation/weft/internal/kit/fault"
)

// configurer is a module with rules for its config that a schema cannot tell. Its
// faults have pointers into the config.
type configurer interface {
	CheckConfig(config json.RawMessage) []fault.Detail
}

// wholeChecker is a module with rules for input and config together, of which bound is
// what gets its values later. Its faults have pointers below /input or /config.
type wholeChecker interface {
	CheckWhole(input, config json.RawMessage, bound []string) []fault.Detail
}

// CheckLiterals tells all that is wrong with a call that is not whole yet, each fault
// with its pointer below /input or /config. bound are the inputs, by name or dotted
// path, that get their values later; so do strings that name variables, which are texts
// or, where they are nothing else, numbers.
func (e *Entry) CheckLiterals(input, config json.RawMessage, bound []string) []fault.Detail {
	paths := make([][]string, len(bound))
	for i, path := range bound {
		paths[i] = strings.Split(path, ".")
	}
	details := e.input.later(paths).faults("/input", input)
	configured := e.config.later(nil).faults("/config", config)
	if module, ok := e.module.(configurer); ok && len(configured) == 0 {
		for _, detail := range module.CheckConfig(config) {
			detail.Pointer = "/config" + detail.Pointer
			configured = append(configured, detail)
		}
	}
	if module, ok := e.module.(wholeChecker); ok && len(details)+len(configured) == 0 {
		details = module.CheckWhole(input, config, bound)
	}
	named := append(envref.Faults("/input", input), envref.Faults("/config", config)...)
	return slices.Concat(details, configured, named)
}

// faults is check for what is refused by its faults alone.
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

// later is the shape for data of which some is not known yet: no fault is told that
// may be gone by then.
func (s shape) later(bound [][]string) shape {
	s.excusedFunc = func(root any, at []string, byName bool) bool {
		for _, path := range bound {
			if begins(path, at) || begins(at, path) {
				return true
			}
		}
		return !byName && open(inside(root, at))
	}
	return s
}

// begins says whether a path begins with another.
func begins(path, with []string) bool {
	return len(path) >= len(with) && slices.Equal(path[:len(with)], with)
}

// open says whether a value names a variable somewhere.
func open(value any) bool {
	switch value := value.(type) {
	case string:
		return envref.In(value)
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

// inside is the value at a place, nil if there is none.
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
