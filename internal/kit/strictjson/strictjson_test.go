package strictjson_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/strictjson"
)

// expect checks that err is INVALID_INPUT at pointer, or nil if pointer is "ok".
func expect(t *testing.T, err error, pointer string) {
	t.Helper()
	if pointer == "ok" {
		if err != nil {
			t.Errorf("refused: %v", err)
		}
		return
	}
	f, ok := errors.AsType[*fault.Error](err)
	if !ok || f.Code != fault.InvalidInput || len(f.Details) != 1 {
		t.Fatalf("error %v, want INVALID_INPUT with one detail", err)
	}
	if f.Details[0].Pointer != pointer {
		t.Errorf("pointer %q, want %q (%s)", f.Details[0].Pointer, pointer, f.Message)
	}
}

func TestAU05SamplesKeepTheirTokens(t *testing.T) {
	text, err := os.ReadFile("../../secret/signature/testdata/requests.json")
	if err != nil {
		t.Fatal(err)
	}
	var given struct {
		Requests []struct{ Name, Body, SignedBody string }
	}
	if err := json.Unmarshal(text, &given); err != nil {
		t.Fatal(err)
	}
	refused := map[string]string{"duplicate keys": "/a", "lone surrogate": "/a"}
	samples := 0
	for _, r := range given.Requests {
		name, spaced := strings.CutSuffix(r.Name, ", spaced")
		if !spaced {
			continue
		}
		samples++
		t.Run(name, func(t *testing.T) {
			if got := strictjson.Compact([]byte(r.Body)); string(got) != r.SignedBody {
				t.Errorf("Compact = %s, want %s", got, r.SignedBody)
			}
			pointer := "ok"
			if at, bad := refused[name]; bad {
				pointer = at
			}
			expect(t, strictjson.Check([]byte(r.Body)), pointer)
			expect(t, strictjson.Check([]byte(r.SignedBody)), pointer)
		})
	}
	if samples != 17 {
		t.Errorf("%d samples, want 17", samples)
	}
}

