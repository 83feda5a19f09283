package catalog_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/modules"
	"github.com/weft-automation/weft/internal/platform/egress"
	"github.com/weft-automation/weft/internal/web/catalog"
)

// library returns the catalogue of all modules.
func library(t *testing.T) *catalog.Catalog {
	t.Helper()
	guard := egress.New(egress.Policy{})
	t.Cleanup(guard.Close)
	return load(t, modules.All(guard)...)
}

func fields(t *testing.T, schema string) []catalog.Field {
	t.Helper()
	object, err := catalog.ReadObject(json.RawMessage(schema))
	if err != nil {
		t.Fatal(err)
	}
	return object.Fields
}

func TestRequiredFieldsComeFirst(t *testing.T) {
	t.Parallel()
	var names []string
	for _, f := range fields(t, `{"type":"object","required":["m","c"],"properties":{"z":{},"m":{},"a":true,"c":{}}}`) {
		names = append(names, fmt.Sprint(f.Name, f.Required))
	}
	if want := []string{"mtrue", "ctrue", "zfalse", "afalse"}; !slices.Equal(names, want) {
		t.Errorf("%v, want %v", names, want)
	}
}

func TestFieldDescribesSchema(t *testing.T) {
	t.Parallel()
	for schema, want := range map[string]string{
		`{"type":"string"}`: "string | kinds [string] secret false rules []",
		`{"type":["integer","null"],"minimum":1,"maximum":9}`:           "integer or null | kinds [integer] secret false rules [{1 to 9 }]",
		`{"type":"array","items":{"type":"string"},"maxItems":5}`:       "array of string | kinds [array] secret false rules [{at most 5 items }]",
		`{"type":"array","items":{}}`:                                   "array | kinds [array] secret false rules []",
		`{"type":"object","additionalProperties":{"type":"string"}}`:    "object of string | kinds [object] secret false rules []",
		`{"oneOf":[{"type":"string"},{"type":"integer"}]}`:              "string or integer | kinds [string integer] secret false rules []",
		`{"anyOf":[{"type":"string","x-secret":true},{"type":"null"}]}`: "string or null | kinds [string] secret true rules []",
		`{}`:                                "any value | kinds [] secret false rules []",
		`true`:                              "any value | kinds [] secret false rules []",
		`{"type":"string","x-secret":true}`: "string | kinds [string] secret true rules []",
		`{"type":"object","additionalProperties":{"type":"string","x-secret":true}}`:        "object of string | kinds [object] secret true rules []",
		`{"type":"array","items":{"type":"string","x-secret":true}}`:                        "array of string | kinds [array] secret true rules []",
		`{"type":"object","properties":{"key":{"type":"string","x-secret":true}}}`:          "object | kinds [object] secret false rules []",
		`{"type":"string","minLength":1,"maxLength":9,"pattern":"^a"}`:                      "string | kinds [string] secret false rules [{1 to 9 characters } {matches ^a}]",
		`{"type":"number","exclusiveMinimum":0,"exclusiveMaximum":1.5}`:                     "number | kinds [number] secret false rules [{more than 0 } {less than 1.5 }]",
		`{"type":"object","minProperties":1,"patternProperties":{"^x":{"type":"integer"}}}`: "object | kinds [object] secret false rules [{at least 1 fields }]",
	} {
		one := fields(t, `{"type":"object","properties":{"f":`+schema+`}}`)[0]
		if got := fmt.Sprintf("%s | kinds %v secret %v rules %v", one.Type, one.Kinds, one.Secret, one.Rules); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", schema, got, want)
		}
	}
	inner := fields(t, `{"type":"object","properties":{"list":{"type":"array","items":{"type":"object","required":["b"],"properties":{"a":{},"b":{"const":7}}}}}}`)[0].Fields
	if len(inner) != 2 || inner[0].Name != "b" || string(inner[0].Enum[0]) != "7" {
		t.Errorf("fields of items: %+v", inner)
	}
	deep := strings.Repeat(`{"type":"object","properties":{"f":`, 40) + `{}` + strings.Repeat(`}}`, 40)
	for at, depth := fields(t, deep), 0; len(at) > 0; at, depth = at[0].Fields, depth+1 {
		if depth > 8 {
			t.Fatal("a recursive schema is described without a depth limit")
		}
	}
}

