package component

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Redacted stands where a secret was.
const Redacted = "[redacted]"

const minSecret = 8 // shorter values are too common to be searched for in texts

// SecretPaths are the places of the secret values of a module: JSON pointers
// in which `*` stands for every member or item, such as "/headers/*".
type SecretPaths struct {
	Input, Config, Output []string
}

// secretPaths finds the values that a schema marks with `x-secret: true`.
// A mark in a place that this walk does not understand is an error: it would
// silently protect nothing.
func secretPaths(schema json.RawMessage) ([]string, error) {
	var root any
	if err := json.Unmarshal(schema, &root); err != nil {
		return nil, fmt.Errorf("read schema: %w", err)
	}
	found := map[string]bool{}
	reached := walkSecrets(root, "", found)
	if marks := countMarks(root); marks != reached {
		return nil, fmt.Errorf("%d of %d x-secret marks stand where they have no effect", marks-reached, marks)
	}
	return slices.Sorted(maps.Keys(found)), nil
}

func walkSecrets(node any, path string, found map[string]bool) (reached int) {
	schema, ok := node.(map[string]any)
	if !ok {
		return 0
	}
	if schema["x-secret"] == true {
		found[path] = true
		reached++
	}
	if properties, ok := schema["properties"].(map[string]any); ok {
		for name, property := range properties {
			reached += walkSecrets(property, path+"/"+escapeToken(name), found)
		}
	}
	for _, keyword := range []string{"additionalProperties", "items"} {
		reached += walkSecrets(schema[keyword], path+"/*", found)
	}
	for _, keyword := range []string{"allOf", "anyOf", "oneOf"} {
		branches, _ := schema[keyword].([]any)
		for _, branch := range branches {
			reached += walkSecrets(branch, path, found)
		}
	}
	return reached
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

func escapeToken(token string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(token)
}

func unescapeToken(token string) string {
	return strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
}

// isSecret reports whether the value at the tokens lies at or under one of the
// paths.
func isSecret(paths []string, tokens []string) bool {
	return slices.ContainsFunc(paths, func(path string) bool {
		pattern := splitPath(path)
		if len(pattern) > len(tokens) {
			return false
		}
		for i, want := range pattern {
			if want != "*" && unescapeToken(want) != tokens[i] {
				return false
			}
		}
		return true
	})
}

func splitPath(path string) []string {
	if path == "" {
		return nil
	}
	return strings.Split(path[1:], "/")
}

// RedactInput returns the input with every secret value replaced. Data that is
// not JSON is replaced whole.
func (e *Entry) RedactInput(data json.RawMessage) json.RawMessage {
	return Redact(data, e.SecretPaths.Input)
}

// RedactConfig does the same for the config.
func (e *Entry) RedactConfig(data json.RawMessage) json.RawMessage {
	return Redact(data, e.SecretPaths.Config)
}

// Redact returns data without the values at these paths, as SecretPaths has them. Data that
// is not JSON is replaced whole.
func Redact(data json.RawMessage, paths []string) json.RawMessage {
	if len(paths) == 0 || len(data) == 0 {
		return data
	}
	value, err := decode(data)
	if err != nil {
		return json.RawMessage(`"` + Redacted + `"`)
	}
	for _, path := range paths {
		value = replaceAt(value, splitPath(path))
	}
	out, err := json.Marshal(value)
	if err != nil {
		return json.RawMessage(`"` + Redacted + `"`)
	}
	return out
}

func replaceAt(value any, pattern []string) any {
	if len(pattern) == 0 {
		return Redacted
	}
	eachChild(value, pattern[0], func(child any, set func(any)) { set(replaceAt(child, pattern[1:])) })
	return value
}

// eachChild visits the member or the items that one token of a path names.
func eachChild(value any, token string, visit func(child any, set func(any))) {
	switch value := value.(type) {
	case map[string]any:
		for name, child := range value {
			if token == "*" || unescapeToken(token) == name {
				visit(child, func(v any) { value[name] = v })
			}
		}
	case []any:
		for i, child := range value {
			if token == "*" {
				visit(child, func(v any) { value[i] = v })
			}
		}
	}
}

func decode(data []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	return value, nil
}
