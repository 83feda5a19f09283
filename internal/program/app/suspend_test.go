package app

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/kit/waittest"
)

// deliver sends a delivery to a hook with the secret.
func (w *whole) deliver(t *testing.T, path, secret string) reply {
	t.Helper()
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte("{}"))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.app.URL()+path, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-Mac", hex.EncodeToString(mac.Sum(nil)))
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{answer.StatusCode, answer.Header, string(text)}
}

// suspendable has ways to start work in a workspace, and a run that waits for a signal.
type suspendable struct {
	*tenant
	starts  map[string]func() reply
	running string // path
}

func (n *tenant) suspendable(t *testing.T) suspendable {
	t.Helper()
	save := func(body map[string]any) string {
		var made api.Workflow
		n.sign(t, http.MethodPost, "/v1/sdk/workflows", body).into(t, &made)
		return made.ID.String()
	}
	plain := save(map[string]any{"name": "plain", "components": []any{map[string]any{"id": "a", "module": "RANDOM_UUID"}}})
	waiting := save(map[string]any{"name": "waiting", "components": []any{
		map[string]any{"id": "wait", "module": "WAIT_FOR_SIGNAL", "config": map[string]any{"name": "go", "timeoutMs": 3_600_000}},
		map[string]any{"id": "child", "module": "RUN_WORKFLOW", "config": map[string]any{"workflowId": plain}},
	}, "sequenceEdges": []any{map[string]any{"id": "1", "from": "wait", "to": "child"}}})
	const secret = "correct horse battery"
	var hook struct{ Path string }
	n.sign(t, http.MethodPost, "/v1/sdk/hooks", map[string]any{
		"workflowId": plain, "verification": map[string]any{"secret": secret, "header": "X-Mac"},
	}).into(t, &hook)
	var running api.TriggerResult
	n.sign(t, http.MethodPost, "/v1/sdk/workflows/"+waiting, nil).into(t, &running)

	ways := map[string]func() reply{"a delivery": func() reply { return n.whole.deliver(t, hook.Path, secret) }}
	for name, path := range map[string]string{"an execution": "components", "a run": "workflows/" + plain, "a run that waits": "workflows/" + waiting} {
		for _, waitForMs := range []int{0, 1} {
			body := map[string]any{"waitForMs": waitForMs}
			if name == "an execution" {
				body["module"], body["input"], body["config"] = "RANDOM_UUID", map[string]any{}, map[string]any{}
			}
			ways[fmt.Sprintf("%s, waitForMs %d", name, waitForMs)] = func() reply { return n.sign(t, http.MethodPost, "/v1/sdk/"+path, body) }
		}
	}
	return suspendable{n, ways, "/v1/sdk/workflows/executions/" + running.RunID.String()}
}

// A suspended workspace can't start executions and runs, however it tries. Accepted runs continue
// with new stages, but start no child runs, and all data can be read.
func TestSuspendedWorkspaceStartsNothingNew(t *testing.T) {
	t.Parallel()
	w := startWhole(t, nil)
	system := w.app.pools.system
	n, other := w.tenant(t, "acme").suspendable(t), w.tenant(t, "other").suspendable(t)
	expect := func(of suspendable, status int, reason string) {
		t.Helper()
		for name, start := range of.starts {
			if r := start(); r.status != status || !strings.Contains(r.body, reason) {
				t.Errorf("%s: got status %d %s, want %d %s", name, r.status, r.body, status, reason)
			}
		}
	}
	for range 2 { // the second changes nothing
		if _, err := billing.Suspend(t.Context(), system, n.id, "sends spam"); err != nil {
			t.Fatal(err)
		}
	}
	expect(n, http.StatusForbidden, `"reason":"workspace_suspended"`)
	expect(other, http.StatusOK, "")

	n.sign(t, http.MethodPut, n.running+"/signals/go", map[string]any{}).into(t, &struct{}{})
	var run api.WorkflowRun
	waittest.Until(t, "the accepted run to finish", func() bool {
		n.sign(t, http.MethodGet, n.running, nil).into(t, &run)
		return run.FinishedAt != nil
	})
	if run.Status != status.RunFailed || !strings.Contains(string(run.Error), "has suspended this workspace") {
		t.Errorf("the accepted run is %s: %s; its child run must not start", run.Status, run.Error)
	}

	for range 2 {
		if _, err := billing.EndSuspension(t.Context(), system, n.id); err != nil {
			t.Fatal(err)
		}
	}
	expect(n, http.StatusOK, "")
	var recorded []string
	for _, e := range n.events(t) {
		if strings.HasPrefix(e.Action, "workspace.") {
			recorded = append(recorded, e.Action+" "+string(e.Details))
		}
	}
	if got := strings.Join(recorded, ", "); got != `workspace.suspended {"reason":"sends spam"}, workspace.resumed {}` {
		t.Errorf("the audit log has %s", got)
	}
}
