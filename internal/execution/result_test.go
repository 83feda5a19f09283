package execution_test

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/execution"
	"github.com/weft-automation/weft/internal/status"
)

// refuseTwice makes PostgreSQL refuse a kind of change twice, with an error that nobody expects.
// A sequence keeps its count although the transaction is rolled back.
func (b *bench) refuseTwice(t *testing.T, change string) {
	t.Helper()
	b.exec(t, `CREATE SEQUENCE refusals;
		CREATE FUNCTION refuse_twice() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			IF nextval('refusals') <= 2 THEN RAISE EXCEPTION 'refused by the test'; END IF;
			RETURN NEW;
		END $$;
		CREATE TRIGGER refuse_twice `+change+` EXECUTE FUNCTION refuse_twice()`)
}

// A result whose write fails is written again. The component does not run again for it.
func TestAResultIsWrittenAgain(t *testing.T) {
	t.Parallel()
	for name, refused := range map[string]string{
		"its posting is refused":      "BEFORE INSERT ON credit_postings FOR EACH ROW WHEN (NEW.kind = 'EXECUTION')",
		"its account is refused":      "BEFORE UPDATE ON credit_accounts FOR EACH ROW WHEN (NEW.live < OLD.live)",
		"its end is refused":          "BEFORE UPDATE ON component_executions FOR EACH ROW WHEN (NEW.finished_at IS NOT NULL)",
		"the pause before is refused": "BEFORE UPDATE ON component_executions FOR EACH ROW WHEN (NEW.not_before IS NOT NULL)",
	} {
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
				b.refuseTwice(t, refused)
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
