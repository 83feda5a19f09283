package run_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/workflow"
	"github.com/weft-automation/weft/internal/workflow/engine"
	"github.com/weft-automation/weft/internal/workflow/run"
	"github.com/weft-automation/weft/internal/workflow/workflowtest"
)

// big is a module whose output has the number of bytes in its config.
func big() module {
	return workflowtest.Made("BIG", 0, `{"type":"object","properties":{"text":{"type":"string"},"list":{"type":"array"}}}`,
		func(_ context.Context, call component.Call) (component.Result, error) {
			var config struct{ Bytes, Items int }
			if err := json.Unmarshal(call.Config, &config); err != nil {
				return component.Result{}, err
			}
			output, err := json.Marshal(map[string]any{"text": strings.Repeat("x", config.Bytes), "list": make([]int, config.Items)})
			return component.Result{Output: output}, err
		})
}

// AB-11: the outputs of a stage, the outputs of a run, and the items of a loop are limited.
// Exceeding a limit has a specific error. Thousands of stages are allowed.
func TestAB11OutputsAndItemsOfARunAreLimited(t *testing.T) {
	t.Parallel()
	b := newBench(t, big())
	n := b.start(t, options{slots: 16, sweep: time.Second})
	loop := func(items, beside int, body, config string) string {
		list, _ := json.Marshal(make([]int, items))
		return fmt.Sprintf(`[{"id":"l","module":"FOR_EACH","input":{"items":%s},"config":{"concurrency":%d}},{"id":"w","module":%q,"config":%s}]`, list, beside, body, config)
	}
	each := `[{"id":"1","from":"l","to":"w","port":"each"}]`
	cases := map[string]struct {
		components, edges, connections string
		status                         status.Run
		code                           string
	}{
		"a large output":      {`[{"id":"a","module":"BIG","config":{"bytes":50000000}}]`, "", "", status.RunFailed, "OUTPUT_TOO_LARGE"},
		"large outputs":       {loop(200, 8, "BIG", `{"bytes":900000}`), each, "", status.RunFailed, "OUTPUT_TOO_LARGE"},
		"ten thousand stages": {loop(size(500, 9_999), 100, "TRANSFORM", `{"expression":"1"}`), each, "", status.RunCompleted, ""},
		"many items": {`[{"id":"a","module":"BIG","config":{"items":10001}},{"id":"l","module":"FOR_EACH"}]`, `[{"id":"1","from":"a","to":"l","port":"next"}]`,
			`[{"id":"1","from":{"componentId":"a","output":"list"},"to":{"componentId":"l","input":"items"}}]`, status.RunFailed, "INVALID_INPUT"},
	}
	if !waittest.Timed() {
		delete(cases, "large outputs") // TestSecretSignalForManyStagesKeepsTheLimitOfARun reaches the same limit sooner
	}
	for what, c := range cases {
		t.Run(what, func(t *testing.T) {
			got, stages := n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: n.draw(t, c.components, c.edges, c.connections)}))
			var failure api.RunError
			if c.code != "" && json.Unmarshal(got.Error, &failure) != nil || got.Status != c.status || failure.Code != c.code {
				t.Errorf("%s %s, want %s %s; %d stages", got.Status, got.Error, c.status, c.code, len(stages))
			}
			if held := b.number(t, "SELECT max(output_bytes) FROM workflow_runs"); held > 160<<20 {
				t.Errorf("%d bytes of outputs are kept", held)
			}
		})
	}
	draft := workflow.Draft{Name: "test", Components: json.RawMessage(loop(1_000_000, 1, "WORK", `{}`)), SequenceEdges: json.RawMessage(each)}
	if _, _, err := n.workflows.Create(n.ctx, workflow.CreateParams{WorkspaceID: n.workspace, Draft: draft}); fault.CodeOf(err) != fault.InvalidInput {
		t.Errorf("a million items were to be refused when they are saved: %v", err)
	}
	b.balanced(t)
}

