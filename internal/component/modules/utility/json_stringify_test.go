package utility

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/componenttest"
)

// The expected strings are from JSON.stringify of Node 20, for values that a double represents
// exactly.
func TestJSONStringifyMatchesJavaScript(t *testing.T) {
	t.Parallel()
	bench := componenttest.New(t, jsonStringify{})
	const value = `{"b":[1,2,{}],"a":null,"c":{"d":"x\n\"y\" <é>","e":[]},"":true}`
	for options, want := range map[string]string{
		``:                            value,
		`,"indent":0`:                 value,
		`,"indent":2`:                 "{\n  \"b\": [\n    1,\n    2,\n    {}\n  ],\n  \"a\": null,\n  \"c\": {\n    \"d\": \"x\\n\\\"y\\\" <é>\",\n    \"e\": []\n  },\n  \"\": true\n}",
		`,"sortKeys":true`:            `{"":true,"a":null,"b":[1,2,{}],"c":{"d":"x\n\"y\" <é>","e":[]}}`,
		`,"sortKeys":true,"indent":1`: "{\n \"\": true,\n \"a\": null,\n \"b\": [\n  1,\n  2,\n  {}\n ],\n \"c\": {\n  \"d\": \"x\\n\\\"y\\\" <é>\",\n  \"e\": []\n }\n}",
	} {
		gives(t, bench, "JSON_STRINGIFY", `{"value": `+value+options+`}`, textOf(t, want))
	}
	for _, scalar := range []string{`null`, `true`, `"a"`, `0`, `[]`, `{}`} {
		gives(t, bench, "JSON_STRINGIFY", `{"value":`+scalar+`,"indent":4}`, textOf(t, scalar))
	}
}

// textOf returns the output for a JSON text, without escaping <, > and &.
func textOf(t *testing.T, text string) string {
	t.Helper()
	result, err := component.Encode(map[string]string{"text": text})
	if err != nil {
		t.Fatal(err)
	}
	return string(result.Output)
}

func TestJSONStringifyKeepsNumbersExact(t *testing.T) {
	t.Parallel()
	bench := componenttest.New(t, jsonStringify{})
	for _, number := range []string{"115792089237316195423570985008687907853269984665640564039457", "12345678901234567890.000000001", "1.10", "-0", "1e2", "1E-7", "9007199254740993"} {
		for _, options := range []string{``, `,"sortKeys":true`, `,"indent":2`} {
			gives(t, bench, "JSON_STRINGIFY", `{"value":`+number+options+`}`, textOf(t, number))
		}
	}
}

// In UTF-8 byte order, U+FFFD sorts before U+1F600. In JavaScript's UTF-16 order, it sorts after.
func TestJSONStringifySortsByBytes(t *testing.T) {
	t.Parallel()
	bench := componenttest.New(t, jsonStringify{})
	gives(t, bench, "JSON_STRINGIFY", `{"value":{"\ud83d\ude00":1,"\ufffd":2,"é":3,"z":4,"aa":5,"B":6,"a":{"y":1,"x":2}},"sortKeys":true}`,
		textOf(t, `{"B":6,"a":{"x":2,"y":1},"aa":5,"z":4,"é":3,"`+"\ufffd"+`":2,"`+"\U0001f600"+`":1}`))
}

// ECMAScript doesn't escape line and paragraph separators (ECMA-262, QuoteJSONString).
func TestJSONStringifyDoesNotEscapeLineSeparators(t *testing.T) {
	t.Parallel()
	bench := componenttest.New(t, jsonStringify{})
	for _, options := range []string{``, `,"sortKeys":true`} {
		for _, written := range []string{"{\"\u2028\":\"a\u2029\"}", `{"\u2028":"a\u2029"}`} {
			output, failed := bench.Run(t, "JSON_STRINGIFY", `{"value":`+written+options+`}`, `{}`)
			var got struct{ Text string }
			if failed != nil || json.Unmarshal(output, &got) != nil || got.Text != "{\"\u2028\":\"a\u2029\"}" {
				t.Errorf("%s%s: %q, %v", written, options, got.Text, failed)
			}
		}
	}
	gives(t, bench, "JSON_STRINGIFY", `{"value":"\\u2028\\\\u2029","sortKeys":true}`, textOf(t, `"\\u2028\\\\u2029"`))
}

func TestJSONStringifyErrorNamesField(t *testing.T) {
	t.Parallel()
	bench := componenttest.New(t, jsonStringify{})
	refuses(t, bench, "JSON_STRINGIFY", `{}`, "/input/value", "is required")
	refuses(t, bench, "JSON_STRINGIFY", `{"value":1,"indent":9}`, "/input/indent", "at most 8", "got 9")
	refuses(t, bench, "JSON_STRINGIFY", `{"value":1,"indent":-1}`, "/input/indent", "at least 0", "got -1")
	refuses(t, bench, "JSON_STRINGIFY", `{"value":1,"indent":"\t"}`, "/input/indent", "must be an integer", "string")
	refuses(t, bench, "JSON_STRINGIFY", `{"value":1,"sortKeys":"yes"}`, "/input/sortKeys", "must be a boolean", "string")
}

func TestJSONStringifyIsBounded(t *testing.T) {
	t.Parallel()
	bench := componenttest.New(t, jsonStringify{})
	deep := strings.Repeat("[", 62) + "0" + strings.Repeat(",0", 90_000) + strings.Repeat("]", 62)
	_, failed := bounded(t, bench, "JSON_STRINGIFY", `{"value":`+deep+`,"indent":8}`)
	if failed == nil || failed.Code != component.CodeOutputTooLarge || !strings.Contains(failed.Message, "smaller indent") {
		t.Errorf("indented: %v", failed)
	}
	if _, failed := bounded(t, bench, "JSON_STRINGIFY", `{"value":`+deep+`,"sortKeys":true}`); failed != nil {
		t.Errorf("compact: %v", failed)
	}
	quotes, _ := json.Marshal(strings.Repeat(`"`, 500_000))
	if _, failed := bounded(t, bench, "JSON_STRINGIFY", `{"value":`+string(quotes)+`}`); failed == nil || failed.Code != component.CodeOutputTooLarge {
		t.Errorf("quotes: %v", failed)
	}
}

// The estimate is never smaller than the actual size.
func FuzzIndentedSize(f *testing.F) {
	f.Add(`{"a":[1,{"b":"\\\"[,"}],"c":[]}`, 2)
	f.Add(`[[],{},""]`, 8)
	f.Fuzz(func(t *testing.T, text string, indent int) {
		if indent < 1 || indent > maxIndent || !json.Valid([]byte(text)) {
			return
		}
		compact, err := sortedKeys([]byte(text))
		if err != nil {
			return
		}
		out, err := indented(compact, indent)
		if size := indentedSize(compact, indent); err == nil && len(out) > size {
			t.Errorf("%s has %d bytes, %d were expected at most", out, len(out), size)
		}
	})
}
