package execution_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/execution"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/kit/waittest"
)

func failure(got api.ComponentExecution) (e api.ExecutionError) {
	_ = json.Unmarshal(got.Error, &e)
	return e
}

func canceled(got api.ComponentExecution, attempt int32) bool {
	e := failure(got)
	return got.Status == status.ExecutionFailed && e.Code == "CANCELED" && e.Attempt == attempt && got.TotalUsage == 0
}

// Executions that have not started are canceled immediately, parked or not, even by a process that
// only serves. Executions of a different run, and executions without a run, are not affected.
func TestCancelFailsExecutionsThatWereNotStarted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var reported finishedRuns
	n := b.start(t, options{idle: true, ended: reported.add}, echo())
	runID, other := b.run(t, n, 100), b.run(t, n, 1)
	b.accept(t, n, 1, execution.Stage{RunID: other, Module: "ECHO"})
	b.submit(t, n, execution.SubmitParams{Module: "ECHO"})
	ids, _ := b.accept(t, n, 95, execution.Stage{RunID: runID, Module: "ECHO"}) // of which 90 may be ready
	if got := b.account(t); got != "reserves 1000101, 97 live, 7 parked" {
		t.Fatalf("the account %s", got)
	}
	for range 2 { // the second cancel changes nothing
		if err := n.service.Cancel(t.Context(), b.workspace, runID, execution.StopAttempts); err != nil {
			t.Fatal(err)
		}
		for _, id := range ids {
			got, err := n.service.Get(t.Context(), b.workspace, id)
			if err != nil || !canceled(got, 0) {
				t.Fatalf("it is %s with %s, %v", got.Status, got.Error, err)
			}
		}
		if got := b.account(t); got != "reserves 1000101, 2 live, 0 parked" {
			t.Errorf("then the account %s", got)
		}
	}
	var jobs int
	if err := b.pool.QueryRow(t.Context(), "SELECT count(*) FROM river.river_job WHERE kind = 'component_execution'").Scan(&jobs); err != nil || jobs != 2 {
		t.Errorf("%d jobs are left, %v", jobs, err)
	}
	if !reported.has(runID) || reported.has(other) {
		t.Errorf("reported runs: %v", reported.runs)
	}
	b.balanced(t, "after the cancel")
}

// An attempt in flight continues, unless the run is canceled with mode immediate.
func TestImmediateCancelStopsAttemptsInOtherProcesses(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	started := make(chan uuid.UUID, 10)
	checked := make(chan struct{}) // closed to finish the other run's attempt, because stopping waits for it
	defer close(checked)
	waits := module{name: "WAITS", price: 1, repeat: component.RepeatUnsafe, timeout: time.Minute, run: func(ctx context.Context, call component.Call) (component.Result, error) {
		started <- call.ExecutionID
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
		<-started
	}
	paused, _ := b.accept(t, working, 1, execution.Stage{RunID: runID, Module: "LOOKS"})
	b.until(t, "SELECT count(*) = 1 FROM component_executions WHERE not_before IS NOT NULL")
	if err := serving.service.Cancel(t.Context(), b.workspace, runID, execution.StopAttempts); err != nil {
		t.Fatal(err)
	}
	b.until(t, "SELECT count(*) = 4 FROM component_executions WHERE status = 'EXECUTING' AND NOT canceling")
	if err := serving.service.Cancel(t.Context(), b.workspace, runID, execution.StopAll); err != nil {
		t.Fatal(err)
	}
	for _, id := range [...]uuid.UUID{ids[0], local[0], paused[0]} {
		got := b.await(t, serving, id)
		if !canceled(got, 1) {
			t.Errorf("it is %s with %s", got.Status, got.Error)
		}
		if outcome := failure(got).Outcome; (outcome != nil) != (got.Module == "WAITS") {
			t.Errorf("%s ended with %s", got.Module, got.Error)
		}
	}
	if got, err := serving.service.Get(t.Context(), b.workspace, spared[0]); err != nil || got.Status != status.ExecutionExecuting {
		t.Errorf("another run's is %s, %v", got.Status, err)
	}
	b.balanced(t, "after the cancel")
}

// The outcome of an attempt that was stopped is unknown unless its component says that nothing was sent, or
// that the answer was complete.
func TestImmediateCancelOfAnUnsentCallHasAKnownOutcome(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	started := make(chan uuid.UUID, 4)
	stopped := map[string]any{"NO": "no", "ANSWERED": "answered", "UNKNOWN": "unknown", "SILENT": nil}
	var modules []component.Module
	for name, sent := range stopped {
		modules = append(modules, module{name: name, price: 1, repeat: component.RepeatUnsafe, timeout: time.Minute, run: func(ctx context.Context, call component.Call) (component.Result, error) {
			started <- call.ExecutionID
			<-ctx.Done()
			failed := component.Temporary(component.CodeCanceled, "it was stopped")
			if sent != nil {
				failed = failed.With(map[string]any{"sent": sent})
			}
			return component.Result{}, failed
		}})
	}
	n := b.start(t, options{slots: 4, workers: 4}, modules...)
	runID := b.run(t, n, 4)
	ids := map[string]uuid.UUID{}
	for name := range stopped {
		made, _ := b.accept(t, n, 1, execution.Stage{RunID: runID, Module: name})
		ids[name] = made[0]
	}
	for range stopped {
		waittest.Receive(t, "the attempts to start", started)
	}
	if err := n.service.Cancel(t.Context(), b.workspace, runID, execution.StopAll); err != nil {
		t.Fatal(err)
	}
	for name, id := range ids {
		known := name == "NO" || name == "ANSWERED"
		if got := b.await(t, n, id); !canceled(got, 1) || (failure(got).Outcome == nil) != known {
			t.Errorf("%s ended %s with %s", name, got.Status, got.Error)
		}
	}
}

// An execution that is canceled while a lost worker has it fails at its next start.
func TestACanceledStageIsNotStartedAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var reported finishedRuns
	accepting := b.start(t, options{idle: true}, echo())
	runID := b.run(t, accepting, 1)
	ids, _ := b.accept(t, accepting, 1, execution.Stage{RunID: runID, Module: "ECHO"})
	b.exec(t, "UPDATE component_executions SET canceling = true")
	n := b.start(t, options{workers: 2, ended: reported.add}, module{name: "ECHO", price: 1, repeat: component.RepeatPure, run: func(context.Context, component.Call) (component.Result, error) {
		t.Error("it ran")
		return component.Result{Output: json.RawMessage(`{}`)}, nil
	}})
	if got := b.await(t, n, ids[0]); !canceled(got, 0) {
		t.Errorf("it is %s with %s", got.Status, got.Error)
	}
}

