// Package throttle limits failed attempts, with a token bucket for each source that only failures
// drain.
//
// It knows neither what is attempted nor who the sources are. Each process counts separately. The
// one invariant: its memory is bounded, however many sources there are.
package throttle

import (
	"net/netip"
	"sync"
	"time"
)

// maxSources bounds what is remembered of sources that failed.
const maxSources = 50_000

// Limiter is the buckets of sources. It is safe for concurrent use.
type Limiter[Source comparable] struct {
	burst, rate float64 // tokens, and tokens a second
	now         func() time.Time

	mu      sync.Mutex
	buckets map[Source]bucket
}

// bucket holds the tokens that were left at a time.
type bucket struct {
	tokens float64
	at     time.Time
}

// NewLimiter makes a Limiter that lets a source fail burst times at once, and
// rate times a second from then on.
func NewLimiter[Source comparable](burst, rate float64, now func() time.Time) *Limiter[Source] {
	return &Limiter[Source]{burst: burst, rate: rate, now: now, buckets: make(map[Source]bucket)}
}

// Wait is how long a source must wait before it may try again; 0 = not at all.
func (l *Limiter[Source]) Wait(source Source) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.wait(l.filled(source, l.now()))
}

// Count takes one token from a source.
func (l *Limiter[Source]) Count(source Source) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	l.put(source, l.filled(source, now)-1, now)
}

// Take takes a token before the attempt is made, so that many at once cannot
// outrun the count; without one it says how long to wait. Return gives it back
// when the attempt did not fail.
func (l *Limiter[Source]) Take(source Source) (wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	tokens := l.filled(source, now)
	if wait = l.wait(tokens); wait == 0 {
		l.put(source, tokens-1, now)
	}
	return wait
}

// Return gives back what Take took.
func (l *Limiter[Source]) Return(source Source) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	l.put(source, min(l.burst, l.filled(source, now)+1), now)
}

func (l *Limiter[Source]) wait(tokens float64) time.Duration {
	return time.Duration(max(0, 1-tokens) / l.rate * float64(time.Second))
}

// filled is the tokens that a source has by now.
func (l *Limiter[Source]) filled(source Source, now time.Time) float64 {
	b, ok := l.buckets[source]
	if !ok {
		return l.burst
	}
	return min(l.burst, b.tokens+max(0, now.Sub(b.at).Seconds())*l.rate)
}

func (l *Limiter[Source]) put(source Source, tokens float64, now time.Time) {
	if _, known := l.buckets[source]; !known && len(l.buckets) >= maxSources {
		l.makeRoom(now)
	}
	l.buckets[source] = bucket{tokens: max(0, tokens), at: now}
}

// makeRoom forgets the sources whose bucket is full again, or all of them if
// none is: rather a few tokens too many than memory without end.
func (l *Limiter[Source]) makeRoom(now time.Time) {
	for source := range l.buckets {
		if l.filled(source, now) >= l.burst {
			delete(l.buckets, source)
		}
	}
	if len(l.buckets) >= maxSources {
		clear(l.buckets)
	}
}

// Subscriber is the source that a client's address stands for: an IPv6 client is
// its /64, which is what one subscriber has.
func Subscriber(client netip.Addr) netip.Addr {
	client = client.Unmap().WithZone("")
	if client.Is6() {
		prefix, _ := client.Prefix(64)
		return prefix.Addr()
	}
	return client
}
