package callback

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

const (
	quickMean     = 250 * time.Millisecond // of the requests to a quick receiver
	quickOldest   = 500 * time.Millisecond // age of the oldest request in flight to a quick receiver
	newGrace      = 500 * time.Millisecond // a new receiver counts as quick for this long
	maxExpected   = time.Second            // expected wait that a caller accepts
	maxPatience   = 2 * time.Second
	recheck       = 100 * time.Millisecond
	maxWaiting    = 1024
	minRetryAfter = 50 * time.Millisecond
	maxRetryAfter = time.Minute
)

// limiter limits the requests in flight for each key and in total. A caller whose key is full
// waits only while the key is quick. Otherwise it gets a delay after which to try again, so that a
// slow receiver occupies only the few slots of its own key.
//
// The total is shared fairly. Slow keys share the first half. The second half is for the first
// request of any key, and for quick keys, which soon release their slots. So other keys are
// delayed only if there are at least half as many slow keys as slots in total.
type limiter struct {
	limit int // per key
	total int // for all keys; 0: unlimited

	mu       sync.Mutex
	lanes    map[string]*lane
	inFlight int       // requests in flight, for all keys
	swept    time.Time // when idle lanes were last removed
}

// lane is the state of one key.
type lane struct {
	busy      []time.Time // start times of the requests in flight
	waiting   []*waiter
	known     bool          // a request has finished
	mean      time.Duration // moving average of the durations
	nextRetry time.Time     // when the next rejected caller should try again
	used      time.Time
}

// waiter is a caller in the queue of a lane.
type waiter struct {
	ready chan struct{} // closed when admitted
	since time.Time     // when admitted
}

// permit is the right to make one request. The holder must call either release or cancel, exactly
// once.
type permit struct {
	limiter *limiter
	key     string
	started time.Time
}

func newLimiter(limit, total int) *limiter {
	return &limiter{limit: limit, total: total, lanes: make(map[string]*lane)}
}

// room reports whether one more request may start in this lane.
func (g *limiter) room(l *lane, now time.Time) bool {
	switch {
	case len(l.busy) >= g.limit:
		return false
	case g.total == 0 || g.inFlight < g.total/2:
		return true
	case l.known && l.quick(now):
		return len(l.busy) < g.total-g.inFlight
	}
	return len(l.busy) == 0 && g.inFlight < g.total
}

// crowded reports whether a caller would wait too long in this lane.
func (g *limiter) crowded(l *lane) bool {
	ahead := len(l.waiting)
	return ahead >= maxWaiting || time.Duration(ahead)*l.mean >= time.Duration(g.limit)*maxExpected
}

// admit admits as many waiting callers of this lane as there is room for.
func (g *limiter) admit(l *lane, now time.Time) {
	for len(l.waiting) > 0 && g.room(l, now) {
		t := l.waiting[0]
		l.waiting = l.waiting[1:]
		t.since = now
		l.busy = append(l.busy, now)
		g.inFlight++
		close(t.ready)
	}
}

// acquire returns a permit, immediately or after a short wait. If the key is full and slow, or ctx
// is done, acquire returns nil and the delay after which to try again.
func (g *limiter) acquire(ctx context.Context, key string) (*permit, time.Duration) {
	started := time.Now()
	g.mu.Lock()
	l := g.lane(key, started)
	if len(l.waiting) == 0 && g.room(l, started) {
		l.busy = append(l.busy, started)
		g.inFlight++
		g.mu.Unlock()
		return &permit{limiter: g, key: key, started: started}, 0
	}
	if g.crowded(l) || !l.quick(started) {
		defer g.mu.Unlock()
		return nil, l.retryAfter(started, g.limit)
	}
	t := &waiter{ready: make(chan struct{})}
	l.waiting = append(l.waiting, t)
	g.mu.Unlock()
	return g.wait(ctx, key, t, started)
}

