package conformance

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weft-automation/weft/conformance/probe"
)

// breakage is one fault of a deployment. Nil functions change nothing.
type breakage struct {
	name string
	part string // the part that the suite must report as broken
	slow bool   // detected by timing: only in the soak, which checks times
	long bool   // detected only by a slow case of the soak, which takes a minute

	do      func(*breaker, *call) *answer                                 // replaces the handling of a request
	stream  func(b *breaker, c *call, in <-chan string, out func(string)) // the frames of an event stream
	deliver func(*breaker, probe.Delivery) []probe.Delivery               // what arrives of a callback
}

// breaker is a proxy between the cases and the service that injects a fault.
type breaker struct {
	breakage
	spec  *probe.Spec
	base  string
	own   probe.Credentials
	acted atomic.Int64 // number of times that the fault was injected

	mu   sync.Mutex
	keys map[string]probe.Credentials // by the key
	kept map[string]string            // what a breakage remembers
}

// call is a request in flight.
type call struct {
	*http.Request
	target    string // what follows the host
	header    http.Header
	body      []byte
	operation string
}

// answer is a response in flight.
type answer struct {
	status int
	header http.Header
	body   []byte
	events io.ReadCloser // of a stream, instead of the body
}

// before returns the deployment behind the breaker as a target.
func (b *breaker) before(t *testing.T, behind *probe.Target) *probe.Target {
	b.spec, b.base, b.own, b.kept = behind.Spec, behind.BaseURL, behind.Credentials, map[string]string{}
	b.keys = map[string]probe.Credentials{behind.APIKey: behind.Credentials, behind.Foreign.APIKey: *behind.Foreign, behind.Poor.APIKey: *behind.Poor}
	server := httptest.NewUnstartedServer(b)
	server.Config.MaxHeaderBytes = 12 << 10 // the service's own limit, so that the breaker rejects no request that the service accepts
	server.Start()
	t.Cleanup(server.Close)
	through := *behind
	through.BaseURL, through.Lenient = server.URL, true
	through.NewWorkspace = func(ctx context.Context, terms probe.Terms) (probe.Credentials, error) {
		key, err := behind.NewWorkspace(ctx, terms)
		b.mu.Lock()
		defer b.mu.Unlock()
		b.keys[key.APIKey] = key
		return key, err
	}
	if b.deliver != nil {
		through.Deliver = func(d probe.Delivery) []probe.Delivery { return b.deliver(b, d) }
	}
	return &through
}

// wrong records that the fault was injected.
func (b *breaker) wrong() { b.acted.Add(1) }

func (b *breaker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	c := &call{Request: r, target: r.RequestURI, header: r.Header.Clone(), body: body}
	if operation := b.spec.Find(r.Method, r.RequestURI); operation != nil {
		c.operation = operation.ID
	}
	do := b.do
	if do == nil {
		do = (*breaker).pass
	}
	a := do(b, c)
	if a == nil {
		panic(http.ErrAbortHandler)
	}
	maps.Copy(w.Header(), a.header)
	w.Header().Del("Content-Length")
	w.WriteHeader(a.status)
	if a.events != nil {
		b.relay(w, c, a.events)
		return
	}
	_, _ = w.Write(a.body)
}

// pass forwards a request unchanged.
func (b *breaker) pass(c *call) *answer {
	request, err := http.NewRequestWithContext(c.Context(), c.Method, b.base+c.target, bytes.NewReader(c.body))
	if err != nil {
		return nil
	}
	request.Header = c.header
	request.Header.Set("Accept-Encoding", "identity")
	response, err := straight.Do(request)
	if err != nil {
		return nil
	}
	a := &answer{status: response.StatusCode, header: response.Header}
	if strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") && c.Method != http.MethodHead {
		a.events = response.Body
		return a
	}
	defer response.Body.Close()
	if a.body, err = io.ReadAll(response.Body); err != nil {
		return nil
	}
	return a
}

