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
		waits := func(most time.Duration) {
			t.Helper()
			before := time.Now()
			err := backoff.Wait(t.Context())
			if took := time.Since(before); err != nil || took <= most/2 || took > most {
				t.Errorf("waited %v, %v; want more than %v and at most %v", took, err, most/2, most)
			}
		}
		for _, most := range []time.Duration{50, 100, 200, 400, 800, 1000, 1000} {
			waits(most * time.Millisecond)
		}
		time.Sleep(maxDelay + 1) // virtual: work that lasted
		waits(50 * time.Millisecond)
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