// full reports whether acquire would reject the caller immediately, and returns the delay after
// which to try again.
func (g *limiter) full(key string) (retryIn time.Duration, yes bool) {
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	l, ok := g.lanes[key]
	if !ok || g.room(l, now) || !g.crowded(l) && l.quick(now) {
		return 0, false
	}
	return l.retryAfter(now, g.limit), true
}

// wait waits until t is admitted, as long as the key is quick and for at most maxPatience.
func (g *limiter) wait(ctx context.Context, key string, t *waiter, started time.Time) (*permit, time.Duration) {
	ticker := time.NewTicker(recheck)
	defer ticker.Stop()
	done := ctx.Done()
	for {
		select {
		case <-t.ready:
			return &permit{limiter: g, key: key, started: t.since}, 0
		case <-done:
		case <-ticker.C:
		}
		now := time.Now()
		g.mu.Lock()
		l := g.lane(key, now)
		g.admit(l, now) // a different key may have released a slot
		i := slices.Index(l.waiting, t)
		admitted := i < 0
		if !admitted && (ctx.Err() != nil || now.Sub(started) > maxPatience || !l.quick(now)) {
			l.waiting = slices.Delete(l.waiting, i, i+1)
			retryIn := l.retryAfter(now, g.limit)
			g.mu.Unlock()
			return nil, retryIn
		}
		g.mu.Unlock()
		if admitted {
			done = nil // admitted: return the permit in the next iteration
		}
	}
}

// release ends a request that was made and admits the next request.
func (p *permit) release() { p.end(true) }

// cancel returns an unused permit.
func (p *permit) cancel() { p.end(false) }

// end removes the request from its lane and admits the next request. used reports whether the
// request was made.
func (p *permit) end(used bool) {
	now := time.Now()
	g := p.limiter
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.lane(p.key, now)
	if i := slices.Index(l.busy, p.started); i >= 0 {
		l.busy = slices.Delete(l.busy, i, i+1)
		g.inFlight--
	}
	if used {
		l.observe(now.Sub(p.started))
	}
	g.admit(l, now)
}

// lane returns the state of a key. About once per maxRetryAfter, it evicts the lanes that have
// been idle for longer than maxRetryAfter.
func (g *limiter) lane(key string, now time.Time) *lane {
	l, ok := g.lanes[key]
	if !ok {
		l = &lane{}
		g.lanes[key] = l
	}
	l.used = now
	if now.Sub(g.swept) > maxRetryAfter {
		g.swept = now
		for name, idle := range g.lanes {
			if len(idle.busy) == 0 && len(idle.waiting) == 0 && now.Sub(idle.used) > maxRetryAfter {
				delete(g.lanes, name)
			}
		}
	}
	return l
}

// observe adds the duration of a finished request to the moving average.
func (l *lane) observe(took time.Duration) {
	if !l.known {
		l.known, l.mean = true, took
	} else {
		l.mean += (took - l.mean) / 8
	}
	if l.mean <= quickMean {
		l.nextRetry = time.Time{}
	}
}

// quick reports whether requests currently finish fast. A new receiver counts as quick until its
// oldest request has taken newGrace.
func (l *lane) quick(now time.Time) bool {
	oldest := now
	for _, started := range l.busy {
		if started.Before(oldest) {
			oldest = started
		}
	}
	if !l.known {
		return now.Sub(oldest) <= newGrace
	}
	return l.mean <= quickMean && now.Sub(oldest) <= quickOldest
}

// retryAfter returns the delay after which to try again. Each rejected caller gets a different
// time, at the rate at which the receiver has been responding.
func (l *lane) retryAfter(now time.Time, limit int) time.Duration {
	pace := l.mean
	if !l.known {
		pace = newGrace
	}
	if l.nextRetry.Before(now) {
		l.nextRetry = now
	}
	l.nextRetry = l.nextRetry.Add(max(pace/time.Duration(limit), time.Millisecond))
	if latest := now.Add(maxRetryAfter); l.nextRetry.After(latest) {
		l.nextRetry = latest
	}
	retryIn := max(l.nextRetry.Sub(now), minRetryAfter)
	return retryIn + time.Duration(rand.Float64()*float64(retryIn)/5)
}
