// Package throttle limits failed attempts. Each source has a token bucket that only failures
// drain.
//
// Each process counts separately. The memory is bounded, however many sources there are.
package throttle

import (
	"net/netip"
	"sync"
	"time"
)

// maxSources bounds the number of remembered sources.
const maxSources = 50_000

// Limiter holds the buckets of sources. It is safe for concurrent use.
type Limiter[Source comparable] struct {
	burst, rate float64 // tokens, and tokens a second
	now         func() time.Time

	mu      sync.Mutex
	buckets map[Source]bucket
}

// bucket holds the tokens that were left at a point in time.
type bucket struct {
	tokens float64
	at     time.Time
}

// NewLimiter returns a Limiter that allows each source burst failures at once, and rate failures
// per second after that.
func NewLimiter[Source comparable](burst, rate float64, now func() time.Time) *Limiter[Source] {
	return &Limiter[Source]{burst: burst, rate: rate, now: now, buckets: make(map[Source]bucket)}
}

// Wait returns how long a source must wait before its next attempt, or 0 if it need not wait.
func (l *Limiter[Source]) Wait(source Source) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.wait(l.filled(source, l.now()))
}

// Count takes one token of a source.
func (l *Limiter[Source]) Count(source Source) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	l.put(source, l.filled(source, now)-1, now)
}

// Take takes a token before an attempt, so that concurrent attempts can't exceed the limit. If
// the bucket is empty, Take returns how long to wait. Call Return if the attempt doesn't fail.
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

// Return returns a token that Take took.
func (l *Limiter[Source]) Return(source Source) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	l.put(source, min(l.burst, l.filled(source, now)+1), now)
}

func (l *Limiter[Source]) wait(tokens float64) time.Duration {
	return time.Duration(max(0, 1-tokens) / l.rate * float64(time.Second))
}

// filled returns the tokens that a source has now.
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

// makeRoom evicts the sources whose bucket is full again. If no bucket is full, it evicts all
// sources. A few extra attempts are better than unbounded memory.
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

// Subscriber returns the source of a client address. For IPv6, the source is the /64 network,
// because one subscriber usually has a whole /64.
func Subscriber(client netip.Addr) netip.Addr {
	client = client.Unmap().WithZone("")
	if client.Is6() {
		prefix, _ := client.Prefix(64)
		return prefix.Addr()
	}
	return client
}
