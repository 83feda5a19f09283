package chaos

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// upstream is the service that components call. It counts its effects by the reference in the
// request. Each request that arrives is one effect.
type upstream struct {
	*httptest.Server
	mu      sync.Mutex
	effects map[string]int
	holding int           // requests that wait
	gate    chan struct{} // requests wait until it is closed
	slow    atomic.Bool   // take the time that the request names
}

func newUpstream(t testing.TB) *upstream {
	u := &upstream{effects: map[string]int{}, gate: make(chan struct{})}
	close(u.gate)
	u.slow.Store(true)
	u.Server = httptest.NewServer(u)
	t.Cleanup(func() { u.release(); u.CloseClientConnections(); u.Close() })
	return u
}

// ServeHTTP counts the effect, waits for the gate and for `ms`, and responds.
func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ref := r.URL.Query().Get("ref")
	u.mu.Lock()
	u.effects[ref]++
	u.holding++
	gate := u.gate
	u.mu.Unlock()
	defer func() { u.mu.Lock(); u.holding--; u.mu.Unlock() }()
	select {
	case <-gate:
	case <-r.Context().Done():
		return
	}
	if ms, _ := strconv.Atoi(r.URL.Query().Get("ms")); ms > 0 && u.slow.Load() {
		select {
		case <-time.After(time.Duration(ms) * time.Millisecond):
		case <-r.Context().Done():
			return
		}
	}
	if r.URL.Query().Get("refuse") == "true" {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"ref":%q}`, ref)
}

// hold makes every request wait from now on.
func (u *upstream) hold() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.gate = make(chan struct{})
}

// release lets the waiting requests continue.
func (u *upstream) release() {
	u.mu.Lock()
	defer u.mu.Unlock()
	select {
	case <-u.gate:
	default:
		close(u.gate)
	}
}

// running returns how many requests wait.
func (u *upstream) running() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.holding
}

func (u *upstream) count(ref string) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.effects[ref]
}

// total returns the number of effects.
func (u *upstream) total() (n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, times := range u.effects {
		n += times
	}
	return n
}

// repeats returns the number of effects in excess of one for each reference.
func (u *upstream) repeats() (n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, times := range u.effects {
		n += times - 1
	}
	return n
}

// callbackSecret signs every callback of the scenarios. It must not appear in any log.
const callbackSecret = "canary-of-the-callbacks"

// copies is what the receiver got for one execution.
type copies struct {
	body     []byte // of the first delivery
	count    int
	after2xx int  // deliveries after one was answered with 2xx
	answered bool // with 2xx
	differ   bool // some delivery differs from the first in body or signature
	forged   bool // some signature does not match the body
	first    time.Time
}

// receiver receives callbacks and records them.
type receiver struct {
	*httptest.Server
	mu   sync.Mutex
	seen map[string]*copies
	// bodies holds the body received under each webhook-id, across restores. clashes are the IDs that
	// arrived with different bodies.
	bodies  map[string][sha256.Size]byte
	clashes []string
	// forgotten counts deliveries from a time that a restore has undone.
	forgotten int
	answer    func(w http.ResponseWriter, r *http.Request, id string) // nil: 204
}

func newReceiver(t testing.TB) *receiver {
	v := &receiver{seen: map[string]*copies{}, bodies: map[string][sha256.Size]byte{}}
	v.Server = httptest.NewServer(v)
	t.Cleanup(func() { v.CloseClientConnections(); v.Close() })
	return v
}

// ServeHTTP records a delivery, then responds.
func (v *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // incomplete, so the sender cannot count on it
	}
	id := cmp.Or(r.Header.Get("X-Svc-Execution-Id"), r.Header.Get("X-Svc-Run-Id"))
	v.keep(id, body, r.Header.Get("X-Svc-Signature"))
	v.compare(r.Header.Get("Webhook-Id"), body)
	recorder := &statusOf{ResponseWriter: w, status: http.StatusNoContent}
	if v.answer != nil {
		v.answer(recorder, r, id)
	} else {
		recorder.WriteHeader(http.StatusNoContent)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.seen[id].answered = v.seen[id].answered || recorder.status < 300
}

type statusOf struct {
	http.ResponseWriter
	status int
}

func (s *statusOf) WriteHeader(code int) {
	s.status = code
	s.ResponseWriter.WriteHeader(code)
}

func (v *receiver) keep(id string, body []byte, signature string) {
	mac := hmac.New(sha256.New, []byte(callbackSecret))
	mac.Write(body)
	v.mu.Lock()
	defer v.mu.Unlock()
	c := v.seen[id]
	if c == nil {
		c = &copies{body: body, first: time.Now()}
		v.seen[id] = c
	}
	c.count++
	if c.answered {
		c.after2xx++
	}
	c.differ = c.differ || !bytes.Equal(c.body, body)
	c.forged = c.forged || signature != "hmac-sha256-v1="+hex.EncodeToString(mac.Sum(nil))
}

// compare records webhook IDs that arrive with different bodies. A receiver would treat the second
// body as a duplicate and ignore it.
func (v *receiver) compare(webhookID string, body []byte) {
	v.mu.Lock()
	defer v.mu.Unlock()
	sum := sha256.Sum256(body)
	if before, again := v.bodies[webhookID]; again && before != sum {
		v.clashes = append(v.clashes, webhookID)
	}
	v.bodies[webhookID] = sum
}

// recomputed returns how many webhook-ids name a restore, and the clashes.
func (v *receiver) recomputed() (ids int, clashes []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for id := range v.bodies {
		if strings.Contains(id, ".") {
			ids++
		}
	}
	return ids, v.clashes
}

// of returns a copy of what arrived for one execution, or nil.
func (v *receiver) of(id string) *copies {
	v.mu.Lock()
	defer v.mu.Unlock()
	if c, ok := v.seen[id]; ok {
		return new(*c)
	}
	return nil
}

// total returns the number of deliveries.
func (v *receiver) total() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	n := v.forgotten
	for _, c := range v.seen {
		n += c.count
	}
	return n
}

// delivered returns for how many executions a callback was accepted.
func (v *receiver) delivered() (n int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, c := range v.seen {
		if c.answered {
			n++
		}
	}
	return n
}

// redelivered returns how many callbacks arrived again after they had been accepted.
func (v *receiver) redelivered() (n int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, c := range v.seen {
		n += c.after2xx
	}
	return n
}

// blackHole accepts connections and never responds.
func blackHole(t testing.TB) (url string, connections func() int) {
	var mu sync.Mutex
	count := 0
	release := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		count++
		mu.Unlock()
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(func() { close(release); s.CloseClientConnections(); s.Close() })
	return s.URL, func() int { mu.Lock(); defer mu.Unlock(); return count }
}

// secretsIn returns the secrets of the scenarios that the text contains.
func secretsIn(text string, secrets ...string) (found []string) {
	for _, secret := range append(secrets, callbackSecret) {
		if secret != "" && strings.Contains(text, secret) {
			found = append(found, secret[:min(8, len(secret))]+"...")
		}
	}
	return found
}

// workers runs n goroutines until each has returned or ctx is done.
func workers(ctx context.Context, n int, work func(ctx context.Context, worker int)) {
	var all sync.WaitGroup
	for worker := range n {
		all.Go(func() { work(ctx, worker) })
	}
	all.Wait()
}
