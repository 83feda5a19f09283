package callback

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestGateAdmitsItsLimitAndServesAQuickHostInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(4, 0)
		first, _ := g.enter(t.Context(), "h")
		<-time.After(10 * time.Millisecond)
		first.leave() // it is known as quick now
		var running sync.WaitGroup
		var mu sync.Mutex
		var under, most int
		begun := time.Now()
		for range 100 {
			running.Go(func() {
				p, again := g.enter(t.Context(), "h")
				if p == nil {
					t.Errorf("sent away for %s", again)
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
				p.leave()
			})
		}
		running.Wait()
		if most != 4 || time.Since(begun) != 250*time.Millisecond {
			t.Errorf("%d at once, all done in %s", most, time.Since(begun))
		}
		if l := g.lanes["h"]; len(l.busy) != 0 || len(l.waiting) != 0 {
			t.Errorf("left over: %d busy, %d waiting", len(l.busy), len(l.waiting))
		}
	})
}

func TestGateSendsAwayFromASlowHostWithGrowingDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(4, 0)
		var passes []*pass
		for range 4 {
			p, _ := g.enter(t.Context(), "dead")
			passes = append(passes, p)
		}
		begun := time.Now()
		if p, _ := g.enter(t.Context(), "dead"); p != nil || time.Since(begun) > benefit+2*recheck {
			t.Errorf("an unknown host that does not answer held up a fifth for %s", time.Since(begun))
		}
		<-time.After(15 * time.Second)
		for _, p := range passes {
			p.leave()
		}
		for range 4 {
			_, _ = g.enter(t.Context(), "dead")
		}
		var delays []time.Duration
		for range 40 {
			at := time.Now()
			p, again := g.enter(t.Context(), "dead")
			if p != nil || time.Now() != at {
				t.Fatal("a slow host holds up whoever comes")
			}
			delays = append(delays, again)
		}
		if delays[0] > 5*time.Second || delays[5] < 15*time.Second || delays[39] < maxAway || delays[39] > maxAway*12/10 {
			t.Errorf("delays %v", delays)
		}
		if p, _ := g.enter(t.Context(), "alive"); p == nil {
			t.Error("another host is held up")
		}
	})
}

func TestGateGivesUpWaitingWhenTheHostStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(1, 0)
		p, _ := g.enter(t.Context(), "h")
		<-time.After(time.Millisecond)
		p.leave()
		stuck, _ := g.enter(t.Context(), "h")
		begun := time.Now()
		if p, again := g.enter(t.Context(), "h"); p != nil || again <= 0 || time.Since(begun) > quickOldest+2*recheck {
			t.Errorf("waited %s", time.Since(begun))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		begun = time.Now()
		if p, _ := g.enter(ctx, "h"); p != nil || time.Since(begun) != 0 {
			t.Errorf("waited %s without need", time.Since(begun))
		}
		stuck.drop()
		if p, _ := g.enter(t.Context(), "h"); p == nil {
			t.Error("the place was lost")
		}
	})
}

func TestGateForgetsIdleKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(1, 0)
		for i := range 4096 {
			p, _ := g.enter(t.Context(), fmt.Sprint(i))
			if i > 0 {
				p.leave()
			}
		}
		<-time.After(2 * maxAway)
		_, _ = g.enter(t.Context(), "another")
		if _, kept := g.lanes["0"]; !kept || len(g.lanes) != 2 {
			t.Errorf("%d keys are remembered", len(g.lanes))
		}
	})
}

func TestGateLeavesPlacesOfTheTotalForOtherKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(10, 40)
		for key := range 18 { // none of them ever leaves
			for range 10 {
				if p, _ := g.enter(t.Context(), fmt.Sprint(key)); p == nil {
					break
				}
			}
		}
		if n := len(g.lanes["0"].busy); n != 10 {
			t.Errorf("the first key has %d exchanges in flight, want its limit of 10", n)
		}
		begun := time.Now()
		if p, _ := g.enter(t.Context(), "another"); p == nil || time.Since(begun) != 0 {
			t.Errorf("another key waited %s; %d of 40 are in flight", time.Since(begun), g.flying)
		}
	})
}

func TestGateServesAKeyThatWaitsForThePlaceOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(1, 1)
		first, _ := g.enter(t.Context(), "first")
		time.AfterFunc(time.Second, first.leave)
		begun := time.Now()
		if p, _ := g.enter(t.Context(), "second"); p == nil || time.Since(begun) > time.Second+recheck {
			t.Errorf("waited %s", time.Since(begun))
		}
	})
}

func TestGateSendsAwayWhomItWouldKeepTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const took = 200 * time.Millisecond // still quick
		g := newGate(4, 0)
		first, _ := g.enter(t.Context(), "h")
		<-time.After(took)
		first.leave()
		var kept, away int
		var mu sync.Mutex
		var running sync.WaitGroup
		for range 400 {
			running.Go(func() {
				begun := time.Now()
				p, _ := g.enter(t.Context(), "h")
				mu.Lock()
				if p != nil {
					kept++
				} else if away++; time.Since(begun) != 0 {
					t.Errorf("sent away after %s", time.Since(begun))
				}
				mu.Unlock()
				if p != nil {
					<-time.After(took)
					p.leave()
				}
			})
		}
		running.Wait()
		// Four are served at once, and in the next second twenty.
		if kept != 24 || kept+away != 400 {
			t.Errorf("%d were served and %d sent away", kept, away)
		}
	})
}
