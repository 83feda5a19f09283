package ratelimit

import (
	"time"

	"github.com/google/uuid"
)

// view is what this node knows of a workspace. It is guarded by the limiter's lock.
type view struct {
	terms termsView
	used  time.Time

	usage     usage     // as last seen in the store, with what this node has charged since
	seen      time.Time // when that was, by this node's clock
	storeTime time.Time // and by the store's
	owed      []charge  // charges that the store doesn't have yet
	lease     lease
	open      calls
}

// view returns the view of a workspace; l.mu is held.
func (l *Limiter) view(id uuid.UUID) *view {
	v, ok := l.views[id]
	if !ok {
		v = &view{}
		l.views[id] = v
	}
	v.used = time.Now()
	return v
}

// now returns the store's time.
func (v *view) now() time.Time {
	if v.seen.IsZero() {
		return time.Now()
	}
	return v.storeTime.Add(time.Since(v.seen))
}

// remaining returns what remains of the limits.
func (v *view) remaining(limits Limits) Decision {
	return v.usage.check(v.now(), 0, limits).withMore(v.lease.n)
}

// refuse refuses what the store would refuse too: since it was seen, other nodes can only have
// taken more. So a flood doesn't reach the store. After a second they may have refunded some.
func (v *view) refuse(r *request) (refused bool) {
	if v.seen.IsZero() || time.Since(v.seen) > time.Second {
		return false
	}
	d := v.usage.check(v.now(), r.cost, r.limits)
	if !d.Allowed {
		r.decision = &d
	}
	return !d.Allowed
}

// charge charges or refunds requests here and, later, in the store.
func (v *view) charge(c charge, limits Limits) {
	v.usage.advance(v.now(), limits)
	v.usage.add(c, limits)
	v.owe(c)
}

// owe records a charge for the store. It merges charges of the same second, of which there are
// 3,600 in the hour that counts.
func (v *view) owe(c charge) {
	last := len(v.owed) - 1
	switch {
	case c.n == 0:
	case last >= 0 && v.owed[last].at/unit == c.at/unit && v.owed[last].n > 0 == (c.n > 0):
		v.owed[last] = charge{max(v.owed[last].at, c.at), v.owed[last].n + c.n}
	default:
		v.owed = append(v.owed[max(0, len(v.owed)-2*window):], c)
	}
}

// lease is what the store charged beyond a request, for this node to let in. So workspaces with
// high limits need fewer trips.
type lease struct {
	charge // what is left
	limits Limits
	until  time.Time
}

// leaseSize returns how many requests a node leases at a time: above 200 a second, a hundredth
// of a second's worth. A lease lasts for 100 ms, so the error is at most that much a node.
func leaseSize(limits Limits) int {
	if limits.RPS <= 200 {
		return 0
	}
	return limits.RPS / 100
}

func (v *view) startLease(d Decision) {
	v.endLease()
	v.lease = lease{d.leased, d.limits, time.Now().Add(100 * time.Millisecond)}
}

// endLease refunds the rest of the lease.
func (v *view) endLease() {
	v.owe(charge{v.lease.at, -v.lease.n})
	v.lease = lease{}
}

// takeFromLease lets a request in that the store has charged already, and reports whether it did.
func (v *view) takeFromLease(r *request) (allowed bool) {
	if time.Now().After(v.lease.until) || v.lease.limits != r.limits {
		v.endLease()
	}
	if v.lease.n < int64(r.cost) {
		return false
	}
	v.lease.n -= int64(r.cost)
	r.decision = new(v.remaining(r.limits))
	r.decision.charged = charge{v.lease.at, int64(r.cost)}
	return true
}
