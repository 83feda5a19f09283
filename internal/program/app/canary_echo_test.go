package app

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/secret/redact"
)

// mirror is an upstream that returns the request's headers, both unchanged and in base64. On some
// paths it returns only the headers that are not secret, or acts as an EVM node that has a
// transaction.
func mirror(rw http.ResponseWriter, r *http.Request) {
	rw.Header().Set("Content-Type", "application/json")
	shown := map[string]any{"type": r.Header.Get("Content-Type"), "accept": r.Header.Get("Accept"), "agent": r.Header.Get("User-Agent")}
	switch {
	case strings.HasPrefix(r.URL.Path, "/node"):
		var call struct {
			ID     json.RawMessage
			Method string
		}
		_ = json.NewDecoder(r.Body).Decode(&call)
		result := map[string]any{
			"eth_blockNumber":          "0x10",
			"eth_getTransactionByHash": map[string]any{"hash": aHash, "from": "0x0000000000000000000000000000000000000001", "nonce": "0x1", "input": r.RequestURI},
		}[call.Method]
		shown = map[string]any{"jsonrpc": "2.0", "id": call.ID, "result": result}
	case r.URL.Path != "/silent":
		rw.Header().Set("X-Seen", r.Header.Get("Authorization"))
		shown["sent"], shown["hidden"] = r.Header, base64.StdEncoding.EncodeToString(fmt.Append(nil, r.Header))
	}
	_ = json.NewEncoder(rw).Encode(shown)
}

var aHash = "0x" + strings.Repeat("ab", 32)

// call is API_CALL with a header that is a secret and one that is not.
func (n *secretOutputs) call(path, name, value string) map[string]any {
	return map[string]any{
		"input":  map[string]any{"headers": map[string]string{name: value, "Accept": "application/json"}},
		"config": map[string]any{"apiUrl": n.upstream + path, "method": "GET"},
	}
}

// An upstream returns a canary to executions and to runs, and a signal passes one to a run while a
// wait is in progress. No stored row and no log contains the canary in any encoding. Authorized
// clients can read the canary, even after a change of the master key. Outputs without a canary are
// stored in plain text.
func TestMT05EchoedSecretsDoNotLeak(t *testing.T) {
	t.Parallel()
	w := startWhole(t, nil)
	n := &secretOutputs{tenant: w.tenant(t, "acme"), shown: map[string]string{}, identity: "1dentity-0f-nobody"}
	n.secrets = []string{canary, n.identity}
	upstream := httptest.NewServer(http.HandlerFunc(mirror))
	defer upstream.Close()
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		n.callbacks.Store(r.URL.Path, string(body))
	}))
	defer receiver.Close()
	n.upstream = upstream.URL
	n.sign(t, http.MethodPut, "/v1/sdk/environment-variables/CANARY", map[string]any{"value": canary, "secret": true}).into(t, &struct{}{})

	echoed := n.execute(t, "API_CALL", n.call("/", "Authorization", "Bearer "+canary), receiver.URL+"/echoed")
	silent := n.execute(t, "API_CALL", n.call("/silent", "Authorization", "Bearer "+canary), receiver.URL+"/silent")
	n.expectShown(t, "an output", string(echoed.Output), canary)
	n.expectSealed(t, w, "SELECT output FROM component_executions WHERE id = $1", echoed.ID, true)
	n.expectSealed(t, w, "SELECT output FROM component_executions WHERE id = $1", silent.ID, false)
	n.echoInRun(t, w)
	n.signalRun(t, w)
	waiting := n.startWait(t, w)

	n.recheck(t, echoed)
	waittest.Until(t, "the callback", func() bool { _, came := n.callbacks.Load("/echoed"); return came })
	w.app.Stop(t.Context())
	n.checkEchoesAfterStop(t, w)
	n.rotate(t, w)
	n.recheck(t, echoed)
	n.callbacks.Clear()
	n.sign(t, http.MethodPost, "/v1/sdk/components/executions/"+echoed.ID.String()+"/replay-callback?force=true", nil).into(t, &struct{}{})
	waittest.Until(t, "the callback", func() bool { _, came := n.callbacks.Load("/echoed"); return came })
	if got := n.sign(t, http.MethodGet, "/v1/sdk/components/executions/"+waiting.ID.String(), nil).body; !strings.Contains(got, `"EXECUTING"`) {
		t.Errorf("the waiting execution is now %s", got)
	}
	w.app.Stop(t.Context())
	n.checkEchoesAfterStop(t, w)
}

// checkEchoesAfterStop searches the log and the database of a stopped process for the canary in
// several encodings.
func (n *secretOutputs) checkEchoesAfterStop(t *testing.T, w *whole) {
	t.Helper()
	body, _ := n.callbacks.Load("/echoed")
	n.expectShown(t, "the callback", fmt.Sprint(body), canary)
	var sought redact.Sought
	for _, secret := range n.secrets {
		sought.Add(secret)
	}
	for where, text := range map[string]string{"the log at debug": w.log.String(), "a dump of every table": dump(t, w.dsn)} {
		expectNone(t, where, text, n.secrets)
		if sought.In([]byte(text)) {
			t.Errorf("%s contains an encoded secret", where)
		}
	}
}

