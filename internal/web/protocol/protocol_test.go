package protocol

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/kit/fault"
)

// If a target is canonical, the router does not decode, clean or redirect it, and all parsers read
// its query in the same way.
func FuzzTarget(f *testing.F) {
	for _, seed := range []string{
		"/v1/sdk/components/executions/019aa5f2-6c3e-7b11-9d0a-3f1c2b4a5d6e", "/", "/docs/", "//", "/a/../b", "/a/./b", "/%2e", "/a?b=c", "/a?b=%zz", "/a?", "/a|b", "http://h/a", "*", "/a#b",
		"/é", "/a?b=é", "/a;b", "/a?b;c", "/a\\b", "/\x00", "/v1/sdk/components/executions?limit=1&limit=2", "/a b",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, target string) {
		if !canonical(target) {
			return
		}
		u, err := url.ParseRequestURI(target)
		if err != nil {
			t.Fatalf("%q is not a valid target: %v", target, err)
		}
		path, query, _ := strings.Cut(target, "?")
		if u.Path != path || u.RawPath != "" || u.EscapedPath() != path || u.RawQuery != query || u.Host != "" || u.RequestURI() != target {
			t.Fatalf("%q is read as %#v", target, u)
		}
		if _, err := url.ParseQuery(query); err != nil {
			t.Fatalf("query of %q: %v", target, err)
		}
		mux := http.NewServeMux()
		mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) {})
		if handler, pattern := mux.Handler(&http.Request{Method: "GET", URL: u}); pattern != "/" || handler == nil {
			t.Fatalf("%q is redirected: %q", target, pattern)
		}
		if strings.ContainsAny(target, "|# \r\n\x00") {
			t.Fatalf("%q can shift the field boundaries of the signed message", target)
		}
	})
}

// No header makes the checks panic or accept what they must reject.
func FuzzHeaders(f *testing.F) {
	f.Add("application/json", "*/*;q=0.5, text/html", "handling=strict", "id-1")
	f.Add("application/json; charset=utf-16", ",;=,", `handling="strict";a=b`, strings.Repeat("a", 129))
	f.Add("text/plain", "application/json;q=0", "respond-async, Handling=Strict", "a\nb")
	f.Add("", "", "", "")
	f.Fuzz(func(t *testing.T, contentType, accept, prefer, id string) {
		header := http.Header{"Content-Type": {contentType}}
		if _, err := JSONObject(header, []byte("{}"), false); err == nil && !strings.Contains(strings.ToLower(contentType), "application/json") {
			t.Fatalf("content type %q was accepted", contentType)
		}
		if offers := []string{"application/json"}; Choose([]string{accept}, offers) != Choose([]string{accept, ""}, offers) {
			t.Fatalf("an empty Accept changes %q", accept)
		}
		if PrefersStrict([]string{prefer}) && !strings.Contains(strings.ToLower(prefer), "strict") {
			t.Fatalf("%q is strict", prefer)
		}
		got := RequestID(http.Header{"X-Request-Id": {id}})
		if !validRequestID(got) || validRequestID(id) && got != id {
			t.Fatalf("request id %q became %q", id, got)
		}
	})
}

func TestAcceptsGzip(t *testing.T) {
	for header, want := range map[string]bool{
		"gzip": true, "gzip, deflate, br, zstd": true, "br;q=1.0, GZIP;q=0.2": true, "x-gzip": true, "*": true, "identity;q=0.5, *;q=0.1": true,
		"": false, "identity": false, "br": false, "gzip;q=0": false, "gzip;q=0, *": false, "*, gzip;q=0.000": false, "*;q=0": false, "gzipped": false, "gzip;q=none": false,
	} {
		if got := AcceptsGzip([]string{header}); got != want {
			t.Errorf("%q: got %v, want %v", header, got, want)
		}
	}
	if AcceptsGzip(nil) || !AcceptsGzip([]string{"br", "gzip"}) {
		t.Error("want gzip rejected without a header, and accepted by the second of two")
	}
}

func TestTableHasExactlyTheFaultCodes(t *testing.T) {
	for _, code := range fault.Codes() {
		if title, _ := Describe(code); !Known(code) || title == "" {
			t.Errorf("%s is not in the table, or has no title", code)
		}
	}
	if len(problems) != len(fault.Codes()) || Known("ANOTHER") {
		t.Errorf("the table has %d codes, want %d", len(problems), len(fault.Codes()))
	}
}
