package probe

import (
	"maps"
	"slices"
)

// Field is one field of a response that the document describes.
type Field struct {
	Path  []string // names of fields; "*" means each item of an array
	Types []string // the allowed JSON types; empty means any
}

// Answers lists the operations with JSON responses of status 200, with the fields of
// these responses.
func (s *Spec) Answers() map[string][]Field {
	all := map[string][]Field{}
	for _, operation := range s.operations {
		if fields := s.fields(append(operation.place(), "responses", "200", "content", "application/json", "schema")); len(fields) > 0 {
			all[operation.ID] = fields
		}
	}
	return all
}

// Events lists the streams, with the fields of their events.
func (s *Spec) Events() map[string][]Field {
	all := map[string][]Field{}
	for _, operation := range s.operations {
		at := append(operation.place(), "responses", "200", "content", "text/event-stream", "schema")
		if fields := s.fields(at); len(fields) > 0 {
			all[operation.ID] = fields
		}
	}
	return all
}

// Failures lists the fields of every error.
func (s *Spec) Failures() []Field { return s.fields([]string{"components", "schemas", "Problem"}) }

// Callback lists the fields of the callback of an operation and its headers.
func (s *Spec) Callback(of string) (fields []Field, headers []string) {
	at, err := s.callback(of)
	if err != nil {
		return nil, nil
	}
	list, _ := s.at(append(at, "parameters"))
	parameters, _ := list.([]any)
	for _, parameter := range parameters {
		headers = append(headers, members(s.resolve(parameter))["name"].(string))
	}
	return s.fields(append(at, "requestBody", "content", "application/json", "schema")), headers
}

// Headers lists the headers that the 200 response of each operation may have.
func (s *Spec) Headers() map[string][]string {
	all := map[string][]string{}
	for _, operation := range s.operations {
		headers, _ := s.at(append(operation.place(), "responses", "200", "headers"))
		all[operation.ID] = slices.Sorted(maps.Keys(members(headers)))
	}
	return all
}

func (s *Spec) fields(path []string) []Field {
	node, ok := s.at(path)
	if !ok {
		return nil
	}
	return s.within(node, nil, nil)
}

// within lists the fields inside a schema. It expands a recursive schema once.
func (s *Spec) within(node any, path []string, outer []any) []Field {
	schema := members(s.resolve(node))
	if name, ok := members(node)["$ref"]; ok {
		if slices.Contains(outer, name) {
			return nil
		}
		outer = append(slices.Clone(outer), name)
	}
	var all []Field
	for _, name := range slices.Sorted(maps.Keys(members(schema["properties"]))) {
		inner := members(schema["properties"])[name]
		at := append(slices.Clone(path), name)
		all = append(all, Field{Path: at, Types: s.types(inner)})
		all = append(all, s.within(inner, at, outer)...)
	}
	if items, ok := schema["items"]; ok {
		all = append(all, s.within(items, append(slices.Clone(path), "*"), outer)...)
	}
	branches, _ := schema["oneOf"].([]any)
	for _, branch := range branches {
		all = append(all, s.within(branch, path, outer)...)
	}
	return all
}

// types lists the JSON types that a schema allows; none means any.
func (s *Spec) types(node any) []string {
	schema := members(s.resolve(node))
	switch kind := schema["type"].(type) {
	case string:
		return []string{kind}
	case []any:
		var list []string
		for _, one := range kind {
			list = append(list, one.(string))
		}
		return list
	}
	var list []string
	branches, _ := schema["oneOf"].([]any)
	for _, branch := range branches {
		list = append(list, s.types(branch)...)
	}
	return list
}

// resolve follows the node if it is a reference.
func (s *Spec) resolve(node any) any {
	for {
		reference, ok := members(node)["$ref"].(string)
		if !ok {
			return node
		}
		node, _ = s.at(pathOf(reference))
	}
}
