package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/platform/telemetry"
	"github.com/weft-automation/weft/internal/program/rotation"
)

// secretOutputs is a workspace whose components have secret outputs.
type secretOutputs struct {
	*tenant
	secrets   []string
	identity  string
	upstream  string
	callbacks sync.Map // path of the receiver to body
	shown     map[string]string
}

// A component outputs a canary, both alone and in runs that pass it on, and one run has a canary as
// its input. No stored row and no log contains a canary. Authorized clients can read the canaries,
// even after a restart and after a change of the master key.
func TestMT05SecretOutputsDoNotLeak(t *testing.T) {
	t.Parallel()
	w, traces := startTraced(t)
	n := &secretOutputs{tenant: w.tenant(t, "acme"), shown: map[string]string{}}
	upstream := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.WriteHeader(http.StatusServiceUnavailable)
		_, _ = fmt.Fprintf(rw, "bad request %s", r.RequestURI)
	}))
	defer upstream.Close()
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		n.callbacks.Store(r.URL.Path, string(body))
	}))
	defer receiver.Close()
	n.upstream = upstream.URL

	generated := n.executeAlone(t, "GENERATE_AGE_ENCRYPTION", map[string]any{}, receiver.URL+"/generated")
	var keys struct{ AgeIdentity, AgeRecipient string }
	if err := json.Unmarshal(generated.Output, &keys); err != nil || !strings.HasPrefix(keys.AgeIdentity, "AGE-SECRET-KEY-") {
		t.Fatalf("the output is %s, %v", generated.Output, err)
	}
	n.identity, n.secrets = keys.AgeIdentity, []string{canary, keys.AgeIdentity}
	var sealed struct{ Ciphertext string }
	closed := n.executeAlone(t, "AGE_ENCRYPT", map[string]any{"data": canary, "ageRecipient": keys.AgeRecipient}, receiver.URL+"/closed")
	if err := json.Unmarshal(closed.Output, &sealed); err != nil {
		t.Fatal(err)
	}
	opened := n.executeAlone(t, "AGE_DECRYPT", map[string]any{"ciphertext": sealed.Ciphertext, "ageIdentity": keys.AgeIdentity}, receiver.URL+"/opened")
	n.expectShown(t, "an output", string(opened.Output), canary)
	n.passSecretOn(t, sealed.Ciphertext)
	n.failAtOnce(t, sealed.Ciphertext)
	n.passVariableOn(t)
	for _, path := range []string{"/generated", "/opened"} {
		waittest.Until(t, "the callback", func() bool { _, came := n.callbacks.Load(path); return came })
	}
	n.recheck(t, generated, opened)
	expectNone(t, "the metrics", w.get(t, w.app.OpsURL()+"/metrics"), n.secrets)
	w.app.Stop(t.Context())
	expectNone(t, "the traces", traces.String(), n.secrets)
	expectSpan(t, traces, "execute GENERATE_AGE_ENCRYPTION", "execute AGE_ENCRYPT", "execute AGE_DECRYPT")
	n.checkAfterStop(t, w)

	n.rotate(t, w)
	n.callbacks.Clear()
	n.recheck(t, generated, opened)
	for path, of := range map[string]api.ComponentExecution{"/generated": generated, "/opened": opened} {
		n.sign(t, http.MethodPost, "/v1/sdk/components/executions/"+of.ID.String()+"/replay-callback?force=true", nil).into(t, &struct{}{})
		waittest.Until(t, "the callback", func() bool { _, came := n.callbacks.Load(path); return came })
	}
	n.checkCallbacks(t)
	n.executeAlone(t, "GENERATE_AGE_ENCRYPTION", map[string]any{}, receiver.URL+"/again")
	if keys := strings.Count(dumpOf(t, w.dsn, "output_keys"), "\n"); keys != 2 {
		t.Errorf("the workspace has %d output keys, want 2: one for each master key", keys)
	}
	w.app.Stop(t.Context())
	n.checkAfterStop(t, w)
}

// executeAlone executes a component outside of any run.
func (n *secretOutputs) executeAlone(t *testing.T, module string, input map[string]any, receiver string) api.ComponentExecution {
	t.Helper()
	return n.execute(t, module, map[string]any{"input": input, "config": map[string]any{}}, receiver)
}

