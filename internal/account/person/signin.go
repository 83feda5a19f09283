package person

import (
	"net/netip"
	"sync"
	"time"

	"github.com/weft-automation/weft/internal/platform/throttle"
)

const (
	// maxAtOnce is how many passwords of one client are hashed or wait for it at once.
	maxAtOnce = 8
	// maxSucceeded bounds what is remembered of clients that signed in.
	maxSucceeded = 50_000
)

// signInLimits limits attempts to sign in, by the scheme of OWASP's device cookies
// (https://owasp.org/www-community/Slow_Down_Online_Guessing_Attacks_with_Device_Cookies):
// a client on which the person signed in before has its own limits, so the failures of other
// clients never lock it out. A client without cookies is known by its address until the
// process ends. Each process counts for itself.
type signInLimits struct {
	known     *throttle.Limiter[string] // failures of a known client
	addresses *throttle.Limiter[string] // failures of an address, at any account
	pairs     *throttle.Limiter[string] // failures of an address at one account
	accounts  *throttle.Limiter[string] // failures of all unknown clients at one account
	tries     *throttle.Limiter[string] // attempts of a client, whatever their result

	mu        sync.Mutex
	atOnce    map[string]int      // attempts of a client that are under way
	succeeded map[string]struct{} // addresses from which somebody signed in, each with the account
}

func newSignInLimits(now func() time.Time) *signInLimits {
	return &signInLimits{
		// Twenty mistakes are a person's. From then on, one attempt in ten seconds is little
		// to a guesser.
		known:     throttle.NewLimiter[string](20, 0.1, now),
		addresses: throttle.NewLimiter[string](20, 0.1, now),
		pairs:     throttle.NewLimiter[string](20, 1./600, now),
		// Bounds what many addresses can try together. It takes 600 addresses to keep it empty,
		// because each gets one attempt in ten minutes. Even then known clients pass.
		accounts: throttle.NewLimiter[string](1000, 1, now),
		// Each attempt hashes a password, and one that succeeds stores a session.
		tries:  throttle.NewLimiter[string](300, 2, now),
		atOnce: map[string]int{}, succeeded: map[string]struct{}{},
	}
}

// caller is the client of an attempt.
type caller struct {
	source string // what it is counted by
	known  bool   // the owner of the account signed in there before
}

// identify returns the client of an attempt at the account with this e-mail address: a
// device, if that is known, or an address.
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

// remember notes that the owner of the account signed in from an address.
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

// enter admits an attempt, or returns how long to wait. The caller must call done with
// whether the attempt failed. All limits are charged before the attempt, so that concurrent
// attempts cannot exceed them.
func (t *signInLimits) enter(c caller, email string) (done func(failed bool), wait time.Duration) {
	if !t.begin(c) {
		return nil, time.Second
	}
	if wait = t.tries.Take(c.source); wait > 0 {
		t.end(c)
		return nil, wait
	}
	buckets := t.buckets(c, email)
	for i, b := range buckets {
		if wait = b.limiter.Take(b.source); wait > 0 {
			giveBack(buckets[:i])
			t.end(c)
			return nil, wait
		}
	}
	return func(failed bool) {
		if !failed {
			giveBack(buckets)
		}
		t.end(c)
	}, 0
}

func giveBack(buckets []bucket) {
	for _, b := range buckets {
		b.limiter.Return(b.source)
	}
}

// limited reports whether the next attempt at the account has to wait.
func (t *signInLimits) limited(c caller, email string) bool {
	for _, b := range t.buckets(c, email) {
		if b.limiter != t.addresses && b.limiter.Wait(b.source) > 0 {
			return true
		}
	}
	return false
}

func (t *signInLimits) begin(c caller) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.atOnce[c.source] >= maxAtOnce {
		return false
	}
	t.atOnce[c.source]++
	return true
}

func (t *signInLimits) end(c caller) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.atOnce[c.source]--; t.atOnce[c.source] == 0 {
		delete(t.atOnce, c.source)
	}
}
