package catalog

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/weft-automation/weft/internal/kit/jsonschema"
)

// Field describes one field of an input, a config or an output, for people.
type Field struct {
	Name        string
	Description string
	Type        string   // in words, such as "array of string"
	Kinds       []string // the JSON types that a value may have; none: any
	Format      string   // of the value, or of its items or unnamed fields
	Required    bool
	Secret      bool // the value, its items or its unnamed fields
	Default     json.RawMessage
	Enum        []json.RawMessage // the only values; none: any
	Examples    []json.RawMessage
	Rules       []Rule  // further constraints
	Fields      []Field // fields of the object, or of the objects in the array
	Values      *Field  // describes fields whose names aren't listed; nil: undescribed
}

// Rule is one constraint of a value: a phrase, and code that belongs to it.
type Rule struct{ Words, Code string }

// maxNesting is how deep nested fields are described.
const maxNesting = 8

// Object describes an input, a config or an output, for people.
type Object struct {
	Description string
	Fields      []Field // required fields first, otherwise in the order of the schema
	Open        *Field  // describes further fields; nil: none allowed
}

// ReadObject returns a description of an object's schema, or an error if the schema is invalid.
func ReadObject(raw json.RawMessage) (Object, error) {
	root, err := jsonschema.Parse(raw)
	if err != nil {
		return Object{}, err
	}
	return Object{root.Description, fields(root, 0), values(root, 0)}, nil
}

func fields(s *jsonschema.Schema, depth int) []Field {
	if depth == maxNesting {
		return nil
	}
	all := make([]Field, 0, len(s.Properties))
	for _, one := range s.Properties {
		f := fieldOf(one.Schema, depth)
		f.Name, f.Required = one.Name, slices.Contains(s.Required, one.Name)
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

// values describes the fields whose names aren't listed. It returns nil if the schema doesn't allow
// or doesn't describe such fields.
func values(s *jsonschema.Schema, depth int) *Field {
	from := s.AdditionalProperties
	if len(s.PatternProperties) > 0 {
		from = s.PatternProperties[0].Schema
	}
	if from == nil || from.Never || depth == maxNesting {
		return nil
	}
	return new(fieldOf(from, depth+1))
}

func fieldOf(s *jsonschema.Schema, depth int) Field {
	f := Field{
		Description: s.Description, Type: typeInWords(s, depth), Kinds: kinds(s), Format: formatIn(s, depth), Secret: holdsSecret(s, depth),
		Default: s.Keyword("default"), Enum: s.Values(), Examples: s.Examples, Rules: rules(s), Fields: fields(s, depth+1), Values: values(s, depth),
	}
	if s.Items != nil && len(f.Fields) == 0 {
		f.Fields = fields(s.Items, depth+1)
	}
	return f
}

// holdsSecret reports whether the schema, or a schema of its items or unnamed fields, is marked
// as secret. Named fields have their own marks.
func holdsSecret(s *jsonschema.Schema, depth int) bool {
	if s.Secret || depth == maxNesting {
		return s.Secret
	}
	for _, inner := range []*jsonschema.Schema{s.Items, s.AdditionalProperties} {
		if inner != nil && holdsSecret(inner, depth+1) {
			return true
		}
	}
	return slices.ContainsFunc(s.Alternatives(), func(branch *jsonschema.Schema) bool { return holdsSecret(branch, depth+1) })
}

// formatIn returns the format of the value, or else the first format of its items or unnamed
// fields.
func formatIn(s *jsonschema.Schema, depth int) string {
	if s.Format != "" || depth == maxNesting {
		return s.Format
	}
	inner := s.Alternatives()
	for _, inside := range []*jsonschema.Schema{s.Items, s.AdditionalProperties} {
		if inside != nil {
			inner = append(inner, inside)
		}
	}
	for _, one := range inner {
		if format := formatIn(one, depth+1); format != "" {
			return format
		}
	}
	return ""
}

// kinds returns the JSON types of the values, without null.
func kinds(s *jsonschema.Schema) []string {
	var all []string
	add := func(names ...string) {
		for _, name := range names {
			if name != "null" && !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	add(s.Types...)
	for _, branch := range s.Alternatives() {
		if len(s.Types) == 0 {
			add(kinds(branch)...)
		}
	}
	return all
}

// typeInWords returns the types of the values in words.
func typeInWords(s *jsonschema.Schema, depth int) string {
	var all []string
	for _, name := range s.Types {
		switch {
		case depth == maxNesting:
		case name == "array" && s.Items != nil && typeInWords(s.Items, depth+1) != anyValue:
			name = "array of " + typeInWords(s.Items, depth+1)
		case name == "object" && len(s.Properties) == 0 && s.AdditionalProperties != nil && len(kinds(s.AdditionalProperties)) > 0:
			name = "object of " + typeInWords(s.AdditionalProperties, depth+1)
		}
		all = append(all, name)
	}
	for _, branch := range s.Alternatives() {
		if word := typeInWords(branch, depth); len(s.Types) == 0 && !slices.Contains(all, word) {
			all = append(all, word)
		}
	}
	if len(all) == 0 {
		return anyValue
	}
	return strings.Join(all, " or ")
}

const anyValue = "any value"

func rules(s *jsonschema.Schema) []Rule {
	var all []Rule
	for _, of := range []struct{ min, max, unit string }{
		{"minimum", "maximum", ""},
		{"minLength", "maxLength", " characters"},
		{"minItems", "maxItems", " items"},
		{"minProperties", "maxProperties", " fields"},
	} {
		switch min, max := string(s.Keyword(of.min)), string(s.Keyword(of.max)); {
		case min != "" && max != "":
			all = append(all, Rule{Words: min + " to " + max + of.unit})
		case min != "":
			all = append(all, Rule{Words: "at least " + min + of.unit})
		case max != "":
			all = append(all, Rule{Words: "at most " + max + of.unit})
		}
	}
	if bound := s.Keyword("exclusiveMinimum"); bound != nil {
		all = append(all, Rule{Words: "more than " + string(bound)})
	}
	if bound := s.Keyword("exclusiveMaximum"); bound != nil {
		all = append(all, Rule{Words: "less than " + string(bound)})
	}
	if s.Pattern != "" {
		all = append(all, Rule{Words: "matches", Code: s.Pattern})
	}
	return all
}