// straight does not follow redirects.
var straight = &http.Client{
	Transport:     &http.Transport{MaxIdleConnsPerHost: 64},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// relay forwards the frames of a stream.
func (b *breaker) relay(w http.ResponseWriter, c *call, events io.ReadCloser) {
	defer events.Close()
	in := make(chan string)
	go func() {
		defer close(in)
		lines := bufio.NewReader(events)
		for frame := ""; ; {
			line, err := lines.ReadString('\n')
			frame += line
			if err != nil && frame == "" {
				return
			}
			if line == "\n" || err != nil {
				select {
				case in <- frame:
				case <-c.Context().Done():
					return
				}
				frame = ""
			}
		}
	}()
	out := func(frame string) {
		_, _ = io.WriteString(w, frame)
		w.(http.Flusher).Flush()
	}
	w.(http.Flusher).Flush()
	if b.stream != nil {
		b.stream(b, c, in, out)
		return
	}
	for frame := range in {
		out(frame)
	}
}

// sign signs the call in its present form, with the secret of its own key or with other credentials.
func (b *breaker) sign(c *call, as ...probe.Credentials) {
	b.mu.Lock()
	key, known := b.keys[c.header.Get("X-Api-Key")]
	b.mu.Unlock()
	if len(as) > 0 {
		key, known = as[0], true
	}
	if !known {
		return
	}
	b.wrong()
	now := probe.Timestamp(time.Now())
	signature, err := probe.Sign(key.APISecret, probe.Message(c.Method, c.target, now, c.body))
	if err != nil {
		panic(err)
	}
	c.header.Set("X-Api-Key", key.APIKey)
	c.header.Set("X-Sdk-Timestamp", now)
	c.header.Set("X-Sdk-Signature", signature)
}

// signed reports whether the signature of a call covers the message.
func (b *breaker) signed(c *call, message []byte) bool {
	b.mu.Lock()
	key, known := b.keys[c.header.Get("X-Api-Key")]
	b.mu.Unlock()
	return known && b.signedBy(key, c, message)
}

// signedBy is like signed, for any key.
func (b *breaker) signedBy(key probe.Credentials, c *call, message []byte) bool {
	der, err := base64.StdEncoding.DecodeString(key.APISecret)
	signature, malformed := base64.StdEncoding.DecodeString(c.header.Get("X-Sdk-Signature"))
	if err != nil || malformed != nil {
		return false
	}
	public := ed25519.NewKeyFromSeed(der[len(der)-ed25519.SeedSize:]).Public().(ed25519.PublicKey)
	return ed25519.Verify(public, message, signature)
}

// honest reports whether a call has a valid signature.
func (b *breaker) honest(c *call) bool {
	return b.signed(c, probe.Message(c.Method, c.target, c.header.Get("X-Sdk-Timestamp"), c.body))
}

// edit changes the JSON of a response. The change reports whether it injected the fault.
func (b *breaker) edit(a *answer, change func(map[string]any) bool) {
	decoder := json.NewDecoder(bytes.NewReader(a.body))
	decoder.UseNumber()
	var value map[string]any
	if a.events != nil || decoder.Decode(&value) != nil || !change(value) {
		return
	}
	b.wrong()
	a.body, _ = json.Marshal(value)
}

// status changes the status of a response, and the status in its problem document.
func (b *breaker) status(a *answer, status int) *answer {
	b.wrong()
	a.status = status
	b.edit(a, func(p map[string]any) bool {
		_, problem := p["code"]
		if problem {
			p["status"] = status
		}
		return problem
	})
	return a
}

// breakages lists all faults.
func breakages() []breakage {
	return slices.Concat(codeBreakages, signatureBreakages, streamBreakages, runStreamBreakages, limitBreakages, callbackBreakages, recordBreakages)
}

// chosenBreakages returns the faults for this run: all faults in the soak test, otherwise every
// twentieth of the faults that are not slow.
func chosenBreakages() []breakage {
	if soak() {
		return breakages()
	}
	return slices.DeleteFunc(breakages(), func(b breakage) bool {
		return b.slow || b.long || crc32.ChecksumIEEE([]byte(b.name))%20 != 0
	})
}

// The cases must detect every fault on the list and name the part of the contract or of the choices
// that the fault violates.
func TestBreakagesAreFoundAndNamed(t *testing.T) {
	t.Parallel()
	behind := target(t)
	if deployment.pool == nil {
		t.Log("a deployment is broken that was booted here")
		return
	}
	names := map[string]bool{}
	for _, b := range breakages() {
		if names[b.name] {
			t.Errorf("%s is there twice", b.name)
		}
		names[b.name] = true
		if len((Options{Only: []string{b.part}, Soak: b.long}).Chosen()) == 0 {
			t.Errorf("%s: no case proves %s", b.name, b.part)
		}
	}
	fine := &healthy{behind: behind, runs: map[string]*wholesome{}}
	room := make(chan struct{}, 8)
	var found atomic.Int64
	t.Run("all", func(t *testing.T) {
		for _, b := range chosenBreakages() {
			t.Run(b.name, func(t *testing.T) {
				t.Parallel()
				room <- struct{}{}
				defer func() { <-room }()
				if err := b.try(t, behind, fine); err != nil {
					t.Error(err)
					return
				}
				found.Add(1)
			})
		}
	})
	t.Logf("breakages: %d of %d made, %d found and named", len(chosenBreakages()), len(breakages()), found.Load())
}

// patience is the time limit of a case against a fault.
func (b breakage) patience() time.Duration {
	if b.long {
		return 75 * time.Second
	}
	return 25 * time.Second
}

// try runs the cases of the part until one fails with the fault and passes without it. It returns
// an error if no case does. If a case exceeds patience, try runs it without the fault. If it is
// much faster then, the case has detected the fault. Otherwise, as on a busy machine, try runs the
// case again with its full time limit.
func (b breakage) try(t *testing.T, behind *probe.Target, fine *healthy) error {
	options := Options{Only: []string{b.part}, Soak: b.long}
	var results []Result
	for _, c := range options.Chosen() {
		if len(c.Missing(behind)) > 0 || !slices.Contains(c.Parts(), b.part) {
			continue
		}
		proxy, result, cut := b.meet(t, behind, c, b.patience())
		if cut && fine.check(t, c).took > b.patience()/3 {
			proxy, result, cut = b.meet(t, behind, c, 2*time.Minute)
		}
		results = append(results, result)
		if proxy.acted.Load() == 0 || !names(b.part, options, results) {
			continue
		}
		if sound := fine.check(t, c); sound.err != nil {
			return fmt.Errorf("%s fails through a proxy that does nothing, too: %w", c.Name, sound.err)
		} else if cut && sound.took > b.patience()*2/3 {
			continue
		}
		t.Logf("%s: %s: %.200v %.200v", b.part, c.Name, result.Err, result.Departures)
		return nil
	}
	ran := ""
	for _, r := range results {
		ran += fmt.Sprintf("\n%s: %.300v %.300v", r.Case.Name, r.Err, r.Departures)
	}
	return fmt.Errorf("%s is not named by%s", b.part, ran)
}

// meet runs a case against the fault, and reports whether it exceeded patience.
func (b breakage) meet(t *testing.T, behind *probe.Target, c Case, patience time.Duration) (proxy *breaker, result Result, cut bool) {
	proxy = &breaker{breakage: b}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if soak() {
		defer time.AfterFunc(patience, cancel).Stop()
	}
	result = c.result(ctx, proxy.before(t, behind))
	return proxy, result, ctx.Err() != nil
}

// names reports whether a report names this part as violated.
func names(part string, o Options, results []Result) bool {
	report := NewReport(o, slices.Clone(results))
	return slices.ContainsFunc(slices.Concat(report.Of(Failed), report.Of(Differs)), func(f Found) bool { return f.Part.ID == part })
}
