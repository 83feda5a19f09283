package catalog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Field is one member of an input, a config or an output, told to people.
type Field struct {
	Name        string
	Description string
	Type        string   // in words, such as "array of string"
	Kinds       []string // the JSON types that a value may have; none: any
	Format      string
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
func ReadObject(schema json.RawMessage) (Object, error) {
	var root document
	if err := json.Unmarshal(schema, &root); err != nil {
		return Object{}, fmt.Errorf("read schema: %w", err)
	}
	return Object{root.Description, root.fields(0), root.values(0)}, nil
}

// document is the part of JSON Schema that people are told.
type document struct {
	Type                 typeNames         `json:"type"`
	Description          string            `json:"description"`
	Format               string            `json:"format"`
	Pattern              string            `json:"pattern"`
	Default              json.RawMessage   `json:"default"`
	Const                json.RawMessage   `json:"const"`
	Enum                 []json.RawMessage `json:"enum"`
	Examples             []json.RawMessage `json:"examples"`
	Minimum              json.Number       `json:"minimum"`
	Maximum              json.Number       `json:"maximum"`
	ExclusiveMinimum     json.Number       `json:"exclusiveMinimum"`
	ExclusiveMaximum     json.Number       `json:"exclusiveMaximum"`
	MinLength            json.Number       `json:"minLength"`
	MaxLength            json.Number       `json:"maxLength"`
	MinItems             json.Number       `json:"minItems"`
	MaxItems             json.Number       `json:"maxItems"`
	MinProperties        json.Number       `json:"minProperties"`
	MaxProperties        json.Number       `json:"maxProperties"`
	Items                *document         `json:"items"`
	Properties           properties        `json:"properties"`
	PatternProperties    properties        `json:"patternProperties"`
	AdditionalProperties *document         `json:"additionalProperties"`
	Required             []string          `json:"required"`
	AnyOf                []document        `json:"anyOf"`
	OneOf                []document        `json:"oneOf"`
	Secret               bool              `json:"x-secret"`

	never bool // the schema false: no value at all
}

// UnmarshalJSON reads the schemas true and false too.
func (d *document) UnmarshalJSON(data []byte) error {
	type plain document
	switch string(data) {
	case "true":
		return nil
	case "false":
		d.never = true
		return nil
	}
	return json.Unmarshal(data, (*plain)(d))
}

// properties are named schemas in the order in which they are written.
type properties []property

type property struct {
	name   string
	schema document
}

// UnmarshalJSON reads an object without losing its order.
func (p *properties) UnmarshalJSON(data []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	if begin, err := decoder.Token(); err != nil || begin != json.Delim('{') {
		return fmt.Errorf("properties are not an object: %w", err)
	}
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return err
		}
		one := property{name: fmt.Sprint(name)}
		if err := decoder.Decode(&one.schema); err != nil {
			return err
		}
		*p = append(*p, one)
	}
	return nil
}

func (d document) fields(depth int) []Field {
	if depth == maxNesting {
		return nil
	}
	all := make([]Field, 0, len(d.Properties))
	for _, one := range d.Properties {
		f := one.schema.field(depth)
		f.Name, f.Required = one.name, slices.Contains(d.Required, one.name)
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
func (d document) values(depth int) *Field {
	from := d.AdditionalProperties
	if len(d.PatternProperties) > 0 {
		from = &d.PatternProperties[0].schema
	}
	if from == nil || from.never || depth == maxNesting {
		return nil
	}
	return new(from.field(depth + 1))
}

func (d document) field(depth int) Field {
	f := Field{
		Description: d.Description, Type: d.words(depth), Kinds: d.kinds(), Format: d.Format, Secret: d.secret(depth),
		Default: d.Default, Enum: d.Enum, Examples: d.Examples, Rules: d.rules(), Fields: d.fields(depth + 1), Values: d.values(depth),
	}
	if d.Const != nil {
		f.Enum = []json.RawMessage{d.Const}
	}
	if d.Items != nil && len(f.Fields) == 0 {
		f.Fields = d.Items.fields(depth + 1)
	}
	return f
}

// secret is a mark on the schema or on whatever it holds without a name; members with
// one have marks of their own.
func (d document) secret(depth int) bool {
	if d.Secret || depth == maxNesting {
		return d.Secret
	}
	for _, inside := range []*document{d.Items, d.AdditionalProperties} {
		if inside != nil && inside.secret(depth+1) {
			return true
		}
	}
	return slices.ContainsFunc(slices.Concat(d.AnyOf, d.OneOf), func(branch document) bool { return branch.secret(depth + 1) })
}

// kinds are the JSON types of the values, without null.
func (d document) kinds() []string {
	var all []string
	add := func(names ...string) {
		for _, name := range names {
			if name != "null" && !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	add(d.Type...)
	for _, branch := range slices.Concat(d.AnyOf, d.OneOf) {
		if len(d.Type) == 0 {
			add(branch.kinds()...)
		}
	}
	return all
}

// words is the type in words.
func (d document) words(depth int) string {
	var all []string
	for _, name := range d.Type {
		switch {
		case depth == maxNesting:
		case name == "array" && d.Items != nil && d.Items.words(depth+1) != anyValue:
			name = "array of " + d.Items.words(depth+1)
		case name == "object" && len(d.Properties) == 0 && d.AdditionalProperties != nil && len(d.AdditionalProperties.kinds()) > 0:
			name = "object of " + d.AdditionalProperties.words(depth+1)
		}
		all = append(all, name)
	}
	for _, branch := range slices.Concat(d.AnyOf, d.OneOf) {
		if word := branch.words(depth); len(d.Type) == 0 && !slices.Contains(all, word) {
			all = append(all, word)
		}
	}
	if len(all) == 0 {
		return anyValue
	}
	return strings.Join(all, " or ")
}

const anyValue = "any value"

func (d document) rules() []Rule {
	var all []Rule
	for _, bound := range []struct{ min, max, unit string }{
		{d.Minimum.String(), d.Maximum.String(), ""},
		{d.MinLength.String(), d.MaxLength.String(), " characters"},
		{d.MinItems.String(), d.MaxItems.String(), " items"},
		{d.MinProperties.String(), d.MaxProperties.String(), " members"},
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
	if d.ExclusiveMinimum != "" {
		all = append(all, Rule{Words: "more than " + d.ExclusiveMinimum.String()})
	}
	if d.ExclusiveMaximum != "" {
		all = append(all, Rule{Words: "less than " + d.ExclusiveMaximum.String()})
	}
	if d.Pattern != "" {
		all = append(all, Rule{Words: "matches", Code: d.Pattern})
	}
	return all
}
