package gen

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/weft-automation/weft/gen/api"
)

// Every named schema accepts the same values in both versions. The values are an example of the
// schema, and variants of the example in which one field is missing, null or of another type.
// Dependencies between fields are left out, because they are extensions in 3.0.
func TestBothVersionsAcceptTheSameValues(t *testing.T) {
	var root map[string]any
	if err := json.Unmarshal(api.SpecJSON(), &root); err != nil {
		t.Fatal(err)
	}
	old, err := openapi3.NewLoader().LoadFromData(api.Spec30JSON())
	if err != nil {
		t.Fatal(err)
	}
	schemas := root["components"].(map[string]any)["schemas"].(map[string]any)
	for _, schema := range schemas {
		for _, keyword := range []string{"if", "then", "else"} {
			delete(schema.(map[string]any), keyword)
		}
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	if err := compiler.AddResource("mem:///openapi.json", root); err != nil {
		t.Fatal(err)
	}
	accepted, rejected := 0, 0
	for _, name := range slices.Sorted(maps.Keys(schemas)) {
		present, err := compiler.Compile("mem:///openapi.json#/components/schemas/" + name)
		if err != nil {
			t.Fatal(err)
		}
		for _, value := range variants(sample(root, schemas[name], 0)) {
			var decoded any
			if err := json.Unmarshal(value, &decoded); err != nil {
				t.Fatal(err)
			}
			exact, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
			if err != nil {
				t.Fatal(err)
			}
			now, then := present.Validate(exact), old.Components.Schemas[name].Value.VisitJSON(decoded)
			if (now == nil) != (then == nil) {
				t.Errorf("%s, %s: in 3.1 %v, in 3.0 %v", name, value, now, then)
			}
			if now == nil {
				accepted++
			} else {
				rejected++
			}
		}
	}
	if accepted < 1000 || rejected < 5000 {
		t.Errorf("accepted %d values, rejected %d", accepted, rejected)
	}
}

func TestConvertedDocumentAndExamplesAreValid(t *testing.T) {
	old, err := openapi3.NewLoader().LoadFromData(api.Spec30JSON())
	if err != nil {
		t.Fatal(err)
	}
	if err := old.Validate(t.Context(), openapi3.EnableExamplesValidation()); err != nil {
		t.Error(err)
	}
	shown := 0
	for name, schema := range old.Components.Schemas {
		for field, property := range schema.Value.Properties {
			if property.Ref == "" && property.Value.Example != nil {
				shown++
				if err := property.Value.VisitJSON(property.Value.Example); err != nil {
					t.Errorf("%s.%s: %v", name, field, err)
				}
			}
		}
	}
	if shown < 250 {
		t.Errorf("found only %d examples", shown)
	}
}

// sample returns a value with all fields of a schema.
func sample(root map[string]any, node any, depth int) any {
	schema, _ := node.(map[string]any)
	if ref, ok := schema["$ref"].(string); ok {
		return sample(root, root["components"].(map[string]any)["schemas"].(map[string]any)[strings.TrimPrefix(ref, "#/components/schemas/")], depth)
	}
	if properties, ok := schema["properties"].(map[string]any); ok && depth < 4 {
		made := map[string]any{}
		for name, property := range properties {
			made[name] = sample(root, property, depth+1)
		}
		return made
	}
	if items, ok := schema["items"]; ok {
		return []any{sample(root, items, depth+1)}
	}
	if examples, ok := schema["examples"].([]any); ok {
		return examples[0]
	}
	if values, ok := schema["enum"].([]any); ok {
		return values[0]
	}
	if one, ok := schema["oneOf"].([]any); ok {
		return sample(root, one[0], depth)
	}
	return map[string]any{}
}

// variants returns a value and variants that differ from it in one place.
func variants(value any) [][]byte {
	others := []any{nil, true, 7.5, -3, "", "text", []any{}, []any{nil}, map[string]any{}, map[string]any{"unknown": 1}}
	var all [][]byte
	var root any = value
	put := func() {
		data, err := json.Marshal(root)
		if err != nil {
			panic(fmt.Sprintf("%v: %v", root, err))
		}
		all = append(all, data)
	}
	var in func(node any, set func(any))
	in = func(node any, set func(any)) {
		for _, other := range others {
			set(other)
			put()
		}
		set(node)
		switch node := node.(type) {
		case map[string]any:
			for name, member := range maps.Clone(node) {
				delete(node, name)
				put()
				in(member, func(other any) { node[name] = other })
			}
		case []any:
			for i, item := range node {
				in(item, func(other any) { node[i] = other })
			}
		}
	}
	put()
	in(value, func(other any) { root = other })
	return all
}
