package component

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestCallersSchemaIsCompiledOrExplained(t *testing.T) {
	for schema, want := range map[string]string{
		`{"type":"object","properties":{"a":{"$ref":"#/$defs/n"},"b":{"$ref":"#/$defs/n"}},"$defs":{"n":{"type":"number"}}}`: "",
		`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object"}`:                                         "",
		`true`:                        "",
		`{"type":"text"}`:             `/inputSchema/type must be one of "array", "boolean", "integer", "null", "number", "object", "string"`,
		`{"properties":7}`:            "/inputSchema/properties must be an object, got a number",
		`{"pattern":"("}`:             "/inputSchema/pattern must be a valid regex",
		`{"$ref":"#/$defs/none"}`:     "/inputSchema is not a valid JSON Schema",
		`{"$ref":"https://x.test/y"}`: "/inputSchema refers to another document",
		`{"$ref":"#anchor"}`:          "/inputSchema refers to another document",
		`{"$ref":"#"}`:                "/inputSchema has a recursive reference",
		`{"$id":"https://x.test/"}`:   "/inputSchema must not have $id",
		`{"$schema":"http://json-schema.org/draft-07/schema#"}`:                                                            "/inputSchema must not have $schema",
		`{"items":{"$ref":"#/$defs/a"},"$defs":{"a":{"items":{"$ref":"#/$defs/b"}},"b":{"items":{"$ref":"#/%24defs/a"}}}}`: "/inputSchema has a recursive reference",
		`{"properties":{"$id":{"type":"string"}}}`:                                                                         "",
		`{"pattern":"((a?){30}){33}((b?){30}){33}((c?){30}){33}"}`:                                                         "/inputSchema is too large",
		doubling(30): "/inputSchema is too large",
	} {
		compiled, details := NewSchema("/inputSchema", json.RawMessage(schema))
		var got string
		if len(details) > 0 {
			got = details[0].Pointer + " " + details[0].Message
		}
		if (compiled == nil) == (want == "") || !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%.80s: %v, %q, want %q", schema, compiled != nil, got, want)
		}
	}
}

// doubling returns a small schema that needs 2^n steps to check.
func doubling(n int) string {
	var defs strings.Builder
	for i := range n {
		next := string(rune('a'+i%26)) + strings.Repeat("x", (i+1)/26)
		after := string(rune('a'+(i+1)%26)) + strings.Repeat("x", (i+2)/26)
		defs.WriteString(`"` + next + `":{"allOf":[{"$ref":"#/$defs/` + after + `"},{"$ref":"#/$defs/` + after + `"}]},`)
	}
	last := string(rune('a'+n%26)) + strings.Repeat("x", (n+1)/26)
	return `{"$ref":"#/$defs/a","$defs":{` + defs.String() + `"` + last + `":{"type":"object"}}}`
}

func TestDataIsCheckedAgainstCallersSchema(t *testing.T) {
	schema, details := NewSchema("", json.RawMessage(`{"type":"object","properties":{"accounts":{"type":"array","items":{"type":"string"}}},"required":["accounts"]}`))
	if details != nil {
		t.Fatal(details)
	}
	for data, want := range map[string]string{
		`{"accounts":["a"],"more":1}`: "",
		`{}`:                          "/input/accounts is required: expected an array",
		`{"accounts":["a",7]}`:        "/input/accounts/1 must be a string, got a number",
	} {
		var got []string
		for _, d := range schema.Check("/input", json.RawMessage(data)) {
			got = append(got, d.Pointer+" "+d.Message)
		}
		if strings.Join(got, "; ") != want {
			t.Errorf("%s: %q, want %q", data, got, want)
		}
	}
}

// The cost of a check is limited for any sizes of schema and data.
func TestCheckIsBounded(t *testing.T) {
	branches := strings.TrimSuffix(strings.Repeat(`{"type":"string","minLength":2},`, 900), ",")
	schema, details := NewSchema("", json.RawMessage(`{"type":"array","items":{"anyOf":[`+branches+`]}}`))
	if details != nil {
		t.Fatal(details)
	}
	for _, items := range []int{10, 500_000} {
		faults := schema.Check("/input", json.RawMessage(`[`+strings.TrimSuffix(strings.Repeat("1,", items), ",")+`]`))
		if len(faults) == 0 {
			t.Errorf("%d items: no faults", items)
		}
	}
}

