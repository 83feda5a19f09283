// Package jsonschema reads JSON Schemas (draft 2020-12), compiles them, converts values to types
// that they allow, and explains violations.
//
// It is pure: it doesn't depend on a database, a network, components or workflows.
package jsonschema

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/strictjson"
)

// Draft is the version of JSON Schema that the package reads.
const Draft = "https://json-schema.org/draft/2020-12/schema"

// Schema is a JSON Schema or a part of one. It does not change after Parse. A field whose
// keyword is missing, or has a value of the wrong type, has its zero value. The methods accept
// a nil Schema, which allows any value.
type Schema struct {
	Raw                  json.RawMessage // the schema as its author wrote it
	Types                []string        // the keyword type: one name or several
	Description          string
	Format               string
	Pattern              string
	Enum                 []json.RawMessage
	Examples             []json.RawMessage
	Required             []string
	Properties           []Property // in the order of the text; not nil if the schema has the keyword
	PatternProperties    []Property // likewise
	AdditionalProperties *Schema
	Items                *Schema
	PrefixItems          []*Schema
	AllOf                []*Schema
	AnyOf                []*Schema
	OneOf                []*Schema
	Secret               bool // the keyword x-secret
	Never                bool // the schema false, which allows no value

	reference string                        // the keyword $ref
	named     map[string]map[string]*Schema // named schemas, by keyword and name
	others    map[string]json.RawMessage    // values of all other keywords
	values    []any                         // Values, decoded
	root      *Schema
}

// Property is a named schema.
type Property struct {
	Name string
	*Schema
}

// Parse reads a schema. It returns an error if the text is not JSON. It does not check the
// schema; use Compile for that.
func Parse(text json.RawMessage) (*Schema, error) {
	if !json.Valid(text) {
		return nil, errors.New("read schema: not valid JSON")
	}
	p := parser{text: text, decoder: json.NewDecoder(bytes.NewReader(text))}
	return p.schema(), nil
}

// parser reads valid JSON once, from its start to its end.
type parser struct {
	text    json.RawMessage
	decoder *json.Decoder
	root    *Schema
}

// rest returns the text from the next value on.
func (p *parser) rest() []byte {
	return bytes.TrimLeft(p.text[p.decoder.InputOffset():], " \t\r\n:,")
}

// value reads the next value if it has the type of the target.
func (p *parser) value(target any) { _ = p.decoder.Decode(target) }

// elements calls visit for each element of the next value. If opening is `{` and the value is an
// object, visit gets the names of its fields; if opening is `[` and the value is an array, visit
// gets no names. elements skips any other value.
func (p *parser) elements(opening byte, visit func(name string)) bool {
	if p.rest()[0] != opening {
		p.value(new(json.RawMessage))
		return false
	}
	_, _ = p.decoder.Token()
	for p.decoder.More() {
		var name string
		if opening == '{' {
			token, _ := p.decoder.Token()
			name, _ = token.(string)
		}
		visit(name)
	}
	_, _ = p.decoder.Token()
	return true
}

func (p *parser) schema() *Schema {
	text := p.rest()
	s := &Schema{root: p.root, Never: text[0] == 'f'}
	if p.root == nil {
		p.root, s.root = s, s
	}
	p.elements('{', func(keyword string) { p.keyword(s, keyword) })
	for _, value := range s.Values() {
		decoded, _ := strictjson.Decode(value)
		s.values = append(s.values, decoded)
	}
	s.Raw = text[:len(text)-len(p.text)+int(p.decoder.InputOffset())]
	return s
}

func (p *parser) keyword(s *Schema, keyword string) {
	switch keyword {
	case "$ref":
		p.value(&s.reference)
	case "description":
		p.value(&s.Description)
	case "format":
		p.value(&s.Format)
	case "pattern":
		p.value(&s.Pattern)
	case "enum":
		p.value(&s.Enum)
	case "examples":
		p.value(&s.Examples)
	case "required":
		p.value(&s.Required)
	case "x-secret":
		p.value(&s.Secret)
	case "type":
		var names json.RawMessage
		if p.value(&names); names[0] == '"' {
			names = slices.Concat([]byte("["), names, []byte("]"))
		}
		_ = json.Unmarshal(names, &s.Types)
	case "properties":
		s.Properties = p.properties(s, keyword)
	case "patternProperties":
		s.PatternProperties = p.properties(s, keyword)
	case "$defs", "definitions":
		p.properties(s, keyword)
	case "additionalProperties":
		s.AdditionalProperties = p.schema()
	case "items":
		s.Items = p.schema()
	case "prefixItems":
		s.PrefixItems = p.list()
	case "allOf":
		s.AllOf = p.list()
	case "anyOf":
		s.AnyOf = p.list()
	case "oneOf":
		s.OneOf = p.list()
	default:
		var value json.RawMessage
		p.value(&value)
		if s.others == nil {
			s.others = map[string]json.RawMessage{}
		}
		s.others[keyword] = value
	}
}

// properties reads named schemas. It returns nil if the value is not an object.
func (p *parser) properties(s *Schema, keyword string) []Property {
	list, byName := []Property{}, map[string]*Schema{}
	if !p.elements('{', func(name string) {
		byName[name] = p.schema()
		list = append(list, Property{Name: name, Schema: byName[name]})
	}) {
		return nil
	}
	if s.named == nil {
		s.named = map[string]map[string]*Schema{}
	}
	s.named[keyword] = byName
	return list
}

func (p *parser) list() (list []*Schema) {
	p.elements('[', func(string) { list = append(list, p.schema()) })
	return list
}

