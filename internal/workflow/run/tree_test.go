package run_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/workflow"
	"github.com/weft-automation/weft/internal/workflow/engine"
	"github.com/weft-automation/weft/internal/workflow/orchestrator"
	"github.com/weft-automation/weft/internal/workflow/run"
)

const unfinished = "SELECT count(*) FROM workflow_runs WHERE finished_at IS NULL"

// waits draws a workflow that waits for the signal "go".
func (n *node) waits(t testing.TB) uuid.UUID {
	t.Helper()
	return n.draw(t, `[{"id":"w","module":"WAIT_FOR_SIGNAL","config":{"name":"go","timeoutMs":3600000}}]`, "", "")
}

// thrice draws a workflow that runs the specified workflow three times concurrently.
func (n *node) thrice(t testing.TB, id uuid.UUID) uuid.UUID {
	t.Helper()
	return n.draw(t, fmt.Sprintf(`[{"id":"l","module":"FOR_EACH","input":{"items":[1,2,3]}},{"id":"c","module":"RUN_WORKFLOW","config":{"workflowId":%q}}]`, id),
		`[{"id":"1","from":"l","to":"c","port":"each"}]`, "")
}

// One statement cancels all runs of a tree. If the process dies afterwards, the sweep of a
// different process finishes the runs, and each run writes the cancel to its own events.
func TestCancelReachesWholeTreeAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.start(t, options{slots: 4, sweep: time.Second})
	key := n.trigger(t, run.TriggerParams{WorkflowID: n.thrice(t, n.thrice(t, n.waits(t)))})
	b.until(t, 9, nothing, "SELECT count(*) FROM run_stages WHERE signal = 'go' AND finished_at IS NULL")
	n.stop()
	if _, err := n.runs.Cancel(n.ctx, key, anyone{}, engine.CancelGraceful, new("enough")); err != nil {
		t.Fatal(err)
	}
	if missed := b.number(t, "SELECT count(*) FROM workflow_runs WHERE cancel_requested_at IS NULL"); missed != 0 {
		t.Errorf("%d of 13 runs are not canceled", missed)
	}
	if reasons := b.number(t, "SELECT count(*) FROM workflow_runs WHERE cancel_reason = CASE WHEN parent_run_id IS NULL THEN 'enough' ELSE 'the run that started it ended' END"); reasons != 13 {
		t.Errorf("%d of 13 runs have the right reason", reasons)
	}
	b.start(t, options{slots: 4, sweep: 100 * time.Millisecond})
	b.until(t, 13, nothing, "SELECT count(*) FROM workflow_runs WHERE status = 'CANCELED'")
	if told := b.number(t, "SELECT count(DISTINCT run_id) FROM run_events WHERE status = 'CANCELED'"); told != 13 {
		t.Errorf("%d of 13 runs have a CANCELED event", told)
	}
	if trees := b.number(t, "SELECT count(*) FROM run_trees"); trees != 0 {
		t.Errorf("%d trees are kept", trees)
	}
	b.balanced(t)
}

// A later immediate cancel also reaches the descendants.
func TestImmediateCancelReplacesGracefulOneInWholeTree(t *testing.T) {
	t.Parallel()
	b := newBench(t, held(nil))
	n := b.start(t, options{slots: 4, sweep: 100 * time.Millisecond})
	key := n.trigger(t, run.TriggerParams{WorkflowID: n.below(t, n.draw(t, `[{"id":"h","module":"HELD"}]`, "", ""))})
	b.until(t, 1, nothing, "SELECT count(*) FROM component_executions WHERE status = 'EXECUTING'")
	for _, mode := range []string{engine.CancelGraceful, engine.CancelImmediate} {
		if _, err := n.runs.Cancel(n.ctx, key, anyone{}, mode, nil); err != nil {
			t.Fatal(err)
		}
		b.until(t, 2, nothing, "SELECT count(*) FROM workflow_runs WHERE cancel_mode = $1", mode) // the advance of a run repeats it below
	}
	if got, _ := n.end(t, key); got.Status != status.RunCanceled {
		t.Errorf("%s %s", got.Status, got.Error)
	}
}

