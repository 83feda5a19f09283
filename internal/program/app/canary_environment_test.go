package app

import (
	"net/http"
	"strings"
	"testing"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/waittest"
)

// useSecretVariable lets runs use a variable whose value is the canary where nothing is
// secret by its schema: one fails for an upstream that repeats it, one as it says itself,
// and one goes on living.
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
	wrong := map[string]any{"id": "wrong", "module": "DELAY", "config": map[string]any{"durationMs": "{{env.CANARY}}"}}
	says := map[string]any{"id": "says", "module": "FAIL", "config": map[string]any{"message": "so: {{env.CANARY}}"}}
	fails := map[string]any{"id": "fails", "module": "FAIL", "config": map[string]any{"code": "{{env.CODE}}"}}
	for _, c := range []map[string]any{call, wrong, says, fails} {
		run := n.runOf(t, []any{c}, nil, 15000)
		if run.Run == nil || run.Run.Status != "FAILED" {
			t.Errorf("the run of %s did not fail: %+v", c["module"], run)
		}
		n.seenRedacted(t, run)
	}
	for _, c := range []map[string]any{call, wrong, says, fails} { // a loop that fails repeats what its item says
		loop := map[string]any{"id": "loop", "module": "FOR_EACH", "input": map[string]any{"items": []int{1}}}
		run := n.runOf(t, []any{loop, c}, []any{map[string]any{"id": "a", "from": "loop", "to": c["id"], "port": "each"}}, 15000)
		if run.Run == nil || !strings.Contains(string(run.Run.Error), "ITEM_FAILED") {
			t.Errorf("the run of %s in a loop did not fail by its item: %+v", c["module"], run)
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
	waittest.Until(t, "the change to be seen", func() bool {
		return strings.Contains(n.sign(t, http.MethodGet, "/v1/sdk/workflows/executions/"+run.RunID.String()+"/stages", nil).body, "WAIT_FOR_SIGNAL")
	})
	n.seenRedacted(t, run)
}

// runOf runs a workflow of these components and edges.
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

// seenRedacted is seenRun where something is to be taken out of what each execution tells.
func (n *tenant) seenRedacted(t *testing.T, run api.TriggerResult) {
	t.Helper()
	for _, body := range n.seenRun(t, run) {
		if !strings.Contains(body, "[redacted]") {
			t.Errorf("nothing was to be taken out: %s", body)
		}
	}
}

// seenRun looks for the canary in all that is told of a run. It returns what is told of its
// executions.
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
