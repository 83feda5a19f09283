package wait

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestBackoffDoublesUpToASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var backoff Backoff
		for _, want := range []time.Duration{50, 100, 200, 400, 800, 1000, 1000} {
			before := time.Now()
			if err := backoff.Wait(t.Context()); err != nil || time.Since(before) != want*time.Millisecond {
				t.Errorf("waited %v, %v; want %d ms", time.Since(before), err, want)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := backoff.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("past the deadline: %v", err)
		}
	})
}

func TestDrainStopsWorkOnlyWhenItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tc := range []struct {
			work, wantTook time.Duration
			wantStopped    bool
		}{{time.Second, time.Second, false}, {time.Minute, 2 * time.Second, true}} {
			var group sync.WaitGroup
			working, stop := context.WithCancel(t.Context())
			group.Go(func() { _ = For(working, tc.work) })
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			begin := time.Now()
			Drain(ctx, &group, stop)
			if took, stopped := time.Since(begin), working.Err() != nil; took != tc.wantTook || stopped != tc.wantStopped {
				t.Errorf("work of %v: drained after %v, stopped %v", tc.work, took, stopped)
			}
			cancel()
			stop()
		}
	})
}
