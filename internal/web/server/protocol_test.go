package server

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/web/portal"
)

func TestAB07MethodsTypesAndAcceptAreAsDeclared(t *testing.T) {
	s := start(t)
	allow := map[string]string{
		"/healthz": "GET, HEAD", "/readyz": "GET, HEAD", "/openapi.json": "GET, HEAD", "/openapi.yaml": "GET, HEAD",
		"/openapi-3.0.json":            "GET, HEAD",
		"/v1/system/components":        "GET, HEAD",
		executePath:                    "GET, HEAD, POST",
		executePath + "/RANDOM_UUID":   "GET, HEAD",
		executePath + "/executions":    "GET, HEAD",
		getPath:                        "GET, HEAD",
		getPath + "/stream":            "GET, HEAD",
		getPath + "/replay-callback":   "POST",
		getPath + "/callback-attempts": "GET, HEAD",
	}
	for target, want := range allow {
		for _, method := range []string{"TRACE", "CONNECT", "PUT", "OPTIONS", "DELETE", "PATCH", "BREW"} {
			got := s.raw(t, method+" "+target+" HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX-Canary: canary-4711\r\n\r\n")
			if len(got) != 1 || got[0].status != 405 || got[0].header.Get("Allow") != want || strings.Contains(got[0].body, "canary") {
				t.Errorf("%s %s: %+v", method, target, got)
			}
		}
	}
	for _, c := range []struct {
		name, method, target, body string
		header                     []string
		status                     int
	}{
		{"no type", "POST", executePath, envelope("1"), []string{"Content-Type: "}, 200},
		{"another type", "POST", executePath, envelope("1"), []string{"Content-Type: text/plain"}, 415},
		{"a type with a charset", "POST", executePath, envelope("1"), []string{"Content-Type: application/json; charset=UTF-8"}, 200},
		{"UTF-16", "POST", executePath, envelope("1"), []string{"Content-Type: application/json; charset=utf-16"}, 415},
		{"gzip", "POST", executePath, envelope("1"), []string{"Content-Encoding: gzip"}, 415},
		{"form", "POST", executePath, "module=HASH", []string{"Content-Type: application/x-www-form-urlencoded"}, 415},
		{"no type and no body", "POST", getPath + "/replay-callback", "", nil, 200},
		{"accept everything", "GET", getPath, "", []string{"Accept: */*"}, 200},
		{"accept text", "GET", getPath, "", []string{"Accept: text/html"}, 406},
		{"accept as browsers do", "GET", getPath, "", []string{"Accept: text/html,application/xhtml+xml;q=0.9,*/*;q=0.8"}, 200},
		{"accept all but JSON", "GET", getPath, "", []string{"Accept: */*, application/json;q=0"}, 406},
		{"accept application/*", "GET", getPath, "", []string{"Accept: application/*"}, 200},
		{"an event ID that isn't one", "GET", getPath + "/stream", "", []string{"Last-Event-ID: x"}, 400},
		{"a stream is not JSON", "GET", getPath + "/stream", "", []string{"Accept: application/json"}, 406},
		{"HEAD of a signed operation", "HEAD", getPath, "", nil, 200},
		{"HEAD of a public operation", "HEAD", "/healthz", "", nil, 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := s.do(t, c.method, c.target, c.body, c.header...); got.status != c.status {
				t.Errorf("got %d %s", got.status, got.body)
			}
		})
	}
}

// An empty Last-Event-ID is like none: the request reaches its operation.
func TestEmptyLastEventIDCountsAsNone(t *testing.T) {
	s := start(t)
	for value, want := range map[string]int{"": 404, " ": 404, "7": 404, "x": 400} {
		got := s.raw(t, "GET "+getPath+"/stream HTTP/1.1\r\nHost: a\r\nX-Api-Key: ws_test\r\nLast-Event-ID: "+value+"\r\nConnection: close\r\n\r\n")
		if ran := s.operations.taken(); len(got) != 1 || got[0].status != want || (len(ran) == 1) != (want == 404) {
			t.Errorf("%q: got %+v, ran %v", value, got, ran)
		}
	}
}

