package execution_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/execution"
)

// An operator cancels the executions of a workspace: attempts in flight stop, those that wait for a
// retry end at once, and stages of runs are left to their runs.
func TestAnOperatorCancelsExecutionsOutsideOfRuns(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	started := make(chan uuid.UUID, 2)
	hangs := module{name: "HANGS", price: 1, repeat: component.RepeatUnsafe, timeout: time.Minute, run: func(ctx context.Context, call component.Call) (component.Result, error) {
		started <- call.ExecutionID
		<-ctx.Done()
		return component.Result{}, ctx.Err()
	}}
	n := b.start(t, options{workers: 4}, hangs, flaky("FLAKY", component.RepeatPure, wasAnswered))
	flies := b.submit(t, n, execution.SubmitParams{Module: "HANGS"}).ID
	<-started
	waits := b.submit(t, n, execution.SubmitParams{Module: "FLAKY", Retry: json.RawMessage(`{"initialDelayMs":3600000}`)}).ID
	b.until(t, "SELECT count(*) > 0 FROM component_executions WHERE not_before > now() AND worker_id IS NULL")
	b.until(t, "SELECT state = 'scheduled' FROM river.river_job j JOIN component_executions e ON e.job_id = j.id WHERE e.not_before > now()")
	stages, _ := b.accept(t, n, 1, execution.Stage{RunID: b.run(t, n, 1), Module: "HANGS"})
	<-started

	ids, err := db.New().ExecutionCancelAlone(t.Context(), b.pool, db.ExecutionCancelAloneParams{WorkspaceID: b.workspace, MaxRows: 10})
	if err != nil || len(ids) != 2 {
		t.Fatalf("canceled %v: %v", ids, err)
	}
	for _, id := range []uuid.UUID{flies, waits} {
		if got := b.await(t, n, id); failure(got).Code != "CANCELED" || got.TotalUsage != 0 {
			t.Errorf("%s is %s with %s", got.Module, got.Status, got.Error)
		}
	}
	if err := n.service.Cancel(t.Context(), b.workspace, b.runOf(t, stages[0]), execution.StopAll); err != nil {
		t.Fatal(err)
	}
	b.await(t, n, stages[0])
	b.balanced(t, "after the cancel")
}

// runOf returns the run of a stage.
func (b *bench) runOf(t *testing.T, id uuid.UUID) (run uuid.UUID) {
	t.Helper()
	if err := b.pool.QueryRow(t.Context(), "SELECT run_id FROM component_executions WHERE id = $1 AND NOT canceling", id).Scan(&run); err != nil {
		t.Fatal(err)
	}
	return run
}
