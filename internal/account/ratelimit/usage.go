package ratelimit

import (
	"slices"
	"time"
)

// Limits are the numbers of requests that a workspace may make per second and per hour. 0 means
// unlimited.
type Limits struct{ RPS, RPH int }

func (l Limits) none() bool { return l.RPS == 0 && l.RPH == 0 }

// Both are at least 2, because a submit costs 2.
func (l Limits) second() int64 { return int64(max(2, l.RPS)) }
func (l Limits) hour() int64   { return int64(max(2, l.RPH)) }

const (
	unit      = 1_000_000 // microrequests in a request, and microseconds in a second
	window    = 3600      // seconds of the hard limit
	slotWidth = 30        // seconds
)

// usage is what a workspace has used of its limits. The zero value has used nothing.
//
// The soft limit is a token bucket. It is stored as a debt: the number of tokens that are not
// refilled yet.
//
// The hard limit is a sliding window that counts requests in aligned slots of 30 s. A slot
// counts in full until its latest request is an hour old, rounded up to a second. So each
// request counts for more than 3,600 s and at most 3,630 s: the longest time is from the start
// of its slot until an hour after the slot's end. Therefore no hour exceeds the limit, and a
// request is rejected only if an exact window of 3,630 s would reject it. Compared with an exact
// hour, a request may have to wait at most 30 s longer (0.83 % of the hour). Under constant load, at
// least 3600/3630 = 99.1 % of the limit is admitted.
type usage struct {
	at    int64  // the store's time at the last change, in microseconds since 1970
	debt  int64  // microrequests
	slots []slot // oldest first, at most one for each 30 s
	sum   int64  // requests in slots
}

// slot holds n requests. latest is the second of the latest request.
type slot struct{ latest, n int64 }

// charge is n requests that were admitted at a time, in microseconds since 1970. A refund has a
// negative n.
type charge struct{ at, n int64 }

// take admits and charges cost requests, or rejects them and charges nothing.
func (u *usage) take(now time.Time, cost int, limits Limits) Decision {
	d := u.check(now, cost, limits)
	if d.Allowed {
		d.charged = charge{u.at, int64(cost)}
		u.add(d.charged, limits)
		u.describe(&d)
	}
	return d
}

// check returns the decision on cost requests without charging them. A cost of 0 is always
// admitted.
func (u *usage) check(now time.Time, cost int, limits Limits) Decision {
	u.advance(now, limits)
	d := Decision{Allowed: true, limits: limits}
	if wait := u.waitSecond(int64(cost), limits); wait > 0 {
		d.Allowed, d.Wait, d.Violated = false, wait, Second
	}
	if wait := u.waitHour(int64(cost), limits); wait > d.Wait {
		d.Allowed, d.Wait, d.Violated = false, wait, Hour
	}
	u.describe(&d)
	return d
}

// advance refills the bucket and drops slots that are older than an hour. If the clock was set
// back, requests with a time in the future count from now on.
func (u *usage) advance(now time.Time, limits Limits) {
	before := u.at
	u.at = now.UnixMicro()
	elapsed := min(max(0, u.at-before), 10*unit) // refills any bucket, and keeps the product in range
	u.debt = min(max(0, u.debt-elapsed*int64(limits.RPS)), limits.second()*unit)

	present := u.at / unit
	future := int64(0)
	for n := len(u.slots); n > 0 && u.slots[n-1].latest > present; n-- {
		future += u.slots[n-1].n
		u.slots = u.slots[:n-1]
	}
	u.sum -= future
	u.count(present, future)
	for len(u.slots) > 0 && u.expiry(u.slots[0]) <= 0 {
		u.sum -= u.slots[0].n
		u.slots = slices.Delete(u.slots, 0, 1)
	}
}

// expiry returns the time from now until a slot counts no more.
func (u *usage) expiry(s slot) time.Duration {
	return time.Duration((s.latest+1+window)*unit-u.at) * time.Microsecond
}

func (u *usage) waitSecond(cost int64, limits Limits) time.Duration {
	if limits.RPS == 0 || cost == 0 {
		return 0
	}
	over := u.debt + cost*unit - limits.second()*unit
	return time.Duration(ceilDiv(max(0, over), int64(limits.RPS))) * time.Microsecond
}

func (u *usage) waitHour(cost int64, limits Limits) time.Duration {
	over := u.sum + cost - limits.hour()
	if limits.RPH == 0 || cost == 0 || over <= 0 {
		return 0
	}
	for _, s := range u.slots {
		if over -= s.n; over <= 0 {
			return u.expiry(s)
		}
	}
	return 0 // cost exceeds the limit itself; no operation does
}

// add charges or refunds requests without checking a limit.
func (u *usage) add(c charge, limits Limits) {
	u.debt = min(max(0, u.debt+c.n*unit), limits.second()*unit)
	if limits.RPH != 0 {
		u.count(c.at/unit, c.n)
	}
}

// count adds n requests to the slot of a second, or removes them if n is negative.
func (u *usage) count(second, n int64) {
	if n == 0 {
		return
	}
	i := len(u.slots)
	for i > 0 && u.slots[i-1].latest/slotWidth > second/slotWidth {
		i--
	}
	if i > 0 && u.slots[i-1].latest/slotWidth == second/slotWidth {
		i--
	} else {
		u.slots = slices.Insert(u.slots, i, slot{latest: second})
	}
	s := &u.slots[i]
	n = max(n, -s.n)
	s.n += n
	u.sum += n
	if n > 0 {
		s.latest = max(s.latest, second)
	}
	if s.n == 0 {
		u.slots = slices.Delete(u.slots, i, i+1)
	}
}

// catchUp charges requests that were decided without the store, each at the time of its
// decision.
func (u *usage) catchUp(owed []charge, now time.Time, limits Limits) {
	for _, c := range owed {
		at := min(max(c.at, u.at), max(now.UnixMicro(), u.at))
		u.advance(time.UnixMicro(at), limits)
		u.add(c, limits)
	}
}

// describe sets what remains of each limit.
func (u *usage) describe(d *Decision) {
	if limits := d.limits; limits.RPS != 0 {
		d.Second.Remaining = int((limits.second()*unit - u.debt) / unit)
		part := u.debt % unit
		if part == 0 && u.debt > 0 {
			part = unit
		}
		d.Second.Reset = time.Duration(ceilDiv(part, int64(limits.RPS))) * time.Microsecond
	}
	if limits := d.limits; limits.RPH != 0 {
		d.Hour.Remaining = int(max(0, limits.hour()-u.sum))
		if u.sum >= limits.hour() { // above the limit after a change to a lower plan
			d.Hour.Reset = u.waitHour(1, limits)
		} else if len(u.slots) > 0 {
			d.Hour.Reset = u.expiry(u.slots[0])
		}
	}
}

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }
