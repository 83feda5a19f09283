package execution_test

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/execution"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/platform/idempotency"
)

func echo() module {
	return module{name: "ECHO", price: credit.Credits(1), repeat: component.RepeatPure,
		run: func(_ context.Context, call component.Call) (component.Result, error) {
			return component.Result{Output: call.Input}, nil
		}}
}

// ways are the two ways in which an execution reaches a worker.
var ways = map[string]options{
	"in the accepting process": {slots: 8, workers: 4},
	"through the queue":        {slots: 0, workers: 4},
}

func TestAnExecutionCompletesWithItsOutputAndOnePosting(t *testing.T) {
	t.Parallel()
	for name, o := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			n := b.start(t, o, echo())
			made := b.submit(t, n, execution.SubmitParams{Module: "ECHO", Input: json.RawMessage(`{"a":12345678901234567890}`)})
			if made.Status != status.ExecutionCreated || made.Completed || made.Output != nil || made.TotalUsage != 0 {
				t.Errorf("the record at acceptance is %+v", made)
			}
			got := b.await(t, n, made.ID)
			if got.Status != status.ExecutionCompleted || !got.Completed || string(got.Output) != `{"a":12345678901234567890}` || got.TotalUsage != credit.Credits(1) {
				t.Errorf("the final record is %+v", got)
			}
			if count, sum := b.postings(t); count != 1 || sum != int64(credit.Credits(1)) {
				t.Errorf("%d postings of %d micro-credits", count, sum)
			}
			var jobs int
			if err := b.pool.QueryRow(t.Context(), "SELECT count(*) FROM river.river_job").Scan(&jobs); err != nil || jobs != 0 {
				t.Errorf("%d jobs are left, %v", jobs, err)
			}
		})
	}
}

func TestEX13RetriesFollowTheBackoff(t *testing.T) {
	t.Parallel()
	for name, tc := range waittest.Chosen(map[string]struct {
		fails, attempts int
		want            status.Execution
		ran             int32
	}{
		"fails twice, then succeeds":  {2, 3, status.ExecutionCompleted, 3},
		"fails thrice":                {3, 3, status.ExecutionFailed, 3},
		"has one attempt":             {1, 1, status.ExecutionFailed, 1},
		"fails once and has two left": {1, 3, status.ExecutionCompleted, 2},
	}, "fails twice, then succeeds", "fails thrice") {
		for way, o := range ways {
			t.Run(name+", "+way, func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				b.recordAttempts(t)
				var ran atomic.Int32
				n := b.start(t, o, module{name: "FLAKY", price: 5, repeat: component.RepeatPure,
					run: func(_ context.Context, call component.Call) (component.Result, error) {
						if ran.Add(1) != int32(call.Attempt) {
							t.Errorf("run %d has attempt number %d", ran.Load(), call.Attempt)
						}
						if call.Attempt <= tc.fails {
							return component.Result{}, &component.Error{Code: "UPSTREAM_ERROR", Message: "no", Retryable: true}
						}
						return component.Result{Output: json.RawMessage(`{}`)}, nil
					}})
				got := b.await(t, n, b.submit(t, n, execution.SubmitParams{Module: "FLAKY", Attempts: tc.attempts}).ID)
				if got.Status != tc.want || ran.Load() != tc.ran {
					t.Errorf("ended %s after %d runs, want %s after %d", got.Status, ran.Load(), tc.want, tc.ran)
				}
				b.checkBackOff(t, int(tc.ran))
				if got.Status == status.ExecutionFailed {
					var e struct {
						Code    string
						Attempt int
					}
					if err := json.Unmarshal(got.Error, &e); err != nil || e.Code != "UPSTREAM_ERROR" || e.Attempt != int(tc.ran) || got.TotalUsage != 0 {
						t.Errorf("error %s, usage %s", got.Error, got.TotalUsage)
					}
				}
			})
		}
	}
}

