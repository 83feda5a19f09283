package execution_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/execution"
	"github.com/weft-automation/weft/internal/execution/callback"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/platform/idempotency"
)

// computes is a component without effect that returns its input.
func computes() module {
	m := echo()
	m.name, m.effect = "COMPUTES", component.EffectNone
	return m
}

// waiting is a submission of COMPUTES whose caller waits for the result.
func (b *bench) waiting() execution.SubmitParams {
	return execution.SubmitParams{
		WorkspaceID: b.workspace, Module: "COMPUTES", Input: json.RawMessage(`{"a":1}`), Config: json.RawMessage(`{}`), Attempts: 1, WaitFor: 30 * time.Second,
	}
}

// direct reports whether an execution was stored in its final state, without a job.
func (b *bench) direct(t *testing.T, id uuid.UUID) (direct bool) {
	t.Helper()
	if err := b.pool.QueryRow(t.Context(), "SELECT job_id = 0 AND finished_at = created_at FROM component_executions WHERE id = $1", id).Scan(&direct); err != nil {
		t.Fatal(err)
	}
	return direct
}

func (b *bench) count(t *testing.T, query string, args ...any) (n int) {
	t.Helper()
	if err := b.pool.QueryRow(t.Context(), "SELECT count(*) FROM "+query, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestAComponentWithoutEffectIsStoredFinalWithItsPostingInOneCommit(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.start(t, options{slots: 4}, computes())
	got := b.submit(t, n, b.waiting())
	if got.Status != status.ExecutionCompleted {
		t.Errorf("status: %s", got.Status)
	}
	if string(got.Output) != `{"a":1}` {
		t.Errorf("output: %s", got.Output)
	}
	if got.TotalUsage != credit.Credits(1) {
		t.Errorf("usage: %s", got.TotalUsage)
	}
	if !b.direct(t, got.ID) {
		t.Error("the execution had a job")
	}
	if same := b.count(t, `component_executions e JOIN credit_postings p ON p.reference = e.id::text AND p.xmin = e.xmin AND p.usage = e.usage`); same != 1 {
		t.Errorf("%d postings in the transaction of the execution", same)
	}
	if read := b.await(t, n, got.ID); string(read.Output) != string(got.Output) || read.CreatedAt != got.CreatedAt {
		t.Errorf("stored: %+v, returned: %+v", read, got)
	}
	if drifts := b.audit(t, b.workspace); len(drifts) > 0 {
		t.Errorf("audit: %v", drifts)
	}
}

// An execution that is not stored directly is accepted first, and ends in the same way.
func TestOtherExecutionsAreAcceptedFirst(t *testing.T) {
	t.Parallel()
	slow, retried, waits := computes(), computes(), computes()
	var slowCalls, retriedCalls atomic.Int32
	slow.run = func(ctx context.Context, call component.Call) (component.Result, error) {
		if slowCalls.Add(1) == 1 {
			<-ctx.Done() // the time of a direct call is over
			return component.Result{}, ctx.Err()
		}
		return component.Result{Output: call.Input}, nil
	}
	retried.run = func(_ context.Context, call component.Call) (component.Result, error) {
		if retriedCalls.Add(1) == 1 {
			return component.Result{}, &component.Error{Code: "BUSY", Message: "busy", Retryable: true}
		}
		return component.Result{Output: call.Input}, nil
	}
	waits.run = func(_ context.Context, call component.Call) (component.Result, error) {
		if call.State == nil {
			return component.Result{Wait: &component.Wait{State: json.RawMessage(`{}`)}}, nil
		}
		return component.Result{Output: call.Input}, nil
	}
	effect := computes()
	effect.effect = component.EffectWrite
	for name, c := range map[string]struct {
		options options
		module  module
		change  func(p *execution.SubmitParams)
	}{
		"it has an effect":             {options{slots: 4, workers: 4}, effect, nil},
		"the caller does not wait":     {options{slots: 4, workers: 4}, computes(), func(p *execution.SubmitParams) { p.WaitFor = 0 }},
		"no slot is free":              {options{slots: 0, workers: 4}, computes(), nil},
		"it takes long":                {options{slots: 4, workers: 4}, slow, nil},
		"another attempt may succeed":  {options{slots: 4, workers: 4}, retried, func(p *execution.SubmitParams) { p.Attempts = 3 }},
		"it waits and continues later": {options{slots: 4, workers: 4}, waits, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			n := b.start(t, c.options, c.module)
			p := b.waiting()
			if c.change != nil {
				c.change(&p)
			}
			got := b.await(t, n, b.submit(t, n, p).ID)
			if got.Status != status.ExecutionCompleted {
				t.Errorf("status: %s, %s", got.Status, got.Error)
			}
			if b.direct(t, got.ID) {
				t.Error("the execution was stored directly")
			}
			if count, _ := b.postings(t); count != 1 {
				t.Errorf("%d postings", count)
			}
		})
	}
}

func TestAFailureOfADirectExecutionCostsNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	fails := computes()
	fails.run = func(context.Context, component.Call) (component.Result, error) {
		return component.Result{}, component.Permanent("NOT_PRIME", "four is not prime")
	}
	n := b.start(t, options{slots: 4}, fails)
	got := b.submit(t, n, b.waiting())
	if got.Status != status.ExecutionFailed || !strings.Contains(string(got.Error), `"NOT_PRIME"`) {
		t.Errorf("%s, %s", got.Status, got.Error)
	}
	if !b.direct(t, got.ID) {
		t.Error("the execution had a job")
	}
	if count, sum := b.postings(t); count != 1 || sum != 0 {
		t.Errorf("%d postings of %d micro-credits", count, sum)
	}
}

