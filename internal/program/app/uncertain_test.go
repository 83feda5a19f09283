package app

import (
	"context"
	"net/http"
	"testing"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/platform/quarantine"
)

// After a restore, a run doesn't show the calls that it made after the backup.
func TestOP05ARunThatWouldRepeatAnUnsafeCallFails(t *testing.T) {
	t.Parallel()
	w := startWhole(t, nil)
	n := w.tenant(t, "restored")
	save := func(components []any, edges []any) string {
		t.Helper()
		var made struct{ ID string }
		n.sign(t, http.MethodPost, "/v1/sdk/workflows", map[string]any{"name": "w", "components": components, "sequenceEdges": edges}).into(t, &made)
		return made.ID
	}
	wait := map[string]any{"id": "wait", "module": "WAIT_FOR_SIGNAL", "config": map[string]any{"name": "go", "timeoutMs": 3_600_000}}
	call := func(id, method string, headers map[string]any) map[string]any {
		return map[string]any{"id": id, "module": "API_CALL", "input": map[string]any{"headers": headers}, "config": map[string]any{"apiUrl": "https://a.example", "method": method}}
	}
	edge := func(from, to, port string) map[string]any {
		return map[string]any{"id": from + to, "from": from, "to": to, "port": port}
	}
	after := []any{edge("wait", "call", "next")}
	branch := map[string]any{"id": "branch", "module": "IF", "config": map[string]any{"expression": "false"}}
	dead := []any{edge("branch", "call", "then"), edge("branch", "wait", "else")}
	post := save([]any{wait, call("call", "POST", map[string]any{})}, after)
	each := map[string]any{"id": "each", "module": "FOR_EACH", "input": map[string]any{"items": []int{1}}}
	versions := save([]any{wait, call("call", "GET", map[string]any{})}, after)
	n.sign(t, http.MethodPut, "/v1/sdk/workflows/"+versions, map[string]any{"name": "w", "components": []any{wait, call("call", "POST", map[string]any{})}, "sequenceEdges": after}).into(t, &struct{}{})
	child := func(id string, version int) map[string]any {
		return map[string]any{"id": id, "module": "RUN_WORKFLOW", "config": map[string]any{"workflowId": versions, "version": version}}
	}
	runs := map[string]struct {
		workflow string
		fails    bool
		id       uuid.UUID
	}{
		"a POST ahead":                              {workflow: post, fails: true},
		"a GET ahead":                               {workflow: save([]any{wait, call("call", "GET", map[string]any{})}, after)},
		"a POST with a literal key":                 {workflow: save([]any{wait, call("call", "POST", map[string]any{"Idempotency-Key": "k"})}, after)},
		"a POST whose key is a variable":            {workflow: save([]any{wait, call("call", "POST", map[string]any{"Idempotency-Key": "{{env.KEY}}"})}, after), fails: true},
		"a POST in a branch that is dead":           {workflow: save([]any{branch, wait, call("call", "POST", map[string]any{})}, dead)},
		"a POST in a child run ahead":               {workflow: save([]any{wait, map[string]any{"id": "call", "module": "RUN_WORKFLOW", "config": map[string]any{"workflowId": post}}}, after), fails: true},
		"a POST in a child run of another version":  {workflow: save([]any{wait, child("a", 1), child("b", 2)}, []any{edge("wait", "a", "next"), edge("a", "b", "next")}), fails: true},
		"a child run of the version without a POST": {workflow: save([]any{wait, child("a", 1)}, []any{edge("wait", "a", "next")})},
		"a POST in a loop ahead":                    {workflow: save([]any{wait, each, call("call", "POST", map[string]any{})}, []any{edge("wait", "each", "next"), edge("each", "call", "each")}), fails: true},
	}
	for name, one := range runs {
		var begun struct{ RunID uuid.UUID }
		n.sign(t, http.MethodPost, "/v1/sdk/workflows/"+one.workflow, nil).into(t, &begun)
		one.id = begun.RunID
		runs[name] = one
		waittest.Until(t, "the run to wait", func() bool {
			var waiting int
			err := w.app.pools.system.QueryRow(t.Context(), "SELECT count(*) FROM run_stages WHERE run_id = $1 AND component_id = 'wait' AND signal IS NOT NULL", one.id).Scan(&waiting)
			return err == nil && waiting == 1
		})
	}
	owner, err := postgres.Open(t.Context(), w.dsn, "operator", postgres.System, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer owner.Close()
	if _, err := quarantine.Start(t.Context(), owner, "a test"); err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, "the process to be held", func() bool { return w.app.watch.Held() })
	found, err := CountUncertainRuns(t.Context(), owner)
	failed, failErr := FailUncertainRuns(context.Background(), owner)
	if err != nil || failErr != nil || found != 5 || failed != 5 {
		t.Fatalf("%d found (%v), %d failed (%v), want 5", found, err, failed, failErr)
	}
	if _, err := quarantine.Release(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	for name, one := range runs {
		var state string
		read := func() string {
			err := owner.QueryRow(t.Context(), "SELECT status || ' ' || COALESCE(error ->> 'code', '') FROM workflow_runs WHERE id = $1", one.id).Scan(&state)
			if err != nil {
				t.Fatal(err)
			}
			return state
		}
		if one.fails {
			waittest.Until(t, name+": to fail", func() bool { return read() == "FAILED RESTORE_UNCERTAIN" })
		} else if read() != "EXECUTING " {
			t.Errorf("%s: %s", name, state)
		}
	}
}
