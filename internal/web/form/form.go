// Package form makes the fields of an HTML form from a JSON Schema, and a JSON object from the
// values that a person typed.
//
// It is pure. It reads values and doesn't judge them: the services validate the object, and Explain
// puts their errors next to the fields. Invariant: A field never contains a secret value.
package form

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/jsonschema"
	"github.com/weft-automation/weft/internal/kit/strictjson"
	"github.com/weft-automation/weft/internal/web/catalog"
)

// Kind is how a page shows a field.
type Kind string

// The kinds.
const (
	Text     Kind = "text"
	Lines    Kind = "lines" // text of several lines
	Number   Kind = "number"
	Choice   Kind = "choice"
	Password Kind = "password"
	JSON     Kind = "json"
	Group    Kind = "group" // the fields of an object
)

// Field is a field of a form.
type Field struct {
	catalog.Field
	Pointer string // JSON pointer of the value, which is also the field's name in the form
	Kind    Kind
	Value   string // what the field contains; empty for secrets
	Options []Option
	Fields  []Field // of a group
	Fault   string  // what is wrong with the value; may be empty

	whole bool // the value is the whole object
}

// Option is a possible value of a choice.
type Option struct{ Value, Text string }

// Form is a form for an object.
type Form struct{ Fields []Field }

// Of returns an empty form for an object whose JSON pointer is pointer. secrets are the pointers of
// secret values below it, in which * matches any name; "" means that all values are secret. A schema
// that doesn't list fields, or isn't a schema, results in a single field for the whole object.
func Of(pointer string, schema json.RawMessage, secrets []string) *Form {
	f := &Form{}
	root, err := jsonschema.Parse(schema)
	if err != nil {
		root = nil
	}
	if root == nil || len(root.Properties) == 0 {
		if root == nil || root.Properties == nil || root.AdditionalProperties != nil && !root.AdditionalProperties.Never {
			f.Fields = []Field{whole(pointer, "The whole input", len(secrets) > 0)}
		}
		return f
	}
	object, err := catalog.ReadObject(schema)
	if err != nil {
		return f
	}
	var hidden [][]string
	for _, path := range secrets {
		hidden = append(hidden, fault.Tokens(path))
	}
	var names []string
	for _, one := range object.Fields {
		names = append(names, one.Name)
		f.Fields = append(f.Fields, field(pointer, one, hidden, 0))
	}
	if object.Open != nil {
		more := slices.ContainsFunc(hidden, func(path []string) bool { return len(path) == 0 || !slices.Contains(names, path[0]) })
		f.Fields = append(f.Fields, whole(pointer, "More fields", more))
	}
	return f
}

// whole returns a field for an object.
func whole(pointer, title string, secret bool) Field {
	return Field{
		Field:   catalog.Field{Name: title, Type: "object", Kinds: []string{"object"}, Secret: secret},
		Pointer: pointer, Kind: JSON, whole: true,
	}
}

// field returns an empty field. secrets are the paths of secret values in the object around it, and
// depth is the number of objects around that.
func field(parent string, described catalog.Field, secrets [][]string, depth int) Field {
	f := Field{Field: described, Pointer: parent + "/" + fault.EscapeToken(described.Name), Kind: JSON}
	var below [][]string
	for _, path := range secrets {
		switch {
		case len(path) > 0 && path[0] != "*" && path[0] != f.Name:
		case len(path) > 1:
			below = append(below, path[1:])
		default:
			f.Secret = true
		}
	}
	nested := func(name string) bool { return name == "object" || name == "array" }
	switch only := len(f.Kinds) == 1; {
	case f.Secret && len(f.Kinds) > 0 && !slices.ContainsFunc(f.Kinds, nested):
		f.Kind = Password
	case f.Secret:
	case len(f.Enum) > 0:
		f.choose(f.Enum...)
	case only && f.Kinds[0] == "boolean":
		f.choose(json.RawMessage("true"), json.RawMessage("false"))
	case only && f.Kinds[0] == "object" && len(f.Field.Fields) > 0 && f.Values == nil && depth == 0:
		f.Kind = Group
		for _, inner := range f.Field.Fields {
			f.Fields = append(f.Fields, field(f.Pointer, inner, below, depth+1))
		}
		return f
	case slices.ContainsFunc(f.Kinds, nested), len(f.Kinds) == 0:
	case slices.Contains(f.Kinds, "string"):
		f.Kind = Text
	default:
		f.Kind = Number
	}
	f.Secret = f.Secret || len(below) > 0
	return f
}

