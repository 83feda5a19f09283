package signcheck_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/secret/signcheck"
)

const (
	listing = "/v1/sdk/components/executions?limit=20&cursor=a%3d%20b"
	at      = "1795257600"
	sent    = `{"b":"é 😀 <a&b> /\n","a":[1.0,1e3,9007199254740993,1e-7,-0],"c":{},"d":[]}`
)

func hashed(text string) string {
	sum := sha256.Sum256([]byte(text))
	return string(sum[:])
}

// Each message is what a signer with the mistake would sign, written by hand or by the named
// serializer.
func TestTheUsualMistakesAreKnown(t *testing.T) {
	get := signcheck.Request{Method: "GET", Target: listing, Timestamp: at}
	post := signcheck.Request{Method: "POST", Target: "/v1/sdk/components", Timestamp: at, Body: []byte(sent)}
	body := func(text string) string { return "POST|/v1/sdk/components|" + at + "|" + text }
	for _, c := range []struct {
		name    string
		request signcheck.Request
		message string
		want    signcheck.Code
	}{
		{"no query", get, "GET|/v1/sdk/components/executions|" + at + "|{}", signcheck.PathQuery},
		{"host", get, "GET|https://weft.example" + listing + "|" + at + "|{}", signcheck.PathHost},
		{"host without scheme", get, "GET|weft.example" + listing + "|" + at + "|{}", signcheck.PathHost},
		{"no slash", get, "GET|" + listing[1:] + "|" + at + "|{}", signcheck.PathSlash},
		{"decoded", get, "GET|/v1/sdk/components/executions?limit=20&cursor=a= b|" + at + "|{}", signcheck.PathEncoding},
		{"sorted and encoded by a library", get, "GET|/v1/sdk/components/executions?cursor=a%3D+b&limit=20|" + at + "|{}", signcheck.PathEncoding},
		{"plus for blank", get, "GET|/v1/sdk/components/executions?limit=20&cursor=a%3d+b|" + at + "|{}", signcheck.PathEncoding},
		{"behind a base URL", get, "GET|/components/executions?limit=20&cursor=a%3d%20b|" + at + "|{}", signcheck.PathPrefix},
		{"a prefix that a proxy removes", signcheck.Request{Method: "GET", Prefix: "/weft", Target: listing, Timestamp: at}, "GET|/weft" + listing + "|" + at + "|{}", signcheck.PathPrefixed},
		{"a prefix and the host", signcheck.Request{Method: "GET", Prefix: "/weft", Target: listing, Timestamp: at}, "GET|https://weft.example/weft" + listing + "|" + at + "|{}", signcheck.PathHost},
		{"milliseconds in the message", get, "GET|" + listing + "|" + at + "000|{}", signcheck.TimeMilliseconds},
		{"milliseconds in the header", signcheck.Request{Method: "GET", Target: "/a", Timestamp: at + "123"}, "GET|/a|" + at + "|{}", signcheck.TimeMilliseconds},
		{"small letters", get, "get|" + listing + "|" + at + "|{}", signcheck.MethodCase},
		{"a slash at the end", post, "POST|/v1/sdk/components/|" + at + "|" + sent, signcheck.PathEnd},
		{"a slash before the query", get, "GET|/v1/sdk/components/executions/?limit=20&cursor=a%3d%20b|" + at + "|{}", signcheck.PathEnd},
		{"no slash at the end", signcheck.Request{Method: "GET", Target: "/a/", Timestamp: at}, "GET|/a|" + at + "|{}", signcheck.PathEnd},
		{"two parameters turned round", get, "GET|/v1/sdk/components/executions?cursor=a%3d%20b&limit=20|" + at + "|{}", signcheck.PathEncoding},
		{"three in another order", signcheck.Request{Method: "GET", Target: "/a?x=1&z=2&y=3", Timestamp: at}, "GET|/a?y=3&x=1&z=2|" + at + "|{}", signcheck.PathEncoding},
		{"timestamp first", get, at + "|GET|" + listing + "|{}", signcheck.Order},
		{"timestamp second", get, "GET|" + at + "|" + listing + "|{}", signcheck.Order},
		{"timestamp last", post, "POST|/v1/sdk/components|" + sent + "|" + at, signcheck.Order},
		{"echo without a body", get, "GET|" + listing + "|" + at + "|{}\n", signcheck.BodyLineEnd},
		{"nothing for an empty body", get, "GET|" + listing + "|" + at + "|", signcheck.BodyEmpty},
		{"three parts", get, "GET|" + listing + "|" + at, signcheck.BodyEmpty},
		{"null for an empty body", get, "GET|" + listing + "|" + at + "|null", signcheck.BodyEmpty},
		{"no body", post, body(""), signcheck.BodyLeftOut},
		{"braces for the body", post, body("{}"), signcheck.BodyLeftOut},
		{"echo", post, body(sent + "\n"), signcheck.BodyLineEnd},
		{"the line end that was sent", signcheck.Request{Method: "POST", Target: "/a", Timestamp: at, Body: []byte("x\n")}, "POST|/a|" + at + "|x\r\n", ""},
		{"an object of JavaScript", post, body("[object Object]"), signcheck.BodyString},
		{"JSON of the JSON", post, body(`"{\"b\":\"é 😀 <a&b> /\\n\",\"a\":[1.0,1e3,9007199254740993,1e-7,-0],\"c\":{},\"d\":[]}"`), signcheck.BodyString},
		{"JSON.stringify(JSON.parse(body))", post, body(`{"b":"é 😀 <a&b> /\n","a":[1,1000,9007199254740992,1e-7,0],"c":{},"d":[]}`), signcheck.BodySerialized},
		{"json.dumps(json.loads(body))", post, body(`{"b": "\u00e9 \ud83d\ude00 <a&b> /\n", "a": [1.0, 1000.0, 9007199254740993, 1e-07, 0], "c": {}, "d": []}`), signcheck.BodySerialized},
		{"jq -S -c", post, body(`{"a":[1.0,1e3,9007199254740993,1e-7,-0],"b":"é 😀 <a&b> /\n","c":{},"d":[]}`), signcheck.BodySerialized},
		{"indented", post, body("{\n  \"b\": \"é 😀 <a&b> /\\n\",\n  \"a\": [\n    1.0,\n    1e3,\n    9007199254740993,\n    1e-7,\n    -0\n  ],\n  \"c\": {},\n  \"d\": []\n}"), signcheck.BodySerialized},
		{"ensure_ascii", post, body(`{"b":"\u00e9 \ud83d\ude00 <a&b> /\n","a":[1.0,1e3,9007199254740993,1e-7,-0],"c":{},"d":[]}`), signcheck.BodyEscapes},
		{"json.Marshal of a RawMessage", post, body(`{"b":"é 😀 \u003ca\u0026b\u003e /\n","a":[1.0,1e3,9007199254740993,1e-7,-0],"c":{},"d":[]}`), signcheck.BodyEscapes},
		{"json_encode", post, body(`{"b":"\u00e9 \ud83d\ude00 <a&b> \/\n","a":[1.0,1e3,9007199254740993,1e-7,-0],"c":{},"d":[]}`), signcheck.BodyEscapes},
		{"blanks around the bars", get, "GET | " + listing + " | " + at + " | {}", signcheck.Separators},
		{"line ends for bars", get, "GET\n" + listing + "\n" + at + "\n{}", signcheck.Separators},
		{"hash", get, hashed("GET|" + listing + "|" + at + "|{}"), signcheck.Hashed},
		{"hash in hexadecimal digits", get, hex.EncodeToString([]byte(hashed("GET|" + listing + "|" + at + "|{}"))), signcheck.Hashed},
		{"Latin-1", signcheck.Request{Method: "POST", Target: "/a", Timestamp: at, Body: []byte(`{"a":"é"}`)}, "POST|/a|" + at + "|{\"a\":\"\xe9\"}", signcheck.NotUTF8},
		{"the right message", post, body(sent), ""},
		{"the right message of no body", get, "GET|" + listing + "|" + at + "|{}", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			others := signcheck.Others(c.request, "weft.example")
			i := slices.IndexFunc(others, func(o signcheck.Other) bool { return string(o.Message) == c.message })
			switch {
			case c.want == "" && i >= 0 && c.name != "the line end that was sent":
				t.Errorf("it is found as %s", others[i].Code)
			case c.want != "" && i < 0:
				t.Error("it is not found")
			case c.want != "" && (others[i].Code != c.want || !others[i].Certain || others[i].Text == ""):
				t.Errorf("it is found as %+v", others[i].Finding)
			}
		})
	}
}