// A run starts no child run while an ancestor is ending, even if the run itself has not been
// canceled yet. It cancels itself instead.
func TestRunBelowEndingRunStartsNoChild(t *testing.T) {
	t.Parallel()
	for what, ends := range waittest.Chosen(map[string]string{
		"canceled":    "cancel_requested_at = now(), cancel_mode = 'graceful'",
		"immediately": "cancel_requested_at = now(), cancel_mode = 'immediate'",
		"failing":     `error = '{"code":"BROKEN","message":"it broke","retryable":false}'`,
	}, "canceled") {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			n := b.start(t, options{slots: 4})
			middle := n.draw(t, fmt.Sprintf(`[{"id":"w","module":"WAIT_FOR_SIGNAL","config":{"name":"go","timeoutMs":3600000}},
				{"id":"c","module":"RUN_WORKFLOW","config":{"workflowId":%q}}]`, n.waits(t)), `[{"id":"1","from":"w","to":"c","port":"next"}]`, "")
			key := n.trigger(t, run.TriggerParams{WorkflowID: n.below(t, middle)})
			b.until(t, 1, nothing, "SELECT count(*) FROM run_stages WHERE signal = 'go' AND finished_at IS NULL")
			child := n.child(t, key)
			b.exec(t, "UPDATE workflow_runs SET "+ends+" WHERE id = $1", key.ID)
			if _, err := n.runs.Signal(n.ctx, child, anyone{}, "go", nil); err != nil {
				t.Fatal(err)
			}
			got, _ := n.end(t, child)
			if got.Status != status.RunCanceled {
				t.Errorf("the run is %s %s, want CANCELED", got.Status, got.Error)
			}
			if runs := b.number(t, "SELECT count(*) FROM workflow_runs"); runs != 2 {
				t.Errorf("there are %d runs, want 2", runs)
			}
		})
	}
}

// A tree can be canceled while it grows: after the response to the cancel, no runs start except
// those whose transactions were about to commit.
func TestCancelEndsTreeThatGrows(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.start(t, options{slots: 4, sweep: 200 * time.Millisecond})
	id := n.waits(t)
	components := fmt.Sprintf(`[{"id":"l","module":"FOR_EACH","input":{"items":[1,2,3,4]},"config":{"concurrency":2,"onItemFailure":"continue"}},
		{"id":"c","module":"RUN_WORKFLOW","config":{"workflowId":%q}}]`, id)
	draft := workflow.Draft{Name: "endless", Components: json.RawMessage(components), SequenceEdges: json.RawMessage(`[{"id":"1","from":"l","to":"c","port":"each"}]`)}
	if _, err := n.workflows.Replace(n.ctx, workflow.ReplaceParams{WorkspaceID: n.workspace, WorkflowID: id, Draft: draft}); err != nil {
		t.Fatal(told(err))
	}
	key := n.trigger(t, run.TriggerParams{WorkflowID: id})
	b.until(t, 1, nothing, "SELECT (count(*) > 100)::integer FROM workflow_runs")
	if _, err := n.runs.Cancel(n.ctx, key, anyone{}, engine.CancelGraceful, nil); err != nil {
		t.Fatal(err)
	}
	runs := b.number(t, "SELECT count(*) FROM workflow_runs")
	b.until(t, 0, nothing, unfinished)
	if more := b.number(t, "SELECT count(*) FROM workflow_runs") - runs; more > 2*orchestrator.AdvancesAtOnce {
		t.Errorf("%d runs started after the cancel", more)
	}
	b.balanced(t)
}

// The runs of a tree are counted together until the root has finished.
func TestRunsOfTreeAreCountedTogether(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.start(t, options{slots: 4, sweep: time.Second})
	key := n.trigger(t, run.TriggerParams{WorkflowID: n.waitsAfter(t, n.thrice(t, n.draw(t, chain(""), chained, "")))})
	b.until(t, 1, nothing, "SELECT count(*) FROM run_stages WHERE run_id = $1 AND signal = 'go'", key.ID)
	for what, sql := range map[string]string{
		"unfinished runs below": "SELECT live FROM run_trees",
		"stages":                "SELECT (SELECT sum(stage_count) FROM workflow_runs) - stages FROM run_trees",
		"bytes":                 "SELECT ((SELECT sum(output_bytes) FROM workflow_runs) - bytes)::bigint FROM run_trees",
	} {
		if off := b.number(t, sql); off != 0 {
			t.Errorf("%s are off by %d", what, off)
		}
	}
	n.goOn(t, key)
	if got, _ := n.end(t, key); got.Status != status.RunCompleted {
		t.Errorf("%s %s", got.Status, got.Error)
	}
	if trees := b.number(t, "SELECT count(*) FROM run_trees"); trees != 0 {
		t.Errorf("%d trees are kept", trees)
	}
	b.balanced(t)
}

