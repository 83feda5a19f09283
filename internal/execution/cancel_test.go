package execution_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/execution"
	"github.com/weft-automation/weft/internal/status"
	"github.com/weft-automation/weft/internal/waittest"
)

func failure(got api.ComponentExecution) (e api.ExecutionError) {
	_ = json.Unmarshal(got.Error, &e)
	return e
}

func canceled(got api.ComponentExecution, attempt int32) bool {
	e := failure(got)
	return got.Status == status.ExecutionFailed && e.Code == "CANCELED" && e.Attempt == attempt && got.TotalUsage == 0
}

// What was not started ends at once, parked or not, in a process that only serves; what
// is another run's, or none's, stays.
func TestCancelEndsWhatWasNotStarted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var told ended
	n := b.start(t, options{idle: true, ended: told.tell}, echo())
	runID, other := b.run(t, n, 100), b.run(t, n, 1)
	b.accept(t, n, 1, execution.Stage{RunID: other, Module: "ECHO"})
	b.submit(t, n, execution.SubmitParams{Module: "ECHO"})
	ids, _ := b.accept(t, n, 95, execution.Stage{RunID: runID, Module: "ECHO"}) // of 90 that may be ready
	if got := b.account(t); got != "keeps back 1000101, 97 live, 7 parked" {
		t.Fatalf("the account %s", got)
	}
	for range 2 { // the same again
		if err := n.service.Cancel(t.Context(), b.workspace, runID, false); err != nil {
			t.Fatal(err)
		}
		for _, id := range ids {
			got, err := n.service.Get(t.Context(), b.workspace, id)
			if err != nil || !canceled(got, 0) {
				t.Fatalf("it is %s with %s, %v", got.Status, got.Error, err)
			}
		}
		if got := b.account(t); got != "keeps back 1000101, 2 live, 0 parked" {
			t.Errorf("then the account %s", got)
		}
	}
	var jobs int
	if err := b.pool.QueryRow(t.Context(), "SELECT count(*) FROM river.river_job WHERE kind = 'component_execution'").Scan(&jobs); err != nil || jobs != 2 {
		t.Errorf("%d jobs are left, %v", jobs, err)
	}
	if !told.told(runID) || told.told(other) {
		t.Errorf("told of %v", told.runs)
	}
	b.balanced(t, "after the cancel")
}

// An attempt under way goes on to its end, unless the run is canceled at once.
func TestCancelAtOnceEndsAttemptsInOtherProcesses(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	begun := make(chan uuid.UUID, 10)
	checked := make(chan struct{}) // the other run's attempt finishes, else stopping waits for it
	defer close(checked)
	waits := module{name: "WAITS", price: 1, repeat: component.RepeatUnsafe, timeout: time.Minute, run: func(ctx context.Context, call component.Call) (component.Result, error) {
		begun <- call.ExecutionID
		select {
		case <-checked:
		case <-ctx.Done():
		}
		return component.Result{}, ctx.Err()
	}}
	looks := module{name: "LOOKS", price: 1, repeat: component.RepeatPure, timeout: time.Minute, run: func(context.Context, component.Call) (component.Result, error) {
		return component.Result{Wait: &component.Wait{After: component.MaxWait, State: json.RawMessage(`1`)}}, nil
	}}
	serving := b.start(t, options{idle: true}, waits, looks)
	working := b.start(t, options{slots: 10, workers: 10}, waits, looks)
	runID, other := b.run(t, serving, 3), b.run(t, serving, 1)
	ids, _ := b.accept(t, serving, 1, execution.Stage{RunID: runID, Module: "WAITS"}) // through the queue
	local, _ := b.accept(t, working, 1, execution.Stage{RunID: runID, Module: "WAITS"})
	spared, _ := b.accept(t, working, 1, execution.Stage{RunID: other, Module: "WAITS"})
	for range 3 {
		<-begun
	}
	paused, _ := b.accept(t, working, 1, execution.Stage{RunID: runID, Module: "LOOKS"})
	b.until(t, "SELECT count(*) = 1 FROM component_executions WHERE not_before IS NOT NULL")
	if err := serving.service.Cancel(t.Context(), b.workspace, runID, false); err != nil {
		t.Fatal(err)
	}
	b.until(t, "SELECT count(*) = 4 FROM component_executions WHERE status = 'EXECUTING' AND NOT canceling")
	if err := serving.service.Cancel(t.Context(), b.workspace, runID, true); err != nil {
		t.Fatal(err)
	}
	for _, id := range [...]uuid.UUID{ids[0], local[0], paused[0]} {
		if got := b.await(t, serving, id); !canceled(got, 1) {
			t.Errorf("it is %s with %s", got.Status, got.Error)
		}
	}
	if got, err := serving.service.Get(t.Context(), b.workspace, spared[0]); err != nil || got.Status != status.ExecutionExecuting {
		t.Errorf("another run's is %s, %v", got.Status, err)
	}
	b.balanced(t, "after the cancel")
}

// What is canceled while a lost worker had it ends at its next start.
func TestACanceledStageIsNotStartedAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var told ended
	accepting := b.start(t, options{idle: true}, echo())
	runID := b.run(t, accepting, 1)
	ids, _ := b.accept(t, accepting, 1, execution.Stage{RunID: runID, Module: "ECHO"})
	b.exec(t, "UPDATE component_executions SET canceling = true")
	n := b.start(t, options{workers: 2, ended: told.tell}, module{name: "ECHO", price: 1, repeat: component.RepeatPure, run: func(context.Context, component.Call) (component.Result, error) {
		t.Error("it ran")
		return component.Result{Output: json.RawMessage(`{}`)}, nil
	}})
	if got := b.await(t, n, ids[0]); !canceled(got, 1) {
		t.Errorf("it is %s with %s", got.Status, got.Error)
	}
}

// until waits for what a query says.
func (b *bench) until(t *testing.T, query string) {
	t.Helper()
	waittest.Until(t, query, func() (done bool) {
		if err := b.pool.QueryRow(t.Context(), query).Scan(&done); err != nil {
			t.Fatal(err)
		}
		return done
	})
}

// A process cuts off calls that take longer than it may wait for them at its stop.
func TestACallEndsAtTheLimitOfItsProcess(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	endless := module{name: "ENDLESS", price: 1, repeat: component.RepeatPure, timeout: time.Hour,
		run: func(ctx context.Context, _ component.Call) (component.Result, error) {
			<-ctx.Done()
			return component.Result{}, ctx.Err()
		}}
	n := b.start(t, options{slots: 1, workers: 1, most: 10 * time.Millisecond}, endless)
	got := b.await(t, n, b.submit(t, n, execution.SubmitParams{Module: "ENDLESS", Attempts: 1}).ID)
	var e struct{ Code string }
	if err := json.Unmarshal(got.Error, &e); err != nil || e.Code != component.CodeTimeout {
		t.Errorf("it ended %s with %s", got.Status, got.Error)
	}
}
