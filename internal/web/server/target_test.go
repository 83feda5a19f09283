package server

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/kit/strictjson"
	"github.com/weft-automation/weft/internal/web/contract"
)

func jsonOf(t testing.TB, text string) (value any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatal(err)
	}
	return value
}

// Only the canonical form of a target reaches an operation. Any other form results in 404,
// never in a redirect.
func TestAU04OnlyCanonicalTargetsReachOperations(t *testing.T) {
	s := start(t)
	for _, target := range []string{
		"/" + getPath, strings.Replace(getPath, "/sdk", "//sdk", 1), getPath + "/", getPath + "//",
		strings.Replace(getPath, "/sdk", "/./sdk", 1), strings.Replace(getPath, "/sdk", "/x/../sdk", 1),
		strings.Replace(getPath, "/sdk", "/%2e/sdk", 1), strings.Replace(getPath, "/sdk", "/x/%2e%2e/sdk", 1),
		strings.Replace(getPath, "/sdk/", "/sdk%2F", 1), strings.Replace(getPath, "/sdk/", "/sdk%2f", 1),
		strings.Replace(getPath, "sdk", "%73dk", 1), strings.Replace(getPath, "/sdk/", `\sdk/`, 1),
		strings.ToUpper(getPath), strings.Replace(getPath, "v1", "V1", 1),
		getPath + "|", getPath + "?a=|", getPath + "?", getPath + "?a=%zz", getPath + "?a=%2", getPath + "?a=%",
		getPath + "?a=1;b=2", getPath + `?a="`, getPath + "?a=<>", getPath + "?a={}",
		getPath + "#", getPath + "#a", getPath + "?a=1#b", getPath + ";a=1", getPath + ",", getPath + ":", getPath + "+",
		"ftp://a" + getPath, "http:" + getPath, "http:///" + getPath, "http://u@a" + getPath, "http://:80" + getPath,
		"http://a/" + getPath, "http://a" + getPath + "/", "http://a" + getPath + "#a", "http://http://a" + getPath, "//a" + getPath, "a" + getPath, "*",
		getPath + "é", getPath + "?a=é", getPath + "\xff", "/docs//", "/docs/limits/", "/.well-known/../healthz",
	} {
		t.Run(target, func(t *testing.T) {
			method := "GET"
			if target == "*" {
				method = "OPTIONS"
			}
			got := s.raw(t, fmt.Sprintf("%s %s HTTP/1.1\r\nHost: a\r\nX-Api-Key: ws_test\r\nConnection: close\r\n\r\n", method, target))
			if len(got) != 1 || got[0].header.Get("Location") != "" {
				t.Fatalf("got %+v", got)
			}
			// net/http responds with its own 400 to a malformed request line.
			if foreign := got[0].status == 400 && got[0].header.Get("X-Request-Id") == ""; got[0].status != 404 && !foreign {
				t.Errorf("got %+v", got)
			}
		})
	}
	if ran, verified := s.operations.taken(), s.takeVerified(); len(ran) != 0 || len(verified) > 1 {
		t.Errorf("ran %v, verified %v", ran, verified)
	}
	for _, target := range []string{getPath, getPath + "?nonce=1", getPath + "?a=%41%20b&c=d+e&f=/?:@-._~!$'()*,"} {
		if got := s.do(t, "GET", target, ""); got.status != 200 {
			t.Errorf("%s: %d %s", target, got.status, got.body)
		}
		if verified := s.takeVerified(); len(verified) != 1 || verified[0].Target != target {
			t.Errorf("%s was verified as %+v", target, verified)
		}
	}
}

// The host of an absolute target replaces Host, and the rest is what was signed (RFC 9112, section 3.2.2).
func TestAU04AbsoluteTargetIsReadAsItsOriginForm(t *testing.T) {
	s := start(t)
	for target, path := range map[string]string{
		"http://other:1" + getPath: getPath, "HTTPS://a" + getPath + "?nonce=1": getPath + "?nonce=1",
		"http://[::1]:8080" + getPath: getPath, "http://a" + getPath + "?a=http://b/": getPath + "?a=http://b/",
	} {
		got := s.raw(t, fmt.Sprintf("GET %s HTTP/1.1\r\nHost: ignored\r\nX-Api-Key: ws_test\r\nConnection: close\r\n\r\n", target))
		verified := s.takeVerified()
		if len(got) != 1 || len(verified) != 1 || verified[0].Target != path {
			t.Errorf("%s: got %+v, verified %+v; want %s", target, got, verified, path)
		}
	}
	home := s.do(t, "GET", "/", "")
	for _, target := range []string{"http://a", "http://a/"} {
		got := s.raw(t, fmt.Sprintf("GET %s HTTP/1.1\r\nHost: ignored\r\nConnection: close\r\n\r\n", target))
		if len(got) != 1 || got[0].status != home.status || got[0].header.Get("Location") != "" {
			t.Errorf("%s: got %+v; want %d", target, got, home.status)
		}
	}
	if got := s.raw(t, "CONNECT http://a"+getPath+" HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"); len(got) != 1 || got[0].status/100 != 4 {
		t.Errorf("got %+v", got)
	}
}

// A body that isn't a single plain JSON object is rejected, but only after the signature over the
// received bytes was verified.
func TestAU06BodiesAreValidatedAfterSignature(t *testing.T) {
	s := start(t)
	right := envelope("1")
	utf16 := "\xff\xfe"
	for _, r := range right {
		utf16 += string([]byte{byte(r), 0})
	}
	for _, c := range []struct {
		name, body string
		header     []string
		status     int
	}{
		{"duplicate keys", `{"module":"A","module":"B","input":{},"config":{}}`, nil, 400},
		{"duplicate keys by escape", `{"module":"A","\u006dodule":"B","input":{},"config":{}}`, nil, 400},
		{"BOM", "\ufeff" + right, nil, 400},
		{"UTF-16", utf16, nil, 400},
		{"invalid UTF-8", strings.Replace(right, "HASH", "HA\xffSH", 1), nil, 400},
		{"trailing garbage", right + "x", nil, 400},
		{"two values", right + right, nil, 400},
		{"null", "null", nil, 400},
		{"array", "[]", nil, 400},
		{"string", `""`, nil, 400},
		{"white space only", "  ", nil, 400},
		{"gzip", right, []string{"Content-Encoding: gzip"}, 415},
		{"identity", right, []string{"Content-Encoding: identity"}, 200},
		{"white space around", " \n" + right + "\t", nil, 200},
		{"case of names", `{"MODULE":"B","module":"A","Input":{},"input":{},"config":{}}`, nil, 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := s.do(t, "POST", executePath, c.body, c.header...)
			if got.status != c.status {
				t.Fatalf("got %d %s", got.status, got.body)
			}
			verified := s.takeVerified()
			if len(verified) != 1 || string(verified[0].Body) != c.body {
				t.Errorf("verified %+v", verified)
			}
			if ran := s.operations.taken(); (len(ran) == 1) != (c.status == 200) {
				t.Errorf("ran %v", ran)
			}
			unsigned := s.do(t, "POST", executePath, c.body, append(c.header, "X-Api-Key: ")...)
			if s.takeVerified(); unsigned.status != 401 {
				t.Errorf("without a key: %d", unsigned.status)
			}
		})
	}
	if s.operations.body.Module != "A" {
		t.Errorf("the handler saw module %s", s.operations.body.Module)
	}
	t.Run("chunked", func(t *testing.T) {
		chunks := fmt.Sprintf("%x\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n", 7, right[:7], len(right)-7, right[7:])
		got := s.raw(t, "POST "+executePath+" HTTP/1.1\r\nHost: a\r\nX-Api-Key: ws_test\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"+chunks)
		if len(got) != 1 || got[0].status != 200 {
			t.Fatalf("got %+v", got)
		}
		if verified := s.takeVerified(); string(verified[0].Body) != right {
			t.Errorf("verified %q", verified[0].Body)
		}
	})
}

// For any body that protocol.JSONObject accepts, CheckBody neither panics nor returns a field that
// the schema doesn't have.
func FuzzBody(f *testing.F) {
	document, err := loadOnce()
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{
		envelope("1"), `{}`, `{"module":"A","MODULE":"B","input":{},"config":{},"attempts":1.0,"waitForMs":1e3}`,
		`{"callbackHeaders":{"a":"b"},"callbackUrl":"x"}`, `{"attempts":1e-1,"input":[]}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		if strictjson.CheckObject([]byte(body)) != nil {
			return
		}
		for _, operation := range document.Operations {
			bindable, err := operation.CheckBody([]byte(body), new(contract.Ignored))
			if err != nil || operation.ID != "executeComponent" {
				continue
			}
			var members map[string]json.RawMessage
			if err := json.Unmarshal(bindable, &members); err != nil {
				t.Fatalf("%q: %v", bindable, err)
			}
			for name := range members {
				if !strings.Contains(" module input config attempts waitForMs callbackUrl callbackSecret callbackHeaders ", " "+name+" ") {
					t.Fatalf("unknown field %q was accepted", name)
				}
			}
		}
	})
}
