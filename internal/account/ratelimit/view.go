package ratelimit

import (
	"time"

	"github.com/google/uuid"
)

// view is the state of a workspace as this node knows it. It is guarded by the limiter's lock.
type view struct {
	terms termsView
	used  time.Time

	usage     usage     // as last read from the store, plus the charges of this node since then
	seen      time.Time // when the usage was read, by this node's clock
	storeTime time.Time // the same time by the store's clock
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

// refuse rejects a request that the store would reject too, without a round trip. Since the
// store was read, other nodes can only have used more of the limits, except for refunds, which
// are ignored for at most a second.
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

// owe records a charge to be written to the store. It merges charges of the same second, so
// there are at most 3,600 for the hour that counts.
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

// lease is a number of requests that the store has charged in advance. The node may admit them
// without a round trip, so workspaces with high limits need fewer round trips.
type lease struct {
	charge // the unused rest
	limits Limits
	until  time.Time
}

// leaseSize returns how many requests a node leases at a time: a hundredth of the limit per
// second if that exceeds 200, otherwise none. A lease lasts for 100 ms, so each node is off by
// at most one lease.
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

// endLease refunds the rest of a lease that expired, or that other limits or a new lease replace.
// The next round trip to the store takes the refund along.
func (v *view) endLease() {
	v.owe(charge{v.lease.at, -v.lease.n})
	v.lease = lease{}
}

// takeFromLease admits a request from the lease, if enough of the lease is left. It reports
// whether it did.
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