func TestUnnamedFieldsAreDescribed(t *testing.T) {
	t.Parallel()
	for schema, want := range map[string]string{
		`{"type":"object"}`: "none",
		`{"type":"object","additionalProperties":false}`:                             "none",
		`{"type":"object","additionalProperties":true}`:                              "any value",
		`{"type":"object","additionalProperties":{"type":"string"}}`:                 "string",
		`{"patternProperties":{"^[0-9]+$":{}},"additionalProperties":false}`:         "any value",
		`{"patternProperties":{"^[0-9]+$":{"type":"string"}},"properties":{"a":{}}}`: "string",
	} {
		object, err := catalog.ReadObject(json.RawMessage(schema))
		got := "none"
		if object.Open != nil {
			got = object.Open.Type
		}
		if err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", schema, got, err, want)
		}
	}
}

func TestReadDependsOnFieldType(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ schema, text, want string }{
		{`{"type":"string"}`, `hello <you>`, `"hello <you>"`},
		{`{"type":"string"}`, `12`, `"12"`},
		{`{"type":"string"}`, `null`, `"null"`},
		{`{"type":"string"}`, `{"a":1}`, `"{\"a\":1}"`},
		{`{"type":["string","null"]}`, `12`, `"12"`},
		{`{"type":"integer"}`, ` 12 `, `12`},
		{`{"type":"integer"}`, `12345678901234567890123`, `12345678901234567890123`},
		{`{"type":"boolean"}`, `true`, `true`},
		{`{"type":"array","items":{}}`, `["a"]`, `["a"]`},
		{`{"type":["string","integer"]}`, `12`, `12`},
		{`{"type":["string","integer"]}`, `latest`, `"latest"`},
		{`{}`, `{"a":1}`, `{"a":1}`},
		{`{}`, `a b`, `"a b"`},
		{`{"type":"integer"}`, `twelve`, ""},
		{`{"type":"object"}`, `{a:1}`, ""},
		{`{"type":"boolean"}`, ``, ""},
	} {
		field := fields(t, `{"type":"object","properties":{"f":`+c.schema+`}}`)[0]
		got, err := field.Read(c.text)
		if (err != nil) != (c.want == "") || string(got) != c.want {
			t.Errorf("%s %q: %s, %v; want %s", c.schema, c.text, got, err, c.want)
		}
		if err != nil {
			continue
		}
		if back, err := field.Read(field.Write(got)); err != nil || string(back) != string(got) {
			t.Errorf("%s: %s: Write returns %q, which Read turns into %s, %v", c.schema, got, field.Write(got), back, err)
		}
	}
}

// The error contains the expected type and the text, but never the text of a secret field.
func TestReadErrorNamesExpectedType(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ schema, text, want string }{
		{`{"type":"integer"}`, "abc", `expected integer as JSON; got "abc"`},
		{`{"type":"integer","examples":[32]}`, "é" + strings.Repeat("x", 60), `expected integer as JSON, such as 32; got "\u00e9` + strings.Repeat("x", 47) + `"...`},
		{`{"type":"boolean"}`, "", "expected boolean as JSON; got an empty value"},
		{`{"type":"integer","x-secret":true}`, "hunter2", "expected integer as JSON; got a value that is hidden, because the field is secret"},
	} {
		field := fields(t, `{"type":"object","properties":{"f":`+c.schema+`}}`)[0]
		if _, err := field.Read(c.text); err == nil || err.Error() != c.want {
			t.Errorf("%s %q: %v, want %s", c.schema, c.text, err, c.want)
		}
	}
}

