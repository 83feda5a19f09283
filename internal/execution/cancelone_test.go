package execution_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/execution"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/status"
)

// canceledWith reports whether an execution ended by a cancel with a reason, free of charge.
func canceledWith(got api.ComponentExecution, attempt int32, reason string) bool {
	e := failure(got)
	return got.Status == status.ExecutionFailed && e.Code == "CANCELED" && !e.Retryable && e.Attempt == attempt && got.TotalUsage == 0 &&
		strings.HasSuffix(e.Message, ". Reason: "+reason)
}

// A cancel stops the attempt that runs. What it did is unknown, unless the component is pure.
func TestACancelStopsTheAttempt(t *testing.T) {
	t.Parallel()
	for _, repeat := range []component.Repeat{component.RepeatPure, component.RepeatUnsafe} {
		for way, o := range ways {
			t.Run(string(repeat)+" "+way, func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				started := make(chan uuid.UUID, 1)
				n := b.start(t, o, hanging(repeat, started))
				id := b.submit(t, n, execution.SubmitParams{Module: "HANGS", Attempts: 3}).ID
				<-started
				for _, reason := range []string{"withdrawn", "again"} {
					if _, err := n.service.CancelOne(t.Context(), b.workspace, id, &reason); err != nil {
						t.Fatal(err)
					}
				}
				got := b.await(t, n, id)
				unsafe := repeat == component.RepeatUnsafe
				if e := failure(got); !canceledWith(got, 1, "withdrawn") || (e.Outcome != nil) != unsafe || (string(e.Details) == `{"sent":"unknown"}`) != unsafe {
					t.Errorf("it is %s with %s", got.Status, got.Error)
				}
				b.balanced(t, "after the cancel")
			})
		}
	}
}

// A cancel ends executions at once that no worker has: ready, parked, or between two attempts.
func TestACancelEndsWhatNoWorkerHas(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	serving := b.start(t, options{idle: true}, echo(), flaky("FLAKY", component.RepeatPure, wasAnswered))
	var ids []uuid.UUID
	for range 92 { // of which 90 may be ready
		ids = append(ids, b.submit(t, serving, execution.SubmitParams{Module: "ECHO"}).ID)
	}
	reason := "withdrawn"
	for _, id := range []uuid.UUID{ids[91], ids[0]} {
		got, err := serving.service.CancelOne(t.Context(), b.workspace, id, &reason)
		if err != nil || !canceledWith(got, 0, reason) {
			t.Errorf("it is %s with %s, %v", got.Status, got.Error, err)
		}
		again, err := serving.service.CancelOne(t.Context(), b.workspace, id, new("other"))
		if err != nil || !canceledWith(again, 0, reason) || again.UpdatedAt != got.UpdatedAt {
			t.Errorf("again it is %s with %s, %v", again.Status, again.Error, err)
		}
	}
	n := b.start(t, options{slots: 2, workers: 2}, echo(), flaky("FLAKY", component.RepeatPure, wasAnswered))
	between := b.submit(t, n, execution.SubmitParams{Module: "FLAKY", Retry: json.RawMessage(`{"initialDelayMs":3600000}`)}).ID
	b.until(t, "SELECT count(*) = 1 FROM component_executions WHERE not_before > now() AND worker_id IS NULL")
	if got, err := n.service.CancelOne(t.Context(), b.workspace, between, &reason); err != nil || !canceledWith(got, 1, reason) {
		t.Errorf("between attempts it is %s with %s, %v", got.Status, got.Error, err)
	}
	if got := b.await(t, n, ids[1]); got.Status != status.ExecutionCompleted {
		t.Errorf("another one is %s with %s", got.Status, got.Error)
	}
	b.balanced(t, "after the cancels")
}

// An attempt that fails while its execution is canceled does not wait for the next attempt.
func TestACanceledExecutionDoesNotWaitForARetry(t *testing.T) {
	t.Parallel()
	for way, o := range ways {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			started, fails := make(chan uuid.UUID, 1), make(chan struct{})
			n := b.start(t, o, module{name: "DEAF", price: 1, repeat: component.RepeatPure, run: func(_ context.Context, call component.Call) (component.Result, error) {
				started <- call.ExecutionID
				<-fails
				return component.Result{}, component.Temporary("UPSTREAM_ERROR", "it failed")
			}})
			id := b.submit(t, n, execution.SubmitParams{Module: "DEAF", Retry: json.RawMessage(`{"initialDelayMs":3600000}`)}).ID
			<-started
			// The worker does not hear of this request.
			if _, err := b.pool.Exec(t.Context(), "UPDATE component_executions SET canceling = true, cancel_reason = 'withdrawn', updated_at = updated_at - interval '1 hour'"); err != nil {
				t.Fatal(err)
			}
			close(fails)
			if got := b.await(t, n, id); !canceledWith(got, 1, "withdrawn") {
				t.Errorf("it is %s with %s", got.Status, got.Error)
			}
		})
	}
}

// Stages are canceled with their run, and what is final or unknown stays as it is.
func TestACancelOfWhatCannotBeCanceled(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	started := make(chan uuid.UUID, 1)
	n := b.start(t, options{workers: 2}, hanging(component.RepeatPure, started), echo())
	done := b.await(t, n, b.submit(t, n, execution.SubmitParams{Module: "ECHO"}).ID)
	got, err := n.service.CancelOne(t.Context(), b.workspace, done.ID, nil)
	if err != nil || got.Status != status.ExecutionCompleted || got.UpdatedAt != done.UpdatedAt {
		t.Errorf("what is final is %s, %v", got.Status, err)
	}
	if _, err := n.service.CancelOne(t.Context(), b.workspace, uuid.New(), nil); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("an unknown ID: %v", err)
	}
	runID := b.run(t, n, 1)
	stages, _ := b.accept(t, n, 1, execution.Stage{RunID: runID, Module: "HANGS"})
	<-started
	if _, err := n.service.CancelOne(t.Context(), b.workspace, stages[0], nil); fault.CodeOf(err) != fault.Conflict || !strings.Contains(err.Error(), "Cancel the run") {
		t.Errorf("a stage: %v", err)
	}
	if err := n.service.Cancel(t.Context(), b.workspace, runID, execution.StopAll); err != nil {
		t.Fatal(err)
	}
	b.await(t, n, stages[0])
}
