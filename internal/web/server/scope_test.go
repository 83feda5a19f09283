package server

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
)

// A restricted key is rejected before its body is validated and before any database lookup.
// This test has no handlers.
func TestRestrictedKeyIsRejectedBeforeLookup(t *testing.T) {
	const listed, other = "019aa5f2-5f60-7172-8d84-9e0f1a2b3c4d", "019aa5f2-5f60-7172-8d84-9e0f1a2b3c4e"
	s := start(t, func(s *service, _ *http.Server) {
		s.workflows = []uuid.UUID{uuid.MustParse(listed)}
		s.keys = map[string]uuid.UUID{"listed": uuid.MustParse(listed), "other": uuid.MustParse(other)}
	})
	for _, c := range []struct {
		method, target, body string
		reason               string
	}{
		{"GET", "/v1/sdk/workflows/" + other, "", "workflow_not_allowed"},
		{"POST", "/v1/sdk/workflows/" + other, "{}", "workflow_not_allowed"},
		{"POST", "/v1/sdk/workflows/" + other, `{"waitForMs":-1}`, "workflow_not_allowed"},
		{"POST", "/v1/sdk/workflows/" + other + "/quote", "{}", "workflow_not_allowed"},
		{"POST", "/v1/sdk/workflows/" + other + "/components/a", `{"position":[1]}`, "workflow_not_allowed"},
		{"PUT", "/v1/sdk/workflows/" + other, "{}", "workflow_not_allowed"},
		{"DELETE", "/v1/sdk/workflows/" + other, "", "workflow_not_allowed"},
		{"GET", "/v1/sdk/workflows/other", "", "workflow_not_allowed"},
		{"POST", "/v1/sdk/workflows/unknown", `{"waitForMs":-1}`, "workflow_not_allowed"},
		{"GET", "/v1/sdk/workflow-exports/unknown", "", "workflow_not_allowed"},
		{"PUT", "/v1/sdk/workflows/listed", "{}", "key_restricted"},
		{"PUT", "/v1/sdk/workflows/" + listed, "{}", "key_restricted"},
		{"DELETE", "/v1/sdk/workflows/" + listed, "", "key_restricted"},
		{"GET", "/v1/sdk/workflows", "", "key_restricted"},
		{"POST", "/v1/sdk/workflows", `{"name":7}`, "key_restricted"},
		{"GET", "/v1/sdk/environment-variables", "", "key_restricted"},
		{"PUT", "/v1/sdk/environment-variables/A", `{"value":7}`, "key_restricted"},
		{"DELETE", "/v1/sdk/environment-variables/A", "", "key_restricted"},
	} {
		got := s.do(t, c.method, c.target, c.body)
		if problem := got.problem(t); got.status != http.StatusForbidden || problem.Reason == nil || *problem.Reason != c.reason {
			t.Errorf("%s %s: %d %s", c.method, c.target, got.status, got.body)
		}
	}
	// Malformed JSON takes precedence over the scope of the key.
	if got := s.do(t, "POST", "/v1/sdk/workflows/"+other, "{"); got.status != http.StatusBadRequest {
		t.Errorf("%d %s", got.status, got.body)
	}
	// Operations that aren't about workflows are allowed.
	if got := s.do(t, "POST", executePath, `{"module":"A","input":{},"config":{}}`); got.status != http.StatusOK || strings.Contains(got.body, "reason") {
		t.Errorf("%d %s", got.status, got.body)
	}
}