func TestAU06AmbiguousJSONIsRejected(t *testing.T) {
	cases := []struct{ name, text, pointer string }{
		{"object", `{"a":1}`, "ok"},
		{"white space around", " \t\r\n{ } \n", "ok"},
		{"same key in two objects", `{"a":{"k":1},"b":{"k":2},"k":[{"k":3},{"k":4}]}`, "ok"},
		{"duplicate key", `{"x":{"a":1,"b":2,"a":3}}`, "/x/a"},
		{"duplicate key, escaped", `{"a":1,"\u0061":2}`, "/a"},
		{"duplicate empty key", `{"":1,"":2}`, "/"},
		{"duplicate key with slash and tilde", `{"a/~b":1,"a\/~b":2}`, "/a~1~0b"},
		{"duplicate among many", `{` + members(40) + `,"k3":0}`, "/k3"},
		{"byte order mark", "\uFEFF{}", ""},
		{"UTF-16", "\xFF\xFE{\x00}\x00", ""},
		{"UTF-16 without mark", "{\x00}\x00", ""},
		{"invalid UTF-8", "{\"a\":\"\xC3\x28\"}", "/a"},
		{"invalid UTF-8 in a key", "{\"\xC3\x28\":1}", ""},
		{"overlong UTF-8", "{\"a\":\"\xC0\x80\"}", "/a"},
		{"surrogate in UTF-8", "{\"a\":\"\xED\xA0\x80\"}", "/a"},
		{"garbage after", `{"a":1}x`, ""},
		{"two values", `{} {}`, ""},
		{"NUL after", "{}\x00", ""},
		{"empty", ``, ""},
		{"only white space", "  ", ""},
		{"comma at the end", `{"a":1,}`, ""},
		{"comma at the end of an array", `[1,]`, "/1"},
		{"comment", `{/**/}`, ""},
		{"single quotes", `{'a':1}`, ""},
		{"bare word", `{"a":nul}`, "/a"},
		{"unclosed object", `{"a":1`, "/a"},
		{"unclosed string", `{"a":"x`, "/a"},
		{"unclosed escape", `{"a":"x\`, "/a"},
		{"wrong bracket", `[1}`, "/0"},
		{"no colon", `{"a" 1}`, "/a"},
		{"line break in a string", "{\"a\":\"x\ny\"}", "/a"},
		{"unknown escape", `{"a":"\x41"}`, "/a"},
		{"short escape", `{"a":"\u41"}`, "/a"},
		{"leading zero", `[0,01]`, "/1"},
		{"plus sign", `[+1]`, "/0"},
		{"bare point", `[1.]`, "/0"},
		{"no digits before the point", `[.5]`, "/0"},
		{"bare exponent", `[1e]`, "/0"},
		{"minus alone", `[-]`, "/0"},
		{"not a number", `[NaN]`, "/0"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { expect(t, strictjson.Check([]byte(c.text)), c.pointer) })
	}
}

func TestAB05ValuesThatPostgreSQLCannotStoreAreRejected(t *testing.T) {
	cases := []struct{ name, text, pointer string }{
		{"NUL", `{"a":["x","\u0000"]}`, "/a/1"},
		{"NUL in a key", `{"a":{"\u0000":1}}`, "/a"},
		{"escaped backslash before u0000", `{"a":"\\u0000"}`, "ok"},
		{"lone high surrogate", `{"a":"\ud800"}`, "/a"},
		{"lone low surrogate", `{"a":"\uDC00"}`, "/a"},
		{"high surrogate and a letter", `{"a":"\ud800x"}`, "/a"},
		{"high surrogate and another escape", `{"a":"\ud800\u0041"}`, "/a"},
		{"two high surrogates", `{"a":"\ud800\ud800"}`, "/a"},
		{"pair", `{"a":"\ud83d\ude00"}`, "ok"},
		{"largest power", `[1e131071]`, "ok"},
		{"beyond the largest power", `[1e131072]`, "/0"},
		{"beyond, digits before the point", `[10e131071]`, "/0"},
		{"beyond, negative", `[-1E+131072]`, "/0"},
		{"zeros before the first digit", `[0.01e131073]`, "ok"},
		{"zero to any power", `[0e131072]`, "ok"},
		{"finest scale", `[1e-16383]`, "ok"},
		{"too fine", `[1e-16384]`, "/0"},
		{"too fine with a fraction", `[1.0e-16383]`, "/0"},
		{"exponent beyond int64", `[1e99999999999999999999]`, "/0"},
		{"negative exponent beyond int64", `[1e-99999999999999999999]`, "/0"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { expect(t, strictjson.Check([]byte(c.text)), c.pointer) })
	}
}

func TestAB04SizesAreLimited(t *testing.T) {
	const mebibyte = 1 << 20
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	cases := []struct {
		name, text string
		accepted   bool
	}{
		{"nesting 64", deep(64), true},
		{"nesting 65", deep(65), false},
		{"nesting 10001", deep(10_001), false},
		{"100000 keys", "{" + members(100_000) + "}", true},
		{"100001 keys", "{" + members(100_001) + "}", false},
		{"200001 keys", "{" + members(200_001) + "}", false},
		{"a mebibyte of objects", "[" + strings.Repeat("{},", mebibyte/3) + "{}]", false},
		{"number of 64 characters", "[" + strings.Repeat("9", 64) + "]", true},
		{"number of 65 characters", "[" + strings.Repeat("9", 65) + "]", false},
		{"number of a megabyte", "[" + strings.Repeat("9", 1_000_000) + "]", false},
		{"exponent of a megabyte", "[1e" + strings.Repeat("0", 1_000_000) + "1]", false},
		{"key of 1024 bytes", `{"` + strings.Repeat("k", 1024) + `":1}`, true},
		{"key of a megabyte", `{"` + strings.Repeat("k", 1_000_000) + `":1}`, false},
		{"text of a megabyte", `{"a":"` + strings.Repeat("x", 1_000_000) + `"}`, true},
		{"text of escapes", `{"a":"` + strings.Repeat(`\u00e9`, 170_000) + `"}`, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			text := []byte(c.text)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := strictjson.Check(text)
			runtime.ReadMemStats(&after)
			if (err == nil) != c.accepted {
				t.Errorf("error %v", err)
			}
			// The total allocation is at least the peak.
			if used := after.TotalAlloc - before.TotalAlloc; used > uint64(8*len(text)+64<<10) {
				t.Errorf("%d bytes allocated for %d", used, len(text))
			}
		})
	}
}

func TestPointersOfErrorsAreLimited(t *testing.T) {
	key := strings.Repeat("k", 200)
	text := `{"a":{"` + key + `":{"` + key + `":tru}}}`
	expect(t, strictjson.Check([]byte(text)), "/a/"+key)
}

func TestCheckObject(t *testing.T) {
	cases := []struct{ text, pointer string }{
		{` {"a":1}`, "ok"}, {`[]`, ""}, {`null`, ""}, {`"x"`, ""}, {` 1 `, ""}, {``, ""}, {"\uFEFF{}", ""},
	}
	for _, c := range cases {
		expect(t, strictjson.CheckObject([]byte(c.text)), c.pointer)
	}
}

func TestCompactOfInvalidJSON(t *testing.T) {
	cases := map[string]string{
		"":              "",
		" ":             "",
		`"a b`:          `"a b`,
		`"a\" b" c d`:   `"a\" b"cd`,
		"{}\n":          "{}",
		"\ufeff { }":    "\ufeff{}",
		"{\u00a0}":      "{\u00a0}", // JSON doesn't treat a no-break space as white space
		`{"a" : "\\" }`: `{"a":"\\"}`,
	}
	for in, want := range cases {
		if got := strictjson.Compact([]byte(in)); string(got) != want {
			t.Errorf("Compact(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzCheck(f *testing.F) {
	for _, seed := range []string{
		`{"a":[1,-0.5e3,"\ud83d\ude00",{"b":null}],"c":true}`, `{"a":1,"a":2}`, `{"a":"\u0000"}`,
		`[1e131072]`, "\uFEFF{}", `"\ud800"`, ` [ 1 , 2 ] `, `{"":{"":[[]]}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if strictjson.Check(data) != nil {
			return
		}
		if !json.Valid(data) {
			t.Fatalf("invalid JSON was accepted: %q", data)
		}
		var want bytes.Buffer
		if err := json.Compact(&want, data); err != nil {
			t.Fatal(err)
		}
		compact := strictjson.Compact(data)
		if !bytes.Equal(compact, want.Bytes()) {
			t.Errorf("Compact(%q) = %q, want %q", data, compact, want.Bytes())
		}
		if err := strictjson.Check(compact); err != nil {
			t.Errorf("the compact form is refused: %v", err)
		}
	})
}

func BenchmarkCheck(b *testing.B) {
	text := []byte("{" + members(40_000) + "}")
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if err := strictjson.Check(text); err != nil {
			b.Fatal(err)
		}
	}
}

// members returns n fields with different names.
func members(n int) string {
	var text strings.Builder
	for i := range n {
		if i > 0 {
			text.WriteByte(',')
		}
		text.WriteString(`"k` + strconv.Itoa(i) + `":0`)
	}
	return text.String()
}
