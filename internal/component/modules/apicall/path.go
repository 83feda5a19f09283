package apicall

import (
	"errors"
	"strconv"
	"strings"
)

const maxSteps = 64

// parsePath reads a dotted path: members by name, items by number, with an
// optional leading `$`. Brackets hold a number or a quoted name:
// `data.items.0.id`, `$.data.items[0].id`, `data["odd.name"]`. Errors do not
// quote the path.
func parsePath(text string) ([]string, error) {
	rest := text
	if after, ok := strings.CutPrefix(text, "$"); ok && (after == "" || after[0] == '.' || after[0] == '[') {
		rest = strings.TrimPrefix(after, ".")
	}
	if rest == "" && text != "$" {
		return nil, errors.New("a dotted path such as data.items.0.id is needed")
	}
	var steps []string
	for begin := true; rest != ""; begin = false {
		var step string
		var err error
		if rest[0] == '[' {
			step, rest, err = bracket(rest)
		} else {
			if !begin || strings.HasPrefix(rest, ".") {
				if rest[0] != '.' {
					return nil, errors.New("a dot is needed between two names")
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

// bracket reads one `[0]` or `["name"]` at the beginning of text.
func bracket(text string) (step, rest string, err error) {
	inner := text[1:]
	if inner != "" && (inner[0] == '"' || inner[0] == '\'') {
		name, after, found := strings.Cut(inner[1:], inner[:1]+"]")
		if !found {
			return "", "", errors.New("a quoted name in brackets does not end")
		}
		return name, after, nil
	}
	number, after, found := strings.Cut(inner, "]")
	if _, err := strconv.ParseUint(number, 10, 31); !found || err != nil {
		return "", "", errors.New("brackets need a number or a quoted name")
	}
	return number, after, nil
}

// lookup follows the steps from value; false when they lead nowhere.
func lookup(value any, steps []string) (any, bool) {
	for _, step := range steps {
		switch node := value.(type) {
		case map[string]any:
			child, ok := node[step]
			if !ok {
				return nil, false
			}
			value = child
		case []any:
			index, err := strconv.ParseUint(step, 10, 31)
			if err != nil || index >= uint64(len(node)) {
				return nil, false
			}
			value = node[index]
		default:
			return nil, false
		}
	}
	return value, true
}

// pick is the value at a path: in the body, or in root, which holds status,
// headers and body, where the first step is one of those and the body has no
// member of that name. A path that leads nowhere gives nil.
func pick(root map[string]any, body any, path string) (any, error) {
	steps, err := parsePath(path)
	if err != nil {
		return nil, err
	}
	from := body
	if len(steps) > 0 {
		_, inBody := lookup(body, steps[:1])
		if _, inRoot := root[steps[0]]; inRoot && !inBody {
			from = root
		}
	}
	value, _ := lookup(from, steps)
	return value, nil
}