func (n *secretOutputs) execute(t *testing.T, module string, call map[string]any, receiver string) (record api.ComponentExecution) {
	t.Helper()
	n.sign(t, http.MethodPost, "/v1/sdk/components", map[string]any{
		"module": module, "input": call["input"], "config": call["config"], "waitForMs": 15000, "callbackUrl": receiver,
	}).into(t, &record)
	if record.Status != "COMPLETED" {
		t.Fatalf("%s is %s: %s", module, record.Status, record.Error)
	}
	return record
}

// secretEntry is a trigger with secrets in its input.
var secretEntry = map[string]any{"id": "start", "module": "ON_API_CALLED", "config": map[string]any{"inputSchema": map[string]any{
	"type": "object", "properties": map[string]any{"identity": map[string]any{"type": "string", "x-secret": true}, "ciphertext": map[string]any{"type": "string"}},
}}}

func part(id, module string, more map[string]any) map[string]any {
	c := map[string]any{"id": id, "module": module}
	for name, value := range more {
		c[name] = value
	}
	return c
}

// drawn returns edges and connections, written "from.port>to" and "from.output>to.input".
func drawn(edges, connections string) map[string]any {
	var after, data []any
	for i, text := range strings.Fields(edges) {
		from, to, _ := strings.Cut(text, ">")
		edge := map[string]any{"id": fmt.Sprint("e", i), "from": from, "to": to}
		if id, port, named := strings.Cut(from, "."); named {
			edge["from"], edge["port"] = id, port
		}
		after = append(after, edge)
	}
	for i, text := range strings.Fields(connections) {
		from, to, _ := strings.Cut(text, ">")
		source, output, _ := strings.Cut(from, ".")
		target, input, _ := strings.Cut(to, ".")
		data = append(data, map[string]any{
			"id": fmt.Sprint("d", i), "from": map[string]string{"componentId": source, "output": output}, "to": map[string]string{"componentId": target, "input": input},
		})
	}
	return map[string]any{"sequenceEdges": after, "dataConnections": data}
}

// run runs a workflow of these components with secrets in its input.
func (n *secretOutputs) run(t *testing.T, components []any, flows map[string]any, ciphertext string) api.WorkflowRun {
	t.Helper()
	flows["name"], flows["components"] = "secret", components
	var w api.Workflow
	n.sign(t, http.MethodPost, "/v1/sdk/workflows", flows).into(t, &w)
	var begun api.TriggerResult
	n.sign(t, http.MethodPost, "/v1/sdk/workflows/"+w.ID.String(), map[string]any{
		"input": map[string]string{"identity": n.identity, "ciphertext": ciphertext}, "waitForMs": 15000,
	}).into(t, &begun)
	if begun.Run == nil {
		t.Fatalf("no run was started: %+v", begun)
	}
	var run api.WorkflowRun
	waittest.Until(t, "the run to finish", func() bool {
		n.sign(t, http.MethodGet, "/v1/sdk/workflows/executions/"+begun.RunID.String(), nil).into(t, &run)
		return run.Status.Terminal()
	})
	return run
}

