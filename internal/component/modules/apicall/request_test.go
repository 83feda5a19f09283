package apicall

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/componenttest"
)

// FuzzRequest builds requests from arbitrary calls. The result is a request that can be sent to the
// host of apiUrl, or INVALID_INPUT.
func FuzzRequest(f *testing.F) {
	f.Add("https://example.com/a?b=c#d", "POST", `{"headers":{"Accept":"*/*"},"query":{"q":["a",1,null]},"body":{"a":[1]}}`)
	f.Add("http://127.0.0.1:8080", "GET", `{"headers":{"Content-Type":"application/x-www-form-urlencoded"},"body":{"a":"b&c","d":[true]}}`)
	f.Add("https://example.com", "PUT", `{"headers":{"Content-Type":"multipart/form-data"},"body":{"a":[1,null],"f":{"base64":"AA==","filename":"\"","contentType":"a/b"}}}`)
	f.Add("https://example.com", "PUT", `{"body":"AA==","bodyEncoding":"base64"}`)
	f.Add("https://example.com/%2e%2e/?", "PATCH", `{"headers":{"a":"1","A":"2"}}`)
	f.Add("https://[::1]/\x7f", "DELETE", `{"headers":null,"query":{"":""},"body":"text"}`)
	f.Fuzz(func(t *testing.T, address, method, given string) {
		in, err := component.Decode[input](json.RawMessage(given))
		if err != nil {
			return
		}
		before, parseErr := url.Parse(address)
		request, err := newRequest(t.Context(), config{APIURL: address, Method: method}, in, uuid.Nil)
		if err != nil {
			if failed, ok := err.(*component.Error); !ok || failed.Code != component.CodeInvalidInput || failed.Retryable {
				t.Errorf("%v", err)
			}
			return
		}
		if parseErr != nil || request.URL.Host != before.Host || request.URL.Fragment != "" {
			t.Errorf("%q became %q, %v", address, request.URL, parseErr)
		}
		if !strings.HasPrefix(request.URL.RawQuery, before.RawQuery) {
			t.Errorf("the query of %q became %q", address, request.URL.RawQuery)
		}
		if (request.Header.Get(idempotencyKey) == "") != (method != http.MethodPost && method != http.MethodPatch) && in.Headers == nil {
			t.Errorf("%s has the key %q", method, request.Header.Get(idempotencyKey))
		}
	})
}

// A call to a slow upstream fails after timeoutMs with a retryable error.
func TestTimeoutMsStopsASlowCall(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	bench, address := serve(t, func(http.ResponseWriter, *http.Request) { <-release })
	t.Cleanup(func() { close(release) })
	_, failed := run(t, bench, object{}, object{"apiUrl": address, "method": "GET", "timeoutMs": 50})
	if failed == nil || failed.Code != component.CodeTimeout || !failed.Retryable {
		t.Errorf("got %v", failed)
	}
}

