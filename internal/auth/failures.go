package auth

import (
	"net/netip"
	"sync"
	"time"
)

// maxAddresses bounds what is remembered of addresses that failed.
const maxAddresses = 50_000

// failures is a token bucket for each client address, which only failed
// authentications empty. It guards the verifier, not the keys: those are beyond
// guessing. An IPv6 client is its /64, which is what one subscriber has.
type failures struct {
	burst, rate float64 // tokens, and tokens a second
	now         func() time.Time

	mu      sync.Mutex
	buckets map[netip.Addr]bucket
}

// bucket holds the tokens that were left at a time.
type bucket struct {
	tokens float64
	at     time.Time
}

func newFailures(burst, rate float64, now func() time.Time) *failures {
	return &failures{burst: burst, rate: rate, now: now, buckets: make(map[netip.Addr]bucket)}
}

// wait is how long an address must wait before it may try again; 0 = not at all.
func (f *failures) wait(client netip.Addr) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	b, ok := f.buckets[subscriber(client)]
	if !ok {
		return 0
	}
	missing := 1 - f.filled(b, f.now())
	return time.Duration(max(0, missing) / f.rate * float64(time.Second))
}

// count takes one token from an address.
func (f *failures) count(client netip.Addr) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now, address := f.now(), subscriber(client)
	b, ok := f.buckets[address]
	switch {
	case ok:
		b.tokens = f.filled(b, now)
	case len(f.buckets) >= maxAddresses:
		f.makeRoom(now)
		fallthrough
	default:
		b.tokens = f.burst
	}
	f.buckets[address] = bucket{tokens: max(0, b.tokens-1), at: now}
}

func (f *failures) filled(b bucket, now time.Time) float64 {
	return min(f.burst, b.tokens+max(0, now.Sub(b.at).Seconds())*f.rate)
}

// makeRoom forgets the addresses whose bucket is full again, or all of them if
// none is: rather a few tokens too many than memory without end.
func (f *failures) makeRoom(now time.Time) {
	for address, b := range f.buckets {
		if f.filled(b, now) >= f.burst {
			delete(f.buckets, address)
		}
	}
	if len(f.buckets) >= maxAddresses {
		clear(f.buckets)
	}
}

func subscriber(client netip.Addr) netip.Addr {
	client = client.Unmap().WithZone("")
	if client.Is6() {
		prefix, _ := client.Prefix(64)
		return prefix.Addr()
	}
	return client
}
