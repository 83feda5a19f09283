package server

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestSuccessfulAnswersReportWhatWasIgnored(t *testing.T) {
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

// The scope of an Idempotency-Key has the path, and an id in it may be in any case.
func TestIdempotencyScopeDoesNotDependOnTheCaseOfIDs(t *testing.T) {
	var paths []string
	for _, id := range []string{executionID, strings.ToUpper(executionID)} {
		r := httptest.NewRequest(http.MethodPost, "/v1/sdk/workflows/"+id, nil)
		r.SetPathValue("workflowId", id)
		r.Header.Set("Idempotency-Key", "a")
		call := &call{}
		call.keep(r, nil)
		paths = append(paths, call.path)
	}
	if paths[0] != "/v1/sdk/workflows/"+executionID || paths[1] != paths[0] {
		t.Errorf("paths %q", paths)
	}
}
