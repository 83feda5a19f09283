// Package template fills the strings of a component that contain references (decisions 8.17).
//
// It knows neither where values come from nor what they mean: the caller has the values of the paths to
// which a string refers. A value is never evaluated, whatever it looks like.
package template

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weft-automation/weft/internal/component/expression"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/reference"
	"github.com/weft-automation/weft/internal/kit/strictjson"
)

// Codes of strings that cannot be filled.
const (
	CodeMissing  = "MISSING_VALUE"
	CodeAddress  = "INVALID_ADDRESS"
	CodeOrigin   = "ORIGIN_NOT_ALLOWED"
	CodeTooLarge = "REFERENCE_TOO_LARGE"
	CodeInvalid  = string(fault.InvalidInput)
)

// Error explains why a string cannot be filled. It contains no value.
type Error struct{ Code, Message string }

func (e *Error) Error() string { return e.Message }

func errorf(code, format string, args ...any) *Error {
	return &Error{code, fmt.Sprintf(format, args...)}
}

// Text is a string with references. It is immutable.
type Text struct {
	Optional bool // without a value, the field or item is left out
	parts    []part
}

// part is text, or an expression.
type part struct {
	text    string
	program *expression.Program // nil: text
}

// Compile compiles a string with references. known reports whether a name is the ID of a component or
// a name of the language. Its error is a *reference.Malformed or an *expression.Error.
func Compile(text string, known func(name string) bool) (*Text, error) {
	split, err := reference.Parse(text)
	if err != nil {
		return nil, err
	}
	t := &Text{}
	for _, one := range split {
		if !one.IsCode {
			t.parts = append(t.parts, part{text: one.Text})
			continue
		}
		if one.Optional && len(split) > 1 {
			return nil, &reference.Malformed{Reason: "a question mark leaves a field out, so the reference must be the whole string: use ?? next to text"}
		}
		program, err := expression.CompileReferring(one.Text, known)
		if err != nil {
			return nil, err
		}
		t.Optional = one.Optional
		t.parts = append(t.parts, part{program: program})
	}
	return t, nil
}

// Whole returns the expression of a string that consists of one reference, and nil otherwise.
func (t *Text) Whole() *expression.Program {
	if len(t.parts) == 1 {
		return t.parts[0].program
	}
	return nil
}

// Paths returns the paths to which the string refers.
func (t *Text) Paths() (paths []reference.Path) {
	for _, one := range t.parts {
		if one.program != nil {
			paths = append(paths, one.program.Paths()...)
		}
	}
	for i := range paths {
		paths[i].Tolerated = paths[i].Tolerated || t.Optional
	}
	return paths
}

// Unknown returns the names in the string that are not known.
func (t *Text) Unknown() (names []string) {
	for _, one := range t.parts {
		if one.program != nil {
			needed, others := one.program.Names()
			names = append(append(names, needed...), others...)
		}
	}
	return names
}

// ReadsLength reports whether the string reads a field named length. Paths don't count.
func (t *Text) ReadsLength() bool {
	return slices.ContainsFunc(t.parts, func(one part) bool { return one.program != nil && one.program.ReadsLength() })
}

// Values are the values that strings refer to, and what is left of the limits for all strings of a
// component.
type Values struct {
	Value   func(p reference.Path) (value any, exists bool)
	Results []any // of the strings with references that were filled
	// Token returns what stands for the access token that a variable is. Nil: no variable is one.
	Token func(name string, address bool) (mark string, is bool)

	budget expression.Budget
	size   int // bytes of the results so far
}

// maxSize limits the bytes of what the references of one component produce.
const maxSize = 1 << 20

// grow counts the bytes of a result.
func (v *Values) grow(size int) error {
	if v.size += size; v.size > maxSize {
		return errorf(CodeTooLarge, "the references of the component produce more than 1 MiB")
	}
	return nil
}

