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

// Schema is a JSON Schema from a caller, such as the input schema of a workflow.
type Schema struct {
	shape shape
	nodes int // size with all references expanded
}

// SecretPaths returns the paths of the values that the schema marks with `x-secret: true`. All
// fields are secret if a mark has no unique path, for example below `$defs`, or if the schema
// has both marks and references outside `$defs`.
func (s *Schema) SecretPaths() []string { return s.shape.secrets }

// Marks reports whether data contains a string or a number that the schema marks as secret.
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

// AllMembers is the path of all fields of an object.
const AllMembers = "/*"

func secretsOf(raw json.RawMessage) []string {
	schema, err := jsonschema.Parse(raw)
	if err != nil {
		return []string{AllMembers}
	}
	paths, err := schema.SecretPaths()
	switch {
	case err != nil || slices.Contains(paths, ""): // an input stays an object even if all of its fields are secret
		return []string{AllMembers}
	case len(paths) > 0 && refersElsewhere(raw):
		return []string{AllMembers}
	}
	return paths
}

// refersElsewhere reports whether a schema has references outside `$defs`. The target of such a
// reference can have a secret mark, which then also applies at the path of the reference.
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

// Limits of a caller's schema. The number of its nodes, including the instructions of its patterns,
// times the number of values in the data limits the work of a check, which can't be interrupted.
const (
	maxSchemaNodes = 5_000
	maxCheckSteps  = 50_000_000
)

// NewSchema compiles a caller's schema. It returns faults with pointers below the given pointer if
// the schema is invalid, too large, or has external or recursive references.
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
		return nil, refuse("is too large: with its references expanded, it has more than %d parts", maxSchemaNodes)
	}
	schema, err := jsonschema.Compile(raw, nil)
	if err != nil {
		explained := shape{compiledFunc: jsonschema.Metaschema}
		if details := explained.faults(pointer, raw); len(details) > 0 {
			return nil, details
		}
		return nil, refuse("is not a valid JSON Schema (2020-12)")
	}
	s.shape.compiledFunc = func() (*jsonschema.Compiled, error) { return schema, nil }
	s.shape.secrets = secretsOf(raw)
	return s, nil
}

// Check returns all faults of data, with pointers below the given pointer. Messages don't
// contain secret values.
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

// parts counts a value and all values inside it. A long string counts as several values.
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

// measure computes the size of a schema with its references expanded.
type measure struct {
	root    any
	sizes   map[string]int // by reference; 0 while the target is being measured
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

// keyword returns the size of a keyword's value.
func (m *measure) keyword(name string, member any) int {
	text, isText := member.(string)
	switch {
	case isText && name == "$ref":
		return m.referred(text)
	case isText && name == "pattern":
		return steps(text)
	case isText && slices.Contains([]string{"$dynamicRef", "$recursiveRef", "$id", "$anchor", "$dynamicAnchor"}, name), name == "$schema" && text != jsonschema.Draft:
		m.refusal = fmt.Sprintf("must not have %s", name)
	}
	n := m.size(member)
	if patterns, ok := member.(map[string]any); ok && name == "patternProperties" {
		for pattern := range patterns {
			n = m.add(n, steps(pattern))
		}
	}
	return n
}

// steps returns the maximum number of instructions per character of a pattern.
func steps(pattern string) int {
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 1 // Compile reports the error
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return 1
	}
	return len(program.Inst)
}

// add returns the sum of two sizes, or a size just beyond the limit if the sum is larger.
func (m *measure) add(a, b int) int { return min(a+b, maxSchemaNodes+1) }

func (m *measure) referred(reference string) int {
	if known, ok := m.sizes[reference]; ok {
		if known == 0 {
			m.refusal = "has a recursive reference"
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
