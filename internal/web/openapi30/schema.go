package openapi30

import (
	"fmt"
	"slices"
	"strings"
)

// same are the keywords that both versions have, with one meaning. The schemas in them
// are rewritten elsewhere.
var same = []string{
	"additionalProperties", "allOf", "anyOf", "default", "deprecated", "description", "discriminator", "enum",
	"externalDocs", "format", "items", "maxItems", "maxLength", "maxProperties", "maximum", "minItems", "minLength",
	"minProperties", "minimum", "multipleOf", "not", "oneOf", "pattern", "properties", "readOnly", "required", "title",
	"type", "uniqueItems", "writeOnly",
}

// told are keywords that 3.0 lacks. What they say of a value stands in a description or
// is checked by the server, so an extension keeps them for those who look.
var told = []string{
	"contentEncoding", "contentMediaType", "contentSchema", "else", "if", "propertyNames", "then",
}

// rewriteEach rewrites the schemas that are the members of an object.
func rewriteEach(node any, at string) error {
	members, ok := node.(object)
	if !ok {
		return fmt.Errorf("%s: there are no schemas", at)
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

// rewrite is a schema in the words of 3.0.
func rewrite(node any, at string) (any, error) {
	if always, ok := node.(bool); ok {
		if always {
			return object{}, nil
		}
		return object{"not": object{}}, nil
	}
	schema, ok := node.(object)
	if !ok {
		return nil, fmt.Errorf("%s: it is no schema", at)
	}
	if err := inside(schema, at); err != nil {
		return nil, err
	}
	for _, step := range []func(object, string) error{values, limits, types, nulls} {
		if err := step(schema, at); err != nil {
			return nil, err
		}
	}
	for _, key := range told {
		rename(schema, key, "x-"+key)
	}
	if ref, ok := schema["$ref"]; ok && len(schema) > 1 { // 3.0 takes no notice of what stands beside it
		delete(schema, "$ref")
		schema["allOf"] = []any{object{"$ref": ref}}
	}
	for key := range schema {
		if key != "$ref" && key != "nullable" && key != "example" && key != "exclusiveMinimum" && key != "exclusiveMaximum" &&
			!strings.HasPrefix(key, "x-") && !slices.Contains(same, key) {
			return nil, fmt.Errorf("%s: OpenAPI 3.0 cannot say %s", at, key)
		}
	}
	return schema, nil
}

// anything says of members that may be of any type that they may be null: tools of 3.0 do
// not agree on that.
func anything(members object) {
	for _, member := range members {
		schema := member.(object)
		typed := func(key string) bool { return schema[key] != nil }
		if !slices.ContainsFunc([]string{"$ref", "type", "allOf", "anyOf", "oneOf", "not", "enum"}, typed) {
			schema["nullable"] = true
		}
	}
}

// inside rewrites the schemas within a schema.
func inside(schema object, at string) error {
	for key, child := range schema {
		place := at + "/" + key
		var err error
		switch key {
		case "properties":
			if err = rewriteEach(child, place); err == nil {
				anything(child.(object))
			}
		case "allOf", "anyOf", "oneOf":
			list, _ := child.([]any)
			for i := range list {
				if isNull(list[i]) {
					continue // nulls sees to it
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

// values gives a schema one example, and a constant as the only value of an enum.
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

// limits gives the bounds that are not reached themselves the form of 3.0: a flag beside
// the bound.
func limits(schema object, at string) error {
	for exclusive, inclusive := range map[string]string{"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"} {
		bound, ok := schema[exclusive]
		if !ok {
			continue
		}
		if _, both := schema[inclusive]; both {
			return fmt.Errorf("%s: OpenAPI 3.0 cannot say %s beside %s", at, exclusive, inclusive)
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
			return fmt.Errorf("%s: OpenAPI 3.0 cannot say type %v", at, list)
		}
		schema["type"] = others[0]
		if len(others) < len(list) {
			schema["nullable"] = true
		}
	case string:
		if list == "null" {
			return fmt.Errorf("%s: OpenAPI 3.0 knows null beside another schema only", at)
		}
	}
	if schema["type"] == "array" && schema["items"] == nil {
		schema["items"] = object{}
	}
	return nil
}

// nulls takes null out of the alternatives. One that is left stands in allOf, which is how
// generators know a reference that may be null.
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
				return fmt.Errorf("%s: OpenAPI 3.0 cannot say %s with null beside allOf", at, key)
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
