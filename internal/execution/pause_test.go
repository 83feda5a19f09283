package execution_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/execution"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/local/pgtest"
)

func TestAnInterruptedWaitKeepsItsStateAndTime(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	looking := make(chan struct{}, 10)
	waits := module{name: "WAITS", price: 1, repeat: component.RepeatIdempotent, timeout: time.Minute,
		run: func(ctx context.Context, call component.Call) (component.Result, error) {
			if call.State == nil {
				return component.Result{Wait: &component.Wait{After: time.Millisecond, State: json.RawMessage(`{"looks":1}`)}}, nil
			}
			looking <- struct{}{}
			<-ctx.Done()
			return component.Result{}, ctx.Err()
		}}
	n := b.start(t, options{workers: 2}, waits)
	id := b.submit(t, n, execution.SubmitParams{Module: "WAITS"}).ID
	<-looking
	var start time.Time
	if err := b.pool.QueryRow(t.Context(), "SELECT attempt_started_at FROM component_executions WHERE id = $1", id).Scan(&start); err != nil {
		t.Fatal(err)
	}
	n.stop()
	var worker *int
	var state *string
	var still *time.Time
	err := b.pool.QueryRow(t.Context(), "SELECT worker_id, wait_state::text, attempt_started_at FROM component_executions WHERE id = $1", id).Scan(&worker, &state, &still)
	if err != nil || worker != nil || state == nil || *state != `{"looks":1}` || still == nil || !still.Equal(start) {
		t.Errorf("worker %v, state %v, started %v, want %v, %v", worker, state, still, start, err)
	}
}

func TestEX14APauseWhoseAnswerIsLostContinuesSoon(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c := pgtest.NewCutter(t, b.dsn)
	waits := module{name: "WAITS", price: 1, repeat: component.RepeatPure, run: func(_ context.Context, call component.Call) (component.Result, error) {
		if call.State == nil {
			c.Lose(pgtest.Loss{Request: string(call.ExecutionID[:]), Response: committed})
			return component.Result{Wait: &component.Wait{After: 200 * time.Millisecond, State: json.RawMessage(`1`)}}, nil
		}
		return component.Result{Output: json.RawMessage(`{}`)}, nil
	}}
	accepts := b.start(t, options{idle: true}, waits)
	b.behind(t, c, options{workers: 2}, waits)
	id := b.submit(t, accepts, execution.SubmitParams{Module: "WAITS"}).ID
	if got := b.await(t, accepts, id); got.Status != status.ExecutionCompleted || !c.Lost() {
		t.Errorf("ended %s; lost: %v", got.Status, c.Lost())
	}
}
