package app

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/waittest"
)

// useSecretVariable starts runs that use a secret variable in fields whose schema is not secret. In
// some runs an upstream echoes the value, in others the error quotes it, and one keeps running.
func (n *tenant) useSecretVariable(t *testing.T, upstream string) {
	t.Helper()
	const path = "/v1/sdk/environment-variables"
	set := n.sign(t, http.MethodPut, path+"/CANARY", map[string]any{"value": canary, "secret": true})
	set.into(t, &struct{}{})
	n.sign(t, http.MethodPut, path+"/CODE", map[string]any{"value": canaryCode, "secret": true}).into(t, &struct{}{})
	expectNone(t, "a variable", set.body, []string{canary})
	expectNone(t, "the variables", n.sign(t, http.MethodGet, path, nil).body, []string{canary})
	expectNone(t, "the variables, for a member", n.own(t, http.MethodGet, "/environment-variables", nil).body, []string{canary})
	call := map[string]any{
		"id": "call", "module": "API_CALL", "input": map[string]any{"headers": map[string]string{}},
		"config": map[string]any{"apiUrl": upstream + "/{{env.CANARY}}?key={{env.CANARY}}", "method": "GET"},
	}
	n.callWithToken(t, upstream)
	wrong := map[string]any{"id": "wrong", "module": "DELAY", "config": map[string]any{"durationMs": "{{env.CANARY}}"}}
	says := map[string]any{"id": "says", "module": "FAIL", "config": map[string]any{"message": "so: {{env.CANARY}}"}}
	fails := map[string]any{"id": "fails", "module": "FAIL", "config": map[string]any{"code": "{{env.CODE}}"}}
	for _, c := range []map[string]any{call, wrong, says, fails} {
		run := n.runOf(t, []any{c}, nil, 15000)
		if run.Run == nil || run.Run.Status != "FAILED" {
			t.Errorf("the run with %s did not fail: %+v", c["module"], run)
		}
		n.seenRedacted(t, run)
	}
	for _, c := range []map[string]any{call, wrong, says, fails} { // a failed loop repeats the error of its item
		loop := map[string]any{"id": "loop", "module": "FOR_EACH", "input": map[string]any{"items": []int{1}}}
		run := n.runOf(t, []any{loop, c}, []any{map[string]any{"id": "a", "from": "loop", "to": c["id"], "port": "each"}}, 15000)
		if run.Run == nil || !strings.Contains(string(run.Run.Error), "ITEM_FAILED") {
			t.Errorf("the run with %s in a loop did not fail because of its item: %+v", c["module"], run)
		}
		n.seenRedacted(t, run)
	}
	loop := map[string]any{
		"id": "loop", "module": "FOR_EACH", "input": map[string]any{"items": []any{map[string]string{"token": "{{env.CANARY}}"}}},
		"config": map[string]string{"onItemFailure": "continue"},
	}
	wait := map[string]any{"id": "wait", "module": "WAIT_FOR_SIGNAL", "config": map[string]any{"name": "go", "timeoutMs": 600_000}}
	run := n.runOf(t, []any{loop, call, wait}, []any{
		map[string]string{"id": "a", "from": "loop", "to": "call", "port": "each"}, map[string]string{"id": "b", "from": "loop", "to": "wait", "port": "done"},
	}, 0)
	waittest.Until(t, "the wait for the signal", func() bool {
		return strings.Contains(n.sign(t, http.MethodGet, "/v1/sdk/workflows/executions/"+run.RunID.String()+"/stages", nil).body, "WAIT_FOR_SIGNAL")
	})
	n.seenRedacted(t, run)
}

// runOf runs a workflow with these components and edges.
func (n *tenant) runOf(t *testing.T, components, edges []any, waitForMs int) (run api.TriggerResult) {
	t.Helper()
	body := map[string]any{"name": "secret", "components": components}
	if edges != nil {
		body["sequenceEdges"] = edges
	}
	var w api.Workflow
	n.sign(t, http.MethodPost, "/v1/sdk/workflows", body).into(t, &w)
	n.sign(t, http.MethodPost, "/v1/sdk/workflows/"+w.ID.String(), map[string]any{"waitForMs": waitForMs}).into(t, &run)
	return run
}

// seenRedacted is seenRun for a run in which every execution shows something redacted.
func (n *tenant) seenRedacted(t *testing.T, run api.TriggerResult) {
	t.Helper()
	for _, body := range n.seenRun(t, run) {
		if !strings.Contains(body, "[redacted]") {
			t.Errorf("nothing is redacted: %s", body)
		}
	}
}

// seenRun checks that no API response about a run contains the canary. It returns the bodies of the
// run's executions.
func (n *tenant) seenRun(t *testing.T, run api.TriggerResult) (executions []string) {
	t.Helper()
	path := "/v1/sdk/workflows/executions/" + run.RunID.String()
	for _, part := range []string{"", "/stages", "/events"} {
		expectNone(t, "a run"+part, n.sign(t, http.MethodGet, path+part, nil).body, []string{canary})
	}
	var record api.WorkflowRun
	n.sign(t, http.MethodGet, path, nil).into(t, &record)
	for _, stage := range record.RunStages {
		if stage.ExecutionEventID != nil {
			answer := n.sign(t, http.MethodGet, "/v1/sdk/components/executions/"+stage.ExecutionEventID.String(), nil)
			expectNone(t, "the execution of a stage", answer.body, []string{canary})
			executions = append(executions, answer.body)
		}
	}
	return executions
}

// callWithToken runs a call with an access token that is the canary, and one whose client secret is the canary
// and whose token address quotes it in a failure.
func (n *tenant) callWithToken(t *testing.T, upstream string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/refuses" {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = fmt.Fprintf(w, `{"error":"invalid_client","error_description":%q}`, canary)
			return
		}
		_, _ = fmt.Fprintf(w, `{"access_token":%q,"expires_in":3600}`, canary)
	}))
	defer server.Close()
	for name, path := range map[string]string{"TOKEN": "/token", "REFUSED": "/refuses"} {
		body := map[string]any{"kind": "oauth2", "tokenUrl": server.URL + path, "clientId": "weft", "clientSecret": canary}
		set := n.sign(t, http.MethodPut, "/v1/sdk/environment-variables/"+name, body)
		set.into(t, &struct{}{})
		expectNone(t, "a token", set.body, []string{canary})
		run := n.runOf(t, []any{map[string]any{
			"id": "call", "module": "API_CALL", "input": map[string]any{"headers": map[string]string{"Authorization": "Bearer {{env." + name + "}}"}},
			"config": map[string]any{"apiUrl": upstream + "/{{env." + name + "}}?key={{env." + name + "}}", "method": "GET"},
		}}, nil, 15000)
		want := map[string]string{"TOKEN": "UPSTREAM_ERROR", "REFUSED": "CREDENTIAL_UNAVAILABLE"}[name]
		if run.Run == nil || !strings.Contains(string(run.Run.Error), want) {
			t.Errorf("the call with %s did not fail with %s: %+v", name, want, run)
		}
		n.seenRun(t, run)
	}
	expectNone(t, "the variables", n.sign(t, http.MethodGet, "/v1/sdk/environment-variables", nil).body, []string{canary})
}