// A start that is committed after its run started ending runs nothing, for every reason why a run
// ends. The sweep of executions that have not started may come later.
func TestAnEndingRunStartsNoAttempt(t *testing.T) {
	t.Parallel()
	for name, end := range waittest.Chosen(map[string]string{
		"canceled":                "UPDATE workflow_runs SET cancel_requested_at = now(), cancel_mode = 'graceful' WHERE id = $1",
		"canceled at once":        "UPDATE workflow_runs SET cancel_requested_at = now(), cancel_mode = 'immediate' WHERE id = $1",
		"failing":                 "UPDATE workflow_runs SET error = '{}' WHERE id = $1",
		"below a canceled run":    "UPDATE workflow_runs SET cancel_requested_at = now(), cancel_mode = 'graceful' WHERE id = (SELECT parent_run_id FROM workflow_runs WHERE id = $1)",
		"below a run that failed": "UPDATE workflow_runs SET error = '{}' WHERE id = (SELECT parent_run_id FROM workflow_runs WHERE id = $1)",
	}, "canceled", "below a run that failed") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			unsafe := module{name: "SENDS", price: 1, repeat: component.RepeatUnsafe, run: func(context.Context, component.Call) (component.Result, error) {
				t.Error("it ran")
				return component.Result{Output: json.RawMessage(`{}`)}, nil
			}}
			accepting := b.start(t, options{idle: true}, unsafe)
			above, runID := b.run(t, accepting, 1), b.run(t, accepting, 3)
			b.exec(t, "UPDATE workflow_runs SET parent_run_id = '"+above.String()+"', parent_stage_id = id, trigger = 'RUN', root_run_id = '"+above.String()+"' WHERE id = '"+runID.String()+"'")
			ids, _ := b.accept(t, accepting, 1, execution.Stage{RunID: runID, Module: "SENDS"})
			if _, err := b.pool.Exec(t.Context(), end, runID); err != nil {
				t.Fatal(err)
			}
			n := b.start(t, options{slots: 1, workers: 2}, unsafe)
			local, _ := b.accept(t, n, 1, execution.Stage{RunID: runID, Module: "SENDS", Nested: true})
			for _, id := range [...]uuid.UUID{ids[0], local[0]} {
				if got := b.await(t, n, id); !canceled(got, 0) || failure(got).Outcome != nil {
					t.Errorf("it is %s with %s", got.Status, got.Error)
				}
			}
			if started := b.count(t, "component_executions WHERE attempt_started_at IS NOT NULL"); started != 0 {
				t.Errorf("%d of the refused attempts have a start, which is after the end of the run", started)
			}
		})
	}
}

// A run that was canceled or has failed makes no further attempt. The outcome of its only attempt
// is known.
func TestAnEndingRunMakesNoRetry(t *testing.T) {
	t.Parallel()
	for _, end := range []string{
		"UPDATE workflow_runs SET cancel_requested_at = now(), cancel_mode = 'graceful'",
		"UPDATE workflow_runs SET error = '{}'",
	} {
		b := newBench(t)
		var calls atomic.Int64
		flaky := module{name: "FLAKY", price: 1, repeat: component.RepeatUnsafe, run: func(_ context.Context, call component.Call) (component.Result, error) {
			if calls.Add(1) == 1 {
				return component.Result{}, component.Temporary(component.CodeUpstream, "it is busy")
			}
			return component.Result{Output: json.RawMessage(`{}`)}, nil
		}}
		n := b.start(t, options{slots: 1, workers: 1}, flaky)
		ids, _ := b.accept(t, n, 1, execution.Stage{RunID: b.run(t, n, 1), Module: "FLAKY", Attempts: 3})
		b.until(t, "SELECT count(*) = 1 FROM component_executions WHERE not_before IS NOT NULL")
		b.exec(t, end)
		got := b.await(t, n, ids[0])
		if calls.Load() != 1 {
			t.Errorf("%s: %d calls, want 1", end, calls.Load())
		}
		if !canceled(got, 1) || failure(got).Outcome != nil {
			t.Errorf("%s: it is %s with %s", end, got.Status, got.Error)
		}
	}
}

