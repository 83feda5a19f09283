package ratelimit

import (
	"time"

	"github.com/google/uuid"
)

const (
	// leaseFrom is the limit a second from which a node takes more at a time than it
	// is asked for: below it, a trip to the store for each batch is no burden.
	leaseFrom = 200
	// leasePart is the part of a second's worth that it takes, and leaseLife how long
	// it may use it. So nodes let in a hundredth too many at once at most, each.
	leasePart = 100
	leaseLife = 100 * time.Millisecond
)

// lease is what a node was given beyond what it asked for. All of it is charged.
type lease struct {
	left   int64
	given  Decision // what was left when it was given
	until  time.Time
	charge charge
}

// leased is how much a node takes beyond what it is asked for.
func leased(limits Limits) int {
	if limits.RPS <= leaseFrom {
		return 0
	}
	return limits.RPS / leasePart
}

// fromLease lets requests in that the store has let in already.
func (l *Limiter) fromLease(id uuid.UUID, cost int, limits Limits) (Decision, bool) {
	if leased(limits) == 0 {
		return Decision{}, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	v := l.view(id)
	if time.Now().After(v.lease.until) || v.lease.given.limits != limits {
		v.endLease()
	}
	if v.lease.left < int64(cost) {
		return Decision{}, false
	}
	v.lease.left -= int64(cost)
	d := v.lease.given
	d.Second.Remaining += int(v.lease.left)
	d.Hour.Remaining += int(v.lease.left)
	d.charged = charge{v.lease.charge.at, int64(cost)}
	return d, true
}

// beginLease keeps what a decision brought beyond what was asked; l.mu is held.
func (v *workspaceView) beginLease(d Decision) {
	v.endLease()
	d.Second.Remaining -= int(d.lease.n)
	d.Hour.Remaining -= int(d.lease.n)
	v.lease = lease{left: d.lease.n, given: d, until: time.Now().Add(leaseLife), charge: d.lease}
}

// endLease gives back what was not used; l.mu is held.
func (v *workspaceView) endLease() {
	if v.lease.left > 0 {
		v.owe(charge{v.lease.charge.at, -v.lease.left})
	}
	v.lease = lease{}
}