// A root run may reach the free part of its tree in its last advance. The fee, or its refusal, locks the
// totals of the tree before the root's final status is known. The advance deletes the totals nevertheless.
func TestRootThatFinishesAtTheFeeDeletesItsTree(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		full string
		paid credit.Amount
		want status.Run
		used credit.Amount // by the root
	}{
		"stages":     {"stages = 1000", credit.Credits(1), status.RunCompleted, 1_000},
		"bytes":      {"bytes = 32 * 1024 * 1024", credit.Credits(1), status.RunCompleted, 20},
		"no credits": {"stages = 1000", 0, status.RunFailed, 0},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.workspace = b.account(t, c.paid, plan.Starter)
			n := b.start(t, options{slots: 4, sweep: time.Second})
			id := n.draw(t, fmt.Sprintf(`[{"id":"c","module":"RUN_WORKFLOW","config":{"workflowId":%q}},{"id":"r","module":"RESPOND","input":{"value":%q}}]`,
				n.waits(t), strings.Repeat("a", 3_000)), `[{"id":"1","from":"c","to":"r","port":"next"}]`, "")
			key := n.trigger(t, run.TriggerParams{WorkflowID: id})
			b.until(t, 1, nothing, "SELECT count(*) FROM run_stages WHERE signal = 'go' AND finished_at IS NULL")
			b.exec(t, "UPDATE run_trees SET "+c.full)
			n.goOn(t, n.child(t, key))
			if got, _ := n.end(t, key); got.Status != c.want || got.TotalUsage != c.used {
				t.Errorf("%s %s used %s, want %s and %s", got.Status, got.Error, got.TotalUsage, c.want, c.used)
			}
			for what, sql := range map[string]string{
				"trees are kept":        "SELECT count(*) FROM run_trees",
				"bytes are not counted": "SELECT sum(uncounted_bytes)::bigint FROM workflow_runs",
				"roots finished later":  "SELECT count(*) FROM run_stages s JOIN workflow_runs r ON r.id = s.run_id WHERE s.component_id = 'r' AND s.finished_at <> r.finished_at",
			} {
				if got := b.number(t, sql); got != 0 {
					t.Errorf("%d %s", got, what)
				}
			}
			b.balanced(t)
		})
	}
}

// waitsAfter draws a workflow that runs the specified workflow, waits for the signal "go", and
// runs the specified workflow again.
func (n *node) waitsAfter(t testing.TB, id uuid.UUID) uuid.UUID {
	t.Helper()
	return n.draw(t, fmt.Sprintf(`[{"id":"c","module":"RUN_WORKFLOW","config":{"workflowId":%q}},
		{"id":"w","module":"WAIT_FOR_SIGNAL","config":{"name":"go","timeoutMs":3600000}},
		{"id":"d","module":"RUN_WORKFLOW","config":{"workflowId":%[1]q}}]`, id), `[{"id":"1","from":"c","to":"w","port":"next"},{"id":"2","from":"w","to":"d","port":"next"}]`, "")
}

// goOn sends the signal "go".
func (n *node) goOn(t testing.TB, key notify.Key) {
	t.Helper()
	if _, err := n.runs.Signal(n.ctx, key, anyone{}, "go", nil); err != nil {
		t.Fatal(err)
	}
}

// A root and all its descendants share the limits of one run.
func TestRunsOfTreeShareTheLimitsOfARun(t *testing.T) {
	t.Parallel()
	for code, c := range map[string]struct{ full, message string }{
		"OUTPUT_TOO_LARGE": {"bytes = 64 * 1024 * 1024", "64 MiB"},
		"LIMIT_EXCEEDED":   {"stages = 50000", "50000 stages"},
		"too many below":   {"live = 1000", "1000 unfinished runs"},
	} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			n := b.start(t, options{slots: 4, sweep: time.Second})
			key := n.trigger(t, run.TriggerParams{WorkflowID: n.waitsAfter(t, n.draw(t, `[{"id":"r","module":"RESPOND","input":{"value":7}}]`, "", ""))})
			b.until(t, 1, nothing, "SELECT count(*) FROM run_stages WHERE run_id = $1 AND signal = 'go'", key.ID)
			b.exec(t, "UPDATE run_trees SET "+c.full)
			n.goOn(t, key)
			got, _ := n.end(t, key)
			if got.Status != status.RunFailed || !strings.Contains(string(got.Error), c.message) {
				t.Errorf("%s %s, want FAILED for %q", got.Status, got.Error, c.message)
			}
		})
	}
}