// No framing makes the server read one request as two.
func TestAB08FramingCannotSmuggleARequest(t *testing.T) {
	smuggled := "GET /v1/sdk/components/executions HTTP/1.1\r\nHost: a\r\nX-Api-Key: ws_smuggled\r\n\r\n"
	head := "POST " + executePath + " HTTP/1.1\r\nHost: a\r\nX-Api-Key: ws_test\r\nContent-Type: application/json\r\n"
	for _, c := range []struct {
		name, text string
		status     int // of the first response; 0: as net/http decides
	}{
		{"two lengths", head + "Content-Length: 5\r\nContent-Length: 6\r\n\r\n", 400},
		{"a list of lengths", head + "Content-Length: 5, 6\r\n\r\n", 400},
		{"negative length", head + "Content-Length: -1\r\n\r\n", 400},
		{"signed length", head + "Content-Length: +5\r\n\r\n12345", 400},
		{"unknown coding", head + "Transfer-Encoding: xchunked\r\n\r\n", 501},
		{"two codings", head + "Transfer-Encoding: chunked, identity\r\n\r\n", 501},
		{"coding twice", head + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 0},
		{"length and coding", head + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 0},
		{"coding with a tab", head + "Transfer-Encoding:\tchunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", 0},
		{"coding with a vertical tab", head + "Transfer-Encoding: \x0bchunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", 0},
		{"space before the colon", head + "Content-Length : 5\r\n\r\n12345", 400},
		{"bare LF", strings.ReplaceAll(head, "\r\n", "\n") + "Content-Length: 5\n\n12345", 0},
		{"obs-fold", head + "X-A: b\r\n Content-Length: 0\r\nContent-Length: 5\r\n\r\n12345", 0},
		{"bad chunk size", head + "Transfer-Encoding: chunked\r\n\r\n0x5\r\n12345\r\n0\r\n\r\n", 0},
		{"chunk extension with LF", head + "Transfer-Encoding: chunked\r\n\r\n5;a\nb\r\n12345\r\n0\r\n\r\n", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := start(t)
			// The smuggled request is where a lenient parser might find it.
			body := fmt.Sprintf("%s%s", c.text, smuggled)
			got := s.raw(t, body)
			if c.status != 0 && (len(got) == 0 || got[0].status != c.status) {
				t.Errorf("got %+v", got)
			}
			// After a complete request, the remaining bytes are an ordinary pipelined request.
			// After a rejected request, these bytes must not run as a request.
			ran := s.operations.taken()
			if len(got) > 0 && got[0].closed && len(ran) > 0 {
				t.Errorf("ran %v after a rejected request", ran)
			}
			if slices.Contains(ran, "executeComponent") {
				t.Errorf("a malformed request ran: %v", ran)
			}
			if len(ran) > 1 {
				t.Errorf("one request was read as several: %v", ran)
			}
		})
	}
}

// RFC 9112, 6.1 and 6.3: the server closes the connection after a request whose length a proxy
// might read differently. net/http hides which of the two headers were present.
func TestAmbiguousLengthClosesConnection(t *testing.T) {
	next := "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
	body := envelope("1")
	chunk := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body)
	head := func(version, framing string) string {
		return "POST " + executePath + " HTTP/" + version + "\r\nHost: a\r\nX-Api-Key: ws_test\r\nContent-Type: application/json\r\n" + framing + "\r\n"
	}
	for _, c := range []struct {
		name, text string
		answers    int
	}{
		{"length and coding", head("1.1", fmt.Sprintf("Content-Length: %d\r\nTransfer-Encoding: chunked\r\n", len(chunk))) + chunk, 1},
		{"coding and length", head("1.1", "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n") + chunk, 1},
		{"coding alone", head("1.1", "Transfer-Encoding: chunked\r\n") + chunk, 1},
		{"coding of HTTP/1.0", head("1.0", fmt.Sprintf("Connection: keep-alive\r\nTransfer-Encoding: chunked\r\nContent-Length: %d\r\n", len(body))) + body, 1},
		{"length alone", head("1.1", fmt.Sprintf("Content-Length: %d\r\n", len(body))) + body, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := start(t).raw(t, c.text+next)
			if len(got) != c.answers || got[0].status != 200 {
				t.Fatalf("got %+v", got)
			}
			if closed := c.answers == 1; got[0].closed != closed {
				t.Errorf("response closes the connection: got %v", got[0].closed)
			}
		})
	}
}