// Faults don't quote values that a caller's schema marks as secret. If the path of a mark is
// unknown, all fields are hidden.
func TestSecretsOfCallersSchemaAreNotQuoted(t *testing.T) {
	t.Parallel()
	const unseen = "got a string that is not shown because it is secret"
	for raw, want := range map[string]struct{ secret, told string }{
		`{"properties":{"a":{"type":"string","maxLength":3,"x-secret":true},"b":{"enum":["x"]},"more":{"items":{"x-secret":true}}}}`: {"/a /more/*",
			`/input/a must have at most 3 characters, got 17; /input/b must be one of "x", ` + unseen},
		`{"properties":{"a":{"$ref":"#/$defs/s"},"b":{"enum":["x"]}},"$defs":{"s":{"type":"string","maxLength":3,"x-secret":true}}}`: {AllMembers,
			`/input/a must have at most 3 characters, got 17; /input/b must be one of "x", ` + unseen},
		`{"properties":{"a":{"type":"string","maxLength":3,"x-secret":true},"b":{"$ref":"#/properties/a"}}}`: {AllMembers,
			`/input/a must have at most 3 characters, got 17; /input/b must have at most 3 characters, got 17`},
		`{"type":"object","x-secret":true,"properties":{"a":{"const":"x"},"b":{"enum":["x"]}}}`: {AllMembers,
			`/input/a must be "x", ` + unseen + `; /input/b must be one of "x", ` + unseen},
		`{"properties":{"a":{"type":"string"}}}`: {"", ""},
	} {
		schema, details := NewSchema("/inputSchema", json.RawMessage(raw))
		if details != nil {
			t.Fatalf("%s: %v", raw, details)
		}
		if got := strings.Join(schema.SecretPaths(), " "); got != want.secret {
			t.Errorf("%s: secret are %q, want %q", raw, got, want.secret)
		}
		var told []string
		for _, d := range schema.Check("/input", json.RawMessage(`{"a":"the secret itself","b":"the secret itself"}`)) {
			told = append(told, d.Pointer+" "+d.Message)
		}
		if got := strings.Join(told, "; "); got != want.told {
			t.Errorf("%s: %q, want %q", raw, got, want.told)
		}
		if shown := string(Redact(json.RawMessage(`{"a":"the secret itself"}`), schema.SecretPaths())); want.secret != "" && shown != `{"a":"[redacted]"}` {
			t.Errorf("%s: it is shown as %s", raw, shown)
		}
	}
}

// FuzzSchemas validates arbitrary data with arbitrary schemas. A schema must be compiled or
// rejected with an explanation, the result must be deterministic, and each fault must have a
// pointer below the given pointer.
func FuzzSchemas(f *testing.F) {
	for _, schema := range []string{
		`{"type":"object","required":["a"],"properties":{"a":{"type":"string","pattern":"^[0-9]+$","x-secret":true}}}`, `{"oneOf":[{"required":["a"]},{"$ref":"#/$defs/b"}],"$defs":{"b":{"const":{"b":[1,2]}}}}`,
		`{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#"}}}`, `{"items":{"format":"date-time"},"uniqueItems":true}`, `{"type":"objekt"}`, `true`, `{`, doubling(5),
	} {
		f.Add(schema, `{"a":"12","b":[1,{"c":null}]}`)
	}
	f.Fuzz(func(t *testing.T, schema, data string) {
		compiled, faults := NewSchema("/given", json.RawMessage(schema))
		if (compiled == nil) != (len(faults) > 0) {
			t.Fatalf("%q: %v, %+v", schema, compiled, faults)
		}
		if compiled != nil {
			faults = compiled.Check("/given", json.RawMessage(data))
			if again := compiled.Check("/given", json.RawMessage(data)); len(again) != len(faults) {
				t.Errorf("%q by %q: %+v, then %+v", data, schema, faults, again)
			}
		}
		for _, fault := range faults {
			if fault.Pointer != "/given" && !strings.HasPrefix(fault.Pointer, "/given/") || fault.Message == "" || fault.Code == "" {
				t.Errorf("%q by %q: %+v", data, schema, fault)
			}
		}
	})
}
