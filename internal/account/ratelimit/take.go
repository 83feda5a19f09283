package ratelimit

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// ask is a request on its way to the store. What follows the parameters belongs
// to the limiter's lock.
type ask struct {
	workspaceID uuid.UUID
	cost        int
	limits      Limits

	answer *Decision
}

// bring takes an ask to the store. When the answer comes too late, what differs
// from what was decided instead is told to the store with the next trip.
func (l *Limiter) bring(ctx context.Context, a *ask, done chan<- struct{}) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.patience)
	defer cancel()
	defer close(done)
	d, err := l.takes.Do(ctx, a)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil && d.lease.n > 0 {
		l.view(a.workspaceID).beginLease(d)
	}
	switch {
	case a.answer == nil && err == nil:
		a.answer = &d
		l.metrics.LimitDecided("store", d.Allowed)
	case a.answer == nil:
		l.decideAndOwe(a)
	case a.answer.Allowed && (err != nil || !d.Allowed):
		l.view(a.workspaceID).owe(a.answer.charged)
	case !a.answer.Allowed && err == nil && d.Allowed:
		l.view(a.workspaceID).owe(charge{d.charged.at, -d.charged.n})
	}
}

// decideAndOwe is decideAlone for what the store will not hear of otherwise; l.mu
// is held.
func (l *Limiter) decideAndOwe(a *ask) Decision {
	d := l.decideAlone(a)
	if d.Allowed {
		l.view(a.workspaceID).owe(d.charged)
	}
	return d
}

// decideAlone goes on with the last view of the state; l.mu is held.
func (l *Limiter) decideAlone(a *ask) Decision {
	var d Decision
	v := l.view(a.workspaceID)
	v.seen.change(func(s *State, now time.Time) { d = s.Take(now, a.cost, a.limits) })
	a.answer = &d
	l.metrics.LimitDecided("degraded", d.Allowed)
	return d
}

// takeNothing lets in what costs nothing and says what is left by the last view of
// the state. The store has nothing to decide of it and nothing to be told.
func (l *Limiter) takeNothing(id uuid.UUID, limits Limits) Decision {
	if limits.none() {
		return Decision{Allowed: true}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	v := l.view(id)
	d := v.seen.look(0, limits)
	if v.lease.given.limits == limits {
		d.charged.n = v.lease.left // the store counts it, and nobody has used it
	}
	l.metrics.LimitDecided("memory", true)
	return d.refunded()
}

// refusedBySight refuses what the store would refuse as well: since it was seen,
// others can only have taken more. So a flood does not reach it.
func (l *Limiter) refusedBySight(id uuid.UUID, cost int, limits Limits) (Decision, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	seen := l.view(id).seen
	if len(seen.state) == 0 || time.Since(seen.when) > freshFor {
		return Decision{}, false
	}
	d := seen.look(cost, limits)
	return d, !d.Allowed
}

// look is what would become of requests by a view, which stays as it is.
func (v stateView) look(cost int, limits Limits) Decision {
	var s State
	_ = s.UnmarshalBinary(v.state) // our own encoding
	return s.Take(v.now(), cost, limits)
}

// change alters the state of a view.
func (v *stateView) change(alter func(s *State, now time.Time)) {
	now := v.now()
	var s State
	_ = s.UnmarshalBinary(v.state) // our own encoding
	alter(&s, now)
	v.state, _ = s.AppendBinary(v.state[:0]) // cannot fail
	v.at, v.when = now, time.Now()
}

const (
	// maxOwed bounds what is owed of one workspace, owedSlot how near to each other
	// charges become one.
	maxOwed  = 10_000
	owedSlot = 100_000 // microseconds
)

// owe notes what the store has to be told.
func (v *workspaceView) owe(c charge) {
	if n := len(v.owed); n > 0 && v.owed[n-1].at/owedSlot == c.at/owedSlot && v.owed[n-1].n > 0 == (c.n > 0) {
		v.owed[n-1] = charge{max(v.owed[n-1].at, c.at), v.owed[n-1].n + c.n}
		return
	}
	if len(v.owed) >= maxOwed {
		v.owed = v.owed[1:]
	}
	v.owed = append(v.owed, c)
}
