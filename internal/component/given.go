package component

import (
	"encoding/json"
	"fmt"
	"regexp/syntax"
	"slices"
	"strings"
	"sync"

	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/jsonschema"
	"github.com/weft-automation/weft/internal/kit/strictjson"
)

// Schema is a JSON Schema that a caller wrote, as a workflow has one of its input.
type Schema struct {
	shape shape
	nodes int // with all that it refers to in place
}

// SecretPaths are the places of the values that the schema marks with `x-secret: true`. A mark
// in a place that has none of its own, below `$defs` say, makes all members secret, and so does
// a mark in a schema that refers to its own places.
func (s *Schema) SecretPaths() []string { return s.shape.secrets }

// Marks reports whether some data holds a text or a number that the schema marks so.
func (s *Schema) Marks(data json.RawMessage) (marked bool) {
	if len(s.shape.secrets) == 0 {
		return false
	}
	value, err := strictjson.Decode(data)
	for _, path := range s.shape.secrets {
		eachSecret(value, "", splitPath(path), func(_, _ string) { marked = true })
	}
	return marked || err != nil
}

// AllMembers is the path of the members of an object.
const AllMembers = "/*"

func secretsOf(raw json.RawMessage) []string {
	schema, err := jsonschema.Parse(raw)
	if err != nil {
		return []string{AllMembers}
	}
	paths, err := schema.SecretPaths()
	switch {
	case err != nil || slices.Contains(paths, ""): // an input is an object whatever is hidden of it
		return []string{AllMembers}
	case len(paths) > 0 && refersElsewhere(raw):
		return []string{AllMembers}
	}
	return paths
}

// refersElsewhere reports whether a schema refers to more than its definitions, whose marks
// are in no place of their own: to something marked, say, that is secret in its own place only.
func refersElsewhere(raw json.RawMessage) bool {
	root, err := strictjson.Decode(raw)
	var refers func(node any) bool
	refers = func(node any) (does bool) {
		if object, ok := node.(map[string]any); ok {
			for _, keyword := range []string{"$ref", "$dynamicRef"} {
				to, is := object[keyword].(string)
				does = does || is && !strings.HasPrefix(to, "#/$defs/")
			}
		}
		eachChild(node, "*", func(child any, _ func(any)) { does = does || refers(child) })
		return does
	}
	return err != nil || refers(root)
}

// What a caller's schema may cost. Its parts, the steps of its patterns among them,
// times those of the data bound the work of a check, which nothing can stop once it
// has begun.
const (
	maxSchemaNodes = 5_000
	maxCheckSteps  = 50_000_000
)

// NewSchema compiles a schema that a caller wrote, or says what is wrong with it, with
// pointers below the given one. It refers to nothing outside of itself, and to nothing
// that it stands in.
func NewSchema(pointer string, raw json.RawMessage) (*Schema, []fault.Detail) {
	refuse := func(format string, args ...any) []fault.Detail {
		return []fault.Detail{fault.NewDetail(pointer, fmt.Sprintf(format, args...))}
	}
	root, err := strictjson.Decode(raw)
	if err != nil {
		return nil, refuse("is not valid JSON")
	}
	m := measure{root: root, sizes: map[string]int{}}
	s := &Schema{nodes: m.size(root)}
	switch {
	case m.refusal != "":
		return nil, refuse("%s", m.refusal)
	case s.nodes > maxSchemaNodes:
		return nil, refuse("is too large: with all that it refers to it has more than %d parts", maxSchemaNodes)
	}
	schema, err := jsonschema.Compile(raw, nil)
	if err != nil {
		explained := shape{compiledFunc: jsonschema.Metaschema}
		if details := explained.faults(pointer, raw); len(details) > 0 {
			return nil, details
		}
		return nil, refuse("is not a JSON Schema (2020-12) that can be used")
	}
	s.shape.compiledFunc = func() (*jsonschema.Compiled, error) { return schema, nil }
	s.shape.secrets = secretsOf(raw)
	return s, nil
}

// Check tells all that is wrong with data, with pointers below the given one. No message
// shows a secret value.
func (s *Schema) Check(pointer string, data json.RawMessage) []fault.Detail {
	value, err := strictjson.Decode(data)
	if err == nil && parts(value)*s.nodes > maxCheckSteps {
		return []fault.Detail{fault.NewDetail(pointer, "is too large to be checked against its schema")}
	}
	if len(s.shape.secrets) == 0 {
		return s.shape.faults(pointer, data)
	}
	hiddenFunc := sync.OnceValue(func() *Redactor {
		r := NewRedactor()
		r.collect(data, s.shape.secrets)
		return r
	})
	return s.shape.hiding(hiddenFunc).faults(pointer, data)
}

// parts counts the values in a value, itself among them; a long text is many.
func parts(value any) int {
	n := 1
	switch value := value.(type) {
	case string:
		n += len(value) / 4
	case []any:
		for _, item := range value {
			n += parts(item)
		}
	case map[string]any:
		for _, member := range value {
			n += parts(member)
		}
	}
	return n
}

// measure finds how large a schema is with all that it refers to in place.
type measure struct {
	root    any
	sizes   map[string]int // by reference; 0 while it is measured
	refusal string
}

func (m *measure) size(node any) int {
	n := 1
	switch node := node.(type) {
	case []any:
		for _, item := range node {
			n = m.add(n, m.size(item))
		}
	case map[string]any:
		for name, member := range node {
			n = m.add(n, m.keyword(name, member))
		}
	}
	return n
}

// keyword is the size of a member.
func (m *measure) keyword(name string, member any) int {
	text, isText := member.(string)
	switch {
	case isText && name == "$ref":
		return m.referred(text)
	case isText && name == "pattern":
		return steps(text)
	case isText && slices.Contains([]string{"$dynamicRef", "$recursiveRef", "$id", "$anchor", "$dynamicAnchor"}, name), name == "$schema" && text != jsonschema.Draft:
		m.refusal = fmt.Sprintf("may not have %s", name)
	}
	n := m.size(member)
	if patterns, ok := member.(map[string]any); ok && name == "patternProperties" {
		for pattern := range patterns {
			n = m.add(n, steps(pattern))
		}
	}
	return n
}

// steps is how much a pattern has to do for each character, at most.
func steps(pattern string) int {
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 1 // it does not compile
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return 1
	}
	return len(program.Inst)
}

// add is the sum, as far as it matters.
func (m *measure) add(a, b int) int { return min(a+b, maxSchemaNodes+1) }

func (m *measure) referred(reference string) int {
	if known, ok := m.sizes[reference]; ok {
		if known == 0 {
			m.refusal = "refers to a part that it stands in"
		}
		return known
	}
	at, local := jsonschema.LocalReference(reference)
	if !local {
		m.refusal = "refers to another document"
		return 0
	}
	m.sizes[reference] = 0
	size := m.size(inside(m.root, at))
	m.sizes[reference] = size
	return size
}
