package catalog

import (
	"encoding/json"
	"slices"
	"strings"
)

// Field is one member of an input, a config or an output, told to people.
type Field struct {
	Name        string
	Description string
	Type        string   // in words, such as "array of string"
	Kinds       []string // the JSON types that a value may have; none: any
	Format      string   // of the value, or of whatever it holds without a name
	Required    bool
	Secret      bool // it, or whatever is in it
	Default     json.RawMessage
	Enum        []json.RawMessage // the only values; none: any
	Examples    []json.RawMessage
	Rules       []Rule  // what else a value has to keep to
	Fields      []Field // members of the object, or of the objects in the array
	Values      *Field  // what a member may be that has no name here; nil: nothing is said
}

// Rule is one bound of a value: words, and what of it is code.
type Rule struct{ Words, Code string }

// maxNesting bounds how deep the members of members are told.
const maxNesting = 8

// Object is an input, a config or an output, told to people.
type Object struct {
	Description string
	Fields      []Field // those with a name: first those that must be there, else in the order of the schema
	Open        *Field  // what further ones may be; nil: there are none
}

// ReadObject tells what the schema of an object says.
func ReadObject(raw json.RawMessage) (Object, error) {
	root, err := readSchema(raw)
	if err != nil {
		return Object{}, err
	}
	return Object{root.Description, root.fields(0), root.values(0)}, nil
}

func (s schema) fields(depth int) []Field {
	if depth == maxNesting {
		return nil
	}
	all := make([]Field, 0, len(s.Properties))
	for _, one := range s.Properties {
		f := one.schema.field(depth)
		f.Name, f.Required = one.name, slices.Contains(s.Required, one.name)
		all = append(all, f)
	}
	slices.SortStableFunc(all, func(a, b Field) int {
		switch {
		case a.Required == b.Required:
			return 0
		case a.Required:
			return -1
		}
		return 1
	})
	return all
}

// values is what is said of members without a name.
func (s schema) values(depth int) *Field {
	from := s.AdditionalProperties
	if len(s.PatternProperties) > 0 {
		from = &s.PatternProperties[0].schema
	}
	if from == nil || from.never || depth == maxNesting {
		return nil
	}
	return new(from.field(depth + 1))
}

func (s schema) field(depth int) Field {
	f := Field{
		Description: s.Description, Type: s.words(depth), Kinds: s.kinds(), Format: s.format(depth), Secret: s.secret(depth),
		Default: s.Default, Enum: s.only(), Examples: s.Examples, Rules: s.rules(), Fields: s.fields(depth + 1), Values: s.values(depth),
	}
	if s.Items != nil && len(f.Fields) == 0 {
		f.Fields = s.Items.fields(depth + 1)
	}
	return f
}

// secret is a mark on the schema or on whatever it holds without a name; members with
// one have marks of their own.
func (s schema) secret(depth int) bool {
	if s.Secret || depth == maxNesting {
		return s.Secret
	}
	for _, inside := range []*schema{s.Items, s.AdditionalProperties} {
		if inside != nil && inside.secret(depth+1) {
			return true
		}
	}
	return slices.ContainsFunc(s.branches(), func(branch schema) bool { return branch.secret(depth + 1) })
}

// format is that of the value, else the first of what it holds without a name.
func (s schema) format(depth int) string {
	if s.Format != "" || depth == maxNesting {
		return s.Format
	}
	inner := s.branches()
	for _, inside := range []*schema{s.Items, s.AdditionalProperties} {
		if inside != nil {
			inner = append(inner, *inside)
		}
	}
	for _, one := range inner {
		if format := one.format(depth + 1); format != "" {
			return format
		}
	}
	return ""
}

// kinds are the JSON types of the values, without null.
func (s schema) kinds() []string {
	var all []string
	add := func(names ...string) {
		for _, name := range names {
			if name != "null" && !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	add(s.Type...)
	for _, branch := range s.branches() {
		if len(s.Type) == 0 {
			add(branch.kinds()...)
		}
	}
	return all
}

// words is the type in words.
func (s schema) words(depth int) string {
	var all []string
	for _, name := range s.Type {
		switch {
		case depth == maxNesting:
		case name == "array" && s.Items != nil && s.Items.words(depth+1) != anyValue:
			name = "array of " + s.Items.words(depth+1)
		case name == "object" && len(s.Properties) == 0 && s.AdditionalProperties != nil && len(s.AdditionalProperties.kinds()) > 0:
			name = "object of " + s.AdditionalProperties.words(depth+1)
		}
		all = append(all, name)
	}
	for _, branch := range s.branches() {
		if word := branch.words(depth); len(s.Type) == 0 && !slices.Contains(all, word) {
			all = append(all, word)
		}
	}
	if len(all) == 0 {
		return anyValue
	}
	return strings.Join(all, " or ")
}

const anyValue = "any value"

func (s schema) rules() []Rule {
	var all []Rule
	for _, bound := range []struct{ min, max, unit string }{
		{s.Minimum.String(), s.Maximum.String(), ""},
		{s.MinLength.String(), s.MaxLength.String(), " characters"},
		{s.MinItems.String(), s.MaxItems.String(), " items"},
		{s.MinProperties.String(), s.MaxProperties.String(), " members"},
	} {
		switch {
		case bound.min != "" && bound.max != "":
			all = append(all, Rule{Words: bound.min + " to " + bound.max + bound.unit})
		case bound.min != "":
			all = append(all, Rule{Words: "at least " + bound.min + bound.unit})
		case bound.max != "":
			all = append(all, Rule{Words: "at most " + bound.max + bound.unit})
		}
	}
	if s.ExclusiveMinimum != "" {
		all = append(all, Rule{Words: "more than " + s.ExclusiveMinimum.String()})
	}
	if s.ExclusiveMaximum != "" {
		all = append(all, Rule{Words: "less than " + s.ExclusiveMaximum.String()})
	}
	if s.Pattern != "" {
		all = append(all, Rule{Words: "matches", Code: s.Pattern})
	}
	return all
}
