package jsonschema_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/jsonschema"
	"github.com/weft-automation/weft/internal/kit/strictjson"
)

func parse(t *testing.T, text string) *jsonschema.Schema {
	t.Helper()
	schema, err := jsonschema.Parse(json.RawMessage(text))
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func TestParseKeepsTheOrderAndTheTextOfProperties(t *testing.T) {
	schema := parse(t, `{ "properties" : { "z": { "minimum" : 1.0 } , "a":true, "m": false }, "type":["object","null"] }`)
	var got []string
	for _, property := range schema.Properties {
		got = append(got, property.Name+" "+string(property.Raw))
	}
	if want := []string{`z { "minimum" : 1.0 }`, `a true`, `m false`}; !slices.Equal(got, want) {
		t.Errorf("properties %q, want %q", got, want)
	}
	if bound := schema.Properties[0].Keyword("minimum"); string(bound) != "1.0" {
		t.Errorf("minimum %s", bound)
	}
	if !slices.Equal(schema.Types, []string{"object", "null"}) {
		t.Errorf("types %q", schema.Types)
	}
}

func TestParseIgnoresKeywordsOfTheWrongType(t *testing.T) {
	for _, text := range []string{
		`{"allOf":{"a":[1]},"description":"d"}`, `{"properties":[{"a":1}],"description":"d"}`, `{"properties":7,"description":"d"}`,
		`{"items":["x"],"description":"d"}`, `{"type":7,"enum":{"a":{}},"required":"a","x-secret":"yes","$ref":1,"description":"d"}`,
		`{"Type":"string","DESCRIPTION":"e","description":"d"}`, `{"$defs":null,"anyOf":null,"description":"d"}`,
	} {
		if schema := parse(t, text); schema.Description != "d" || schema.TypeSet() != jsonschema.AnyType {
			t.Errorf("%s: %q, %s", text, schema.Description, schema.TypeSet())
		}
	}
}

func TestReferencesAreResolvedWithinTheDocument(t *testing.T) {
	for text, want := range map[string]string{
		`{"$ref":"#/$defs/a~1b","$defs":{"a/b":{"type":"string"}}}`:                 "a string",
		`{"$ref":"#/%24defs/a","$defs":{"a":{"type":"null"}}}`:                      "null",
		`{"$ref":"#/$defs/a/items","$defs":{"a":{"items":{"type":"array"}}}}`:       "an array",
		`{"$ref":"#/definitions/a","definitions":{"a":{"$ref":"#/definitions/b"}}}`: jsonschema.AnyType.String(),
		`{"$ref":"#"}`:                   jsonschema.AnyType.String(),
		`{"$ref":"other.json#/$defs/a"}`: jsonschema.AnyType.String(),
	} {
		if got := parse(t, text).TypeSet().String(); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

func TestSecretPathsRejectAMarkWithoutEffect(t *testing.T) {
	for text, want := range map[string]string{
		`{"properties":{"a/b":{"x-secret":true},"c":{"items":{"anyOf":[{"x-secret":true},{"x-secret":false}]}}}}`: "/a~1b /c/*",
		`{"additionalProperties":{"x-secret":true},"x-secret":true}`:                                              " /*",
		`{"not":{"x-secret":true}}`: "1 of 1 x-secret marks stand where they have no effect",
	} {
		paths, err := parse(t, text).SecretPaths()
		got := strings.Join(paths, " ")
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func violations(t *testing.T, schema, value string, show func([]string, any) string) (all []string) {
	t.Helper()
	compiled, err := jsonschema.Compile(json.RawMessage(schema), nil)
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := strictjson.Decode([]byte(value))
	if err != nil {
		t.Fatal(err)
	}
	for v := range jsonschema.Violations(compiled, decoded, show) {
		all = append(all, fault.Pointer("", v.At...)+" "+v.Message)
		if len(all) > fault.MaxDetails {
			break
		}
	}
	return all
}

func TestViolationsShowValuesOnlyIfAsked(t *testing.T) {
	const schema = `{"properties":{"a":{"enum":["x"]},"b":{"type":"integer"},"c":{"format":"uuid"},"d":{"anyOf":[{"maximum":5,"type":"integer"},{"type":"null"}]}}}`
	const value = `{"a":"value","b":"value","c":"value","d":7}`
	got := violations(t, schema, value, nil)
	slices.Sort(got)
	want := []string{`/a must be one of "x"`, `/b must be an integer`, `/c must be a valid uuid, such as 0198c2a4-7d1e-7c33-9b1a-2f6f0e5d4c3b`, `/d must be at most 5`}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	got = violations(t, schema, value, func(_ []string, value any) string { return jsonschema.Show(value) })
	slices.Sort(got)
	want = []string{`/a must be one of "x", got "value"`, `/b must be an integer, got a string`, `/c must be a valid uuid, such as 0198c2a4-7d1e-7c33-9b1a-2f6f0e5d4c3b; got "value"`, `/d must be at most 5, got 7`}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestViolationsStopWithTheirConsumer(t *testing.T) {
	values := `[` + strings.TrimSuffix(strings.Repeat(`{},`, 5_000), ",") + `]`
	if got := violations(t, `{"items":{"required":["a","b"]}}`, values, nil); len(got) != fault.MaxDetails+1 {
		t.Errorf("%d violations", len(got))
	}
}

// FuzzParse parses arbitrary JSON. Each part of the resulting schema must be JSON, and its text
// must be part of the input.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{`{"properties":{"a":{"type":["string"],"enum":[1,{"b":null}]}},"items":false}`, ` [ { } ] `, `{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#"}}}`, `{"allOf":{"a":1}}`, `false`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		schema, err := jsonschema.Parse(json.RawMessage(text))
		if (err == nil) != json.Valid([]byte(text)) {
			t.Fatalf("%q: %v", text, err)
		}
		if err != nil {
			return
		}
		schema.Paths(func(s *jsonschema.Schema) bool {
			if !json.Valid(s.Raw) || !strings.Contains(text, string(s.Raw)) {
				t.Errorf("%q has the part %q", text, s.Raw)
			}
			return true
		})
		_, _ = schema.SecretPaths()
		_, _, _ = schema.Follow("a.0.b")
		_ = jsonschema.Mismatch(schema, schema)
		_, _ = schema.Convert(json.RawMessage(`{"a":[1,{"b":"2"}]}`))
	})
}