func TestMT05ASecretResultOfADirectExecutionIsSealed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.start(t, options{slots: 4}, withSecret{computes()})
	p := b.waiting()
	p.Input = json.RawMessage(`{"token":"c4n4ry-that-comes-back"}`)
	got := b.submit(t, n, p)
	if string(got.Output) != string(p.Input) {
		t.Errorf("returned: %s", got.Output)
	}
	if row, _, sealed, _ := b.row(t, got.ID); strings.Contains(row, "c4n4ry") || !sealed {
		t.Errorf("stored: %s", row)
	}
}

func TestLE01DirectExecutionsDoNotOverspend(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	nodes := []*node{b.start(t, options{slots: 50, workers: 4}, computes()), b.start(t, options{slots: 50, workers: 4}, computes())}
	p := b.waiting()
	p.WorkspaceID = b.poor(t, credit.Credits(100))
	var done, refused atomic.Int32
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			switch _, err := nodes[i%2].service.Submit(t.Context(), p); {
			case err == nil:
				done.Add(1)
			case fault.CodeOf(err) == fault.InsufficientCredits:
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	all.Wait()
	if done.Load() != 100 || refused.Load() != 100 {
		t.Errorf("%d executions and %d refusals on credits for 100", done.Load(), refused.Load())
	}
	if stored := b.count(t, "component_executions WHERE workspace_id = $1", p.WorkspaceID); stored != 100 {
		t.Errorf("%d executions are stored", stored)
	}
	if drifts := b.audit(t, p.WorkspaceID); len(drifts) > 0 {
		t.Errorf("audit: %v", drifts)
	}
}

// The first call finds the period over. Accepting its execution starts the next period.
func TestDirectExecutionsContinueInTheNextPeriod(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.start(t, options{slots: 4}, computes())
	if _, err := b.pool.Exec(t.Context(), "UPDATE credit_accounts SET valid_until = now() - interval '1 minute'"); err != nil {
		t.Fatal(err)
	}
	if got := b.submit(t, n, b.waiting()); b.direct(t, got.ID) {
		t.Error("the first execution was stored directly")
	}
	if got := b.submit(t, n, b.waiting()); !b.direct(t, got.ID) {
		t.Error("the second execution had a job")
	}
	if current := b.count(t, "credit_accounts WHERE valid_until > now()"); current != 1 {
		t.Errorf("%d accounts are current", current)
	}
}

func TestEX15AnIdempotencyKeyMakesOneDirectExecution(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.start(t, options{slots: 32, workers: 4}, computes())
	p := b.waiting()
	p.Idempotency = &idempotency.Key{WorkspaceID: b.workspace, Operation: "executeComponent", Path: "/p", Key: "k"}
	var ids sync.Map
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			made, err := n.service.Submit(t.Context(), p)
			if err == nil {
				ids.Store(made.Record.ID, true)
			} else if fault.CodeOf(err) != fault.IdempotencyInFlight {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if stored := b.count(t, "component_executions"); stored != 1 {
		t.Errorf("one key made %d executions", stored)
	}
	again, err := n.service.Submit(t.Context(), p)
	if _, known := ids.Load(again.Record.ID); err != nil || !again.Replayed || !known {
		t.Errorf("the repeat returned %+v, %v", again, err)
	}
	if !b.direct(t, again.Record.ID) {
		t.Error("the execution had a job")
	}
}

func TestADirectExecutionFreezesItsCallbackInTheSameCommit(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.start(t, options{slots: 4}, computes())
	p := b.waiting()
	p.Callback = &callback.Params{URL: "https://receiver.example/", Secret: new("s3cr3t-of-the-callback")}
	got := b.submit(t, n, p)
	if got.Callback.URL == nil || *got.Callback.URL != p.Callback.URL {
		t.Errorf("callback: %+v", got.Callback)
	}
	if frozen := b.count(t, `callbacks c JOIN component_executions e ON e.id = c.execution_id AND e.xmin = c.xmin
		JOIN river.river_job j ON j.id = c.job_id AND j.xmin = c.xmin
		WHERE c.state = 'QUEUED' AND convert_from(c.body, 'UTF8')::json->>'status' = 'COMPLETED'`); frozen != 1 {
		t.Errorf("%d frozen callbacks with a delivery job", frozen)
	}
}

func TestNothingIsStoredForACallerWhoHasDisconnected(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx, leave := context.WithCancel(t.Context())
	leaves := computes()
	leaves.run = func(call context.Context, _ component.Call) (component.Result, error) {
		leave()
		<-call.Done()
		return component.Result{}, call.Err()
	}
	n := b.start(t, options{slots: 4}, leaves)
	if _, err := n.service.Submit(ctx, b.waiting()); !errors.Is(err, context.Canceled) {
		t.Errorf("returned %v", err)
	}
	if stored := b.count(t, "component_executions"); stored != 0 {
		t.Errorf("%d executions are stored", stored)
	}
}

// One workspace may use one of two slots of a process.
func TestRL08DirectExecutionsKeepToTheFairShare(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	hold, held := make(chan struct{}), make(chan struct{})
	n := b.start(t, options{slots: 2}, computes(), module{name: "HOLDS", price: 1, repeat: component.RepeatPure, run: func(context.Context, component.Call) (component.Result, error) {
		close(held)
		<-hold
		return component.Result{Output: json.RawMessage(`{}`)}, nil
	}})
	if got := b.submit(t, n, b.waiting()); !b.direct(t, got.ID) {
		t.Error("an execution within the share had a job")
	}
	holding := b.submit(t, n, execution.SubmitParams{Module: "HOLDS"}).ID
	<-held
	p := b.waiting()
	p.WaitFor = time.Millisecond // the execution is parked until the other one finishes
	got := b.submit(t, n, p)
	if b.direct(t, got.ID) {
		t.Error("an execution beyond the share was stored directly")
	}
	close(hold)
	b.await(t, n, holding)
	b.await(t, n, got.ID)
}
