package ratelimit

import (
	"encoding/binary"
	"errors"
	"slices"
	"time"
)

// Limits are how many requests a workspace may make, in a second and in an hour.
// A limit of 0 is none.
type Limits struct{ RPS, RPH int }

// none says that there is nothing to count.
func (l Limits) none() bool { return l.RPS == 0 && l.RPH == 0 }

// Both hold 2 at least: otherwise a submit, which costs 2, could never be made.
func (l Limits) second() int64 { return int64(max(2, l.RPS)) }
func (l Limits) hour() int64   { return int64(max(2, l.RPH)) }

const (
	unit   = 1_000_000 // micro-requests, of which a debt is counted
	window = 3600      // seconds of the hard limit
	// A request is counted with its second, and a second until its last moment is
	// an hour ago: there is no hour in which more than the limit were let in.
	counted = window + 1
)

// State is what a workspace has used of its limits: a token bucket, kept as the
// requests that are not refilled yet, and the requests of the last hour by their
// seconds. The zero value has used nothing. Times are those of one clock, the
// store's.
type State struct {
	at      int64 // of the last change, in microseconds since 1970
	debt    int64 // micro-requests taken and not refilled
	seconds []count
	sum     int64 // of seconds
}

// count is the requests of one second.
type count struct{ at, n int64 }

// charge is requests that were let in at a time, in microseconds since 1970. A
// negative one takes back.
type charge struct{ at, n int64 }

// Take lets cost requests in at once, or refuses them and changes nothing but
// what time has done by itself. A cost of 0 is always let in.
func (s *State) Take(now time.Time, cost int, limits Limits) Decision {
	s.advance(now, limits)
	d := Decision{Allowed: true, limits: limits}
	wait := s.waitSecond(int64(cost), limits)
	if wait > 0 {
		d.Allowed, d.Wait, d.Violated = false, wait, Second
	}
	if wait := s.waitHour(int64(cost), limits); wait > d.Wait {
		d.Allowed, d.Wait, d.Violated = false, wait, Hour
	}
	if d.Allowed {
		d.charged = charge{at: s.at, n: int64(cost)}
		s.add(d.charged, limits)
	}
	s.tell(&d)
	return d
}

// advance does what time does: the bucket refills, old seconds are forgotten. A
// clock that was set back moves what it left in its future to the present, where
// it counts for as long as if it had just been made.
func (s *State) advance(now time.Time, limits Limits) {
	before := s.at
	s.at = now.UnixMicro()
	// From full to empty takes less than this, and the product stays in bounds.
	elapsed := min(max(0, s.at-before), 10*unit)
	s.debt = min(max(0, s.debt-elapsed*int64(limits.RPS)), limits.second()*unit)
	present := s.at / unit
	for len(s.seconds) > 0 && s.seconds[len(s.seconds)-1].at > present {
		last := s.seconds[len(s.seconds)-1]
		s.seconds, s.sum = s.seconds[:len(s.seconds)-1], s.sum-last.n
		s.note(count{present, last.n})
	}
	old := 0
	for old < len(s.seconds) && s.seconds[old].at+counted <= present {
		s.sum -= s.seconds[old].n
		old++
	}
	s.seconds = s.seconds[old:]
}

func (s *State) waitSecond(cost int64, limits Limits) time.Duration {
	if limits.RPS == 0 || cost == 0 {
		return 0
	}
	over := s.debt + cost*unit - limits.second()*unit
	return time.Duration(ceilDiv(max(0, over), int64(limits.RPS))) * time.Microsecond
}

func (s *State) waitHour(cost int64, limits Limits) time.Duration {
	if limits.RPH == 0 || cost == 0 {
		return 0
	}
	over := s.sum + cost - limits.hour()
	if over <= 0 {
		return 0
	}
	for _, c := range s.seconds {
		if over -= c.n; over <= 0 {
			return s.until(c)
		}
	}
	return 0 // more than all there is: a cost above the limit, which the front has not
}

// until is the time from now until a second counts no more.
func (s *State) until(c count) time.Duration {
	return time.Duration((c.at+counted)*unit-s.at) * time.Microsecond
}

// add charges requests, or gives them back, without asking for a limit: the bucket
// then is empty at most.
func (s *State) add(c charge, limits Limits) {
	s.debt = min(max(0, s.debt+c.n*unit), limits.second()*unit)
	if limits.RPH != 0 {
		s.note(count{c.at / unit, c.n})
	}
}