func TestReadableJSONHasNoHTMLEscapes(t *testing.T) {
	t.Parallel()
	const hidden, plain = `{ "a": "\u003cb\u003E \u0026 \\u003c \n \u00e9" }`, `{"a":"<b> & \\u003c \n \u00e9"}`
	if got := catalog.Readable(json.RawMessage(hidden)); got != plain {
		t.Errorf("got %s, want %s", got, plain)
	}
	if got := catalog.Indented(json.RawMessage(hidden)); !strings.Contains(got, "\n  \"a\": \"<b>") {
		t.Errorf("got %s", got)
	}
}

// The registry accepts the sample call of every module, and its weft command sets each field of
// the sample.
func TestSampleCallsAreValid(t *testing.T) {
	t.Parallel()
	guard := egress.New(egress.Policy{})
	t.Cleanup(guard.Close)
	registry, err := component.NewRegistry(modules.All(guard)...)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range library(t).All() {
		input, config := catalog.Sample(c)
		if err := registry.Check(c.Module, input, config); err != nil {
			t.Errorf("%s: sample %s %s is invalid: %v", c.Module, input, config, err)
		}
		line := catalog.CallLine(c)
		if !slices.Contains(c.ExecutionModes, api.ExecutionModeCOMPONENT) {
			if line != "" {
				t.Errorf("%s has the command %s, but can't be called", c.Module, line)
			}
			continue
		}
		for _, part := range []json.RawMessage{input, config} {
			var members map[string]any
			if err := json.Unmarshal(part, &members); err != nil {
				t.Fatal(err)
			}
			for name := range members {
				if !strings.Contains(line, " "+name+"=") && !strings.Contains(line, " config."+name+"=") {
					t.Errorf("%s: field %s is missing in %s", c.Module, name, line)
				}
			}
		}
	}
}

// The examples of a module match the types in the dialect.
func TestDialectMatchesExamplesOfAllModules(t *testing.T) {
	t.Parallel()
	c := library(t)
	for _, system := range system(t, c) {
		one, _ := c.Get(system.Module)
		types := map[string]api.DialectSchema{}
		several := map[string]bool{} // the dialect has only the first of several types: the type of the first example
		for _, p := range system.Inputs.Parameters {
			types["input "+p.Name] = p.Schema
			var typed struct{ Type []string }
			several["input "+p.Name] = json.Unmarshal(p.JSONSchema, &typed) == nil && len(typed.Type) > 1
			if empty := reflect.DeepEqual(p.Schema, api.DialectSchema{}); !p.Required && !empty {
				t.Errorf("%s: the optional input %s has a type, so generators require it", system.Module, p.Name)
			}
		}
		for name, schema := range system.Configs.Properties {
			types["config "+name] = schema
		}
		for _, r := range system.Outputs.Response {
			types["output "+r.Name] = r.Schema
		}
		seen := 0
		for part, schema := range map[string]json.RawMessage{"input": one.Input, "config": one.Config, "output": one.Output} {
			for _, f := range fields(t, string(schema)) {
				seen++
				for i, example := range f.Examples {
					value, err := plain(example)
					if err != nil {
						t.Fatal(err)
					}
					if why := misfit(types[part+" "+f.Name], value); why != "" && !(several[part+" "+f.Name] && i > 0) {
						t.Errorf("%s %s.%s: example %s %s", system.Module, part, f.Name, example, why)
					}
				}
			}
		}
		if seen != len(types) {
			t.Errorf("%s has %d fields, but %d in the dialect", system.Module, seen, len(types))
		}
	}
}

// Some generators treat every input with a type as required. Their clients can call every component
// with its required inputs only.
func TestRequiredInputsSufficeForEveryComponent(t *testing.T) {
	t.Parallel()
	guard := egress.New(egress.Policy{})
	t.Cleanup(guard.Close)
	registry, err := component.NewRegistry(modules.All(guard)...)
	if err != nil {
		t.Fatal(err)
	}
	c := library(t)
	for _, system := range system(t, c) {
		one, _ := c.Get(system.Module)
		sampleInput, sampleConfig := catalog.Sample(one)
		input, config := map[string]json.RawMessage{}, map[string]json.RawMessage{}
		for _, p := range system.Inputs.Parameters {
			if p.Required || p.Schema.Type != nil {
				input[p.Name] = sampleOf(t, sampleInput, p.Name)
			}
		}
		for _, name := range system.Configs.Required {
			config[name] = sampleOf(t, sampleConfig, name)
		}
		if err := registry.Check(system.Module, encoded(t, input), encoded(t, config)); err != nil {
			t.Errorf("%s rejects %s %s: %v", system.Module, encoded(t, input), encoded(t, config), err)
		}
	}
}

