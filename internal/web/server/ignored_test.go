package server

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/web/contract"
)

func TestSuccessfulResponsesReportIgnoredNames(t *testing.T) {
	s := start(t)
	const body = `{"module":"HASH","input":{"x":1},"config":{},"colour":"red"}`
	for _, c := range []struct {
		method, path, body string
		headers            []string
		status             int
		want               string
	}{
		{"POST", executePath, body, nil, 200, `"/colour"`},
		{"POST", executePath + "?b=1&a=2", body, nil, 200, `"a", "b", "/colour"`},
		{"GET", getPath + "?stages=none", "", nil, 200, `"stages"`},
		{"HEAD", getPath + "?stages=none", "", nil, 200, `"stages"`},
		{"GET", "/healthz?x", "", nil, 200, `"x"`},
		{"POST", executePath, `{"module":"HASH","input":{},"config":{}}`, nil, 200, ""},
		{"POST", executePath, `{"module":"HASH","input":{},"colour":"red"}`, nil, 400, ""},
		{"GET", getPath + "/stream?x=1", "", nil, 404, ""},
		{"POST", executePath, body, []string{"Prefer: handling=strict"}, 400, ""},
	} {
		got := s.do(t, c.method, c.path, c.body, c.headers...)
		if got.status != c.status || got.header.Get("Weft-Ignored") != c.want {
			t.Errorf("%s %s: %d, Weft-Ignored %s, want %d, %s", c.method, c.path, got.status, got.header.Get("Weft-Ignored"), c.status, c.want)
		}
	}
}

func TestSignedRequestsWithoutContentTypeAreJSON(t *testing.T) {
	s := start(t)
	const body = `{"module":"HASH","input":{},"config":{}}`
	if got := s.do(t, "POST", executePath, body, "Content-Type: "); got.status != 200 {
		t.Errorf("signed: %d %s", got.status, got.body)
	}
	if got := s.do(t, "POST", executePath, body, "Content-Type: text/plain"); got.status != 415 {
		t.Errorf("another type: %d %s", got.status, got.body)
	}
	if got := s.do(t, "POST", "/v1/sdk/signature-check", `{}`, "Content-Type: "); got.status != 415 {
		t.Errorf("open: %d %s", got.status, got.body)
	}
}

// The scope of an Idempotency-Key includes the path. The case of IDs in it doesn't matter, the
// case of names does.
func TestIdempotencyScopeIgnoresCaseOfIDs(t *testing.T) {
	upper := strings.ToUpper(executionID)
	for path, want := range map[string]string{
		"/v1/sdk/workflows/{workflowId}":                          "/v1/sdk/workflows/" + executionID,
		"/v1/sdk/workflows/{workflowId}/components/{componentId}": "/v1/sdk/workflows/" + executionID + "/components/" + executionID,
		"/v1/sdk/workflows/executions/{runId}/signals/{signal}":   "/v1/sdk/workflows/executions/" + executionID + "/signals/" + upper,
	} {
		r, target := httptest.NewRequest(http.MethodPost, "/", nil), path
		for _, name := range []string{"workflowId", "componentId", "runId", "signal"} {
			r.SetPathValue(name, upper)
			target = strings.ReplaceAll(target, "{"+name+"}", upper)
		}
		r.URL.Path = target
		r.Header.Set("Idempotency-Key", "a")
		call := &call{operation: &contract.Operation{Path: path}}
		if call.setIdempotency(r, nil); call.path != want {
			t.Errorf("%s: %s, want %s", path, call.path, want)
		}
	}
}

// Strict handling reports all unknown parameters and fields at once.
func TestFaultsOfParametersAndBodyAreReportedTogether(t *testing.T) {
	s := start(t)
	for _, c := range []struct {
		method, path, body, prefer string
		want                       []string
	}{
		{"POST", executePath + "?a=1", `{"module":"HASH","input":{},"config":{},"colour":1}`, "handling=strict", []string{"/colour", "/query/a"}},
		{"POST", executePath + "?a=1", `{"module":"HASH","input":{},"colour":1}`, "handling=strict", []string{"/colour", "/config", "/query/a"}},
		{"POST", executePath + "?a=1", `{"module":"HASH","input":{},"colour":1}`, "", []string{"/config"}},
		{"POST", executePath + "?a=1", ``, "handling=strict", []string{"/query/a"}},
		{"POST", "/v1/sdk/workflows?a=1", `{"name":"w","colour":1,"components":[{"id":"a","module":"HASH","more":1}]}`, "handling=strict", []string{"/colour", "/components/0/more", "/query/a"}},
		{"GET", getPath + "?a=1", `{"b":1}`, "handling=strict", []string{"/b", "/query/a"}},
	} {
		got := s.do(t, c.method, c.path, c.body, "Prefer: "+c.prefer)
		var problem struct{ Errors []struct{ Pointer string } }
		if err := json.Unmarshal([]byte(got.body), &problem); err != nil {
			t.Fatal(err)
		}
		var pointers []string
		for _, fault := range problem.Errors {
			pointers = append(pointers, fault.Pointer)
		}
		if got.status != 400 || !slices.Equal(pointers, c.want) {
			t.Errorf("%s %s: %d %v, want %v", c.path, c.body, got.status, pointers, c.want)
		}
	}
}
