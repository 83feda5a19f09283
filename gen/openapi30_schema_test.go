package gen

import (
	"fmt"
	"slices"
	"strings"
)

// shared are the keywords with the same meaning in both versions. rewriteNested rewrites the
// schemas in them.
var shared = []string{
	"additionalProperties", "allOf", "anyOf", "default", "deprecated", "description", "discriminator", "enum",
	"externalDocs", "format", "items", "maxItems", "maxLength", "maxProperties", "maximum", "minItems", "minLength",
	"minProperties", "minimum", "multipleOf", "not", "oneOf", "pattern", "properties", "readOnly", "required", "title",
	"type", "uniqueItems", "writeOnly",
}

// extensions are keywords that 3.0 lacks. They become extensions. Nothing is lost: descriptions
// repeat them, or the server checks them.
var extensions = []string{
	"contentEncoding", "contentMediaType", "contentSchema", "else", "if", "propertyNames", "then",
}

// rewriteEach rewrites the schemas in the fields of an object.
func rewriteEach(node any, at string) error {
	members, ok := node.(object)
	if !ok {
		return fmt.Errorf("%s: expected an object of schemas", at)
	}
	for name, member := range members {
		schema, err := rewrite(member, at+"/"+name)
		if err != nil {
			return err
		}
		members[name] = schema
	}
	return nil
}

// rewrite returns a schema, converted to 3.0. It returns an error if 3.0 can't express it.
func rewrite(node any, at string) (any, error) {
	if always, ok := node.(bool); ok {
		if always {
			return object{}, nil
		}
		return object{"not": object{}}, nil
	}
	schema, ok := node.(object)
	if !ok {
		return nil, fmt.Errorf("%s: expected a schema", at)
	}
	if err := rewriteNested(schema, at); err != nil {
		return nil, err
	}
	for _, step := range []func(object, string) error{values, limits, types, nulls} {
		if err := step(schema, at); err != nil {
			return nil, err
		}
	}
	for _, key := range extensions {
		rename(schema, key, "x-"+key)
	}
	if ref, ok := schema["$ref"]; ok && len(schema) > 1 { // 3.0 ignores keywords next to $ref
		delete(schema, "$ref")
		schema["allOf"] = []any{object{"$ref": ref}}
	}
	for key := range schema {
		if key != "$ref" && key != "nullable" && key != "example" && key != "exclusiveMinimum" && key != "exclusiveMaximum" &&
			!strings.HasPrefix(key, "x-") && !slices.Contains(shared, key) {
			return nil, fmt.Errorf("%s: OpenAPI 3.0 has no equivalent of %s", at, key)
		}
	}
	return schema, nil
}

// allowNull marks fields of any type as nullable, because 3.0 tools disagree on whether they are.
func allowNull(members object) {
	for _, member := range members {
		schema := member.(object)
		typed := func(key string) bool { return schema[key] != nil }
		if !slices.ContainsFunc([]string{"$ref", "type", "allOf", "anyOf", "oneOf", "not", "enum"}, typed) {
			schema["nullable"] = true
		}
	}
}

// rewriteNested rewrites the schemas nested in a schema.
func rewriteNested(schema object, at string) error {
	for key, child := range schema {
		place := at + "/" + key
		var err error
		switch key {
		case "properties":
			if err = rewriteEach(child, place); err == nil {
				allowNull(child.(object))
			}
		case "allOf", "anyOf", "oneOf":
			list, _ := child.([]any)
			for i := range list {
				if isNull(list[i]) {
					continue // nulls handles it
				}
				if list[i], err = rewrite(list[i], fmt.Sprintf("%s/%d", place, i)); err != nil {
					return err
				}
			}
		case "additionalProperties":
			if _, ok := child.(bool); !ok {
				schema[key], err = rewrite(child, place)
			}
		case "items", "not", "contentSchema", "propertyNames":
			schema[key], err = rewrite(child, place)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// values keeps the first example only, and turns const into an enum of one value.
func values(schema object, at string) error {
	if examples, ok := schema["examples"].([]any); ok && len(examples) > 0 {
		schema["example"] = examples[0]
		delete(schema, "examples")
	}
	if value, ok := schema["const"]; ok {
		schema["enum"] = []any{value}
		delete(schema, "const")
	}
	return nil
}

// limits converts exclusive bounds to the form of 3.0: a flag next to the bound.
func limits(schema object, at string) error {
	for exclusive, inclusive := range map[string]string{"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"} {
		bound, ok := schema[exclusive]
		if !ok {
			continue
		}
		if _, both := schema[inclusive]; both {
			return fmt.Errorf("%s: OpenAPI 3.0 has no equivalent of %s next to %s", at, exclusive, inclusive)
		}
		schema[inclusive], schema[exclusive] = bound, true
	}
	return nil
}

// types turns a list of types into one type, nullable or not.
func types(schema object, at string) error {
	switch list := schema["type"].(type) {
	case []any:
		others := slices.DeleteFunc(slices.Clone(list), func(name any) bool { return name == "null" })
		if len(others) != 1 {
			return fmt.Errorf("%s: OpenAPI 3.0 has no equivalent of type %v", at, list)
		}
		schema["type"] = others[0]
		if len(others) < len(list) {
			schema["nullable"] = true
		}
	case string:
		if list == "null" {
			return fmt.Errorf("%s: OpenAPI 3.0 has no equivalent of a schema that allows only null", at)
		}
	}
	if schema["type"] == "array" && schema["items"] == nil {
		schema["items"] = object{}
	}
	return nil
}

// nulls replaces the alternative null with nullable. If only one alternative remains, nulls moves
// it into allOf, because generators recognize a nullable reference by its allOf.
func nulls(schema object, at string) error {
	for _, key := range []string{"oneOf", "anyOf"} {
		list, ok := schema[key].([]any)
		if !ok {
			continue
		}
		others := slices.DeleteFunc(slices.Clone(list), isNull)
		if len(others) == len(list) {
			continue
		}
		schema["nullable"], schema[key] = true, others
		if len(others) == 1 {
			delete(schema, key)
			if schema["allOf"] != nil {
				return fmt.Errorf("%s: OpenAPI 3.0 has no equivalent of %s with null next to allOf", at, key)
			}
			schema["allOf"] = others
		}
	}
	return nil
}

func isNull(node any) bool {
	schema, ok := node.(object)
	return ok && len(schema) == 1 && schema["type"] == "null"
}
