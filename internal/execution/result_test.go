package execution_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/execution"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/kit/waittest"
)

// refuse makes PostgreSQL reject a kind of change the specified number of times, with an error
// that has this code. A sequence counts the rejections, because its value survives a rollback.
func (b *bench) refuse(t *testing.T, times int, code, change string) {
	t.Helper()
	b.exec(t, fmt.Sprintf(`CREATE SEQUENCE refusals;
		CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			IF nextval('refusals') <= %d THEN RAISE EXCEPTION 'refused by the test' USING ERRCODE = '%s'; END IF;
			RETURN NEW;
		END $$;
		CREATE TRIGGER refuse %s EXECUTE FUNCTION refuse()`, times, code, change))
}

// always is greater than the number of changes in any test.
const always = 1_000_000

// If a result cannot be written, the write is retried. The component does not run again.
func TestTheWriteOfAResultIsRetried(t *testing.T) {
	t.Parallel()
	for name, refused := range waittest.Chosen(map[string]string{
		"its posting is refused":      "BEFORE INSERT ON credit_postings FOR EACH ROW WHEN (NEW.kind = 'EXECUTION')",
		"its account is refused":      "BEFORE UPDATE ON credit_accounts FOR EACH ROW WHEN (NEW.live < OLD.live)",
		"its end is refused":          "BEFORE UPDATE ON component_executions FOR EACH ROW WHEN (NEW.finished_at IS NOT NULL)",
		"the pause before is refused": "BEFORE UPDATE ON component_executions FOR EACH ROW WHEN (NEW.not_before IS NOT NULL)",
	}, "its posting is refused", "the pause before is refused") {
		for _, rule := range []component.Repeat{component.RepeatUnsafe, component.RepeatIdempotent} {
			t.Run(name+", "+string(rule), func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				var calls atomic.Int64
				waits := module{name: "WAITS", price: 1, repeat: rule, run: func(_ context.Context, call component.Call) (component.Result, error) {
					calls.Add(1)
					if call.State == nil {
						return component.Result{Wait: &component.Wait{After: time.Millisecond, State: json.RawMessage(`1`)}}, nil
					}
					return component.Result{Output: json.RawMessage(`{}`)}, nil
				}}
				n := b.start(t, options{slots: 1, workers: 2}, waits)
				b.refuse(t, 2, "P0001", refused)
				id := b.submit(t, n, execution.SubmitParams{Module: "WAITS"}).ID
				if got := b.await(t, n, id); got.Status != status.ExecutionCompleted || got.TotalUsage != 1 || calls.Load() != 2 {
					t.Errorf("it is %s with %s, used %s, after %d calls", got.Status, got.Error, got.TotalUsage, calls.Load())
				}
				if count, sum := b.postings(t); count != 1 || sum != 1 {
					t.Errorf("%d postings of %d", count, sum)
				}
				var refusals int64
				if err := b.pool.QueryRow(t.Context(), "SELECT last_value FROM refusals").Scan(&refusals); err != nil || refusals < 3 {
					t.Errorf("%d tries, %v", refusals, err)
				}
			})
		}
	}
}

// If PostgreSQL can never store a result, the write is tried once. The process then treats the
// execution as if its worker had been lost.
func TestAResultThatCannotBeStoredIsDropped(t *testing.T) {
	t.Parallel()
	for way, o := range waittest.Chosen(ways, "in the accepting process") {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			var calls atomic.Int64
			sends := module{name: "SENDS", price: 1, repeat: component.RepeatUnsafe, run: func(context.Context, component.Call) (component.Result, error) {
				calls.Add(1)
				return component.Result{Output: json.RawMessage(`{}`)}, nil
			}}
			n := b.start(t, o, sends)
			b.refuse(t, always, "22P05", "BEFORE UPDATE ON component_executions FOR EACH ROW WHEN (NEW.status = 'COMPLETED')")
			id := b.submit(t, n, execution.SubmitParams{Module: "SENDS"}).ID
			if got := b.await(t, n, id); failure(got).Code != "WORKER_LOST" || got.TotalUsage != 0 || calls.Load() != 1 {
				t.Errorf("it is %s with %s, used %s, after %d calls", got.Status, got.Error, got.TotalUsage, calls.Load())
			}
			b.until(t, "SELECT is_called AND last_value = 1 FROM refusals")
		})
	}
}

// A result is dropped without retries if a different worker has taken over the execution.
func TestAResultIsDroppedOnceItsExecutionIsTakenOver(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var calls atomic.Int64
	counts := module{name: "COUNTS", price: 1, repeat: component.RepeatIdempotent, run: func(context.Context, component.Call) (component.Result, error) {
		return component.Result{Output: fmt.Appendf(nil, `{"call":%d}`, calls.Add(1))}, nil
	}}
	n := b.start(t, options{slots: 1, workers: 2}, counts)
	b.refuse(t, always, "P0001", "BEFORE UPDATE ON component_executions FOR EACH ROW WHEN (NEW.finished_at IS NOT NULL AND NEW.epoch = 1)")
	id := b.submit(t, n, execution.SubmitParams{Module: "COUNTS"}).ID
	b.until(t, "SELECT is_called FROM refusals")
	b.cutWorkers(t)
	got := b.await(t, n, id)
	n.stop()
	if got.Status != status.ExecutionCompleted || string(got.Output) != `{"call":2}` || calls.Load() != 2 {
		t.Errorf("it is %s with %s %s after %d calls", got.Status, got.Output, got.Error, calls.Load())
	}
	if count, sum := b.postings(t); count != 1 || sum != 1 {
		t.Errorf("%d postings of %d", count, sum)
	}
}
