package redact

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"strconv"
	"strings"
	"testing"
)

// secrets are typical secrets of users.
var secrets = []string{
	"hunter2!", "c4n4ry-0f-th3-v4ult", "sk_live_51HxQzK2eZvKYlo2C", "p@ss w\"ord/1", `back\slash\u0041nd`, "100%41 & <more>", "ünïcødé schlüssel",
	"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U", "0x5ec2e7c4a9c4a9c4a9c4a9c4a9c4a9c4a9c4a9c4a9c4a9c4a9c4a9c4a9c45ec2",
	"+/+/+/+/+/+/", strings.Repeat("long and ", 900),
}

func inJSON(text string) string {
	quoted, _ := json.Marshal(text)
	return string(quoted)
}

// written are the forms in which an upstream may repeat a value from a request.
var written = map[string]func(string) string{
	"plain":                 func(s string) string { return s },
	"in JSON":               inJSON,
	"in JSON with \\/":      func(s string) string { return strings.ReplaceAll(inJSON(s), "/", `\/`) },
	"in ASCII":              strconv.QuoteToASCII,
	"in a query":            url.QueryEscape,
	"in a path":             url.PathEscape,
	"in HTML":               html.EscapeString,
	"in JSON in JSON":       func(s string) string { return inJSON(`{"said":` + inJSON(s) + `}`) },
	"in a URL in JSON":      func(s string) string { return inJSON("https://x.example/?k=" + url.QueryEscape(s)) },
	"in JSON in a URL":      func(s string) string { return url.QueryEscape(`{"said":` + inJSON(s) + `}`) },
	"in hexadecimal":        func(s string) string { return hex.EncodeToString([]byte(s)) },
	"in HEXADECIMAL":        func(s string) string { return strings.ToUpper(hex.EncodeToString([]byte(s))) },
	"in base64":             func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
	"in base64 of URLs":     func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) },
	"in base64 with 1 more": func(s string) string { return base64.StdEncoding.EncodeToString([]byte("\xff" + s + "\xfe")) },
	"in base64 with 2 more": func(s string) string { return base64.StdEncoding.EncodeToString([]byte("\xff\xfe" + s + "tail")) },
	"in base64 in JSON": func(s string) string {
		return strings.ReplaceAll(inJSON(base64.StdEncoding.EncodeToString([]byte("ab:"+s))), "/", `\/`)
	},
	"in other letters":       strings.ToUpper,
	"as each of its letters": func(s string) string { return eachLetter(s) },
}

func eachLetter(text string) (out string) {
	for _, r := range text {
		if r > 0xffff {
			return inJSON(text)
		}
		out += fmt.Sprintf(`\u%04x`, r)
	}
	return out
}

func TestASecretIsFoundHoweverItIsRepeated(t *testing.T) {
	t.Parallel()
	for _, secret := range secrets {
		var sought Sought
		sought.Add("another secret")
		sought.Add(secret)
		for way, write := range written {
			if way == "in other letters" && strings.Contains(secret, "ü") {
				continue // of ASCII only
			}
			for _, text := range []string{write(secret), `{"headers":{"x":"` + write(secret) + `"}}`, strings.Repeat("x", 1000) + write(secret) + strings.Repeat("%zz&;\\", 100)} {
				if !sought.In([]byte(text)) {
					t.Errorf("%q %s is not found in %.200q", secret[:min(40, len(secret))], way, text)
				}
			}
		}
	}
}

func TestASecretIsReplacedHoweverItIsRepeated(t *testing.T) {
	t.Parallel()
	for _, secret := range secrets {
		var sought Sought
		sought.AddWhole(secret, 1<<15)
		for way, write := range written {
			if way == "in other letters" && strings.Contains(secret, "ü") {
				continue // of ASCII only
			}
			got := sought.Replace("before <"+write(secret)+"> after", "***")
			if sought.In([]byte(got)) || !strings.HasPrefix(got, "before <") || !strings.HasSuffix(got, "> after") {
				t.Errorf("%q %s has become %.200q", secret[:min(40, len(secret))], way, got)
			}
		}
	}
}