func sampleOf(t *testing.T, sample json.RawMessage, name string) json.RawMessage {
	t.Helper()
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(sample, &fields); err != nil || fields[name] == nil {
		t.Fatalf("%s has no %s (%v)", sample, name, err)
	}
	return fields[name]
}

func encoded(t *testing.T, value any) json.RawMessage {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Validators in other languages compile the patterns of the catalogue. JavaScript has no inline
// flags, no named groups in Python syntax and no Go anchors.
func TestPatternsAreValidInJavaScript(t *testing.T) {
	t.Parallel()
	foreign := regexp.MustCompile(`\(\?[a-zA-Z^-]|\\[AzZQEaCpP]|\[\[:`)
	seen := 0
	for _, c := range library(t).All() {
		for _, schema := range []json.RawMessage{c.Input, c.Config, c.Output} {
			var value any
			if err := json.Unmarshal(schema, &value); err != nil {
				t.Fatal(err)
			}
			eachPattern(value, func(pattern string) {
				seen++
				if found := foreign.FindString(pattern); found != "" {
					t.Errorf("%s: pattern %s has %q, which JavaScript doesn't support", c.Module, pattern, found)
				}
			})
		}
	}
	if seen < 20 {
		t.Errorf("found only %d patterns", seen)
	}
}

func eachPattern(node any, visit func(string)) {
	switch node := node.(type) {
	case map[string]any:
		for name, child := range node {
			if pattern, ok := child.(string); ok && name == "pattern" {
				visit(pattern)
			}
			if rules, ok := child.(map[string]any); ok && name == "patternProperties" {
				for pattern := range rules {
					visit(pattern)
				}
			}
			if name != "examples" && name != "default" {
				eachPattern(child, visit)
			}
		}
	case []any:
		for _, child := range node {
			eachPattern(child, visit)
		}
	}
}

func plain(raw json.RawMessage) (value any, err error) {
	decoder := json.NewDecoder(strings.NewReader(string(raw)))
	decoder.UseNumber()
	err = decoder.Decode(&value)
	return value, err
}

// misfit returns why a value is invalid for the schema, or "" if it is valid.
func misfit(s api.DialectSchema, value any) string {
	if s.Type == nil {
		return ""
	}
	ok := false
	switch value := value.(type) {
	case string:
		digits := strings.TrimPrefix(value, "-")
		ok = *s.Type == api.DialectTypeString || *s.Type == api.DialectTypeBigint && digits != "" && strings.Trim(digits, "0123456789") == ""
	case json.Number:
		ok = *s.Type == api.DialectTypeNumber || *s.Type == api.DialectTypeBigint && !strings.ContainsAny(value.String(), ".eE")
	case bool:
		ok = *s.Type == api.DialectTypeBoolean
	case nil:
		ok = s.Nullable != nil && *s.Nullable
	case []any:
		ok = *s.Type == api.DialectTypeArray
		for _, item := range value {
			if ok && s.Items != nil {
				if why := misfit(*s.Items, item); why != "" {
					return "has an item that " + why
				}
			}
		}
	case map[string]any:
		ok = *s.Type == api.DialectTypeObject
		for name, member := range value {
			if property, known := s.Properties[name]; known {
				if why := misfit(property, member); why != "" {
					return "has a member " + name + " that " + why
				}
			}
		}
		for _, name := range s.Required {
			if _, there := value[name]; !there {
				return "lacks " + name
			}
		}
	}
	if !ok {
		return fmt.Sprintf("is no %s", *s.Type)
	}
	return ""
}