// catchUp charges what was let in since the last change and not told: the bucket
// has refilled in between. now is the present.
func (s *State) catchUp(owed []charge, now time.Time, limits Limits) {
	for _, c := range owed {
		at := min(max(c.at, s.at), max(now.UnixMicro(), s.at))
		s.advance(time.UnixMicro(at), limits)
		s.add(c, limits)
	}
}

// note counts requests in their second. A second never holds fewer than none.
func (s *State) note(c count) {
	i := len(s.seconds)
	for i > 0 && s.seconds[i-1].at > c.at {
		i--
	}
	switch {
	case i > 0 && s.seconds[i-1].at == c.at:
		i--
		n := max(0, s.seconds[i].n+c.n)
		s.sum += n - s.seconds[i].n
		if s.seconds[i].n = n; n == 0 {
			s.seconds = slices.Delete(s.seconds, i, i+1)
		}
	case c.n > 0:
		s.seconds = slices.Insert(s.seconds, i, c)
		s.sum += c.n
	}
}

// tell writes what is left of each limit.
func (s *State) tell(d *Decision) {
	if limits := d.limits; limits.RPS != 0 {
		d.Second.Remaining = int((limits.second()*unit - s.debt) / unit)
		if part := s.debt % unit; part > 0 {
			d.Second.Reset = time.Duration(ceilDiv(part, int64(limits.RPS))) * time.Microsecond
		} else if s.debt > 0 {
			d.Second.Reset = time.Duration(ceilDiv(unit, int64(limits.RPS))) * time.Microsecond
		}
	}
	if limits := d.limits; limits.RPH != 0 {
		d.Hour.Remaining = int(max(0, limits.hour()-s.sum))
		if over := s.sum - limits.hour(); over >= 0 {
			// A plan that was lowered can have left more than it allows.
			d.Hour.Reset = s.waitHour(1, limits)
		} else if len(s.seconds) > 0 {
			d.Hour.Reset = s.until(s.seconds[0])
		}
	}
}

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }

// encoding is the first byte of an encoded state.
const encoding = 1

// escape marks a second whose distance or number does not fit half a byte.
const escape = 0xF0

// AppendBinary encodes the state: at, debt, the first second, then a byte for
// most of the seconds, of which half is the distance from the one before, less
// one, and half the number of requests.
func (s *State) AppendBinary(b []byte) ([]byte, error) {
	b = append(b, encoding)
	b = binary.AppendUvarint(b, uint64(s.at))
	b = binary.AppendUvarint(b, uint64(s.debt))
	if len(s.seconds) == 0 {
		return b, nil
	}
	before := s.seconds[0].at - 1
	b = binary.AppendUvarint(b, uint64(before))
	for _, c := range s.seconds {
		apart := c.at - before
		before = c.at
		if apart <= 15 && c.n <= 15 {
			b = append(b, byte(apart-1)<<4|byte(c.n))
			continue
		}
		b = append(b, escape)
		b = binary.AppendUvarint(b, uint64(apart))
		b = binary.AppendUvarint(b, uint64(c.n))
	}
	return b, nil
}

var errEncoding = errors.New("the encoding of a rate limit's state is unknown")

// UnmarshalBinary decodes the state. What it cannot read is an error and leaves a
// state that has used nothing.
func (s *State) UnmarshalBinary(data []byte) error {
	*s = State{}
	if len(data) == 0 {
		return nil
	}
	r := reader{data: data[1:], bad: data[0] != encoding}
	read := State{at: r.next(), debt: r.next()}
	if len(r.data) > 0 {
		before := r.next()
		read.seconds = make([]count, 0, len(r.data))
		for len(r.data) > 0 && !r.bad {
			apart, n := int64(r.data[0]>>4)+1, int64(r.data[0]&0xF)
			marked := r.data[0] == escape
			if r.data = r.data[1:]; marked {
				apart, n = r.next(), r.next()
			}
			r.bad = r.bad || apart < 1 || apart > 1<<40 || n < 1 || n > 1<<40
			before += apart
			read.seconds = append(read.seconds, count{before, n})
			read.sum += n
		}
	}
	if r.bad {
		return errEncoding
	}
	*s = read
	return nil
}

// reader takes numbers from the front of data.
type reader struct {
	data []byte
	bad  bool
}

func (r *reader) next() int64 {
	value, n := binary.Uvarint(r.data)
	if n <= 0 || value > 1<<60 {
		r.bad, r.data = true, nil
		return 0
	}
	r.data = r.data[n:]
	return int64(value)
}
