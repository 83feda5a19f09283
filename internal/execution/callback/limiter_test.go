package callback

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestLimiterAdmitsItsLimitAndQueuesForAQuickHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newLimiter(4, 0)
		first, _ := g.acquire(t.Context(), "h")
		<-time.After(10 * time.Millisecond)
		first.release() // now the key is known to be quick
		var running sync.WaitGroup
		var mu sync.Mutex
		var under, most int
		started := time.Now()
		for range 100 {
			running.Go(func() {
				p, again := g.acquire(t.Context(), "h")
				if p == nil {
					t.Errorf("rejected for %s", again)
					return
				}
				mu.Lock()
				under++
				most = max(most, under)
				mu.Unlock()
				<-time.After(10 * time.Millisecond)
				mu.Lock()
				under--
				mu.Unlock()
				p.release()
			})
		}
		running.Wait()
		if most != 4 || time.Since(started) != 250*time.Millisecond {
			t.Errorf("%d at once, all done in %s", most, time.Since(started))
		}
		if l := g.lanes["h"]; len(l.busy) != 0 || len(l.waiting) != 0 {
			t.Errorf("left over: %d busy, %d waiting", len(l.busy), len(l.waiting))
		}
	})
}

func TestLimiterRejectsForASlowHostWithGrowingDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newLimiter(4, 0)
		var permits []*permit
		for range 4 {
			p, _ := g.acquire(t.Context(), "dead")
			permits = append(permits, p)
		}
		started := time.Now()
		if p, _ := g.acquire(t.Context(), "dead"); p != nil || time.Since(started) > newGrace+2*recheck {
			t.Errorf("an unknown host that does not answer held up a fifth for %s", time.Since(started))
		}
		<-time.After(15 * time.Second)
		for _, p := range permits {
			p.release()
		}
		for range 4 {
			_, _ = g.acquire(t.Context(), "dead")
		}
		var delays []time.Duration
		for range 40 {
			at := time.Now()
			p, again := g.acquire(t.Context(), "dead")
			if p != nil || time.Now() != at {
				t.Fatal("a slow host holds up new callers")
			}
			delays = append(delays, again)
		}
		if delays[0] > 5*time.Second || delays[5] < 15*time.Second || delays[39] < maxRetryAfter || delays[39] > maxRetryAfter*12/10 {
			t.Errorf("delays %v", delays)
		}
		if p, _ := g.acquire(t.Context(), "alive"); p == nil {
			t.Error("another host is held up")
		}
	})
}

func TestLimiterStopsWaitingWhenTheHostStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newLimiter(1, 0)
		p, _ := g.acquire(t.Context(), "h")
		<-time.After(time.Millisecond)
		p.release()
		stuck, _ := g.acquire(t.Context(), "h")
		started := time.Now()
		if p, again := g.acquire(t.Context(), "h"); p != nil || again <= 0 || time.Since(started) > quickOldest+2*recheck {
			t.Errorf("waited %s", time.Since(started))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		started = time.Now()
		if p, _ := g.acquire(ctx, "h"); p != nil || time.Since(started) != 0 {
			t.Errorf("waited %s although ctx is canceled", time.Since(started))
		}
		stuck.cancel()
		if p, _ := g.acquire(t.Context(), "h"); p == nil {
			t.Error("the place was lost")
		}
	})
}

func TestLimiterEvictsIdleKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newLimiter(1, 0)
		for i := range 4096 {
			p, _ := g.acquire(t.Context(), fmt.Sprint(i))
			if i > 0 {
				p.release()
			}
		}
		<-time.After(2 * maxRetryAfter)
		_, _ = g.acquire(t.Context(), "another")
		if _, kept := g.lanes["0"]; !kept || len(g.lanes) != 2 {
			t.Errorf("%d keys are remembered", len(g.lanes))
		}
	})
}

func TestLimiterLeavesPlacesOfTheTotalForOtherKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newLimiter(10, 40)
		for key := range 18 { // these permits are never released
			for range 10 {
				if p, _ := g.acquire(t.Context(), fmt.Sprint(key)); p == nil {
					break
				}
			}
		}
		if n := len(g.lanes["0"].busy); n != 10 {
			t.Errorf("the first key has %d requests in flight, want its limit of 10", n)
		}
		started := time.Now()
		if p, _ := g.acquire(t.Context(), "another"); p == nil || time.Since(started) != 0 {
			t.Errorf("another key waited %s; %d of 40 are in flight", time.Since(started), g.inFlight)
		}
	})
}

func TestLimiterAdmitsAKeyThatWaitsForThePlaceOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newLimiter(1, 1)
		first, _ := g.acquire(t.Context(), "first")
		time.AfterFunc(time.Second, first.release)
		started := time.Now()
		if p, _ := g.acquire(t.Context(), "second"); p == nil || time.Since(started) > time.Second+recheck {
			t.Errorf("waited %s", time.Since(started))
		}
	})
}

func TestLimiterRejectsCallersThatWouldWaitTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const took = 200 * time.Millisecond // still quick
		g := newLimiter(4, 0)
		first, _ := g.acquire(t.Context(), "h")
		<-time.After(took)
		first.release()
		var admitted, rejected int
		var mu sync.Mutex
		var running sync.WaitGroup
		for range 400 {
			running.Go(func() {
				started := time.Now()
				p, _ := g.acquire(t.Context(), "h")
				mu.Lock()
				if p != nil {
					admitted++
				} else if rejected++; time.Since(started) != 0 {
					t.Errorf("rejected after %s", time.Since(started))
				}
				mu.Unlock()
				if p != nil {
					<-time.After(took)
					p.release()
				}
			})
		}
		running.Wait()
		// Four are admitted at once, and twenty in the next second.
		if admitted != 24 || admitted+rejected != 400 {
			t.Errorf("%d were admitted and %d rejected", admitted, rejected)
		}
	})
}