func TestAnErrorThatIsNotRetryableFailsTheExecutionAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.start(t, ways["in the accepting process"], module{name: "REFUSED", repeat: component.RepeatPure,
		run: func(context.Context, component.Call) (component.Result, error) {
			return component.Result{}, &component.Error{Code: "INVALID_INPUT", Message: "no"}
		}})
	got := b.await(t, n, b.submit(t, n, execution.SubmitParams{Module: "REFUSED", Attempts: 3}).ID)
	if got.Status != status.ExecutionFailed {
		t.Errorf("ended %s", got.Status)
	}
}

func TestEX12AMisbehavingComponentFailsOnlyItsOwnExecution(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	misbehave := func(name string, run func()) module {
		return module{name: name, repeat: component.RepeatPure, timeout: 500 * time.Millisecond,
			run: func(context.Context, component.Call) (component.Result, error) {
				run()
				return component.Result{Output: json.RawMessage(`{}`)}, nil
			}}
	}
	n := b.start(t, ways["in the accepting process"], echo(),
		misbehave("PANICS", func() { panic("boom") }),
		misbehave("DEREFERENCES", func() { var p *int; *p = 1 }), //nolint:govet // on purpose
		misbehave("EXITS", runtime.Goexit),
		misbehave("HANGS", func() { <-release }),
	)
	for _, name := range []string{"PANICS", "DEREFERENCES", "EXITS", "HANGS"} {
		t.Run(name, func(t *testing.T) {
			if got := b.await(t, n, b.submit(t, n, execution.SubmitParams{Module: name}).ID); got.Status != status.ExecutionFailed {
				t.Errorf("ended %s", got.Status)
			}
			if got := b.await(t, n, b.submit(t, n, execution.SubmitParams{Module: "ECHO"}).ID); got.Status != status.ExecutionCompleted {
				t.Errorf("another execution ended %s", got.Status)
			}
		})
	}
}

func TestAComponentThatWaitsHoldsNoWorker(t *testing.T) {
	t.Parallel()
	for way, o := range waittest.Chosen(ways, "through the queue") {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			o.workers = 1
			n := b.start(t, o, echo(), module{name: "WAITS", repeat: component.RepeatIdempotent,
				run: func(_ context.Context, call component.Call) (component.Result, error) {
					looks := 0
					if call.State != nil {
						_ = json.Unmarshal(call.State, &looks)
					}
					if looks == 3 {
						return component.Result{Output: json.RawMessage(`{"looks":3}`)}, nil
					}
					state, _ := json.Marshal(looks + 1)
					return component.Result{Wait: &component.Wait{After: 300 * time.Millisecond, State: state}}, nil
				}})
			var ids []uuid.UUID
			for range 5 {
				ids = append(ids, b.submit(t, n, execution.SubmitParams{Module: "WAITS"}).ID)
			}
			if got := b.await(t, n, b.submit(t, n, execution.SubmitParams{Module: "ECHO"}).ID); got.Status != status.ExecutionCompleted {
				t.Errorf("an execution behind the waiting ones ended %s", got.Status)
			}
			for _, id := range ids {
				if got := b.await(t, n, id); string(got.Output) != `{"looks":3}` {
					t.Errorf("the waiting one returned %s", got.Output)
				}
			}
		})
	}
}