// A body with white space and its compact form have the same message, which is also valid.
func TestRightMessagesAreNotMistakes(t *testing.T) {
	r := signcheck.Request{Method: "POST", Target: "/v1/sdk/components", Timestamp: at, Body: []byte("{\n  \"a\": 1\n}")}
	seen := map[string]bool{}
	for _, other := range signcheck.Others(r, "weft.example") {
		for _, right := range []string{`{"a":1}`, "{\n  \"a\": 1\n}"} {
			if string(other.Message) == "POST|/v1/sdk/components|"+at+"|"+right {
				t.Errorf("%s is reported as %s", right, other.Code)
			}
		}
		if seen[string(other.Message)] {
			t.Errorf("%q occurs twice", other.Message)
		}
		seen[string(other.Message)] = true
	}
}

func codes(found []signcheck.Finding) string {
	var all []string
	for _, f := range found {
		all = append(all, string(f.Code))
		if f.Text == "" || !f.Certain {
			all = append(all, "no text")
		}
	}
	return strings.Join(all, " ")
}

func TestReadReturnsTheRequestAsSent(t *testing.T) {
	for _, c := range []struct{ method, path, timestamp, sent, found string }{
		{"GET", "/v1/sdk/components?limit=1", at, "GET /v1/sdk/components?limit=1", ""},
		{"get", "/a", at, "GET /a", "method_not_upper_case"},
		{"GET ", "/a", at, "GET  /a", "method_not_upper_case"},
		{"GET", "https://weft.example:8443/a?b=1", at, "GET /a?b=1", "path_with_host"},
		{"GET", "HTTP://weft.example", at, "GET /", "path_with_host"},
		{"GET", "http://weft.example?a=1", at, "GET /?a=1", "path_with_host"},
		{"GET", "v1/sdk/components", at, "GET /v1/sdk/components", "path_without_slash"},
		{"GET", "/a?url=https://b", at, "GET /a?url=https://b", ""},
		{"GET", "/a#b", at, "GET /a", "path_with_fragment"},
		{"GET", "/a b|é", at, "GET /a%20b%7C%C3%A9", "path_not_encoded"},
		{"GET", "/a", at + "000", "GET /a", "timestamp_in_milliseconds"},
		{"GET", "/a", at + ".5", "GET /a", "timestamp_malformed"},
		{"GET", "/a", "0" + at, "GET /a", "timestamp_malformed"},
		{"GET", "/a", "2026-11-21T10:40:00Z", "GET /a", "timestamp_malformed"},
		{"GET", "/a", strings.Repeat("9", 30), "GET /a", "timestamp_malformed"},
		{"GET", "/a", "0", "GET /a", ""},
	} {
		r, found := signcheck.Read(c.method, c.path, c.timestamp, nil)
		if got := r.Method + " " + r.Target; got != c.sent || codes(found) != c.found || r.Timestamp != c.timestamp || r.Prefix != "" {
			t.Errorf("%s %s %s: %s, %s", c.method, c.path, c.timestamp, got, codes(found))
		}
	}
}