// passSecretOn runs a workflow that passes the canary to stages of every kind. Some stages fail
// because of the canary, others pass it on.
func (n *secretOutputs) passSecretOn(t *testing.T, ciphertext string) {
	t.Helper()
	var child api.Workflow
	below := drawn("start>answer", "start.token>answer.got")
	below["name"], below["components"] = "child", []any{part("start", "ON_API_CALLED", nil), part("answer", "RESPOND", nil)}
	n.sign(t, http.MethodPost, "/v1/sdk/workflows", below).into(t, &child)
	run := n.run(t, []any{
		secretEntry,
		part("open", "AGE_DECRYPT", nil),
		part("quotes", "FORMAT_DATE", map[string]any{"onFailure": "continue"}),
		part("calls", "API_CALL", map[string]any{"onFailure": "continue", "config": map[string]any{"apiUrl": n.upstream, "method": "GET"}, "input": map[string]any{"headers": map[string]string{}}}),
		part("text", "JSON_STRINGIFY", nil),
		part("shape", "TRANSFORM", map[string]any{"config": map[string]any{"expression": "'<' + v + '>'"}}),
		part("list", "ARRAY_BUILDER", map[string]any{"config": map[string]any{"itemType": "string"}}),
		part("each", "FOR_EACH", nil),
		part("inside", "JSON_STRINGIFY", nil),
		part("below", "RUN_WORKFLOW", map[string]any{"config": map[string]any{"workflowId": child.ID}}),
		part("answer", "RESPOND", nil),
	}, drawn("start>open open>quotes open>calls open>text text>shape shape>list list>each each.each>inside each.done>answer shape>below below>answer",
		"start.ciphertext>open.ciphertext start.identity>open.ageIdentity open.data>quotes.timestamp open.data>calls.query.k open.data>text.value text.text>shape.v shape.result>list.0 open.data>list.1"+
			" list.array>each.items each.item>inside.value shape.result>below.token inside.text>answer.all below.got>answer.below"), ciphertext)
	if run.Status != "COMPLETED" {
		t.Fatalf("the run is %s: %s", run.Status, run.Error)
	}
	if got := strings.Count(string(run.Output), canary); got != 3 {
		t.Errorf("the output contains the canary %d times: %s", got, run.Output)
	}
	failed := 0
	for _, stage := range run.RunStages {
		switch {
		case stage.Status == "FAILED":
			failed++
			expectNone(t, "the error of "+stage.ComponentID, string(stage.Error), n.secrets)
		case stage.ComponentID == "start": // the trigger redacts the secrets of the input
			expectNone(t, "the output of the trigger", string(stage.Output), n.secrets)
			n.expectShown(t, "the output of the trigger", string(stage.Output), "[redacted]")
		case stage.ComponentID != "each":
			n.expectShown(t, "the output of "+stage.ComponentID, string(stage.Output), canary)
		}
	}
	if failed != 2 || len(run.RunStages) != 12 {
		t.Errorf("%d of %d stages failed", failed, len(run.RunStages))
	}
	n.keep(t, run)
}

// passVariableOn runs a workflow in which the engine and a component output the value of a secret
// variable. Neither output is marked as secret in its schema.
func (n *secretOutputs) passVariableOn(t *testing.T) {
	t.Helper()
	n.sign(t, http.MethodPut, "/v1/sdk/environment-variables/CANARY", map[string]any{"value": canary, "secret": true}).into(t, &struct{}{})
	run := n.run(t, []any{
		secretEntry,
		part("constant", "STRING_CONSTANT", map[string]any{"config": map[string]any{"value": "{{env.CANARY}}"}}),
		part("text", "JSON_STRINGIFY", nil),
		part("written", "JSON_STRINGIFY", map[string]any{"input": map[string]any{"value": "{{env.CANARY}}"}}),
		part("answer", "RESPOND", nil),
	}, drawn("start>constant start>written constant>text text>answer", "constant.value>text.value text.text>answer.constant"), "none")
	n.expectShown(t, "the output", string(run.Output), canary)
	n.keep(t, run)
}

// failAtOnce runs a workflow that fails with an error that quotes the canary, and checks the run's
// events and stream.
func (n *secretOutputs) failAtOnce(t *testing.T, ciphertext string) {
	t.Helper()
	run := n.run(t, []any{secretEntry, part("open", "AGE_DECRYPT", nil), part("quotes", "FORMAT_DATE", nil)}, drawn("start>open open>quotes",
		"start.ciphertext>open.ciphertext start.identity>open.ageIdentity open.data>quotes.timestamp"), ciphertext)
	if run.Status != "FAILED" {
		t.Fatalf("the run is %s", run.Status)
	}
	expectNone(t, "the error of a run", string(run.Error), n.secrets)
	for _, part := range []string{"/events", "/stream"} {
		expectNone(t, "a run's "+part, n.sign(t, http.MethodGet, "/v1/sdk/workflows/executions/"+run.ID.String()+part, nil).body, n.secrets)
	}
	for _, stage := range run.RunStages {
		if stage.ComponentID == "quotes" {
			expectFaults(t, stage.Error)
		}
	}
	n.keep(t, run)
}

