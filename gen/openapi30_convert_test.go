package gen

import (
	"encoding/json"
	"strings"
	"testing"
)

// schema converts one schema, as part of a document.
func schema(t *testing.T, text string) (string, error) {
	t.Helper()
	made, err := openapi30([]byte(`{"openapi":"3.1.0","paths":{},"components":{"schemas":{"S":` + text + `}}}`))
	if err != nil {
		return "", err
	}
	var document struct {
		Components struct{ Schemas map[string]json.RawMessage }
	}
	if err := json.Unmarshal(made, &document); err != nil {
		t.Fatal(err)
	}
	return string(document.Components.Schemas["S"]), nil
}

func TestFromConvertsSchemas(t *testing.T) {
	for source, want := range map[string]string{
		`{"type":["string","null"],"examples":["a","b"]}`: `{"example":"a","nullable":true,"type":"string"}`,
		`{"const":"a"}`: `{"enum":["a"]}`,
		`{"type":"integer","exclusiveMinimum":0,"exclusiveMaximum":9}`:     `{"exclusiveMaximum":true,"exclusiveMinimum":true,"maximum":9,"minimum":0,"type":"integer"}`,
		`{"oneOf":[{"$ref":"#/components/schemas/A"},{"type":"null"}]}`:    `{"allOf":[{"$ref":"#/components/schemas/A"}],"nullable":true}`,
		`{"anyOf":[{"type":"string"},{"type":"integer"},{"type":"null"}]}`: `{"anyOf":[{"type":"string"},{"type":"integer"}],"nullable":true}`,
		`{"$ref":"#/components/schemas/A"}`:                                `{"$ref":"#/components/schemas/A"}`,
		`{"$ref":"#/components/schemas/A","description":"Next to it."}`:    `{"allOf":[{"$ref":"#/components/schemas/A"}],"description":"Next to it."}`,
		`{"type":"array"}`:                                                         `{"items":{},"type":"array"}`,
		`{"type":"array","items":true}`:                                            `{"items":{},"type":"array"}`,
		`{"type":"array","items":{"type":["number","null"]}}`:                      `{"items":{"nullable":true,"type":"number"},"type":"array"}`,
		`{"type":"object","properties":{"a":{"title":"Anything."}}}`:               `{"properties":{"a":{"nullable":true,"title":"Anything."}},"type":"object"}`,
		`{"not":false}`:                                                            `{"not":{"not":{}}}`,
		`{"type":"object","additionalProperties":false}`:                           `{"additionalProperties":false,"type":"object"}`,
		`{"type":"object","additionalProperties":{"const":1}}`:                     `{"additionalProperties":{"enum":[1]},"type":"object"}`,
		`{"type":"object","if":{"required":["a"]},"then":{"required":["b"]}}`:      `{"type":"object","x-if":{"required":["a"]},"x-then":{"required":["b"]}}`,
		`{"type":"object","propertyNames":{"const":"a"}}`:                          `{"type":"object","x-propertyNames":{"enum":["a"]}}`,
		`{"type":"object","properties":{"examples":{"type":["string","null"]}}}`:   `{"properties":{"examples":{"nullable":true,"type":"string"}},"type":"object"}`,
		`{"type":"string","contentMediaType":"a/b","contentSchema":{"const":1}}`:   `{"type":"string","x-contentMediaType":"a/b","x-contentSchema":{"enum":[1]}}`,
		`{"type":"object","examples":[{"type":["string","null"],"const":"kept"}]}`: `{"example":{"const":"kept","type":["string","null"]},"type":"object"}`,
		`{"type":"number","maximum":12345678901234567890.5}`:                       `{"maximum":12345678901234567890.5,"type":"number"}`,
	} {
		made, err := schema(t, source)
		if err != nil || made != want {
			t.Errorf("%s: %s, %v, want %s", source, made, err, want)
		}
	}
}

// A schema that 3.0 can't express results in an error with its location. It is never dropped.
func TestFromRejectsInexpressibleSchemas(t *testing.T) {
	for source, want := range map[string]string{
		`{"patternProperties":{"^x":true}}`:    "/components/schemas/S: OpenAPI 3.0 has no equivalent of patternProperties",
		`{"properties":{"a":{"contains":{}}}}`: "/components/schemas/S/properties/a: OpenAPI 3.0 has no equivalent of contains",
		`{"prefixItems":[{}]}`:                 "/components/schemas/S: OpenAPI 3.0 has no equivalent of prefixItems",
		`{"type":["string","integer"]}`:        "/components/schemas/S: OpenAPI 3.0 has no equivalent of type [string integer]",
		`{"type":"null"}`:                      "/components/schemas/S: OpenAPI 3.0 has no equivalent of a schema that allows only null",
		`{"minimum":1,"exclusiveMinimum":0}`:   "/components/schemas/S: OpenAPI 3.0 has no equivalent of exclusiveMinimum next to minimum",
		`{"allOf":[{}],"oneOf":[{"$ref":"#/components/schemas/A"},{"type":"null"}]}`: "/components/schemas/S: OpenAPI 3.0 has no equivalent of oneOf with null next to allOf",
		`{"items":7}`: "/components/schemas/S/items: expected a schema",
	} {
		if _, err := schema(t, source); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", source, err, want)
		}
	}
	if _, err := openapi30([]byte("{")); err == nil {
		t.Error("From accepted an incomplete document")
	}
}

func TestFromConvertsTheRestOfTheDocument(t *testing.T) {
	made, err := openapi30([]byte(`{"openapi":"3.1.0",
		"info":{"title":"T","summary":"In short.","description":"At length.","license":{"name":"L","identifier":"MIT"}},
		"paths":{"/a":{"get":{"parameters":[{"name":"q","schema":{"type":["string","null"]},"examples":{"one":{"value":{"const":1}}}}]}}},
		"webhooks":{"w":{"post":{"requestBody":{"content":{"application/json":{"schema":{"const":1},"example":{"schema":{"const":1}}}}}}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"openapi":"3.0.3"`, `"description":"In short.\n\nAt length."`, `"license":{"name":"L","url":"https://spdx.org/licenses/MIT.html"}`,
		`"schema":{"nullable":true,"type":"string"}`, `"value":{"const":1}`,
		`"x-webhooks":{"w":{"post":{"requestBody":{"content":{"application/json":{"example":{"schema":{"const":1}},"schema":{"enum":[1]}}}}}}}`,
	} {
		if !strings.Contains(string(made), want) {
			t.Errorf("%s is not in %s", want, made)
		}
	}
	if strings.Contains(string(made), `"summary"`) || strings.Contains(string(made), `"identifier"`) {
		t.Errorf("%s", made)
	}
}
