package jsonschema

import (
	"fmt"
	"maps"
	"slices"

	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/strictjson"
)

// Paths returns the paths of the values whose schemas match, sorted. A path is a JSON pointer in
// which `*` stands for every field or item, such as "/headers/*".
func (s *Schema) Paths(matches func(*Schema) bool) []string {
	paths, _ := s.paths(matches)
	return paths
}

// SecretPaths returns the paths of the values that the schema marks with `x-secret: true`. It
// returns an error if a mark is in a part of the schema that has no path, because the mark would
// protect nothing.
func (s *Schema) SecretPaths() ([]string, error) {
	paths, reached := s.paths(func(s *Schema) bool { return s.Secret })
	document, err := strictjson.Decode(s.Raw)
	if err != nil {
		return nil, fmt.Errorf("read schema: %w", err)
	}
	if marks := countMarks(document); marks != reached {
		return nil, fmt.Errorf("%d of %d x-secret marks stand where they have no effect", marks-reached, marks)
	}
	return paths, nil
}

// paths returns the places of the matching schemas, and how many schemas matched.
func (s *Schema) paths(matches func(*Schema) bool) (paths []string, reached int) {
	found := map[string]bool{}
	var walk func(s *Schema, path string)
	walk = func(s *Schema, path string) {
		if s == nil {
			return
		}
		if matches(s) {
			found[path] = true
			reached++
		}
		for _, property := range s.Properties {
			walk(property.Schema, path+"/"+fault.EscapeToken(property.Name))
		}
		walk(s.AdditionalProperties, path+"/*")
		walk(s.Items, path+"/*")
		for _, branch := range slices.Concat(s.AllOf, s.AnyOf, s.OneOf) {
			walk(branch, path)
		}
	}
	walk(s, "")
	return slices.Sorted(maps.Keys(found)), reached
}

func countMarks(node any) (marks int) {
	switch node := node.(type) {
	case map[string]any:
		for key, value := range node {
			if key == "x-secret" && value == true {
				marks++
			}
			marks += countMarks(value)
		}
	case []any:
		for _, value := range node {
			marks += countMarks(value)
		}
	}
	return marks
}
