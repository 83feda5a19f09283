package apicall

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
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
	whole   any          // the body, if it isn't JSON
	parsed  gjson.Result // of a JSON body
	problem error        // why the body is not JSON
}

// newSource returns the source for a response. The body is JSON if it can be decoded, although the
// values in it may not be storable.
func newSource(status int, headers map[string]any, b body) source {
	s := source{status: status, headers: headers, problem: b.unknown}
	if json.Valid(b.text) {
		s.parsed = gjson.ParseBytes(b.text)
	} else if b.unknown == nil && !(len(b.text) == 0 && empty(status)) {
		s.problem = notJSON(b.text)
	}
	if !b.json && !s.parsed.IsObject() && !s.parsed.IsArray() { // text, even if it is 0 or true
		s.whole = b.plain().value
	}
	return s
}

// empty reports whether responses with this status have no body (RFC 9110, section 15).
func empty(status int) bool {
	return status == http.StatusNoContent || status == http.StatusResetContent || status == http.StatusNotModified
}

// notJSON returns the reason why text is not JSON. It names the place of the fault, and not the character
// that json.SyntaxError quotes: no word of a server reaches a message except in a marked excerpt.
func notJSON(text []byte) error {
	if len(text) == 0 {
		return errors.New("the response has no body")
	}
	var value json.RawMessage
	if wrong, ok := errors.AsType[*json.SyntaxError](json.Unmarshal(text, &value)); ok && wrong.Offset < int64(len(text)) {
		return fmt.Errorf("the response is not valid JSON: byte %d is wrong", wrong.Offset)
	}
	return errors.New("the response is not valid JSON: it ends too early")
}

// pick returns the value at a path in the body, and nil if there is no value. If the body has no
// field with the name of the first step, a path that starts with status, headers or body selects
// from the response. pick returns an error for a path into a body that isn't JSON.
func (s source) pick(path string) (any, error) {
	steps, err := parsePath(path)
	if err != nil {
		return nil, err
	}
	if len(steps) == 0 {
		return s.all()
	}
	first, rest := steps[0], steps[1:]
	found := lookup(s.parsed, steps[:1])
	if !found.Exists() {
		switch {
		case first == "status" && len(rest) == 0:
			return s.status, nil
		case first == "headers" && len(rest) == 0:
			return s.headers, nil
		case first == "headers" && len(rest) == 1:
			return s.headers[strings.ToLower(rest[0])], nil
		case first == "body" && len(rest) == 0:
			return s.all()
		case first == "body":
			found = s.parsed
		}
	}
	if found = lookup(found, rest); found.Exists() {
		return json.RawMessage(found.Raw), nil
	}
	return nil, s.problem
}

// all returns the body.
func (s source) all() (any, error) {
	switch {
	case s.whole != nil:
		return s.whole, nil
	case s.problem == nil && s.parsed.Exists():
		return json.RawMessage(s.parsed.Raw), nil
	}
	return nil, s.problem
}

// lookup follows the steps from value: fields by name, items by number. Of fields with the same
// name, it follows the last one, as most JSON parsers do.
func lookup(value gjson.Result, steps []string) gjson.Result {
	for _, step := range steps {
		var found gjson.Result
		switch {
		case value.IsObject():
			value.ForEach(func(name, member gjson.Result) bool {
				if name.Str == step {
					found = member
				}
				return true
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