// The error of an invalid call has the field, the expected value and the actual value.
func TestErrorNamesFieldAndRule(t *testing.T) {
	t.Parallel()
	registry := componenttest.New(t, Modules(loopback(t))...).Registry
	for _, c := range []struct{ input, config, pointer, message string }{
		{`{"headers":[]}`, `{"apiUrl":"https://a.example","method":"GET"}`, "/input/headers", "must be an object, got an array"},
		{`{"headers":{"A":7}}`, `{"apiUrl":"https://a.example","method":"GET"}`, "/input/headers/A", "must be a string, got a number"},
		{`{"headers":{},"query":{"a":{}}}`, `{"apiUrl":"https://a.example","method":"GET"}`, "/input/query/a", "got an object"},
		{`{"headers":{}}`, `{"method":"GET"}`, "/config/apiUrl", "is required: expected a string"},
		{`{"headers":{}}`, `{"apiUrl":"ftp://a.example","method":"GET"}`, "/config/apiUrl", "must match ^https?://"},
		{`{"headers":{}}`, `{"apiUrl":"https://a.example","method":"HEAD"}`, "/config/method", `must be one of "GET", "POST", "PUT", "PATCH", "DELETE", got "HEAD"`},
		{`{"headers":{}}`, `{"apiUrl":"https://a.example","method":"GET","timeoutMs":120001}`, "/config/timeoutMs", "must be at most 120000, got 120001"},
		{`{"headers":{}}`, `{"apiUrl":"https://a.example","method":"GET","expectStatus":[200,99]}`, "/config/expectStatus/1", "must be at least 100, got 99"},
		{`{"headers":{}}`, `{"apiUrl":"https://a.example","method":"GET","outputMapping":{"a":"x..y"}}`, "/config/outputMapping/a", "value-path: a name is missing"},
		{`{"headers":{}}`, `{"apiUrl":"https://a.example","method":"GET","outputMapping":{"body":"x"}}`, "/config/outputMapping/body", "has a name that is not allowed\n"},
		{`{"headers":{"Host":"x"}}`, `{"apiUrl":"https://a.example","method":"GET"}`, "/input/headers/Host", "has a name that is not allowed\n"},
		{`{"headers":{"a b":"x"}}`, `{"apiUrl":"https://a.example","method":"GET"}`, "/input/headers/a b", "has a name that is not allowed: it must match ^[A-Za-z0-9"},
	} {
		err := registry.Check("API_CALL", json.RawMessage(c.input), json.RawMessage(c.config))
		if text := componenttest.Refusal(err); !strings.Contains(text, c.pointer+": ") || !strings.Contains(text, c.message) {
			t.Errorf("%s %s: %s; want %s: %s", c.input, c.config, text, c.pointer, c.message)
		}
	}
}

// A response is secret if it repeats the value of a secret header, but not if it repeats a common
// header.
func TestMT05ResponseThatRepeatsSecretHeaderIsSecret(t *testing.T) {
	t.Parallel()
	registry, err := component.NewRegistry(Modules(nil)...)
	if err != nil {
		t.Fatal(err)
	}
	entry, _ := registry.Lookup("API_CALL")
	for _, of := range []struct {
		header, value, body string
		secret              bool
	}{
		{"Authorization", "Bearer c4n4ry-token", `{"headers":{"Authorization":"Bearer c4n4ry-token"}}`, true},
		{"authorization", "Basic YWRhOmM0bjRyeS1wYXNz", `"ada may use c4n4ry-pass"`, true},
		{"X-Api-Key", "c4n4rykey", `{"url":"https://x.example/?k=c4n4rykey"}`, true},
		{"Cookie", "lang=en; session=c4n4ry5e55ion", `{"cookies":{"session":"c4n4ry5e55ion"}}`, true},
		{"X-Unheard-Of", "c4n4ry with blanks", `"c4n4ry+with+blanks"`, true},
		{"Accept", "application/json", `{"headers":{"Accept":"application/json"}}`, false},
		{"CONTENT-TYPE", "application/json; charset=utf-8", `{"headers":{"content-type":"application/json; charset=utf-8"}}`, false},
		{"User-Agent", "acme-client/1.0", `{"agent":"acme-client/1.0"}`, false},
		{"X-GitHub-Api-Version", "2022-11-28", `{"at":"2022-11-28"}`, false},
		{"Idempotency-Key", "order-20260102-17", `{"key":"order-20260102-17"}`, false},
		{"X-Short", "eu-west", `{"region":"eu-west"}`, false},
		{"Authorization", "Bearer c4n4ry-token", `{"scheme":"Bearer","headers":{"content-type":"application/json"}}`, false},
	} {
		input, err := json.Marshal(map[string]any{"headers": map[string]string{of.header: of.value}})
		if err != nil {
			t.Fatal(err)
		}
		call := component.Call{Input: input, Config: json.RawMessage(`{"apiUrl":"https://x.example","method":"GET"}`)}
		if got := entry.Shows(call, json.RawMessage(`{"status":200,"body":`+of.body+`}`)); got != of.secret {
			t.Errorf("%s: %s, answered by %s: %v", of.header, of.value, of.body, got)
		}
	}
}