// run evaluates an expression.
func (v *Values) run(p *expression.Program) (any, error) {
	value, err := p.RunWith(nil, expression.Context{Value: v.Value, Budget: &v.budget})
	if err == nil {
		return value, nil
	}
	failed, ok := errors.AsType[*expression.Error](err)
	switch {
	case ok && failed.Code == expression.MissingValue:
		return nil, errorf(CodeMissing, "%s", failed.Message)
	case ok && failed.Code == expression.TooExpensive:
		return nil, errorf(CodeTooLarge, "%s", failed.Error())
	case ok:
		return nil, errorf(CodeInvalid, "%s", failed.Error())
	}
	return nil, err
}

// Fill returns the value of the string. A reference that is the whole string keeps the type of its
// value; text next to a reference makes the result a string. Fill reports false if the field or item is
// left out. Its error is an *Error, unless the evaluation itself failed.
func (t *Text) Fill(v *Values) (value any, keep bool, err error) {
	if program := t.Whole(); program != nil {
		if mark, is := v.token(program, false); is {
			return mark, true, nil
		}
		value, err = v.run(program)
		if missing, ok := errors.AsType[*Error](err); t.Optional && (err == nil && value == nil || ok && missing.Code == CodeMissing) {
			return nil, false, nil
		}
		if err != nil {
			return nil, false, err
		}
		encoded, err := strictjson.Encode(value)
		if err != nil {
			return nil, false, errorf(CodeInvalid, "the result cannot be encoded as JSON")
		}
		return value, true, v.grow(len(encoded))
	}
	var out strings.Builder
	for _, one := range t.parts {
		text := one.text
		if one.program != nil {
			if text, err = v.text(one.program); err != nil {
				return nil, false, err
			}
		}
		out.WriteString(text)
	}
	return out.String(), true, nil
}

// text returns the value of an expression as text: a string as it is, everything else as compact JSON.
func (v *Values) text(p *expression.Program) (string, error) {
	if mark, is := v.token(p, false); is {
		return mark, nil
	}
	value, err := v.run(p)
	if err != nil {
		return "", err
	}
	text, isText := value.(string)
	switch {
	case value == nil:
		return "", errorf(CodeMissing, "%s is null, which has no text", source(p))
	case !isText:
		encoded, err := strictjson.Encode(value)
		if err != nil {
			return "", errorf(CodeInvalid, "the result cannot be encoded as JSON")
		}
		text = string(encoded)
	}
	return text, v.grow(len(text))
}

// source returns how an error calls the value of an expression.
func source(p *expression.Program) string {
	if path, whole := p.Path(); whole {
		return path.String()
	}
	return "the value of a reference"
}

// Walk replaces the strings of a JSON document that visit returns other values for. pointer is the JSON
// pointer of the document. If visit reports false, the field or item is left out. If visit changes
// nothing, Walk returns the document as it is.
func Walk(pointer string, data json.RawMessage, visit func(pointer, text string) (value any, keep bool, err error)) (json.RawMessage, error) {
	if len(data) == 0 {
		return data, nil
	}
	value, err := strictjson.Decode(data)
	if err != nil {
		return nil, fmt.Errorf("decode JSON with references: %w", err)
	}
	w := walker{visit: visit}
	if value, _, err = w.value(pointer, value); err != nil || !w.changed {
		return data, err
	}
	return strictjson.EncodeLike(value, data)
}

type walker struct {
	visit   func(pointer, text string) (any, bool, error)
	changed bool
}

func (w *walker) value(pointer string, value any) (any, bool, error) {
	switch value := value.(type) {
	case string:
		filled, keep, err := w.visit(pointer, value)
		text, isText := filled.(string)
		w.changed = w.changed || !keep || !isText || text != value
		return filled, keep, err
	case []any:
		items := value[:0]
		for i, item := range value {
			filled, keep, err := w.value(fmt.Sprintf("%s/%d", pointer, i), item)
			if err != nil {
				return nil, false, err
			}
			if keep {
				items = append(items, filled)
			}
		}
		return items, true, nil
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			filled, keep, err := w.value(pointer+"/"+fault.EscapeToken(name), value[name])
			if err != nil {
				return nil, false, err
			}
			if value[name] = filled; !keep {
				delete(value, name)
			}
		}
	}
	return value, true, nil
}
