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
	"github.com/weft-automation/weft/internal/kit/status"
)

// overdue reports whether an execution ended at its deadline, free of charge.
func overdue(got api.ComponentExecution, attempt int32) bool {
	e := failure(got)
	return got.Status == status.ExecutionFailed && e.Code == "DEADLINE_EXCEEDED" && !e.Retryable && e.Attempt == attempt && got.TotalUsage == 0
}

// hanging is a module that returns when its context is done.
func hanging(repeat component.Repeat, started chan<- uuid.UUID) module {
	return module{name: "HANGS", price: 1, repeat: repeat, timeout: time.Hour, run: func(ctx context.Context, call component.Call) (component.Result, error) {
		started <- call.ExecutionID
		<-ctx.Done()
		return component.Result{}, ctx.Err()
	}}
}

// A deadline stops the attempt that runs. What it did is unknown, unless the component is pure.
func TestADeadlineStopsTheAttempt(t *testing.T) {
	t.Parallel()
	for _, repeat := range []component.Repeat{component.RepeatPure, component.RepeatUnsafe} {
		for way, o := range ways {
			t.Run(string(repeat)+" "+way, func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				started := make(chan uuid.UUID, 1)
				n := b.start(t, o, hanging(repeat, started))
				id := b.submit(t, n, execution.SubmitParams{Module: "HANGS", Attempts: 3, Deadline: time.Second}).ID
				<-started
				got := b.await(t, n, id)
				if unknown := failure(got).Outcome != nil; !overdue(got, 1) || unknown != (repeat == component.RepeatUnsafe) {
					t.Errorf("it is %s with %s", got.Status, got.Error)
				}
				b.balanced(t, "after the deadline")
			})
		}
	}
}

// Time in the queue counts: an execution that no worker starts ends at its deadline, ready or parked.
func TestADeadlineEndsExecutionsInTheQueue(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	serving := b.start(t, options{idle: true}, echo())
	var ids []uuid.UUID
	for range 95 { // of which 90 may be ready
		ids = append(ids, b.submit(t, serving, execution.SubmitParams{Module: "ECHO", Deadline: time.Second}).ID)
	}
	spared := b.submit(t, serving, execution.SubmitParams{Module: "ECHO"}).ID
	b.until(t, "SELECT count(*) = 95 FROM component_executions WHERE deadline < now()")
	b.start(t, options{slots: 1}, echo()) // sweeps only
	for _, id := range ids {
		if got := b.await(t, serving, id); !overdue(got, 0) {
			t.Fatalf("it is %s with %s", got.Status, got.Error)
		}
	}
	if got, err := serving.service.Get(t.Context(), b.workspace, spared); err != nil || got.Status.Terminal() && failure(got).Code != "" {
		t.Errorf("one without a deadline is %s with %s, %v", got.Status, got.Error, err)
	}
	b.balanced(t, "after the deadlines")
}

// An execution whose deadline passed before a worker got it is not started.
func TestAnExecutionPastItsDeadlineDoesNotRun(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	serving := b.start(t, options{idle: true}, echo())
	started := make(chan uuid.UUID, 1)
	id := b.submit(t, serving, execution.SubmitParams{Module: "ECHO", Deadline: time.Millisecond}).ID
	b.until(t, "SELECT count(*) = 1 FROM component_executions WHERE deadline < now()")
	n := b.start(t, options{workers: 2}, module{name: "ECHO", price: 1, repeat: component.RepeatPure, run: func(context.Context, component.Call) (component.Result, error) {
		started <- id
		return component.Result{Output: json.RawMessage(`{}`)}, nil
	}})
	if got := b.await(t, n, id); !overdue(got, 0) || len(started) > 0 {
		t.Errorf("it is %s with %s", got.Status, got.Error)
	}
}

// A deadline ends the wait for a retry at once, and so the wait of an attempt.
func TestADeadlineEndsAWait(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	looks := module{name: "LOOKS", price: 1, repeat: component.RepeatPure, timeout: time.Hour, run: func(context.Context, component.Call) (component.Result, error) {
		return component.Result{Wait: &component.Wait{After: component.MaxWait, State: json.RawMessage(`1`)}}, nil
	}}
	n := b.start(t, options{slots: 2, workers: 2}, flaky("FLAKY", component.RepeatPure, wasAnswered), looks)
	between := b.submit(t, n, execution.SubmitParams{Module: "FLAKY", Retry: json.RawMessage(`{"initialDelayMs":3600000}`), Deadline: 2 * time.Second}).ID
	waits := b.submit(t, n, execution.SubmitParams{Module: "LOOKS", Deadline: 2 * time.Second}).ID
	b.until(t, "SELECT count(*) = 2 FROM component_executions WHERE not_before IS NOT NULL OR finished_at IS NOT NULL")
	for _, id := range []uuid.UUID{between, waits} {
		if got := b.await(t, n, id); !overdue(got, 1) {
			t.Errorf("%s is %s with %s", got.Module, got.Status, got.Error)
		}
	}
}

// A direct call would not notice its deadline, so an execution with one is accepted first.
func TestADeadlineLimitsComponentsWithoutEffect(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	started := make(chan uuid.UUID, 1)
	m := hanging(component.RepeatPure, started)
	m.effect = component.EffectNone
	n := b.start(t, options{slots: 2}, m)
	got := b.submit(t, n, execution.SubmitParams{Module: "HANGS", Deadline: time.Second, WaitFor: time.Minute})
	if !overdue(got, 1) {
		t.Errorf("it is %s with %s", got.Status, got.Error)
	}
}
