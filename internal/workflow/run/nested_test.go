package run_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/workflow"
	"github.com/weft-automation/weft/internal/workflow/run"
	"github.com/weft-automation/weft/internal/workflow/workflowtest"
)

// code returns the code of a run's error.
func code(t testing.TB, of api.WorkflowRun) string {
	t.Helper()
	var failure api.RunError
	if err := json.Unmarshal(of.Error, &failure); err != nil {
		t.Errorf("run %s is %s with the error %s", of.ID, of.Status, of.Error)
	}
	return failure.Code
}

// below draws a workflow that runs the specified workflow and responds with its output.
func (n *node) below(t testing.TB, id uuid.UUID) uuid.UUID {
	t.Helper()
	return n.draw(t, fmt.Sprintf(`[{"id":"c","module":"RUN_WORKFLOW","config":{"workflowId":%q}},{"id":"r","module":"RESPOND"}]`, id),
		`[{"id":"1","from":"c","to":"r","port":"next"}]`, `[{"id":"1","from":{"componentId":"c","output":"value"},"to":{"componentId":"r","input":"value"}}]`)
}

// child returns the child run of a run.
func (n *node) child(t testing.TB, of notify.Key) notify.Key {
	t.Helper()
	key := notify.Key{WorkspaceID: of.WorkspaceID}
	if err := n.pool.QueryRow(t.Context(), "SELECT id FROM workflow_runs WHERE parent_run_id = $1", of.ID).Scan(&key.ID); err != nil {
		t.Fatal(err)
	}
	return key
}

// Runs can be nested 8 levels deep, and their outputs reach the root. The ninth level is refused,
// which fails its ancestors.
func TestRunsAreNestedAtMostEightDeep(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.start(t, options{slots: 4, sweep: time.Second})
	id := n.draw(t, `[{"id":"r","module":"RESPOND","input":{"value":7}}]`, "", "")
	for range 8 {
		id = n.below(t, id)
	}
	got, _ := n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: id}))
	if got.Status != status.RunCompleted || workflowtest.Canonical(got.Output) != `{"value":7}` {
		t.Errorf("8 below each other: %s %s gave %s", got.Status, got.Error, got.Output)
	}
	endless := n.below(t, id)
	draft := workflow.Draft{Name: "endless", Components: json.RawMessage(fmt.Sprintf(`[{"id":"c","module":"RUN_WORKFLOW","config":{"workflowId":%q}}]`, endless))}
	if _, err := n.workflows.Replace(n.ctx, workflow.ReplaceParams{WorkspaceID: n.workspace, WorkflowID: endless, Draft: draft}); err != nil {
		t.Fatal(told(err))
	}
	got, stages := n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: endless}))
	if runs := b.number(t, "SELECT count(*) FROM workflow_runs WHERE workflow_id = $1", endless); got.Status != status.RunFailed || code(t, got) != "LIMIT_EXCEEDED" || runs != 9 {
		t.Errorf("without an end: %s %s, %d runs; %s", got.Status, got.Error, runs, stages["c@[]"].Error)
	}
	b.balanced(t)
}

// A workflow that runs itself many times does not continue forever: while a workspace has many
// unfinished child runs, its child runs cannot start further runs. Root runs still can.
func TestChildRunsOfAWorkspaceAreLimited(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.start(t, options{slots: 4, sweep: time.Second})
	answers := n.draw(t, `[{"id":"r","module":"RESPOND","input":{"value":7}}]`, "", "")
	middle := n.below(t, answers)
	ids := make([]uuid.UUID, 10_000)
	for i := range ids {
		ids[i] = uuid.Must(uuid.NewV7())
	}
	b.exec(t, `INSERT INTO workflow_runs (workspace_id, id, workflow_id, workflow_version, status, trigger, input, deadline, job_id, parent_run_id, parent_stage_id, created_at, updated_at)
		SELECT $1, i.id, $2, 1, 'EXECUTING', 'RUN', '{}', now(), 1, i.id, i.id, now(), now() FROM unnest($3::uuid[]) AS i (id)`, n.workspace, answers, ids)
	if got, _ := n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: middle})); got.Status != status.RunCompleted {
		t.Errorf("below no other: %s %s", got.Status, got.Error)
	}
	got, _ := n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: n.below(t, middle)}))
	if got.Status != status.RunFailed || code(t, got) != "LIMIT_EXCEEDED" {
		t.Errorf("below another: %s %s", got.Status, got.Error)
	}
}

