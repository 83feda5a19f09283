package utility

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/weft-automation/weft/internal/component/componenttest"
	"github.com/weft-automation/weft/internal/kit/strictjson"
)

// The first two texts are from RFC 8259, section 13.
func TestJSONParseReturnsTheValue(t *testing.T) {
	t.Parallel()
	bench := componenttest.New(t, jsonParse{})
	for text, want := range map[string]string{
		"{\n\"Image\": {\"Width\": 800, \"Title\": \"View from 15th Floor\", \"Animated\" : false, \"IDs\": [116, 943, 234, 38793]}\n}": `{"Image":{"Width":800,"Title":"View from 15th Floor","Animated":false,"IDs":[116,943,234,38793]}}`,
		`[{"precision": "zip", "Latitude": 37.7668, "Longitude": -122.3959}]`:                                                           `[{"precision":"zip","Latitude":37.7668,"Longitude":-122.3959}]`,
		` null `:                    `null`,
		"\t true\r\n":               `true`,
		`"a\u00e9\/b"`:              `"a\u00e9\/b"`,
		`{}`:                        `{}`,
		`""`:                        `""`,
		`"<b>&amp;"`:                `"<b>&amp;"`,
		`{"z":1,"a":{"y":2,"b":3}}`: `{"z":1,"a":{"y":2,"b":3}}`,
	} {
		gives(t, bench, "JSON_PARSE", object(t, "text", text), `{"value":`+want+`}`)
	}
}

// Numbers keep their notation, including zeros and exponents.
func TestJSONParseKeepsNumbersExact(t *testing.T) {
	t.Parallel()
	bench := componenttest.New(t, jsonParse{})
	for _, number := range []string{
		"115792089237316195423570985008687907853269984665640564039457", "12345678901234567890.000000001", "0.1", "1.10", "-0", "1e2", "1E-7",
		"9007199254740993", "-9223372036854775809",
	} {
		gives(t, bench, "JSON_PARSE", object(t, "text", number), `{"value":`+number+`}`)
		gives(t, bench, "JSON_PARSE", object(t, "text", `[{"n": `+number+`}]`), `{"value":[{"n":`+number+`}]}`)
	}
}

func TestJSONParseErrorHasReasonAndPointer(t *testing.T) {
	t.Parallel()
	bench := componenttest.New(t, jsonParse{})
	refuses(t, bench, "JSON_PARSE", `{}`, "/input/text", "is required")
	refuses(t, bench, "JSON_PARSE", `{"text":{"a":1}}`, "/input/text", "must be a string", "object")
	refuses(t, bench, "JSON_PARSE", `{"text":""}`, "/input/text", "at least 1 character")
	for text, words := range map[string][]string{
		" ":                       {"the JSON text is incomplete"},
		"hello":                   {"not JSON"},
		`{'a':1}`:                 {"quotation marks"},
		`{"a":1,}`:                {"quotation marks"},
		`[1,2`:                    {"the JSON text is incomplete"},
		`[1] 2`:                   {"after the JSON value"},
		`{"a":{"b":1,"b":2}}`:     {"twice", "at /a/b"},
		`{"value":{"b":1,"b":2}}`: {"twice", "at /value/b"},
		`[NaN]`:                   {"not JSON"},
		`[01]`:                    {"at /0"},
		"\ufeff{}":                {"byte order mark"},
		`"\ud800"`:                {"text must be"},
		`"a` + "\n" + `"`:         {"control character"},
		strings.Repeat("1", 65):   {"64"},
		`"\u0000"`:                {"text must be"},
		nested(64):                {"nesting is deeper than 64"},
		nested(65):                {"nesting is deeper than 64"},
		"[0" + strings.Repeat(",0", 100_000-1) + "]": {"more than 100000 values"},
	} {
		refuses(t, bench, "JSON_PARSE", object(t, "text", text), append(words, "text must be valid, unambiguous JSON")...)
	}
	if output, failed := bench.Run(t, "JSON_PARSE", object(t, "text", nested(63)), `{}`); failed != nil {
		t.Errorf("63 levels: %s, %v", output, failed)
	}
	if _, failed := bounded(t, bench, "JSON_PARSE", object(t, "text", "[0"+strings.Repeat(",0", 99_998)+"]")); failed != nil {
		t.Errorf("99,999 items: %v", failed)
	}
}

func nested(levels int) string { return strings.Repeat("[", levels) + strings.Repeat("]", levels) }

// FuzzJSONParse checks that any text that JSON_PARSE accepts is returned with its value unchanged.
func FuzzJSONParse(f *testing.F) {
	for _, text := range []string{`{"a":[1,2.50,{"b":null}]}`, "1e400", `"\ud83d\ude00"`, " [ ] ", nested(64), `{"value":{"value":0}}`} {
		f.Add(text)
	}
	bench := componenttest.New(f, jsonParse{})
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) {
			return // JSON can't contain such a string
		}
		output, failed := bench.Run(t, "JSON_PARSE", object(t, "text", text), `{}`)
		if failed != nil {
			return
		}
		var got struct{ Value json.RawMessage }
		if err := json.Unmarshal(output, &got); err != nil {
			t.Fatal(err)
		}
		if want := strictjson.Compact([]byte(text)); !bytes.Equal(got.Value, want) {
			t.Errorf("%q gave %s, want %s", text, got.Value, want)
		}
	})
}