// A waiting attempt continues after a graceful cancel. An attempt whose worker was lost does not
// start again.
func TestAWaitContinuesInACanceledRunUnlikeALostAttempt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	looks := module{name: "LOOKS", price: 1, repeat: component.RepeatIdempotent, timeout: time.Minute, run: func(_ context.Context, call component.Call) (component.Result, error) {
		if call.State == nil {
			return component.Result{Wait: &component.Wait{After: 100 * time.Millisecond, State: json.RawMessage(`1`)}}, nil
		}
		return component.Result{Output: json.RawMessage(`{}`)}, nil
	}}
	accepting := b.start(t, options{idle: true}, looks)
	runID := b.run(t, accepting, 2)
	ids, _ := b.accept(t, accepting, 2, execution.Stage{RunID: runID, Module: "LOOKS"})
	b.exec(t, "UPDATE component_executions SET status = 'EXECUTING', attempt = 1, continuing = true")
	b.exec(t, "UPDATE component_executions SET attempt_started_at = now() - interval '1 second', wait_state = '1' WHERE id = '"+ids[0].String()+"'")
	b.exec(t, "UPDATE workflow_runs SET cancel_requested_at = now(), cancel_mode = 'graceful'")
	if err := accepting.service.Cancel(t.Context(), b.workspace, runID, execution.StopAttempts); err != nil {
		t.Fatal(err)
	}
	n := b.start(t, options{workers: 2}, looks)
	if got := b.await(t, n, ids[0]); got.Status != status.ExecutionCompleted {
		t.Errorf("the wait is %s with %s", got.Status, got.Error)
	}
	if got := b.await(t, n, ids[1]); !canceled(got, 1) || failure(got).Outcome == nil {
		t.Errorf("the lost attempt is %s with %s", got.Status, got.Error)
	}
}

// An attempt that was cut off has an unknown outcome, unless the component changes nothing.
func TestACutOffAttemptHasAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	hangs := func(name string, repeat component.Repeat) module {
		return module{name: name, price: 1, repeat: repeat, timeout: 10 * time.Millisecond, run: func(ctx context.Context, _ component.Call) (component.Result, error) {
			<-ctx.Done()
			return component.Result{}, ctx.Err()
		}}
	}
	n := b.start(t, options{slots: 2}, hangs("PURE", component.RepeatPure), hangs("UNSAFE", component.RepeatUnsafe))
	for name, want := range map[string]bool{"PURE": false, "UNSAFE": true} {
		got := b.await(t, n, b.submit(t, n, execution.SubmitParams{Module: name}).ID)
		if outcome := failure(got).Outcome; failure(got).Code != component.CodeTimeout || (outcome != nil) != want {
			t.Errorf("%s ended %s with %s", name, got.Status, got.Error)
		}
	}
}

// The outcome of a failed attempt is unknown only if its request was sent and not answered.
func TestAFailureHasAnUnknownOutcomeOnlyIfItWasSentAndNotAnswered(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	fails := func(code, sent string) module {
		return module{name: code + "_" + strings.ToUpper(sent), price: 1, repeat: component.RepeatUnsafe, run: func(context.Context, component.Call) (component.Result, error) {
			return component.Result{}, component.Permanent(code, "it failed").With(map[string]string{"sent": sent})
		}}
	}
	var modules []component.Module
	for _, code := range []string{component.CodeTimeout, component.CodeUpstream, component.CodeUnreadable} {
		for _, sent := range []string{"no", "unknown", "answered"} {
			modules = append(modules, fails(code, sent))
		}
	}
	n := b.start(t, options{slots: 2}, modules...)
	for _, m := range modules {
		name := m.Describe().Module
		got := b.await(t, n, b.submit(t, n, execution.SubmitParams{Module: name}).ID)
		if outcome := failure(got).Outcome; (outcome != nil) != strings.HasSuffix(name, "_UNKNOWN") {
			t.Errorf("%s ended %s with %s", name, got.Status, got.Error)
		}
	}
}

// until waits until the query returns true.
func (b *bench) until(t *testing.T, query string) {
	t.Helper()
	waittest.Until(t, query, func() (done bool) {
		if err := b.pool.QueryRow(t.Context(), query).Scan(&done); err != nil {
			t.Fatal(err)
		}
		return done
	})
}

// A process cuts off calls that take longer than its limit.
func TestACallIsCutOffAtTheLimitOfItsProcess(t *testing.T) {
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
