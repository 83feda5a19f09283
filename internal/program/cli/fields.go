package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/strictjson"
	"github.com/weft-automation/weft/internal/web/catalog"
)

// form is the schema of an input or a config.
type form struct {
	fields []catalog.Field
	open   *catalog.Field // description of additional fields; nil: none are allowed
}

func newForm(schema json.RawMessage) (form, error) {
	object, err := catalog.ReadObject(schema)
	return form{object.Fields, object.Open}, err
}

// find returns the field with the name.
func (f form) find(name string) (catalog.Field, bool) {
	if i := slices.IndexFunc(f.fields, func(one catalog.Field) bool { return one.Name == name }); i >= 0 {
		return f.fields[i], true
	}
	if f.open != nil {
		return *f.open, true
	}
	return catalog.Field{}, false
}

// named reports whether the schema lists the field by name.
func (f form) named(name string) bool {
	return slices.ContainsFunc(f.fields, func(one catalog.Field) bool { return one.Name == name })
}

func (f form) names() []string {
	all := make([]string, len(f.fields))
	for i, one := range f.fields {
		all[i] = one.Name
	}
	return all
}

// forms are the schemas of a component's input and config.
type forms struct{ input, config form }

func newForms(c api.Component) (both forms, err error) {
	if both.input, err = newForm(c.Input); err != nil {
		return both, err
	}
	both.config, err = newForm(c.Config)
	return both, err
}

// place decides whether a name belongs to the input or the config: the input if it has the field,
// else the config. If neither has the field, the name belongs to the object that allows additional
// fields.
func (f forms) place(name string) (rest string, inConfig bool) {
	head, _, _ := strings.Cut(name, ".")
	if after, ok := strings.CutPrefix(name, catalog.ConfigPrefix); ok && !f.input.named("config") {
		return after, true
	}
	return name, !f.input.named(head) && (f.config.named(head) || f.input.open == nil && f.config.open != nil)
}

// fill sets the fields of FIELD=VALUE words in the input and the config of a call.
func (f forms) fill(module string, words []string, stdin io.Reader, input, config json.RawMessage) (json.RawMessage, json.RawMessage, error) {
	var set []string // fields set by earlier words
	for _, word := range words {
		name, text, ok := strings.Cut(word, "=")
		if !ok || name == "" {
			return nil, nil, fmt.Errorf("%q does not have the form FIELD=VALUE", printable(word))
		}
		text, err := valueText(name, text, stdin)
		if err != nil {
			return nil, nil, err
		}
		rest, inConfig := f.place(name)
		to, part, place := &input, f.input, "input."+rest
		if inConfig {
			to, part, place = &config, f.config, "config."+rest
		}
		for _, earlier := range set {
			if earlier == place || strings.HasPrefix(earlier, place+".") {
				return nil, nil, fmt.Errorf("%s is set twice; pass a list or an object as one JSON value", printable(name))
			}
		}
		set = append(set, place)
		if *to, err = part.set(*to, rest, text); err != nil {
			if _, known := part.find(strings.SplitN(rest, ".", 2)[0]); !known {
				return nil, nil, fmt.Errorf("%s has no field %s; its fields are %s", printable(module), printable(name), f.list())
			}
			return nil, nil, fmt.Errorf("%s: %w", printable(name), err)
		}
	}
	return input, config, nil
}

// list returns the names of all fields, for a message.
func (f forms) list() string {
	all := f.input.names()
	for _, name := range f.config.names() {
		if f.input.named(name) {
			name = catalog.ConfigPrefix + name
		}
		all = append(all, name)
	}
	if len(all) == 0 {
		return "none"
	}
	return strings.Join(all, ", ")
}

// set returns the object with a field added, by its dotted name.
func (f form) set(object json.RawMessage, name, text string) (json.RawMessage, error) {
	head, rest, nested := strings.Cut(name, ".")
	field, known := f.find(head)
	if !known {
		return nil, errors.New("unknown field")
	}
	if f.open != nil && !f.named(head) {
		head, nested = name, false // in an open object, dots are part of the name
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(object, &members); err != nil || members == nil {
		return nil, errors.New("its parent is not an object")
	}
	var value json.RawMessage
	var err error
	if nested && len(field.Kinds) > 0 && !slices.Contains(field.Kinds, "object") {
		return nil, fmt.Errorf("%s is %s, which has no fields", head, field.Type)
	}
	if nested {
		inner, ok := members[head]
		if !ok {
			inner = json.RawMessage(`{}`)
		}
		open := field.Values
		if len(field.Fields) == 0 && open == nil {
			open = &catalog.Field{} // a value of any type
		}
		value, err = form{field.Fields, open}.set(inner, rest, text)
	} else {
		value, err = field.Read(text)
	}
	if err != nil {
		return nil, err
	}
	members[head] = value
	return strictjson.Encode(members)
}

// valueText returns the value after the equals sign: the text itself, or the content of @FILE or @-
// without the last line break. @@ stands for a literal @.
func valueText(name, text string, stdin io.Reader) (string, error) {
	path, ok := strings.CutPrefix(text, "@")
	if !ok {
		return text, nil
	}
	if strings.HasPrefix(path, "@") {
		return path, nil
	}
	var raw []byte
	var err error
	if path == "-" {
		raw, err = io.ReadAll(stdin)
	} else {
		raw, err = os.ReadFile(path)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", printable(name), err)
	}
	return withoutLineEnd(raw), nil
}