// expectSealed checks whether the value that the query returns is stored sealed.
func (n *secretOutputs) expectSealed(t *testing.T, w *whole, sql string, id any, want bool) {
	t.Helper()
	var kind string
	if err := w.app.pools.system.QueryRow(t.Context(), "SELECT COALESCE(json_typeof(("+sql+")), '')", id).Scan(&kind); err != nil || kind == "" || (kind == "string") != want {
		t.Errorf("%s: %v is stored as %q, %v; want sealed: %v", sql, id, kind, err, want)
	}
}

// echoInRun runs a workflow that processes what upstreams echo of a variable and of a literal.
func (n *secretOutputs) echoInRun(t *testing.T, w *whole) {
	t.Helper()
	run := n.run(t, []any{
		secretEntry,
		part("variable", "API_CALL", n.call("/", "Authorization", "Bearer {{env.CANARY}}")),
		part("literal", "API_CALL", n.call("/", "X-Key", canary)),
		part("silent", "API_CALL", n.call("/silent", "X-Key", "{{env.CANARY}}")),
		part("text", "JSON_STRINGIFY", nil),
		part("plain", "JSON_STRINGIFY", nil),
		part("answer", "RESPOND", nil),
	}, drawn("start>variable start>literal start>silent variable>text silent>plain literal>answer text>answer plain>answer",
		"variable.body>text.value silent.body>plain.value text.text>answer.variable literal.body>answer.literal plain.text>answer.plain"), "none")
	if got := strings.Count(string(run.Output), canary); run.Status != "COMPLETED" || got < 2 {
		t.Fatalf("the run is %s %s and shows the canary %d times: %s", run.Status, run.Error, got, run.Output)
	}
	for _, stage := range run.RunStages {
		sealed := map[string]bool{"variable": true, "literal": true, "text": true, "answer": true, "start": true}[stage.ComponentID]
		n.expectSealed(t, w, "SELECT output FROM run_stages WHERE id = $1", stage.ID, sealed)
	}
	n.expectSealed(t, w, "SELECT output FROM workflow_runs WHERE id = $1", run.ID, true)
	n.keep(t, run)
}

// signalRun sends signals to a run before and after it waits for them. Some are secret, one is not.
func (n *secretOutputs) signalRun(t *testing.T, w *whole) {
	t.Helper()
	waits := func(name string, secret any) map[string]any {
		return map[string]any{"config": map[string]any{"name": name, "timeoutMs": 600_000, "secret": secret}}
	}
	flows := drawn("start>open open>early early>late late>answer", "open.payload>answer.open early.payload>answer.early late.payload.code>answer.late")
	flows["name"], flows["components"] = "signals", []any{
		secretEntry, part("open", "WAIT_FOR_SIGNAL", waits("open", false)), part("early", "WAIT_FOR_SIGNAL", waits("early", true)),
		part("late", "WAIT_FOR_SIGNAL", waits("late", true)), part("answer", "RESPOND", nil),
	}
	var drawn api.Workflow
	n.sign(t, http.MethodPost, "/v1/sdk/workflows", flows).into(t, &drawn)
	var begun api.TriggerResult
	n.sign(t, http.MethodPost, "/v1/sdk/workflows/"+drawn.ID.String(), map[string]any{"input": map[string]string{"identity": n.identity}}).into(t, &begun)
	path := "/v1/sdk/workflows/executions/" + begun.RunID.String()
	signal := func(name, code string) string {
		return n.sign(t, http.MethodPut, path+"/signals/"+name, map[string]any{"code": code}).body
	}
	first := signal("early", canary)
	n.expectShown(t, "a signal", first, canary)
	if again := signal("early", "another"); again != first {
		t.Errorf("the signal is now %s, want %s", again, first)
	}
	signal("open", "no secret at all")
	waittest.Until(t, "the stage to wait", func() bool { return strings.Contains(n.sign(t, http.MethodGet, path+"/stages", nil).body, `"late"`) })
	expectNone(t, "a dump while it waits", dump(t, w.dsn), n.secrets)
	signal("late", canary)
	var run api.WorkflowRun
	waittest.Until(t, "the run to finish", func() bool {
		n.sign(t, http.MethodGet, path, nil).into(t, &run)
		return run.Status.Terminal()
	})
	if got := strings.Count(string(run.Output), canary); run.Status != "COMPLETED" || got != 2 || !strings.Contains(string(run.Output), "no secret at all") {
		t.Fatalf("the run is %s %s with output %s", run.Status, run.Error, run.Output)
	}
	for _, stage := range run.RunStages {
		n.expectSealed(t, w, "SELECT output FROM run_stages WHERE id = $1", stage.ID, stage.ComponentID != "open")
	}
	n.keep(t, run)
}

// startWait starts a component that waits on a node whose address is secret.
func (n *secretOutputs) startWait(t *testing.T, w *whole) (record api.ComponentExecution) {
	t.Helper()
	n.sign(t, http.MethodPost, "/v1/sdk/components", map[string]any{
		"module": "WAIT_FOR_EVM_TRANSACTION", "input": map[string]any{"jsonRpcUrl": n.upstream + "/node/" + canary + "?key=" + canary, "transactionHash": aHash}, "config": map[string]any{},
	}).into(t, &record)
	waittest.Until(t, "the wait", func() bool {
		var from *string
		err := w.app.pools.system.QueryRow(t.Context(), "SELECT wait_state->>'from' FROM component_executions WHERE id = $1", record.ID).Scan(&from)
		return err == nil && from != nil
	})
	return record
}
