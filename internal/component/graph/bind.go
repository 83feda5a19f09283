package graph

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weft-automation/weft/internal/component/template"
	"github.com/weft-automation/weft/internal/kit/envref"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/jsonschema"
	"github.com/weft-automation/weft/internal/kit/reference"
	"github.com/weft-automation/weft/internal/kit/strictjson"
)

// maxExtended limits how many items Bind may add to the arrays of one input. An array is extended
// up to the index in a path.
const maxExtended = 10_000

// Bound is a source and its value.
type Bound struct {
	Source
	Value json.RawMessage // nil: missing, because the source failed or did not run
}

// BindError reports that a value does not fit into an input. It names the output and the input,
// and never contains the value.
type BindError struct {
	From, To string // componentId.path
	Reason   string
}

func (e *BindError) Error() string {
	return fmt.Sprintf("the value of %s does not fit into %s: %s", quote(e.From), quote(e.To), e.Reason)
}

// Select returns the value at a name or dotted path in an output: a field of an object, or an item
// of an array by its index. It tries the path as a name first, because a name may contain dots.
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

// Select returns the value of a source in the output, or in the error, of its component.
func (s Source) Select(output json.RawMessage) (json.RawMessage, bool) {
	switch {
	case s.Failure:
		return SelectSegments(output, s.Segments[1:])
	case s.Segments != nil:
		return SelectSegments(output, s.Segments)
	}
	return Select(output, s.Path)
}

// SelectSegments returns the value at a path in an output.
func SelectSegments(output json.RawMessage, segments []string) (value json.RawMessage, ok bool) {
	value, ok = output, len(output) > 0
	for _, segment := range segments {
		if value, ok = step(value, segment); !ok {
			return nil, false
		}
	}
	return value, ok
}

// step returns the field or item of a JSON value that one segment of a path refers to.
func step(value json.RawMessage, segment string) (json.RawMessage, bool) {
	switch trimmed := bytes.TrimLeft(value, " \t\r\n"); {
	case len(trimmed) == 0:
	case trimmed[0] == '{':
		var fields map[string]json.RawMessage
		if json.Unmarshal(value, &fields) == nil {
			field, ok := fields[segment]
			return field, ok
		}
	case trimmed[0] == '[':
		var items []json.RawMessage
		if index, ok := jsonschema.Index(segment); ok && json.Unmarshal(value, &items) == nil && index < len(items) {
			return items[index], true
		}
	}
	return nil, false
}

// Bind inserts the values of connections into the literal input, converting each to its schema. A
// connection replaces a literal value. A connection without a value leaves the literal, and it is
// an error if there is no literal and the input is required.
func Bind(literal json.RawMessage, values []Bound) (json.RawMessage, error) {
	if len(values) == 0 {
		return object(literal), nil
	}
	read, err := strictjson.Decode(object(literal))
	if err != nil {
		return nil, fmt.Errorf("decode the literal input: %w", err)
	}
	input, ok := read.(map[string]any)
	if !ok {
		return nil, errors.New("the literal input is not an object")
	}
	l := inserter{left: maxExtended}
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
			_, err = l.insert(input, segments, value)
		}
		if err != nil {
			return nil, bound.fail(err.Error())
		}
	}
	for _, bound := range values {
		name, _, _ := strings.Cut(bound.To, ".")
		if bound.segments != nil {
			name = bound.segments[0]
		}
		if _, given := input[name]; bound.Value == nil && bound.Required && !given {
			return nil, bound.fail("it is missing, and the input is required")
		}
	}
	return strictjson.EncodeLike(input, object(literal))
}

// fail returns the BindError of the connection.
func (b Bound) fail(reason string) error {
	return &BindError{From: b.From + "." + b.Path, To: b.Into + "." + b.To, Reason: reason}
}

// inserter inserts values into one input. left is the number of items that it may still add to
// arrays.
type inserter struct{ left int }

// insert inserts a value at a path in a container and creates missing containers on the way: an
// array if the next segment is an index, otherwise an object. It returns the container, which may
// have been extended.
func (l *inserter) insert(container any, segments []string, value any) (any, error) {
	if len(segments) == 0 {
		return value, nil
	}
	index, isIndex := jsonschema.Index(segments[0])
	switch at := container.(type) {
	case nil:
		if isIndex {
			return l.insert([]any{}, segments, value)
		}
		return l.insert(map[string]any{}, segments, value)
	case map[string]any:
		field, err := l.insert(at[segments[0]], segments[1:], value)
		at[segments[0]] = field
		return at, err
	case []any:
		if !isIndex {
			return at, fmt.Errorf("the value is an array, which has no field %s", quote(segments[0]))
		}
		if missing := index + 1 - len(at); missing > 0 {
			if l.left -= missing; l.left < 0 {
				return at, fmt.Errorf("the connections into the component extend arrays by more than %d items", maxExtended)
			}
			at = append(at, make([]any, missing)...)
		}
		item, err := l.insert(at[index], segments[1:], value)
		at[index] = item
		return at, err
	}
	return container, fmt.Errorf("the value is %s, which has no field %s", jsonschema.TypeOf(container), quote(segments[0]))
}