func TestReadSeparatesThePrefixOfAPath(t *testing.T) {
	for path, want := range map[string]string{
		"/weft/v1/sdk/components":                     "/weft /v1/sdk/components",
		"/a/b/v1/sdk/components?a=/v1/":               "/a/b /v1/sdk/components?a=/v1/",
		"/api/v1/v1/sdk/components":                   "/api/v1 /v1/sdk/components",
		"https://weft.example/weft/v1/sdk/components": "/weft /v1/sdk/components",
		"/v1/sdk/components":                          " /v1/sdk/components",
		"/weft?a=/v1/":                                " /weft?a=/v1/",
		"/weft/v1":                                    " /weft/v1",
		"/weft/v11/a":                                 " /weft/v11/a",
	} {
		r, _ := signcheck.Read("GET", path, at, nil)
		if got := r.Prefix + " " + r.Target; got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

func TestSignaturesAreReadInEveryForm(t *testing.T) {
	sig := bytes.Repeat([]byte{0xfb, 0xff}, 32)
	text := base64.StdEncoding.EncodeToString(sig)
	for _, c := range []struct {
		text, found string
		read        bool
	}{
		{text, "", true},
		{base64.URLEncoding.EncodeToString(sig), "signature_base64url", true},
		{base64.RawURLEncoding.EncodeToString(sig), "signature_base64url signature_unpadded", true},
		{strings.TrimRight(text, "="), "signature_unpadded", true},
		{hex.EncodeToString(sig), "signature_hex", true},
		{strings.ToUpper(hex.EncodeToString(sig)), "signature_hex", true},
		{text[:76] + "\n" + text[76:] + "\n", "signature_with_white_space", true},
		{text + "=", "signature_malformed", true},
		{base64.StdEncoding.EncodeToString(sig[:32]), "signature_not_64_bytes", false},
		{base64.StdEncoding.EncodeToString(append(sig, 1)), "signature_not_64_bytes", false},
		{"sha256=" + text, "signature_malformed", false},
		{text[:85] + "x==", "signature_malformed", false}, // spare bits
	} {
		got, found := signcheck.ReadSignature(c.text)
		if codes(found) != c.found || c.read != bytes.Equal(got, sig) || !c.read && got != nil {
			t.Errorf("%s: %x, %s", c.text, got, codes(found))
		}
	}
}

func TestSecretsAreRecognised(t *testing.T) {
	const secret = "MC4CAQAwBQYDK2VwBCIEIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
	der, err := base64.StdEncoding.DecodeString(secret)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{
		secret: true, " " + secret: true, "-----BEGIN PRIVATE KEY-----\n": true, string(der): true, strings.ToUpper(hex.EncodeToString(der)): true,
		"": false, "ws_abc": false, base64.StdEncoding.EncodeToString(make([]byte, 64)): false,
	} {
		if signcheck.Secret(text) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
}

func TestAPIKeysAreRecognisedByTheirForm(t *testing.T) {
	for text, want := range map[string]string{
		"ws_4f1n9ZrT0b6yKqE2": "", "": "api_key_malformed", "01a2008b-1ca7-71e9-9654-0113709b637e": "api_key_malformed", "ws_a\n": "api_key_malformed", "Ws_a": "api_key_malformed",
	} {
		if got := codes(signcheck.ReadKey(text)); got != want {
			t.Errorf("%q: %s", text, got)
		}
	}
}

// No input makes the process panic, or grows beyond the limits.
func FuzzOthers(f *testing.F) {
	f.Add("GET", listing, at, []byte(sent))
	f.Add("", "", "", []byte(nil))
	f.Add("POST", "https://a?b#c", "1.5", []byte(strings.Repeat("[", 60)+strings.Repeat("]", 60)))
	f.Add("GET", "/weft"+listing, at, []byte(sent))
	f.Add("POST", "/%zz?%zz", "0", []byte(`{"a":1e999,"b":"\ud83d\ude00"}`))
	f.Fuzz(func(t *testing.T, method, path, timestamp string, body []byte) {
		r, _ := signcheck.Read(method, path, timestamp, body)
		others := signcheck.Others(r, "weft.example")
		if len(others) > 80 {
			t.Errorf("%d messages", len(others))
		}
		for _, other := range others {
			if most := 100<<10 + 8*(len(body)+len(path)+len(method)+len(timestamp)); len(other.Message) > most {
				t.Errorf("%s: %d bytes of %d", other.Code, len(other.Message), len(body))
			}
		}
	})
}

// The largest accepted body in its worst form: nested lists with many elements.
func TestDeepBodiesStayWithinTheirBounds(t *testing.T) {
	body := strings.Repeat("[", 60) + strings.TrimSuffix(strings.Repeat("0,", 8_000), ",") + strings.Repeat("]", 60)
	total := 0
	for _, other := range signcheck.Others(signcheck.Request{Method: "POST", Target: "/a", Timestamp: at, Body: []byte(body)}, "a") {
		total += len(other.Message)
	}
	if total == 0 || total > 2<<20 {
		t.Error(fmt.Sprint(total, " bytes"))
	}
}