// choose makes the field a choice of values.
func (f *Field) choose(values ...json.RawMessage) {
	f.Kind = Choice
	for _, one := range values {
		option := Option{Value: string(strictjson.Compact(one)), Text: catalog.Readable(one)}
		var text string
		if json.Unmarshal(one, &text) == nil && one[0] == '"' {
			option.Text = text
		}
		f.Options = append(f.Options, option)
	}
}

// Fill sets the values of the fields to those of an object, except secrets.
func (f *Form) Fill(object json.RawMessage) {
	var members map[string]json.RawMessage
	if json.Unmarshal(object, &members) != nil {
		return
	}
	if len(f.Fields) == 1 && f.Fields[0].whole {
		f.Fields[0].set(object)
		return
	}
	fill(f.Fields, members)
}

func fill(fields []Field, members map[string]json.RawMessage) {
	for i := range fields {
		one := &fields[i]
		value, found := members[one.Name]
		switch {
		case !found || one.whole:
		case one.Kind == Group:
			var inner map[string]json.RawMessage
			if json.Unmarshal(value, &inner) == nil {
				fill(one.Fields, inner)
			}
		default:
			one.set(value)
		}
	}
}

// set sets the value of a field, unless it is secret.
func (f *Field) set(value json.RawMessage) {
	switch {
	case f.Secret:
	case f.Kind == Choice:
		f.Value = string(strictjson.Compact(value))
	case f.Kind == JSON:
		f.Value = catalog.Indented(value)
	default:
		f.Value = f.Write(value)
		f.wrap()
	}
}

// wrap makes a field for text of several lines out of one whose text has several lines.
func (f *Field) wrap() {
	if f.Kind == Text && strings.Contains(f.Value, "\n") {
		f.Kind = Lines
	}
}

// Explain puts errors next to the fields that they are about, and returns the other errors.
func (f *Form) Explain(details []fault.Detail) (others []fault.Detail) {
	for _, detail := range details {
		if !explain(f.Fields, detail) {
			others = append(others, detail)
		}
	}
	return others
}

// explain puts an error next to the field with the longest pointer that contains it.
func explain(fields []Field, detail fault.Detail) bool {
	var last *Field
	for i := range fields {
		one := &fields[i]
		if detail.Pointer != one.Pointer && !strings.HasPrefix(detail.Pointer, one.Pointer+"/") {
			continue
		}
		if one.Kind == Group && explain(one.Fields, detail) {
			return true
		}
		if last == nil || len(one.Pointer) > len(last.Pointer) {
			last = one
		}
	}
	if last == nil {
		return false
	}
	text := detail.Message
	if inside := strings.TrimPrefix(detail.Pointer, last.Pointer); inside != "" {
		text = inside + " " + text
	}
	if last.Fault != "" {
		text = last.Fault + "; " + text
	}
	last.Fault = text
	return true
}

// Hide returns an object for reading, in which the values of secret fields are replaced.
func (f *Form) Hide(object json.RawMessage, replacement string) json.RawMessage {
	return hide(f.Fields, object, replacement)
}

func hide(fields []Field, object json.RawMessage, replacement string) json.RawMessage {
	names, err := strictjson.Names(object)
	var values map[string]json.RawMessage
	if err != nil || json.Unmarshal(object, &values) != nil {
		return object
	}
	replaced, _ := strictjson.Encode(replacement) // a string always encodes
	var members []member
	for _, name := range names {
		i := slices.IndexFunc(fields, func(one Field) bool { return one.Name == name && !one.whole })
		if i < 0 {
			i = slices.IndexFunc(fields, func(one Field) bool { return one.whole })
		}
		value := values[name]
		switch {
		case i < 0:
		case fields[i].Kind == Group:
			value = hide(fields[i].Fields, value, replacement)
		case fields[i].Secret:
			value = replaced
		}
		members = append(members, member{name, value})
	}
	return encode(members)
}