// The value of a panic may contain data of the request. The log contains the code location and the
// type of the panic value, not its text.
func TestMT05PanicLogHasNoRequestData(t *testing.T) {
	const canary = "c4n4ry-5ecret-9f27"
	var empty []string
	for told, cause := range map[string]func(){
		"(string)":              func() { panic("cannot read " + canary) },
		"(*errors.errorString)": func() { panic(errors.New(canary)) },
		"(api.Problem)":         func() { panic(api.Problem{Detail: canary}) },
		"runtime error: index out of range [0] with length 0":   func() { _ = empty[len(empty)] },
		"interface conversion: interface {} is string, not int": func() { _ = any(canary).(int) },
	} {
		s := start(t)
		s.operations.get = func(context.Context) (api.ComponentExecution, error) { cause(); return api.ComponentExecution{}, nil }
		if got := s.do(t, "GET", getPath, "", "X-Api-Key: "+canary); got.status != 500 || strings.Contains(got.body, canary) {
			t.Errorf("%s: %d %s", told, got.status, got.body)
		}
		log := s.logs.String()
		if !strings.Contains(log, `"panic":"`+told) || !strings.Contains(log, "protocol_test.go") || strings.Contains(log, canary) {
			t.Errorf("log of a panic with %s: %s", told, log)
		}
	}
}

// Every error response has the same fields, including code and request ID, and reveals no
// internals.
func TestAB12FailuresHaveOneShapeAndShowNothing(t *testing.T) {
	s := start(t)
	problem := schemaOf(t, "/components/schemas/Problem")
	inside := "pq: relation secret_table at /srv/weft/internal/x.go:17 SELECT 1"
	s.operations.get = func(ctx context.Context) (api.ComponentExecution, error) {
		switch {
		case strings.Contains(callOf(ctx).id, "panic"):
			panic(inside)
		case strings.Contains(callOf(ctx).id, "nil"):
			var broken *api.Problem
			_ = broken.Detail
		case strings.Contains(callOf(ctx).id, "late"):
			return api.ComponentExecution{}, fmt.Errorf("read %s: %w", inside, context.DeadlineExceeded)
		case strings.Contains(callOf(ctx).id, "busy"):
			return api.ComponentExecution{}, &fault.Error{Code: fault.RateLimited, Message: "Too many.", RetryAfter: 1100 * time.Millisecond, Err: errors.New(inside)}
		}
		return api.ComponentExecution{}, errors.New(inside)
	}
	for _, c := range []struct {
		name, method, target, body string
		header                     []string
		status                     int
		code                       fault.Code
	}{
		{"error", "GET", getPath, "", nil, 500, fault.Internal},
		{"panic", "GET", getPath, "", []string{"X-Request-Id: panic"}, 500, fault.Internal},
		{"nil", "GET", getPath, "", []string{"X-Request-Id: nil"}, 500, fault.Internal},
		{"late", "GET", getPath, "", []string{"X-Request-Id: late"}, 503, fault.Unavailable},
		{"busy", "GET", getPath, "", []string{"X-Request-Id: busy"}, 429, fault.RateLimited},
		{"unknown route", "GET", "/secret_table", "", nil, 404, fault.NotFound},
		{"malformed id", "GET", "/v1/sdk/components/executions/nope", "", nil, 404, fault.NotFound},
		{"method", "DELETE", getPath, "", nil, 405, fault.MethodNotAllowed},
		{"accept", "GET", getPath, "", []string{"Accept: image/png"}, 406, fault.NotAcceptable},
		{"no key", "GET", getPath, "", []string{"X-Api-Key: "}, 401, fault.Unauthorized},
		{"broken JSON", "POST", executePath, `{"module":`, nil, 400, fault.InvalidInput},
		{"wrong type", "POST", executePath, `{"module":1}`, nil, 400, fault.InvalidInput},
		{"large", "POST", executePath, sized(maxBody + 1), nil, 413, fault.PayloadTooLarge},
		{"media type", "POST", executePath, "<a/>", []string{"Content-Type: text/xml"}, 415, fault.UnsupportedMediaType},
		{"long target", "GET", "/" + strings.Repeat("a", 8<<10), "", nil, 414, fault.URITooLong},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := s.do(t, c.method, c.target, c.body, c.header...)
			if got.status != c.status || got.header.Get("Content-Type") != "application/problem+json" || got.header.Get("Date") == "" {
				t.Fatalf("%d %v %s", got.status, got.header, got.body)
			}
			p := got.problem(t)
			if p.Code != c.code || p.Error != c.code || p.Message != p.Detail || int(p.Status) != got.status || p.RequestID != got.header.Get("X-Request-Id") || p.RequestID == "" {
				t.Errorf("%s", got.body)
			}
			if err := problem.Validate(normal(t, jsonOf(t, got.body))); err != nil {
				t.Error(err)
			}
			for _, marker := range []string{"secret_table", "SELECT", ".go:", "goroutine", "pq:", "/srv", "runtime", "go1."} {
				if strings.Contains(got.body, marker) {
					t.Errorf("%q is visible in %s", marker, got.body)
				}
			}
			wait := got.header.Get("Retry-After")
			if want := map[fault.Code]string{fault.RateLimited: "2", fault.Unavailable: "1"}[c.code]; wait != want {
				t.Errorf("Retry-After %q", wait)
			}
		})
	}
	if !strings.Contains(s.logs.String(), "secret_table") {
		t.Error("the cause is not in the log")
	}
}

