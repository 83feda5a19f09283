package graph

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/weft-automation/weft/internal/kit/jsonschema"
	"github.com/weft-automation/weft/internal/kit/strictjson"
)

// maxFilled bounds the places of arrays that are filled up in one input, because a path names
// a later place.
const maxFilled = 10_000

// Bound is a source and the value that came from it.
type Bound struct {
	Source
	Value json.RawMessage // nil: there is none, because what gives it failed or did not run
}

// BindError is why a value cannot get into an input. It names both ends, and
// never holds the value.
type BindError struct {
	From, To string // componentId.path
	Reason   string
}

func (e *BindError) Error() string {
	return fmt.Sprintf("the value of %s cannot go into %s: %s", quote(e.From), quote(e.To), e.Reason)
}

// Select is the value at a name or dotted path in an output: a member of an
// object, or an item of an array by its index. The name comes first, because it
// may hold dots.
func Select(output json.RawMessage, path string) (json.RawMessage, bool) {
	if value, ok := step(output, path); ok {
		return value, true
	}
	for segment := range strings.SplitSeq(path, ".") {
		var ok bool
		if output, ok = step(output, segment); !ok {
			return nil, false
		}
	}
	return output, true
}

func step(value json.RawMessage, segment string) (json.RawMessage, bool) {
	switch trimmed := bytes.TrimLeft(value, " \t\r\n"); {
	case len(trimmed) == 0:
	case trimmed[0] == '{':
		var members map[string]json.RawMessage
		if json.Unmarshal(value, &members) == nil {
			member, ok := members[segment]
			return member, ok
		}
	case trimmed[0] == '[':
		var items []json.RawMessage
		if index, ok := jsonschema.Index(segment); ok && json.Unmarshal(value, &items) == nil && index < len(items) {
			return items[index], true
		}
	}
	return nil, false
}

// Bind lays the values of connections into the input that the author wrote, each
// converted to what is taken there. A connection wins over what is written; one
// without a value leaves it as it is, and is an error where a value is required.
func Bind(literal json.RawMessage, values []Bound) (json.RawMessage, error) {
	if len(values) == 0 {
		return object(literal), nil
	}
	read, err := strictjson.Decode(object(literal))
	if err != nil {
		return nil, fmt.Errorf("read the written input: %w", err)
	}
	input, ok := read.(map[string]any)
	if !ok {
		return nil, errors.New("the written input is no object")
	}
	l := layer{left: maxFilled}
	for _, bound := range values {
		segments := bound.segments
		if segments == nil {
			segments = strings.Split(bound.To, ".")
		}
		if bound.Value == nil {
			continue
		}
		value, err := bound.Schema.Convert(bound.Value)
		if err == nil {
			_, err = l.lay(input, segments, value)
		}
		if err != nil {
			return nil, bound.refused(err.Error())
		}
	}
	for _, bound := range values {
		name, _, _ := strings.Cut(bound.To, ".")
		if bound.segments != nil {
			name = bound.segments[0]
		}
		if _, given := input[name]; bound.Value == nil && bound.Required && !given {
			return nil, bound.refused("there is none, and the input is required")
		}
	}
	return strictjson.Encode(input)
}

func (b Bound) refused(reason string) error {
	return &BindError{From: b.From + "." + b.Path, To: b.Into + "." + b.To, Reason: reason}
}

// layer lays values into one input, and fills up so many places of arrays at most.
type layer struct{ left int }

// lay puts a value at a path below a container, and makes the containers on the
// way that are not there: an array where the path goes on with an index. It
// returns the container, which may have grown.
func (l *layer) lay(container any, segments []string, value any) (any, error) {
	if len(segments) == 0 {
		return value, nil
	}
	index, isIndex := jsonschema.Index(segments[0])
	switch at := container.(type) {
	case nil:
		if isIndex {
			return l.lay([]any{}, segments, value)
		}
		return l.lay(map[string]any{}, segments, value)
	case map[string]any:
		member, err := l.lay(at[segments[0]], segments[1:], value)
		at[segments[0]] = member
		return at, err
	case []any:
		if !isIndex {
			return at, fmt.Errorf("there is an array, which has no member %s", quote(segments[0]))
		}
		if missing := index + 1 - len(at); missing > 0 {
			if l.left -= missing; l.left < 0 {
				return at, fmt.Errorf("the connections into the component fill up more than %d places of arrays", maxFilled)
			}
			at = append(at, make([]any, missing)...)
		}
		item, err := l.lay(at[index], segments[1:], value)
		at[index] = item
		return at, err
	}
	return container, fmt.Errorf("there is %s, which has no member %s", jsonschema.TypeOf(container), quote(segments[0]))
}
