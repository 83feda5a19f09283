package jsonschema_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/kit/jsonschema"
)

// Each line is a schema, a value and the converted value. An error starts with !.
func TestConvert(t *testing.T) {
	t.Parallel()
	const integer, number, text, flag = `{"type":"integer"}`, `{"type":"number"}`, `{"type":"string"}`, `{"type":"boolean"}`
	long := strings.Repeat("9", 100)
	for _, c := range []struct{ schema, value, want string }{
		{integer, `7`, `7`},
		{integer, `"7"`, `7`},
		{integer, `"-7"`, `-7`},
		{integer, `"` + long + `"`, long},
		{integer, `"` + long + `9"`, `!it is a string, but an integer is expected (the string is not a decimal integer)`},
		{integer, `"007"`, `!it is a string, but an integer is expected (the string is not a decimal integer)`},
		{integer, `"+7"`, `!it is a string, but an integer is expected (the string is not a decimal integer)`},
		{integer, `"-0"`, `!it is a string, but an integer is expected (the string is not a decimal integer)`},
		{integer, `" 7"`, `!it is a string, but an integer is expected (the string is not a decimal integer)`},
		{integer, `"7.0"`, `!it is a string, but an integer is expected (the string is not a decimal integer)`},
		{integer, `"0x7"`, `!it is a string, but an integer is expected (the string is not a decimal integer)`},
		{integer, `""`, `!it is a string, but an integer is expected (the string is not a decimal integer)`},
		{integer, `7.0`, `7.0`},
		{integer, `7e2`, `7e2`},
		{integer, `7.5`, `!it is a number, but an integer is expected`},
		{integer, `75e-1`, `!it is a number, but an integer is expected`},
		{integer, `true`, `!it is a boolean, but an integer is expected`},
		{integer, `null`, `!it is null, but an integer is expected`},
		{number, `"7"`, `7`},
		{number, `"7.5"`, `!it is a string, but a number is expected (the string is not a decimal integer)`},
		{text, `"7"`, `"7"`},
		{text, `7`, `"7"`},
		{text, `7.0`, `"7"`},
		{text, `-7.50`, `"-7.5"`},
		{text, `1.25e3`, `"1250"`},
		{text, `125e-4`, `"0.0125"`},
		{text, `-0`, `"0"`},
		{text, `0.000`, `"0"`},
		{text, `0e999999999999`, `"0"`},
		{text, `12345678901234567890123456789`, `"12345678901234567890123456789"`},
		{text, `1e400`, `"1` + strings.Repeat("0", 400) + `"`},
		{text, `1e401`, `!it is an integer, but a string is expected`},
		{text, `1e-401`, `!it is a number, but a string is expected`},
		{text, `1e99999999999999999999`, `!it is an integer, but a string is expected`},
		{text, `1e-99999999999999999999`, `!it is a number, but a string is expected`},
		{text, `true`, `!it is a boolean, but a string is expected`},
		{text, `{}`, `!it is an object, but a string is expected`},
		{flag, `"true"`, `!it is a string, but a boolean is expected`},
		{flag, `1`, `!it is an integer, but a boolean is expected`},
		{`{"type":["string","null"]}`, `null`, `null`},
		{`{"type":["string","null"]}`, `5`, `"5"`},
		{`{"type":["string","integer"]}`, `5`, `5`},
		{`{"type":["string","integer"]}`, `"5"`, `"5"`},
		{`{"type":"null"}`, `5`, `!it is an integer, but null is expected`},
		{``, `{"a": 1}`, `{"a": 1}`},
		{`true`, `[1]`, `[1]`},
		{`{}`, ` 1.50`, ` 1.50`},
		{`{`, `1`, `1`},
		{`false`, `1`, `!it is an integer, but nothing is expected`},
		{`{"type":"object"}`, `{"a": 1.0}`, `{"a": 1.0}`},
		{`{"type":"array","items":{"type":"string"}}`, `[1, "2", 3.5]`, `["1","2","3.5"]`},
		{`{"type":"array","items":{"type":"string"}}`, `[ "2" ]`, `[ "2" ]`},
		{`{"type":"array","items":{"type":"string"}}`, `["1", true]`, `!it is a boolean at "1", but a string is expected`},
		{`{"type":"array","prefixItems":[{"type":"string"}],"items":{"type":"integer"}}`, `[1,"2",3]`, `["1",2,3]`},
		{`{"properties":{"a":{"properties":{"b":{"type":"integer"}}}},"additionalProperties":{"type":"string"}}`, `{"a":{"b":"5","c":6},"d":"<7>","e":8}`, `{"a":{"b":5,"c":6},"d":"<7>","e":"8"}`},
		{`{"properties":{"a":{"items":{"properties":{"b":{"type":"integer"}}}}}}`, `{"a":[{"b":1},{"b":"x"}]}`, `!it is a string at "a.1.b", but an integer is expected (the string is not a decimal integer)`},
		{`{"type":"object","properties":{},"additionalProperties":false}`, `{"a":1}`, `{"a":1}`},
		{`{"patternProperties":{"^a":{"type":"integer"}},"additionalProperties":{"type":"string"}}`, `{"a":1}`, `{"a":1}`},
		{`{"anyOf":[{"type":"string"},{"type":"null"}]}`, `5`, `"5"`},
		{`{"anyOf":[{"items":{"type":"string"}},{"items":{"type":"integer"}}]}`, `[5]`, `[5]`},
		{`{"oneOf":[{"type":"array","items":{"type":"boolean"}},{"type":"array","items":{"type":"string"}}]}`, `[5]`, `["5"]`},
		{`{"oneOf":[{"type":"array","items":{"type":"boolean"}},{"type":"array","items":{"type":"null"}}]}`, `[5]`, `!it is an integer at "0", but null is expected`},
		{`{"allOf":[{"properties":{"a":{"type":"string"}}},{"properties":{"b":{"type":"string"}}}]}`, `{"a":1,"b":2}`, `{"a":"1","b":"2"}`},
		{`{"allOf":[{"type":["string","integer"]},{"type":["string","null"]}]}`, `1`, `"1"`},
		{`{"enum":["1","2"]}`, `1`, `"1"`},
		{`{"const":1}`, `"1"`, `1`},
		{`{"$ref":"#/$defs/a~1b","$defs":{"a/b":{"type":"string"}}}`, `1`, `"1"`},
		{`{"$ref":"https://example.com/schema"}`, `1`, `1`},
		{text, `nonsense`, `!it is not JSON: invalid character 'o' in literal null (expecting 'u')`},
	} {
		schema, _ := jsonschema.Parse(json.RawMessage(c.schema)) // nil, which allows any value, if the text is not JSON
		got, err := schema.Convert(json.RawMessage(c.value))
		shown := string(got)
		if err != nil {
			shown = "!" + err.Error()
		}
		if shown != c.want {
			t.Errorf("%s for %s: %s, want %s", c.value, c.schema, shown, c.want)
		}
	}
}