// A run fails with TIMEOUT at its deadline, regardless of what it waits for, and its child runs
// are canceled.
func TestRunFailsAtItsDeadline(t *testing.T) {
	t.Parallel()
	b := newBench(t, held(nil))
	n := b.start(t, options{slots: 4, sweep: 100 * time.Millisecond})
	inner := n.draw(t, `[{"id":"w","module":"WAIT_FOR_SIGNAL","config":{"name":"never","timeoutMs":3600000}}]`, "", "")
	id := n.draw(t, fmt.Sprintf(`[{"id":"a","module":"WORK"},{"id":"h","module":"HELD"},{"id":"d","module":"DELAY","config":{"durationMs":3600000}},
		{"id":"c","module":"RUN_WORKFLOW","config":{"workflowId":%q}},{"id":"later","module":"WORK"}]`, inner),
		`[{"id":"1","from":"d","to":"later","port":"next"},{"id":"2","from":"c","to":"later","port":"next"}]`, "")
	key := n.trigger(t, run.TriggerParams{WorkflowID: id})
	n.awaitEvents(key, 2) // the stages that finish immediately have finished
	b.until(t, 1, nothing, "SELECT count(*) FROM run_stages WHERE run_id = $1 AND status = 'COMPLETED'", key.ID)
	b.until(t, 1, nothing, "SELECT count(*) FROM component_executions WHERE run_id = $1 AND status = 'EXECUTING'", key.ID)
	b.exec(t, "UPDATE workflow_runs SET deadline = now(), wake_at = now() WHERE id = $1", key.ID)
	got, stages := n.end(t, key)
	if got.Status != status.RunFailed || code(t, got) != "TIMEOUT" || got.TotalUsage != credit.Credits(1) || got.CancelRequestedAt != nil {
		t.Errorf("%s %s, used %s", got.Status, got.Error, got.TotalUsage)
	}
	for at, want := range map[string]status.Stage{"a": status.StageCompleted, "h": status.StageCanceled, "d": status.StageCanceled, "c": status.StageCanceled} {
		if stage := stages[at+"@[]"]; stage.Status != want {
			t.Errorf("%s is %s %s, want %s", at, stage.Status, stage.Error, want)
		}
	}
	if below, _ := n.end(t, n.child(t, key)); below.Status != status.RunCanceled || len(stages) != 4 {
		t.Errorf("the run below is %s, and there are %d stages", below.Status, len(stages))
	}
	b.balanced(t)
}

// The maxCredits of a run also limits its child runs: a child run may cost only what is left when
// it starts.
func TestMaxCreditsLimitsChildRuns(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.start(t, options{slots: 4, sweep: time.Second})
	inner := n.draw(t, `[{"id":"l","module":"FOR_EACH","input":{"items":[1,2,3,4,5,6]},"config":{"concurrency":1}},{"id":"w","module":"WORK"}]`, `[{"id":"1","from":"l","to":"w","port":"each"}]`, "")
	id := n.draw(t, fmt.Sprintf(`[{"id":"a","module":"WORK"},{"id":"c","module":"RUN_WORKFLOW","config":{"workflowId":%q}},{"id":"z","module":"WORK"}]`, inner),
		`[{"id":"1","from":"a","to":"c","port":"next"},{"id":"2","from":"c","to":"z","port":"next"}]`, "")
	for most, want := range map[int64]struct {
		status      status.Run
		used, below int64
	}{4: {status.RunFailed, 1, 3}, 8: {status.RunCompleted, 2, 6}} {
		key := n.trigger(t, run.TriggerParams{WorkflowID: id, MaxCredits: new(credit.Credits(most))})
		got, stages := n.end(t, key)
		below, _ := n.end(t, n.child(t, key))
		if got.Status != want.status || got.TotalUsage != credit.Credits(want.used) || below.TotalUsage != credit.Credits(want.below) {
			t.Errorf("at most %d: %s %s, used %s and %s below, want %+v", most, got.Status, got.Error, got.TotalUsage, below.TotalUsage, want)
		}
		if got.Status == status.RunFailed && (code(t, got) != "INSUFFICIENT_CREDITS" || code(t, below) != "INSUFFICIENT_CREDITS" || stages["c@[]"].Status != status.StageFailed) {
			t.Errorf("at most %d: %s, below %s", most, got.Error, below.Error)
		}
	}
	b.balanced(t)
}

// All descendants of a run with maxCredits, concurrent and nested, together cost no more than that
// limit.
func TestChildRunsShareMaxCredits(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.start(t, options{slots: 8, sweep: time.Second})
	inner := n.draw(t, `[{"id":"a","module":"WORK"},{"id":"b","module":"WORK"}]`, `[{"id":"1","from":"a","to":"b","port":"next"}]`, "")
	middle := n.draw(t, fmt.Sprintf(`[{"id":"c","module":"RUN_WORKFLOW","config":{"workflowId":%q}},{"id":"d","module":"WORK"}]`, inner), `[{"id":"1","from":"c","to":"d","port":"next"}]`, "")
	id := n.draw(t, fmt.Sprintf(`[{"id":"l","module":"FOR_EACH","input":{"items":[1,2,3,4]}},{"id":"c","module":"RUN_WORKFLOW","config":{"workflowId":%q}}]`, middle),
		`[{"id":"1","from":"l","to":"c","port":"each"}]`, "")
	for most, want := range map[int64]status.Run{7: status.RunFailed, 12: status.RunCompleted} {
		before := b.number(t, "SELECT COALESCE(sum(usage), 0)::bigint FROM workflow_runs")
		key := n.trigger(t, run.TriggerParams{WorkflowID: id, MaxCredits: new(credit.Credits(most))})
		got, _ := n.end(t, key)
		b.until(t, 0, nothing, "SELECT count(*) FROM workflow_runs WHERE finished_at IS NULL")
		used := credit.Amount(b.number(t, "SELECT sum(usage)::bigint FROM workflow_runs") - before)
		if got.Status != want || used > credit.Credits(most) || used < credit.Credits(most/2) || want == status.RunFailed && code(t, got) != "ITEM_FAILED" {
			t.Errorf("at most %d: %s %s, all of them used %s", most, got.Status, got.Error, used)
		}
	}
	b.balanced(t)
}