// A run is accepted with its first stages, so the run starts even if the process dies right after
// the response.
func TestRunIsAcceptedWithItsFirstStages(t *testing.T) {
	t.Parallel()
	letGo := make(chan struct{})
	defer close(letGo)
	b := newBench(t, held(letGo))
	n := b.start(t, options{slots: 4})
	inner := n.draw(t, `[{"id":"h","module":"HELD"}]`, "", "")
	for what, c := range map[string]struct {
		components, edges string
		stages            int
	}{
		"an execution":        {`[{"id":"h","module":"HELD"}]`, `[]`, 1},
		"two, and a constant": {`[{"id":"h","module":"HELD"},{"id":"i","module":"HELD"},{"id":"c","module":"JSON_CONSTANT","config":{"value":1}}]`, `[]`, 3},
		"a run below":         {fmt.Sprintf(`[{"id":"c","module":"RUN_WORKFLOW","config":{"workflowId":%q}}]`, inner), `[]`, 1},
		"a timer":             {`[{"id":"d","module":"DELAY","config":{"durationMs":3600000}}]`, `[]`, 1},
		"a loop":              {`[{"id":"l","module":"FOR_EACH","input":{"items":[1,2]}},{"id":"h","module":"HELD"}]`, `[{"id":"1","from":"l","to":"h","port":"each"}]`, 3},
	} {
		key := n.trigger(t, run.TriggerParams{WorkflowID: n.draw(t, c.components, c.edges, "")})
		got := b.number(t, `SELECT count(*) FROM run_stages s JOIN workflow_runs r ON r.id = s.run_id JOIN run_events e ON e.run_id = r.id
			WHERE r.id = $1 AND r.status = 'EXECUTING' AND r.stage_count = $2 AND e.seq = 1 AND s.created_at = r.created_at`, key.ID, c.stages)
		if got != int64(c.stages) {
			t.Errorf("%s: %d stages came with the run, want %d", what, got, c.stages)
		}
	}
}

// A run has at most 50,000 stages. It fails when it would start a further stage.
func TestStagesOfARunAreLimited(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.start(t, options{slots: 4, sweep: time.Second})
	key := n.trigger(t, run.TriggerParams{WorkflowID: n.draw(t, `[{"id":"w","module":"WAIT_FOR_SIGNAL","config":{"name":"go","timeoutMs":3600000}},
		{"id":"a","module":"JSON_CONSTANT","config":{"value":1}},{"id":"b","module":"JSON_CONSTANT","config":{"value":1}}]`,
		`[{"id":"1","from":"w","to":"a"},{"id":"2","from":"a","to":"b"}]`, "")})
	n.awaitEvents(key, 1)
	b.exec(t, "UPDATE workflow_runs SET stage_count = $2 WHERE id = $1", key.ID, engine.MaxStages-1)
	if _, err := n.runs.Signal(n.ctx, key, anyone{}, "go", nil); err != nil {
		t.Fatal(err)
	}
	got, stages := n.end(t, key)
	if _, more := stages["b@[]"]; got.Status != status.RunFailed || code(t, got) != "LIMIT_EXCEEDED" || stages["a@[]"].Status != status.StageCompleted || more {
		t.Errorf("%s %s, its stages are %v", got.Status, got.Error, slices.Sorted(maps.Keys(stages)))
	}
}

// Waits for a time or a signal occupy no worker, regardless of their number.
func TestWaitsHoldNoWorker(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.start(t, options{slots: 1, sweep: time.Second})
	components, until := `[`, time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	for i := range 40 {
		components += fmt.Sprintf(`{"id":"d%d","module":"DELAY","config":{"durationMs":3600000}},{"id":"u%[1]d","module":"WAIT_UNTIL","config":{"timestamp":%q}},
			{"id":"s%[1]d","module":"WAIT_FOR_SIGNAL","config":{"name":"never","timeoutMs":3600000}},`, i, until)
	}
	waits := n.trigger(t, run.TriggerParams{WorkflowID: n.draw(t, components+`{"id":"a","module":"WORK"}]`, "", "")})
	b.until(t, 1, nothing, "SELECT count(*) FROM run_stages WHERE run_id = $1 AND status = 'COMPLETED'", waits.ID)
	for range 3 {
		got, _ := n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: n.draw(t, chain(""), chained, "")}))
		if got.Status != status.RunCompleted {
			t.Errorf("while others wait, a run is %s %s", got.Status, got.Error)
		}
	}
	if _, err := n.runs.Cancel(n.ctx, waits, anyone{}, engine.CancelGraceful, nil); err != nil {
		t.Fatal(err)
	}
	if got, stages := n.end(t, waits); got.Status != status.RunCanceled || len(stages) != 121 || got.TotalUsage != credit.Credits(1) {
		t.Errorf("%s %s, used %s, %d stages", got.Status, got.Error, got.TotalUsage, len(stages))
	}
	b.balanced(t)
}