// Keyword returns the value of a keyword that has no field, such as minimum; nil if it is
// missing.
func (s *Schema) Keyword(name string) json.RawMessage {
	if s == nil {
		return nil
	}
	return s.others[name]
}

// Values returns the values that const or enum allow; nil if the schema has neither.
func (s *Schema) Values() []json.RawMessage {
	if value := s.Keyword("const"); value != nil {
		return []json.RawMessage{value}
	}
	if s == nil {
		return nil
	}
	return s.Enum
}

// Alternatives returns the schemas of anyOf and oneOf.
func (s *Schema) Alternatives() []*Schema { return slices.Concat(s.AnyOf, s.OneOf) }

// maxReferences is the length of a chain of references that Resolve follows.
const maxReferences = 8

// Resolve follows references within the document. It returns nil if a reference leads outside
// the document or to an invalid schema, because nothing is certain about the values of such a
// schema.
func (s *Schema) Resolve() *Schema {
	for range maxReferences {
		if s == nil || s.reference == "" {
			return s
		}
		tokens, local := LocalReference(s.reference)
		if !local {
			return nil
		}
		s = s.root.at(tokens)
	}
	return nil
}

// LocalReference returns the tokens of a reference into the same document. It returns false if
// the reference has a different form.
func LocalReference(reference string) (tokens []string, local bool) {
	pointer, local := strings.CutPrefix(reference, "#")
	pointer, err := url.PathUnescape(pointer)
	if !local || err != nil || pointer != "" && pointer[0] != '/' {
		return nil, false
	}
	return fault.Tokens(pointer), true
}

// at returns the schema at a JSON pointer below s, or nil if it is missing.
func (s *Schema) at(tokens []string) *Schema {
	for s != nil && len(tokens) > 0 {
		keyword := tokens[0]
		tokens = tokens[1:]
		switch {
		case keyword == "items":
			s = s.Items
		case keyword == "additionalProperties":
			s = s.AdditionalProperties
		case len(tokens) == 0:
			return nil
		default:
			s, tokens = s.named[keyword][tokens[0]], tokens[1:]
		}
	}
	return s
}

// Property returns the schema of a named property. It does not resolve references of s.
func (s *Schema) Property(name string) (*Schema, bool) {
	if s == nil {
		return nil, false
	}
	property, ok := s.named["properties"][name]
	return property, ok
}

// Names returns the names of the properties, sorted.
func (s *Schema) Names() []string {
	if s = s.Resolve(); s == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(s.named["properties"]))
}

// RequiredNames returns the names of the required properties.
func (s *Schema) RequiredNames() []string {
	if s = s.Resolve(); s == nil {
		return nil
	}
	return s.Required
}

// Item returns the schema of an item of an array.
func (s *Schema) Item(index int) *Schema {
	switch s = s.Resolve(); {
	case s == nil:
		return nil
	case index < len(s.PrefixItems):
		return s.PrefixItems[index]
	}
	return s.Items
}

// open reports whether the schema has keywords that may allow or require more than its fields
// say.
func (s *Schema) open() bool {
	return len(s.AllOf)+len(s.AnyOf)+len(s.OneOf) > 0 || s.Keyword("if") != nil || s.Keyword("$dynamicRef") != nil
}

// Follow returns the schema at a property name or a dotted path, and the segments of the path.
// It tries the whole path as a name first, because names may contain dots. If the schema doesn't
// allow a segment, missing is the index of that segment and end is the schema that doesn't allow
// it. Otherwise missing is -1.
func (s *Schema) Follow(path string) (end *Schema, segments []string, missing int) {
	s = s.Resolve()
	if property, ok := s.Property(path); ok {
		return property, []string{path}, -1
	}
	segments = strings.Split(path, ".")
	for i, segment := range segments {
		next, ok := s.member(segment, i == 0)
		if !ok {
			return s, segments, i
		}
		s = next
	}
	return s, segments, -1
}

// member returns the schema at one segment of a path. The top level of a schema that names
// properties has no other properties unless the schema says so, as in the catalogue. Below the
// top level, the rules of JSON Schema apply.
func (s *Schema) member(segment string, top bool) (*Schema, bool) {
	s = s.Resolve()
	if property, ok := s.Property(segment); ok {
		return property, true
	}
	types := s.TypeSet()
	if index, ok := Index(segment); ok && types&typeArray != 0 && types&typeObject == 0 {
		return s.Item(index), true
	}
	switch {
	case s == nil || s.open():
		return nil, true
	case types&typeObject == 0:
		return nil, false
	case s.PatternProperties != nil:
		return nil, true
	case s.AdditionalProperties == nil:
		return nil, !top || s.Properties == nil
	}
	return s.AdditionalProperties, !s.AdditionalProperties.Never
}

// Inner returns the schema of a field or an item, or nil if nothing is certain about it.
func (s *Schema) Inner(token string) *Schema {
	inner, _ := s.member(token, false)
	return inner
}

// Within is Inner for the place to which several tokens lead.
func (s *Schema) Within(tokens []string) *Schema {
	for _, token := range tokens {
		s = s.Inner(token)
	}
	return s
}

// MaxIndex is the highest index of an array in a path.
const MaxIndex = 9_999

// Index converts a segment of a path to the index of an array. It returns false if the segment
// isn't an index.
func Index(segment string) (int, bool) {
	index, err := strconv.Atoi(segment)
	return index, err == nil && index >= 0 && index <= MaxIndex && strconv.Itoa(index) == segment
}