// A run that finishes locks the row of its parent, to wake the parent, before it locks the row of
// the tree. An advance of the parent locks the two rows in the same order, so the two transactions
// don't deadlock.
func TestFinishingRunLocksRunAboveBeforeTree(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.start(t, options{slots: 4, sweep: time.Second})
	key := n.trigger(t, run.TriggerParams{WorkflowID: n.below(t, n.waits(t))})
	b.until(t, 1, nothing, "SELECT count(*) FROM run_stages WHERE signal = 'go' AND finished_at IS NULL")
	tx, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(n.ctx) }()
	if _, err := tx.Exec(t.Context(), "SELECT FROM workflow_runs WHERE id = $1 FOR NO KEY UPDATE", key.ID); err != nil {
		t.Fatal(err)
	}
	n.goOn(t, n.child(t, key))
	b.until(t, 1, nothing, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '-- name: RunWake%'")
	if _, err := tx.Exec(t.Context(), "SELECT FROM run_trees FOR UPDATE NOWAIT"); err != nil {
		t.Errorf("the tree is locked while its run waits for the run above: %v", err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, _ := n.end(t, key); got.Status != status.RunCompleted {
		t.Errorf("%s %s", got.Status, got.Error)
	}
}

// Concurrent advances of a tree do not exceed its limit of unfinished runs, because each advance checks
// the count again under the lock of the tree's row.
func TestConcurrentAdvancesKeepBoundOfUnfinishedRuns(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.start(t, options{slots: 4, sweep: time.Second})
	middle := n.draw(t, fmt.Sprintf(`[{"id":"w","module":"WAIT_FOR_SIGNAL","config":{"name":"first","timeoutMs":3600000}},
		{"id":"c","module":"RUN_WORKFLOW","config":{"workflowId":%q}}]`, n.waits(t)), `[{"id":"1","from":"w","to":"c","port":"next"}]`, "")
	n.trigger(t, run.TriggerParams{WorkflowID: n.draw(t, fmt.Sprintf(`[{"id":"l","module":"FOR_EACH","input":{"items":[1,2,3]},"config":{"onItemFailure":"continue"}},
		{"id":"c","module":"RUN_WORKFLOW","config":{"workflowId":%q}}]`, middle), `[{"id":"1","from":"l","to":"c","port":"each"}]`, "")})
	b.until(t, 3, nothing, "SELECT count(*) FROM run_stages WHERE signal = 'first' AND finished_at IS NULL")
	b.exec(t, "UPDATE run_trees SET live = 999")
	tx, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(n.ctx) }()
	if _, err := tx.Exec(t.Context(), "SELECT FROM run_trees FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	rows, _ := b.pool.Query(t.Context(), "SELECT id FROM workflow_runs WHERE parent_run_id IS NOT NULL")
	children, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		t.Fatal(err)
	}
	for _, child := range children {
		if _, err := n.runs.Signal(n.ctx, notify.Key{WorkspaceID: b.workspace, ID: child}, anyone{}, "first", nil); err != nil {
			t.Fatal(err)
		}
	}
	b.until(t, 3, nothing, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '-- name: RunTreeAdd%'")
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	const refused, started = "SELECT count(*) FROM workflow_runs WHERE status = 'FAILED' AND error::text LIKE '%LIMIT_EXCEEDED%' AND parent_run_id IS NOT NULL",
		"SELECT count(*) FROM workflow_runs child JOIN workflow_runs parent ON parent.id = child.parent_run_id WHERE parent.parent_run_id IS NOT NULL"
	b.until(t, 3, nothing, "SELECT ("+refused+") + ("+started+")")
	// Each run that was refused has failed, which may have made room for one more.
	if failed, more := b.number(t, refused), b.number(t, started); failed == 0 || more > failed+1 {
		t.Errorf("%d runs were refused, and %d runs were started, although only one was left", failed, more)
	}
}
