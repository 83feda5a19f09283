package execution_test

import (
	"context"
	"encoding/json"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/execution"
	"github.com/weft-automation/weft/internal/kit/waittest"
)

// A due retry wakes the queue, which would otherwise poll for it.
func TestARetryStartsWhenItIsDue(t *testing.T) {
	t.Parallel()
	for way, o := range ways {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			broken := module{name: "BROKEN", price: 1, repeat: component.RepeatPure,
				run: func(context.Context, component.Call) (component.Result, error) {
					return component.Result{}, &component.Error{Code: "BROKEN", Retryable: true}
				}}
			o.workers, o.unpolled = max(o.workers, 2), true
			n := b.start(t, o, broken)
			id := b.submit(t, n, execution.SubmitParams{Module: "BROKEN", Attempts: 2}).ID
			if got := failure(b.await(t, n, id)); got.Attempt != 2 {
				t.Errorf("it ended after attempt %d", got.Attempt)
			}
		})
	}
}

// The delay before a retry counts from the end of the attempt, even if the pause is written later.
func TestALatePauseDoesNotDelayTheRetry(t *testing.T) {
	t.Parallel()
	for way, o := range ways {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			var minutes atomic.Int64
			start := time.Now()
			o.now = func() time.Time { return start.Add(time.Duration(minutes.Add(1)) * time.Minute) } // each step takes a minute
			b.recordAttempts(t)
			n := b.start(t, o, module{name: "BROKEN", price: 1, repeat: component.RepeatPure,
				run: func(context.Context, component.Call) (component.Result, error) {
					return component.Result{}, &component.Error{Code: "BROKEN", Retryable: true}
				}})
			b.submit(t, n, execution.SubmitParams{Module: "BROKEN", Attempts: 2})
			b.until(t, "SELECT count(*) > 0 FROM attempt_times WHERE due IS NOT NULL")
			var left time.Duration
			if err := b.pool.QueryRow(t.Context(), "SELECT due - at FROM attempt_times WHERE due IS NOT NULL").Scan(&left); err != nil || left != 0 {
				t.Errorf("the pause was written a minute after the attempt, and the retry is due %s later, %v", left, err)
			}
		})
	}
}

// The next attempt starts after the backoff, or after the upstream's Retry-After (limited to an
// hour) if that is longer. PostgreSQL's clock counts. After an error that is not retryable, no
// further attempt is made.
func TestAttemptsHonourRetryAfter(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	busy := module{name: "BUSY", price: 1, repeat: component.RepeatPure,
		run: func(_ context.Context, call component.Call) (component.Result, error) {
			var input struct {
				Asked     time.Duration
				Permanent bool
			}
			if err := json.Unmarshal(call.Input, &input); err != nil {
				return component.Result{}, err
			}
			return component.Result{}, &component.Error{Code: "BUSY", Retryable: !input.Permanent, RetryAfter: input.Asked}
		}}
	n := b.start(t, options{slots: 20, skew: 10 * time.Minute}, busy) // without a queue, no second attempt starts
	for what, c := range map[string]struct{ asked, least, most time.Duration }{
		"not at all":                {0, 800 * time.Millisecond, 1200 * time.Millisecond},
		"for less than the backoff": {time.Millisecond, 800 * time.Millisecond, 1200 * time.Millisecond},
		"for a time in the past":    {-time.Hour, 800 * time.Millisecond, 1200 * time.Millisecond},
		"for a minute":              {time.Minute, time.Minute, time.Minute},
		"for an hour":               {time.Hour, time.Hour, time.Hour},
		"for two hours":             {2 * time.Hour, time.Hour, time.Hour},
		"for longer than 292 years": {math.MaxInt64, time.Hour, time.Hour},
	} {
		input, err := json.Marshal(map[string]any{"asked": c.asked})
		if err != nil {
			t.Fatal(err)
		}
		id := b.submit(t, n, execution.SubmitParams{Module: "BUSY", Input: input, Attempts: 2}).ID
		var fromStart, fromPause *time.Duration // the attempt ended between its start and the pause
		waittest.Until(t, "the end of the first attempt", func() bool {
			err := b.pool.QueryRow(t.Context(), "SELECT not_before - attempt_started_at, not_before - updated_at FROM component_executions WHERE id = $1", id).Scan(&fromStart, &fromPause)
			if err != nil {
				t.Fatal(err)
			}
			return fromPause != nil
		})
		if *fromStart < c.least || *fromPause > c.most {
			t.Errorf("asked to wait %s: %s from the start, %s from the pause, want %s to %s", what, *fromStart, *fromPause, c.least, c.most)
		}
	}
	id := b.submit(t, n, execution.SubmitParams{Module: "BUSY", Input: json.RawMessage(`{"asked":1000000000,"permanent":true}`), Attempts: 3}).ID
	if got := failure(b.await(t, n, id)); got.Attempt != 1 {
		t.Errorf("an error that is not retryable after %d attempts", got.Attempt)
	}
}