func TestEX15AnIdempotencyKeyMakesOneExecution(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.start(t, ways["in the accepting process"], echo())
	key := idempotency.Key{WorkspaceID: b.workspace, Operation: "executeComponent", Path: "/p", Key: "k", BodyHash: [32]byte{1}}
	params := execution.SubmitParams{WorkspaceID: b.workspace, Module: "ECHO", Input: json.RawMessage(`{}`), Config: json.RawMessage(`{}`), Attempts: 1, Idempotency: &key}
	ids := map[uuid.UUID]int{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			made, err := n.service.Submit(t.Context(), params)
			if fault.CodeOf(err) == fault.IdempotencyInFlight && err != nil {
				return
			}
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			ids[made.Record.ID]++
			mu.Unlock()
		})
	}
	wg.Wait()
	if len(ids) != 1 {
		t.Fatalf("one key made %d executions", len(ids))
	}
	again, err := n.service.Submit(t.Context(), params)
	if err != nil || !again.Replayed || ids[again.Record.ID] == 0 {
		t.Errorf("the repeat returned %v, %v", again, err)
	}
	other := key
	other.BodyHash = [32]byte{2}
	params.Idempotency = &other
	if _, err := n.service.Submit(t.Context(), params); fault.CodeOf(err) != fault.IdempotencyMismatch {
		t.Errorf("another body under the same key returned %v", err)
	}
	refused := idempotency.Key{WorkspaceID: b.workspace, Operation: "executeComponent", Path: "/p", Key: "refused"}
	params.Idempotency, params.Module = &refused, "UNKNOWN"
	if _, err := n.service.Submit(t.Context(), params); fault.CodeOf(err) != fault.InvalidInput {
		t.Errorf("an unknown module returned %v", err)
	}
	var rows int
	if err := b.pool.QueryRow(t.Context(), "SELECT count(*) FROM idempotency_keys").Scan(&rows); err != nil || rows != 1 {
		t.Errorf("%d keys are stored, %v; a refused request must store none", rows, err)
	}
}

// A component that only runs in workflows is rejected as a separate execution.
func TestComponentsOfWorkflowsAreRejectedOnTheirOwn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	inside := echo()
	inside.name, inside.modes = "INSIDE", []component.Mode{component.ModeWorkflow}
	n := b.start(t, options{idle: true}, inside)
	_, err := n.service.Submit(t.Context(), execution.SubmitParams{WorkspaceID: b.workspace, Module: "INSIDE", Input: json.RawMessage(`{}`), Config: json.RawMessage(`{}`), Attempts: 1})
	f, ok := errors.AsType[*fault.Error](err)
	if !ok || f.Code != fault.InvalidInput || f.Unprocessable || f.Details[0].Pointer != "/module" || !strings.Contains(f.Message, "works only inside a workflow") {
		t.Errorf("got %v", err)
	}
}

func TestFinalRowsAndPostingsCannotChange(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.start(t, ways["in the accepting process"], echo())
	var wg sync.WaitGroup
	for range 200 {
		wg.Go(func() { b.await(t, n, b.submit(t, n, execution.SubmitParams{Module: "ECHO"}).ID) })
	}
	wg.Wait()
	if count, sum := b.postings(t); count != 200 || sum != 200*int64(credit.Credits(1)) {
		t.Errorf("%d postings of %d micro-credits", count, sum)
	}
	_, err := b.pool.Exec(t.Context(), "UPDATE component_executions SET updated_at = now()")
	if err == nil {
		t.Error("a final row could be changed")
	}
	if _, err := b.pool.Exec(t.Context(), "DELETE FROM credit_postings"); err == nil {
		t.Error("a posting could be deleted")
	}
}

func TestNotFoundIsTheSameForUnknownAndForeign(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.start(t, ways["in the accepting process"], echo())
	made := b.submit(t, n, execution.SubmitParams{Module: "ECHO"})
	_, unknown := n.service.Get(t.Context(), b.workspace, uuid.New())
	_, foreign := n.service.Get(t.Context(), uuid.New(), made.ID)
	if fault.CodeOf(unknown) != fault.NotFound || unknown.Error() != foreign.Error() {
		t.Errorf("unknown: %v, foreign: %v", unknown, foreign)
	}
	if _, err := n.service.Watch(t.Context(), b.workspace, uuid.New()); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("watching an unknown id: %v", err)
	}
}

var errBoom = errors.New("boom")

func TestTheTextOfAnInternalErrorIsHidden(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.start(t, ways["in the accepting process"], module{name: "BREAKS", repeat: component.RepeatPure,
		run: func(context.Context, component.Call) (component.Result, error) { return component.Result{}, errBoom }})
	got := b.await(t, n, b.submit(t, n, execution.SubmitParams{Module: "BREAKS"}).ID)
	var e struct{ Code, Message string }
	if err := json.Unmarshal(got.Error, &e); err != nil || e.Code != "INTERNAL_ERROR" || e.Message == "boom" {
		t.Errorf("the error is %s", got.Error)
	}
}
