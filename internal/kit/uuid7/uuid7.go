// Package uuid7 makes UUIDs of version 7 (RFC 9562) whose time doesn't depend on the clock of this
// machine, which may be set by days at any time.
//
// A Maker counts from the last time that it was given, by the time that passed since, which no
// setting of the clock changes. Rows are stored by the time of their ID. An ID from the future would
// leave its row outside of its partition, and the IDs after it as well: they are in order.
package uuid7

import (
	"crypto/rand"
	"encoding/binary"
	"sync"
	"time"

	"github.com/google/uuid"
)

// Process is the maker of New. The process compares it with PostgreSQL's clock.
var Process = &Maker{}

// New returns a new ID of this process. It returns an error while the clock of the process differs
// from PostgreSQL's.
func New() (uuid.UUID, error) { return Process.New() }

// countsOn is how far the last ID may be ahead of the time. Up to that, the next ID counts on from
// it. An ID that is further ahead has the time of a clock that was wrong.
const countsOn = 10 * time.Second

// perMillisecond is how many IDs have the same millisecond and differ in the 12 bits after it.
const perMillisecond = 1 << 12

// Maker makes IDs, each greater than the one before it. Until the first Observe, it uses the clock
// of this machine. The zero value is ready to use.
type Maker struct {
	mu   sync.Mutex
	last int64     // the time of the last ID, in 1/4096 ms
	base time.Time // the checked time at which at was read; zero: never checked
	at   time.Time // by the monotonic clock
	off  error     // why no IDs are made
}

// Observe gives the maker a checked time, which was read at some point within the last took, and
// ends Refuse. The time of IDs changes only as far as the checked time contradicts it.
func (m *Maker) Observe(checked time.Time, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.off = nil
	now, latest := checked.Round(0), checked.Round(0).Add(took)
	if was := m.now(); !m.base.IsZero() && was.After(now) {
		now = was
		if now.After(latest) {
			now = latest
		}
	}
	m.base, m.at = now, time.Now()
}

// Refuse makes New return the error until the next Observe.
func (m *Maker) Refuse(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.off = err
}

// New returns a new ID, or the error of Refuse.
func (m *Maker) New() (id uuid.UUID, err error) {
	if _, err := rand.Read(id[8:]); err != nil {
		return uuid.Nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.off != nil {
		return uuid.Nil, m.off
	}
	now := m.now()
	at := now.UnixMilli()*perMillisecond + int64(now.Nanosecond()%int(time.Millisecond))*perMillisecond/int64(time.Millisecond)
	if ahead := m.last - at; ahead >= 0 && ahead < countsOn.Milliseconds()*perMillisecond {
		at = m.last + 1
	}
	m.last = at
	binary.BigEndian.PutUint64(id[:8], uint64(at/perMillisecond)<<16|7<<12|uint64(at%perMillisecond))
	id[8] = id[8]&0x3f | 0x80 // the variant of RFC 9562
	return id, nil
}

// now returns the time of the next ID.
func (m *Maker) now() time.Time {
	if m.base.IsZero() {
		return time.Now()
	}
	return m.base.Add(time.Since(m.at))
}
