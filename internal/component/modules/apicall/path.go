package apicall

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

const maxSteps = 64

// parsePath parses a dotted path of field names and item numbers, with an optional leading `$`.
// Brackets contain a number or a quoted name: `data.items.0.id`, `$.data.items[0].id`,
// `data["odd.name"]`. Errors do not quote the path.
func parsePath(text string) ([]string, error) {
	rest := text
	if after, ok := strings.CutPrefix(text, "$"); ok && (after == "" || after[0] == '.' || after[0] == '[') {
		rest = strings.TrimPrefix(after, ".")
	}
	if rest == "" && text != "$" {
		return nil, errors.New("expected a dotted path such as data.items.0.id")
	}
	var steps []string
	for first := true; rest != ""; first = false {
		var step string
		var err error
		if rest[0] == '[' {
			step, rest, err = bracket(rest)
		} else {
			if !first || strings.HasPrefix(rest, ".") {
				if rest[0] != '.' {
					return nil, errors.New("expected a dot between two names")
				}
				rest = rest[1:]
			}
			end := strings.IndexAny(rest, ".[")
			if end < 0 {
				end = len(rest)
			}
			step, rest = rest[:end], rest[end:]
			if step == "" {
				err = errors.New("a name is missing")
			}
		}
		if err != nil {
			return nil, err
		}
		if steps = append(steps, step); len(steps) > maxSteps {
			return nil, errors.New("at most 64 steps are allowed")
		}
	}
	return steps, nil
}

// bracket parses a leading `[0]` or `["name"]` and returns the step and the rest.
func bracket(text string) (step, rest string, err error) {
	inner := text[1:]
	if inner != "" && (inner[0] == '"' || inner[0] == '\'') {
		name, after, found := strings.Cut(inner[1:], inner[:1]+"]")
		if !found {
			return "", "", errors.New("a quoted name in brackets has no closing quote and bracket")
		}
		return name, after, nil
	}
	number, after, found := strings.Cut(inner, "]")
	if _, err := strconv.ParseUint(number, 10, 31); !found || err != nil {
		return "", "", errors.New("brackets must contain a number or a quoted name")
	}
	return number, after, nil
}

// source is a response to select values from. From the body, it extracts only the value at a
// path, as raw JSON.
type source struct {
	status  int
	headers map[string]any
	body    any
	parsed  gjson.Result // of a JSON body
}

// pick returns the value at a path in the body. If the body has no field with the name of the first
// step, a path that starts with status, headers or body selects from the response. pick returns nil
// if there is no value.
func (s source) pick(steps []string) any {
	if len(steps) == 0 {
		return s.body
	}
	if !lookup(s.parsed, steps[:1]).Exists() {
		switch name, rest := steps[0], steps[1:]; {
		case name == "body":
			steps = rest
		case name == "status" && len(rest) == 0:
			return s.status
		case name == "headers" && len(rest) == 0:
			return s.headers
		case name == "headers" && len(rest) == 1:
			return s.headers[rest[0]]
		}
	}
	if len(steps) == 0 {
		return s.body
	}
	if found := lookup(s.parsed, steps); found.Exists() {
		return json.RawMessage(found.Raw)
	}
	return nil
}

// lookup follows the steps from value: fields by name, items by number.
func lookup(value gjson.Result, steps []string) gjson.Result {
	for _, step := range steps {
		var found gjson.Result
		switch {
		case value.IsObject():
			value.ForEach(func(name, member gjson.Result) bool {
				if name.Str == step {
					found = member
				}
				return !found.Exists()
			})
		case value.IsArray():
			index, err := strconv.ParseUint(step, 10, 31)
			if err != nil {
				break
			}
			value.ForEach(func(_, item gjson.Result) bool {
				if index == 0 {
					found = item
				}
				index--
				return !found.Exists()
			})
		}
		value = found
	}
	return value
}