// FillError is the error for a string that cannot be filled. Code is one of package template.
type FillError struct{ Pointer, Code, Message string }

func (e *FillError) Error() string { return e.Pointer + ": " + e.Message }

// Fill returns a component with the references in its input and config replaced by their values. plain
// returns what all other strings are replaced with. Fill returns a *FillError if a value is missing or
// does not fit.
func (p *Plan) Fill(c Component, values *template.Values, plain func(pointer, text string) (string, error)) (Component, error) {
	n := p.node(c.ID)
	origins, err := allowedOrigins(c.Config, plain)
	if err != nil {
		return c, err
	}
	for _, part := range []struct {
		pointer string
		data    *json.RawMessage
	}{{"/input", &c.Input}, {"/config", &c.Config}} {
		*part.data, err = template.Walk(part.pointer, *part.data, func(pointer, written string) (value any, keep bool, err error) {
			t, refers := n.texts[pointer]
			if !refers {
				t, refers = n.tokenText(pointer, written, values)
			}
			switch {
			case !refers:
				value, err = plain(pointer, written)
				return value, true, err
			case t.address:
				value, keep, err = template.Address{Text: t.Text}.Fill(values, origins, t.free)
			default:
				value, keep, err = t.Fill(values)
			}
			if keep {
				values.Results = append(values.Results, value)
			}
			if failed, ok := errors.AsType[*template.Error](err); ok {
				err = &FillError{pointer, failed.Code, failed.Message}
			}
			return value, keep, err
		})
		if err != nil {
			return c, err
		}
	}
	return c, nil
}

// allowedOrigins returns the origins that a config allows for a whole address from a reference.
func allowedOrigins(config json.RawMessage, plain func(pointer, text string) (string, error)) (origins []string, err error) {
	var c struct{ AllowedOrigins []string }
	if json.Unmarshal(config, &c) != nil {
		return nil, nil // reported by the check of the schema
	}
	for i, written := range c.AllowedOrigins {
		origin, err := plain("/config/allowedOrigins/"+strconv.Itoa(i), written)
		if err != nil {
			return nil, err
		}
		origins = append(origins, origin)
	}
	return origins, nil
}

// isName is the test of names in a string that has references to variables only.
func isName(name string) bool { return name == reference.Env }

// tokenText returns a string that refers to access tokens, and otherwise only to variables.
func (n *node) tokenText(pointer, written string, values *template.Values) (t text, is bool) {
	if values == nil || values.Token == nil || !envref.In(written) || !envref.All(written) {
		return t, false
	}
	compiled, err := template.Compile(written, isName)
	if err != nil {
		return t, false
	}
	inConfig := strings.HasPrefix(pointer, "/config/")
	t = text{Text: compiled, address: n.isAddress(pointer), free: !inConfig}
	return t, compiled.Refers(func(name string) bool { _, is := values.Token(name, false); return is })
}

// isAddress reports whether a field says where a call goes.
func (n *node) isAddress(pointer string) bool {
	paths, rest := n.module.InputAddresses, strings.TrimPrefix(pointer, "/input")
	if inner, inConfig := strings.CutPrefix(pointer, "/config"); inConfig {
		paths, rest = n.module.ConfigAddresses, inner
	}
	tokens := fault.Tokens(rest)
	return slices.ContainsFunc(paths, func(path string) bool { return matches(path, tokens) })
}

// MisplacedToken returns where and why an access token cannot stand in a component, or "". calls reports
// whether the component has an effect. isToken reports whether a variable is a token.
func (p *Plan) MisplacedToken(id string, calls bool, isToken func(variable string) bool) (pointer, reason string) {
	n := p.node(id)
	used := slices.Concat(envref.Names(n.component.Input, n.component.Config), n.variables)
	if !slices.ContainsFunc(used, isToken) {
		return "", ""
	}
	if !calls || slices.ContainsFunc(n.variables, isToken) {
		return "", "an access token (a variable of the kind oauth2) can stand only in the input and the config of components that call others, and not in an expression"
	}
	for _, part := range []struct {
		pointer      string
		data, schema json.RawMessage
	}{{"/input", n.component.Input, n.module.Input}, {"/config", n.component.Config, n.module.Config}} {
		schema, _ := jsonschema.Parse(part.schema) // the module's, which is valid
		_, _ = template.Walk(part.pointer, object(part.data), func(at, written string) (any, bool, error) {
			if reason != "" || !reference.In(written) || literalKind(schema, fault.Tokens(strings.TrimPrefix(at, part.pointer))) == literalText {
				return written, true, nil
			}
			compiled, refers := n.texts[at].Text, n.texts[at].Text != nil
			if !refers {
				var err error
				if compiled, err = template.Compile(written, isName); err != nil {
					return written, true, nil
				}
			}
			if why := compiled.MisplacedToken(isToken, n.isAddress(at)); why != "" {
				pointer, reason = at, why
			}
			return written, true, nil
		})
	}
	return pointer, reason
}
