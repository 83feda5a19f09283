package callback

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

const (
	quickMean   = 250 * time.Millisecond // of an exchange with a receiver worth waiting for
	quickOldest = 500 * time.Millisecond // age of the oldest exchange under way
	benefit     = 500 * time.Millisecond // of the doubt, for a receiver not yet known
	maxExpected = time.Second            // wait that may be expected of a caller
	maxPatience = 2 * time.Second
	recheck     = 100 * time.Millisecond
	maxWaiting  = 1024
	minAway     = 50 * time.Millisecond
	maxAway     = time.Minute
)

// gate bounds how many exchanges are in flight for each key, and in all. A
// caller that finds its key full waits only while the key is quick. Otherwise it
// is sent away with a time to come back, so that a slow receiver occupies the
// few places of its own key and no others.
//
// The total is shared fairly: slow keys share the first half. The second half is
// for the first exchange of any key, and for quick keys, which soon free their
// places again. So it takes as many slow keys as half the total to hold up another.
type gate struct {
	limit int // for each key
	total int // in all; 0: unlimited

	mu     sync.Mutex
	lanes  map[string]*lane
	flying int       // in flight in all
	swept  time.Time // when idle lanes were last removed
}

// lane is the state of one key.
type lane struct {
	busy    []time.Time // when the exchanges under way began
	waiting []*ticket
	proven  bool          // an exchange has ended
	mean    time.Duration // of the last ones, moving
	turn    time.Time     // when the next one sent away should come back
	used    time.Time
}

// ticket is a place in the line.
type ticket struct {
	ready chan struct{} // closed when admitted
	since time.Time     // when admitted
}

// pass is the right to one exchange. Exactly one of leave and drop must follow.
type pass struct {
	gate  *gate
	key   string
	begun time.Time
}

func newGate(limit, total int) *gate {
	return &gate{limit: limit, total: total, lanes: make(map[string]*lane)}
}

// room reports whether one more exchange may start in this lane.
func (g *gate) room(l *lane, now time.Time) bool {
	switch {
	case len(l.busy) >= g.limit:
		return false
	case g.total == 0 || g.flying < g.total/2:
		return true
	case l.proven && l.quick(now):
		return len(l.busy) < g.total-g.flying
	}
	return len(l.busy) == 0 && g.flying < g.total
}

// crowded reports whether a caller would wait too long in this lane.
func (g *gate) crowded(l *lane) bool {
	ahead := len(l.waiting)
	return ahead >= maxWaiting || time.Duration(ahead)*l.mean >= time.Duration(g.limit)*maxExpected
}

// serve admits as many waiting callers of this lane as there is room for.
func (g *gate) serve(l *lane, now time.Time) {
	for len(l.waiting) > 0 && g.room(l, now) {
		t := l.waiting[0]
		l.waiting = l.waiting[1:]
		t.since = now
		l.busy = append(l.busy, now)
		g.flying++
		close(t.ready)
	}
}

// enter admits one exchange, at once or after a short wait. When the key is
// full and slow, or ctx ends, there is no pass but a time after which to come
// again.
func (g *gate) enter(ctx context.Context, key string) (*pass, time.Duration) {
	begun := time.Now()
	g.mu.Lock()
	l := g.lane(key, begun)
	if len(l.waiting) == 0 && g.room(l, begun) {
		l.busy = append(l.busy, begun)
		g.flying++
		g.mu.Unlock()
		return &pass{gate: g, key: key, begun: begun}, 0
	}
	if g.crowded(l) || !l.quick(begun) {
		defer g.mu.Unlock()
		return nil, l.away(begun, g.limit)
	}
	t := &ticket{ready: make(chan struct{})}
	l.waiting = append(l.waiting, t)
	g.mu.Unlock()
	return g.wait(ctx, key, t, begun)
}

// full reports whether enter would send the caller away at once, and for how long.
func (g *gate) full(key string) (again time.Duration, yes bool) {
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	l, ok := g.lanes[key]
	if !ok || g.room(l, now) || !g.crowded(l) && l.quick(now) {
		return 0, false
	}
	return l.away(now, g.limit), true
}

func (g *gate) wait(ctx context.Context, key string, t *ticket, begun time.Time) (*pass, time.Duration) {
	ticker := time.NewTicker(recheck)
	defer ticker.Stop()
	done := ctx.Done()
	for {
		select {
		case <-t.ready:
			return &pass{gate: g, key: key, begun: t.since}, 0
		case <-done:
		case <-ticker.C:
		}
		now := time.Now()
		g.mu.Lock()
		l := g.lane(key, now)
		g.serve(l, now) // another key may have left a place
		i := slices.Index(l.waiting, t)
		admitted := i < 0
		if !admitted && (ctx.Err() != nil || now.Sub(begun) > maxPatience || !l.quick(now)) {
			l.waiting = slices.Delete(l.waiting, i, i+1)
			again := l.away(now, g.limit)
			g.mu.Unlock()
			return nil, again
		}
		g.mu.Unlock()
		if admitted {
			done = nil // the place is ours: take it on the next round
		}
	}
}

// leave ends an exchange that took place and lets the next one in.
func (p *pass) leave() { p.end(true) }

// drop gives the right back unused.
func (p *pass) drop() { p.end(false) }

func (p *pass) end(used bool) {
	now := time.Now()
	g := p.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.lane(p.key, now)
	if i := slices.Index(l.busy, p.begun); i >= 0 {
		l.busy = slices.Delete(l.busy, i, i+1)
		g.flying--
	}
	if used {
		l.learn(now.Sub(p.begun))
	}
	g.serve(l, now)
}

// lane returns the state of a key. Lanes that have been idle for maxAway are
// evicted, once in that time.
func (g *gate) lane(key string, now time.Time) *lane {
	l, ok := g.lanes[key]
	if !ok {
		l = &lane{}
		g.lanes[key] = l
	}
	l.used = now
	if now.Sub(g.swept) > maxAway {
		g.swept = now
		for name, idle := range g.lanes {
			if len(idle.busy) == 0 && len(idle.waiting) == 0 && now.Sub(idle.used) > maxAway {
				delete(g.lanes, name)
			}
		}
	}
	return l
}

func (l *lane) learn(took time.Duration) {
	if !l.proven {
		l.proven, l.mean = true, took
	} else {
		l.mean += (took - l.mean) / 8
	}
	if l.mean <= quickMean {
		l.turn = time.Time{}
	}
}

// quick reports whether exchanges end fast at present. Of an unknown receiver
// only the first moments count.
func (l *lane) quick(now time.Time) bool {
	oldest := now
	for _, begun := range l.busy {
		if begun.Before(oldest) {
			oldest = begun
		}
	}
	if !l.proven {
		return now.Sub(oldest) <= benefit
	}
	return l.mean <= quickMean && now.Sub(oldest) <= quickOldest
}

// away gives the time after which to come again: each one sent away gets a turn
// of its own, at the pace at which the receiver has been answering.
func (l *lane) away(now time.Time, limit int) time.Duration {
	pace := l.mean
	if !l.proven {
		pace = benefit
	}
	if l.turn.Before(now) {
		l.turn = now
	}
	l.turn = l.turn.Add(max(pace/time.Duration(limit), time.Millisecond))
	if latest := now.Add(maxAway); l.turn.After(latest) {
		l.turn = latest
	}
	again := max(l.turn.Sub(now), minAway)
	return again + time.Duration(rand.Float64()*float64(again)/5)
}