// expectFaults checks that the error of a stage lists its input faults as the contract says.
func expectFaults(t *testing.T, raw json.RawMessage) {
	t.Helper()
	var failure struct {
		Details struct{ Errors []map[string]string }
	}
	if err := json.Unmarshal(raw, &failure); err != nil || len(failure.Details.Errors) == 0 {
		t.Fatalf("the error is %s (%v)", raw, err)
	}
	for _, fault := range failure.Details.Errors {
		if len(fault) != 3 || fault["code"] != "INVALID_INPUT" || fault["message"] == "" || fault["pointer"] != "/input/timestamp" {
			t.Errorf("unexpected fault %v", fault)
		}
	}
}

// keep records what the API returns of a run, and checks that the input's secrets are redacted.
func (n *secretOutputs) keep(t *testing.T, run api.WorkflowRun) {
	t.Helper()
	if want := `"identity":"[redacted]"`; !strings.Contains(string(run.Input), want) || strings.Contains(string(run.Input), n.identity) {
		t.Errorf("the input is shown as %s", run.Input)
	}
	path := "/v1/sdk/workflows/executions/" + run.ID.String()
	for _, part := range []string{"", "/stages?limit=100", "/stream"} {
		n.shown[path+part] = n.sign(t, http.MethodGet, path+part, nil).body
	}
	for _, stage := range run.RunStages {
		if stage.ExecutionEventID != nil {
			path := "/v1/sdk/components/executions/" + stage.ExecutionEventID.String()
			n.shown[path] = n.sign(t, http.MethodGet, path, nil).body
		}
	}
}

// recheck reads again everything that keep recorded, and compares it.
func (n *secretOutputs) recheck(t *testing.T, executions ...api.ComponentExecution) {
	t.Helper()
	for path, want := range n.shown {
		if got := n.sign(t, http.MethodGet, path, nil).body; got != want {
			t.Errorf("%s is now\n%s\nwant\n%s", path, got, want)
		}
	}
	list := n.sign(t, http.MethodGet, "/v1/sdk/components/executions", nil).body
	for _, record := range executions {
		path := "/v1/sdk/components/executions/" + record.ID.String()
		for _, body := range []string{n.sign(t, http.MethodGet, path, nil).body, n.sign(t, http.MethodGet, path+"/stream", nil).body, list} {
			n.expectShown(t, "the record of "+record.Module, body, string(record.Output))
		}
	}
	if len(n.shown) < 8 {
		t.Errorf("only %d responses were compared", len(n.shown))
	}
}

func (n *secretOutputs) checkCallbacks(t *testing.T) {
	t.Helper()
	for path, want := range map[string]string{"/generated": n.identity, "/opened": canary} {
		body, _ := n.callbacks.Load(path)
		n.expectShown(t, "the callback "+path, fmt.Sprint(body), want)
	}
}

func (n *secretOutputs) expectShown(t *testing.T, where, text, want string) {
	t.Helper()
	if !strings.Contains(text, want) {
		t.Errorf("%s does not show the secret: %s", where, text)
	}
}

// checkAfterStop searches the log and the database of a stopped process.
func (n *secretOutputs) checkAfterStop(t *testing.T, w *whole) {
	t.Helper()
	n.checkCallbacks(t)
	expectNone(t, "the log at debug", w.log.String(), n.secrets)
	expectNone(t, "a dump of every table", dump(t, w.dsn), n.secrets)
}

// rotate changes the master key and starts a process that has only the new one.
func (n *secretOutputs) rotate(t *testing.T, w *whole) {
	t.Helper()
	const nextKey = "qFVXAOMxpTgbKrnUEDHQd0sJaltyyGTuDF2vW5y2x9M="
	both, err := keyring(nextKey, goodKey)
	if err != nil {
		t.Fatal(err)
	}
	pool, err := postgres.Open(t.Context(), w.dsn, "rotation", postgres.Owner, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if report, err := rotation.Run(t.Context(), pool, both, nil); err != nil || !report.Done() {
		t.Fatalf("unexpected report %+v (%v)", report, err)
	}
	cfg := w.app.cfg
	if cfg.Keyring, err = keyring(nextKey, ""); err != nil {
		t.Fatal(err)
	}
	if w.app, err = Start(t.Context(), cfg, telemetry.NewLogger(w.log, slog.LevelDebug)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.app.Stop(context.Background()) })
}
