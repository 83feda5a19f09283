package person

import (
	"net/netip"
	"sync"
	"time"

	"github.com/weft-automation/weft/internal/platform/throttle"
)

const (
	// maxAtOnce is the maximum number of concurrent attempts of one client.
	maxAtOnce = 8
	// maxSucceeded bounds the remembered addresses of clients that signed in.
	maxSucceeded = 50_000
)

// signInLimits limits attempts to sign in. It follows OWASP's scheme of device cookies
// (https://owasp.org/www-community/Slow_Down_Online_Guessing_Attacks_with_Device_Cookies):
// a client on which the person signed in before has its own limits, so the failures of other
// clients never lock it out. A client without cookies is recognised by its address until the
// process stops. Each process counts separately.
type signInLimits struct {
	known     *throttle.Limiter[string] // failures of a known client
	addresses *throttle.Limiter[string] // failures of an address, at any account
	pairs     *throttle.Limiter[string] // failures of an address at one account
	accounts  *throttle.Limiter[string] // failures of all unknown clients at one account
	tries     *throttle.Limiter[string] // attempts of a client, successful or not

	mu        sync.Mutex
	atOnce    map[string]int      // concurrent attempts by client
	succeeded map[string]struct{} // addresses from which somebody signed in, each with the account
}

func newSignInLimits(now func() time.Time) *signInLimits {
	return &signInLimits{
		// A person may make twenty mistakes. After that, one attempt in ten seconds is too slow
		// for guessing.
		known:     throttle.NewLimiter[string](20, 0.1, now),
		addresses: throttle.NewLimiter[string](20, 0.1, now),
		pairs:     throttle.NewLimiter[string](20, 1./600, now),
		// This limit bounds the guesses of many addresses together. At least 600 addresses are
		// needed to exhaust it permanently, because each address gets one attempt in ten
		// minutes. Known clients are still admitted.
		accounts: throttle.NewLimiter[string](1000, 1, now),
		// Each attempt hashes a password, and one that succeeds stores a session.
		tries:  throttle.NewLimiter[string](300, 2, now),
		atOnce: map[string]int{}, succeeded: map[string]struct{}{},
	}
}

// caller is the client of an attempt.
type caller struct {
	source string // the key for the limits
	known  bool   // the owner of the account signed in there before
}

// identify returns the client of an attempt for the account with this e-mail address. A known
// device identifies the client; otherwise, its address does.
func (t *signInLimits) identify(client netip.Addr, device, email string) caller {
	if device != "" {
		return caller{"device " + device, true}
	}
	from := throttle.Subscriber(client).String()
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.succeeded[from+" "+email]; known {
		return caller{from + " " + email, true}
	}
	return caller{from, false}
}

// remember records that the owner of the account signed in from an address.
func (t *signInLimits) remember(client netip.Addr, email string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.succeeded) >= maxSucceeded {
		clear(t.succeeded)
	}
	t.succeeded[throttle.Subscriber(client).String()+" "+email] = struct{}{}
}

// bucket is one of the limits that a failure counts against.
type bucket struct {
	limiter *throttle.Limiter[string]
	source  string
}

func (t *signInLimits) buckets(c caller, email string) []bucket {
	if c.known {
		return []bucket{{t.known, c.source}}
	}
	return []bucket{{t.addresses, c.source}, {t.pairs, c.source + " " + email}, {t.accounts, email}}
}

// enter admits an attempt, or returns how long to wait. The caller must call done with the
// result. All limits are charged before the attempt, so that concurrent attempts can't
// exceed them.
func (t *signInLimits) enter(c caller, email string) (done func(failed bool), wait time.Duration) {
	if !t.start(c) {
		return nil, time.Second
	}
	if wait = t.tries.Take(c.source); wait > 0 {
		t.finish(c)
		return nil, wait
	}
	buckets := t.buckets(c, email)
	for i, b := range buckets {
		if wait = b.limiter.Take(b.source); wait > 0 {
			refund(buckets[:i])
			t.finish(c)
			return nil, wait
		}
	}
	return func(failed bool) {
		if !failed {
			refund(buckets)
		}
		t.finish(c)
	}, 0
}

func refund(buckets []bucket) {
	for _, b := range buckets {
		b.limiter.Return(b.source)
	}
}

// limited reports whether the next attempt for the account has to wait.
func (t *signInLimits) limited(c caller, email string) bool {
	for _, b := range t.buckets(c, email) {
		if b.limiter != t.addresses && b.limiter.Wait(b.source) > 0 {
			return true
		}
	}
	return false
}

func (t *signInLimits) start(c caller) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.atOnce[c.source] >= maxAtOnce {
		return false
	}
	t.atOnce[c.source]++
	return true
}

func (t *signInLimits) finish(c caller) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.atOnce[c.source]--; t.atOnce[c.source] == 0 {
		delete(t.atOnce, c.source)
	}
}
