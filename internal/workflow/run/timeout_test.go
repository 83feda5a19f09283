package run_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/workflow/run"
)

// A stage that waits fails with TIMEOUT after its timeoutMs, and the run continues at the port
// `error`.
func TestWaitFailsAfterItsTimeout(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.start(t, options{slots: 4, sweep: 100 * time.Millisecond})
	child := n.draw(t, `[{"id":"w","module":"WAIT_FOR_SIGNAL","config":{"name":"never","timeoutMs":3600000}}]`, "", "")
	const hour = `"config":{"durationMs":3600000}`
	for module, drawn := range map[string]struct{ late, body, edges string }{
		"DELAY":           {`"module":"DELAY",` + hour, ``, ``},
		"WAIT_FOR_SIGNAL": {`"module":"WAIT_FOR_SIGNAL","config":{"name":"never","timeoutMs":3600000}`, ``, ``},
		"FOR_EACH": {`"module":"FOR_EACH","input":{"items":[1,2,3]},"config":{"concurrency":2,"onItemFailure":"continue"}`,
			`,{"id":"body","module":"DELAY",` + hour + `}`, `,{"id":"2","from":"late","to":"body","port":"each"}`},
		"a loop of runs": {`"module":"FOR_EACH","input":{"items":[1,2,3]},"config":{"concurrency":2}`,
			fmt.Sprintf(`,{"id":"body","module":"RUN_WORKFLOW","config":{"workflowId":%q}}`, child), `,{"id":"2","from":"late","to":"body","port":"each"}`},
		"RUN_WORKFLOW": {fmt.Sprintf(`"module":"RUN_WORKFLOW","config":{"workflowId":%q}`, child), ``, ``},
	} {
		t.Run(module, func(t *testing.T) {
			t.Parallel()
			id := n.draw(t, `[{"id":"late","timeoutMs":50,`+drawn.late+`},{"id":"after","module":"WORK"}`+drawn.body+`]`,
				`[{"id":"1","from":"late","to":"after","port":"error"}`+drawn.edges+`]`, "")
			key := n.trigger(t, run.TriggerParams{WorkflowID: id})
			got, stages := n.end(t, key)
			if got.Status != status.RunCompleted || stages["after@[]"].Status != status.StageCompleted {
				t.Errorf("the run is %s %s", got.Status, got.Error)
			}
			var why api.ExecutionError
			if err := json.Unmarshal(stages["late@[]"].Error, &why); err != nil || why.Code != component.CodeTimeout {
				t.Errorf("the stage is %s with %s, want TIMEOUT", stages["late@[]"].Status, stages["late@[]"].Error)
			}
			if _, begun := stages["body@[2]"]; begun {
				t.Error("the loop started an item after its timeout")
			}
			if alive := b.number(t, "SELECT count(*) FROM workflow_runs WHERE parent_run_id = $1 AND status <> 'CANCELED'", key.ID); alive != 0 {
				t.Errorf("%d child runs are not canceled", alive)
			}
		})
	}
}

// A stage that finishes within its timeoutMs does not time out. Neither does a wait for a signal
// whose own timeout is shorter than timeoutMs.
func TestWaitWithinItsTimeoutCompletes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.start(t, options{slots: 4, sweep: 100 * time.Millisecond})
	child := n.draw(t, `[{"id":"w","module":"DELAY","config":{"durationMs":5}}]`, "", "")
	got, stages := n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: n.draw(t, fmt.Sprintf(`[
		{"id":"d","timeoutMs":3600000,"module":"DELAY","config":{"durationMs":5}},
		{"id":"w","timeoutMs":3600000,"module":"WAIT_FOR_SIGNAL","config":{"name":"never","timeoutMs":5}},
		{"id":"l","timeoutMs":3600000,"module":"FOR_EACH","input":{"items":[1,2]}},{"id":"b","module":"WORK"},
		{"id":"r","timeoutMs":3600000,"module":"RUN_WORKFLOW","config":{"workflowId":%q}}]`, child),
		`[{"id":"1","from":"l","to":"b","port":"each"}]`, "")}))
	if got.Status != status.RunCompleted {
		t.Errorf("the run is %s %s: %v", got.Status, got.Error, stages)
	}
	b.balanced(t)
}