func TestWhatIsEncodedWithASecretIsReplacedWithIt(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("0123456789abcdef", 20)
	for text, want := range map[string]string{
		"a " + hex.EncodeToString([]byte(long)) + ", b":                     "a ***, b",
		"a " + base64.URLEncoding.EncodeToString([]byte(long)) + ", b":      "a ***, b",
		"a " + base64.StdEncoding.EncodeToString([]byte(long))[:18] + "...": "a ***...",
		"a " + long[:70] + ", b":                                            "a ***, b",
		"a " + long[:60] + ", b":                                            "a " + long[:60] + ", b",
		`a \u0030\u0031` + long[2:12] + `\"..., b`:                          `a ***\"..., b`,
	} {
		var sought Sought
		sought.AddWhole(long, 1<<15)
		if got := sought.Replace(text, "***"); got != want {
			t.Errorf("%q has become %q, want %q", text, got, want)
		}
	}
}

func TestWhatShowsNoSecretIsNotTakenForOne(t *testing.T) {
	t.Parallel()
	var sought, none Sought
	for _, secret := range append(secrets, "", "short", "1234567") {
		sought.Add(secret)
	}
	for _, text := range []string{
		"", "x", `{}`, `{"body":null,"status":200,"headers":{"content-type":"application/json; charset=utf-8"}}`, "short 1234567", "hunter2", "hunter3!", "hunter2?",
		"c4n4ry-0f-th3", `\`, `\u`, `\u00`, `\ud800`, `\ud800\u`, "%", "%4", "&", "&#", "&amp", "&#x110000;", strings.Repeat("\\", 999), strings.Repeat("%25", 999), strings.Repeat("&amp;", 999),
	} {
		if sought.In([]byte(text)) {
			t.Errorf("%.100q", text)
		}
	}
	if none.In([]byte(strings.Join(secrets, ""))) {
		t.Error("nothing was sought, and something found")
	}
}

// Many that begin alike cost no more than few: from some on their beginning is enough.
func TestSecretsThatBeginAlikeAreFound(t *testing.T) {
	t.Parallel()
	var sought Sought
	for i := range 1000 {
		sought.Add(fmt.Sprintf("sk_live_%d-of-many", i))
	}
	for _, i := range []int{0, 15, 16, 999} {
		if !sought.In(fmt.Appendf(nil, "it is sk_live_%d-of-many.", i)) {
			t.Errorf("the secret %d is not found", i)
		}
	}
	if sought.In([]byte("it is sk_test_1-of-many")) {
		t.Error("another one is")
	}
}

// The search ends for arbitrary bytes. A secret that is repeated unchanged, or in escapes of one
// kind, is found.
func FuzzLooking(f *testing.F) {
	for _, secret := range secrets {
		f.Add(secret, `{"a":"\u00e4%20&amp;"}`, `"}`)
	}
	f.Fuzz(func(t *testing.T, secret, before, after string) {
		var sought Sought
		sought.Add(secret)
		_ = sought.In([]byte(before + after))
		if len(secret) >= MinSecret && !sought.In([]byte(before+secret+after)) {
			t.Errorf("%q is not found after %q", secret, before)
		}
		sought.AddWhole(secret, len(secret))
		for _, write := range []func(string) string{strings.Clone, url.QueryEscape, url.PathEscape, html.EscapeString, func(s string) string { return strings.Trim(inJSON(s), `"`) }} {
			if text := before + write(secret) + after; len(secret) >= MinSecret && sought.Replace(text, "") == text {
				t.Errorf("%q stands in %q", secret, text)
			}
		}
		if plain, _ := unescaped([]byte(before), nil); len(plain) > len(before) {
			t.Errorf("%q has become %q", before, plain)
		}
	})
}

// BenchmarkLooking measures the search of an output of ordinary size and of the largest size.
func BenchmarkLooking(b *testing.B) {
	item := `{"id":12345,"name":"An item of \"some\" kind","price":"3120.55","at":"2026-01-02T03:04:05+00:00","url":"https://api.example.com/items/12345?x=1%202"},`
	for _, of := range []struct {
		name string
		text []byte
		many int
	}{
		{"4kB", []byte(strings.Repeat(item, 4096/len(item))), 1}, {"1MB", []byte(strings.Repeat(item, 1<<20/len(item))), 1},
		{"1MB/1000-secrets", []byte(strings.Repeat(item, 1<<20/len(item))), 1000}, {"1MB/plain", []byte(strings.Repeat("0123456789abcdef", 1<<16)), 1},
	} {
		b.Run(of.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(of.text)))
			for b.Loop() {
				var sought Sought
				for i := range of.many {
					sought.Add(strconv.Itoa(i) + "-c4n4ry-0f-th3-v4ult")
				}
				if sought.In(of.text) {
					b.Fatal("found")
				}
			}
		})
	}
}