// Commands on pages contain the origin of the request, but never a Host header that isn't a
// plain host.
func TestDocsUseOriginOfRequest(t *testing.T) {
	s := start(t, func(s *service, _ *http.Server) { s.front.mount(s.operations, portal.Handler(nil)) })
	for host, want := range map[string]string{"weft.example:8443": "http://weft.example:8443", "a;id": "http://127.0.0.1:8080", "$(id)": "http://127.0.0.1:8080"} {
		got := s.raw(t, "GET /docs/signers.md HTTP/1.1\r\nHost: "+host+"\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: other.example\r\nConnection: close\r\n\r\n")
		if len(got) != 1 || got[0].status != 200 || strings.Count(got[0].body, "-fsSO "+want+"/docs/signers/") != 5 || got[0].header.Get("Vary") != "Host, X-Forwarded-Proto" {
			t.Errorf("at %s: %+v", host, got)
		}
	}
}

// The contract is compressed if the client accepts gzip, and uncompressed otherwise.
func TestContractIsCompressedIfAccepted(t *testing.T) {
	s := start(t, func(s *service, _ *http.Server) { s.front.mount(&Server{}, nil) })
	for path, want := range map[string][]byte{"/openapi.json": api.SpecJSON(), "/openapi.yaml": api.SpecYAML(), "/openapi-3.0.json": api.Spec30JSON()} {
		for encodings, packed := range map[string]bool{"gzip, br": true, "identity": false, "gzip;q=0": false} {
			got := s.do(t, "GET", path, "", "Accept-Encoding: "+encodings)
			text := []byte(got.body)
			if packed {
				unpacked, err := gzip.NewReader(strings.NewReader(got.body))
				if err != nil {
					t.Fatal(err)
				}
				if text, err = io.ReadAll(unpacked); err != nil || len(got.body)*4 > len(text) {
					t.Errorf("%s: %d bytes of %d, %v", path, len(got.body), len(text), err)
				}
			}
			if want := portal.AtOrigin(want, s.URL); !bytes.Equal(text, want) || (got.header.Get("Content-Encoding") == "gzip") != packed || got.header.Get("Vary") != "Accept-Encoding, Host, X-Forwarded-Proto" {
				t.Errorf("%s as %q: %d bytes, %v", path, encodings, len(got.body), got.header)
			}
		}
	}
}

// Generated clients call the first server of the document.
func TestContractUsesOriginOfRequest(t *testing.T) {
	s := start(t, func(s *service, _ *http.Server) { s.front.mount(&Server{}, nil) })
	for _, path := range []string{"/openapi.json", "/openapi.yaml", "/openapi-3.0.json"} {
		for host, want := range map[string]string{"weft.example:8443": "http://weft.example:8443", "a;id": "http://127.0.0.1:8080"} {
			got := s.raw(t, "GET "+path+" HTTP/1.1\r\nHost: "+host+"\r\nConnection: close\r\n\r\n")
			if len(got) != 1 || got[0].status != 200 {
				t.Fatalf("%s at %s: %+v", path, host, got)
			}
			doc, err := openapi3.NewLoader().LoadFromData([]byte(got[0].body))
			if err != nil {
				t.Fatal(err)
			}
			if len(doc.Servers) != 1 || doc.Servers[0].URL != want {
				t.Errorf("%s at %s: the server is %q, want %s", path, host, doc.Servers[0].URL, want)
			}
		}
	}
}

// The root serves robots.txt, the favicon and llms.txt, and nothing else.
func TestRootServesRobotsAndFavicon(t *testing.T) {
	s := start(t, func(s *service, _ *http.Server) { s.front.mount(s.operations, portal.Handler(nil)) })
	for path, want := range map[string]string{"/robots.txt": "text/plain; charset=utf-8", "/favicon.svg": "image/svg+xml", "/llms.txt": "text/plain; charset=utf-8"} {
		if got := s.do(t, "GET", path, ""); got.status != 200 || got.header.Get("Content-Type") != want {
			t.Errorf("%s: %d %v", path, got.status, got.header)
		}
		if got := s.do(t, "POST", path, ""); got.status != 405 || got.header.Get("Allow") != "GET, HEAD" {
			t.Errorf("POST %s: %d %v", path, got.status, got.header)
		}
	}
	if got := s.do(t, "GET", "/robots", ""); got.status != 404 {
		t.Errorf("/robots: %d", got.status)
	}
}

func TestHomePageIsServedWithoutARedirect(t *testing.T) {
	s := start(t, func(s *service, _ *http.Server) { s.front.mount(s.operations, portal.Handler(nil)) })
	home := s.do(t, "GET", "/docs", "")
	for _, target := range []string{"/", "/docs/", "/?utm=1"} {
		if got := s.do(t, "GET", target, ""); got.status != 200 || got.body != home.body || got.header.Get("Content-Type") != "text/html; charset=utf-8" {
			t.Errorf("%s: %d %v", target, got.status, got.header)
		}
	}
	if got := s.do(t, "POST", "/", "{}"); got.status != 405 || got.header.Get("Allow") != "GET, HEAD" {
		t.Errorf("POST /: %d %v", got.status, got.header)
	}
}

// For a missing page, clients that prefer HTML get an HTML page, all others a problem document.
func TestMissingDocsNegotiateErrorFormat(t *testing.T) {
	s := start(t, func(s *service, _ *http.Server) { s.front.mount(s.operations, portal.Handler(nil)) })
	const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
	for _, c := range []struct {
		target, accept string
		page           bool
	}{
		{"/docs/components/NOTHING", browser, true},
		{"/docs/components/NOTHING", "*/*", false},
		{"/docs/components/NOTHING", "", false},
		{"/docs/components/NOTHING", "application/json", false},
		{"/docs/components/NOTHING", "application/problem+json, text/html;q=0.5", false},
		{"/docs/nothing", browser, true},
		{"/docs/nothing", "*/*", false},
		{"/docs/signers/none", browser, true},
		{"/docs/signers/none", "", false},
	} {
		got := s.do(t, "GET", c.target, "", "Accept: "+c.accept)
		contentType := "application/problem+json"
		if c.page {
			contentType = "text/html; charset=utf-8"
		}
		if got.status != 404 || got.header.Get("Content-Type") != contentType || got.header.Get("Vary") != "Accept" || c.page != strings.Contains(got.body, `href="/docs/components"`) {
			t.Errorf("%s for %q: %d %v %s", c.target, c.accept, got.status, got.header, got.body)
		}
	}
}
