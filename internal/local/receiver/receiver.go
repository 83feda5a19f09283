// Package receiver receives callbacks as a customer's program would, so that a developer can see
// what arrived, whether its signature is valid, and what happens on failures.
//
// The receiver is an http.Handler that reports each delivery, fails on purpose if configured to,
// and forwards deliveries to a program. It opens no port and prints nothing. It verifies signatures
// with package signature, with which Weft also signs.
//
// Invariant: A delivery whose signature must be checked and is wrong is rejected with 401 and not
// forwarded. All other deliveries are forwarded with their bytes unchanged.
package receiver

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/weft-automation/weft/internal/kit/timestamp"
	"github.com/weft-automation/weft/internal/kit/wait"
)

// MaxBody bounds the body of a delivery: an output of a mebibyte and the record around it.
const MaxBody = 2 << 20

// Config holds the settings of a receiver. The callbacks must be set.
type Config struct {
	Secret  *string  // the callbackSecret; nil: signatures are not checked
	Failure Failure  // failures on purpose; the zero value: none
	Forward *url.URL // from ParseForward; nil: the receiver responds itself
	Count   int      // deliveries after which the receiver is done; 0: never

	// OnDelivery is called with each delivery, one at a time, before the response is sent.
	OnDelivery func(Delivery)
	// OnRejected is called with the reason for rejecting a request that is not a delivery. Calls
	// never overlap.
	OnRejected func(why string)
}

// Receiver is the handler.
type Receiver struct {
	cfg    Config
	onward *forwarder
	memory memory
	done   chan struct{}
	random func() float64

	mu              sync.Mutex // serializes OnDelivery and OnRejected
	begun, finished int
	failed          int
}

// New returns a receiver.
func New(cfg Config) *Receiver {
	r := &Receiver{cfg: cfg, done: make(chan struct{}), random: rand.Float64}
	if cfg.Forward != nil {
		r.onward = newForwarder(cfg.Forward)
	}
	return r
}

// Done returns a channel that is closed once Count deliveries were handled.
func (r *Receiver) Done() <-chan struct{} { return r.done }

// Summary returns the number of deliveries, and how many of them Failed.
func (r *Receiver) Summary() (deliveries, failed int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.finished, r.failed
}

// ServeHTTP receives one delivery, by POST to any path.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	arrived := time.Now()
	if request.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		r.reject(w, http.StatusMethodNotAllowed, request.Method+": callbacks use POST")
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, request.Body, MaxBody))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		r.reject(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is larger than %d bytes", MaxBody))
		return
	}
	if err != nil {
		r.reject(w, http.StatusBadRequest, "the body is incomplete")
		return
	}
	if !r.reserve() {
		w.WriteHeader(http.StatusServiceUnavailable) // all expected deliveries have arrived
		return
	}
	d := read(request.Header, body)
	d.At = timestamp.Of(arrived)
	d.Signature, d.Reason = judge(r.cfg.Secret, request.Header, body, arrived)
	d.refused = r.cfg.Secret != nil && d.Signature != Good
	d.Attempt, d.Repeat = r.memory.arrive(d.id(), body, !d.refused)
	if d.Repeat == Altered {
		d.Faults = append(d.Faults, "the body differs from earlier deliveries")
	}
	out := r.answer(request, &d)
	d.setResponse(request.Context(), time.Since(arrived), out)
	r.finish(d)
	out.write(w)
}

// answer chooses the response, which is a failure if one is configured.
func (r *Receiver) answer(request *http.Request, d *Delivery) answer {
	if d.refused {
		return plain(http.StatusUnauthorized, "the signature is not valid")
	}
	if f := r.cfg.Failure; f.applies(d.Attempt, r.random()) {
		d.Injected = &f.Kind
		switch f.Kind {
		case Drop:
			return answer{}
		case Status:
			return plain(f.Status, "failed on purpose")
		case Slow:
			_ = wait.For(request.Context(), f.Delay)
		}
	}
	if r.onward == nil {
		return answer{status: http.StatusNoContent}
	}
	d.Forwarded = true
	out, err := r.onward.pass(request, d.Body)
	if err != nil {
		d.Faults = append(d.Faults, "the delivery could not be forwarded: "+err.Error())
		return plain(http.StatusBadGateway, "the delivery could not be forwarded")
	}
	return out
}

// reserve reserves one of the Count deliveries. It reports false if none is left.
func (r *Receiver) reserve() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cfg.Count > 0 && r.begun == r.cfg.Count {
		return false
	}
	r.begun++
	return true
}

// finish reports a delivery, and closes done after the last one.
func (r *Receiver) finish(d Delivery) {
	if d.accepted() {
		r.memory.accept(d.id())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.finished++
	if d.Failed() {
		r.failed++
	}
	r.cfg.OnDelivery(d)
	if r.finished == r.cfg.Count {
		close(r.done)
	}
}

// reject responds to a request that is not a delivery.
func (r *Receiver) reject(w http.ResponseWriter, status int, why string) {
	r.mu.Lock()
	r.cfg.OnRejected(why)
	r.mu.Unlock()
	plain(status, why).write(w)
}

// answer is the response to a delivery; the zero value drops the connection.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// plain returns a response of one line.
func plain(status int, text string) answer {
	return answer{
		status: status, body: []byte(text + "\n"),
		header: http.Header{"Content-Type": {"text/plain; charset=utf-8"}, "Cache-Control": {"no-store"}},
	}
}

func (a answer) write(w http.ResponseWriter) {
	if a.status == 0 {
		panic(http.ErrAbortHandler) // net/http closes the connection without logging
	}
	for name, values := range a.header {
		w.Header()[name] = values
	}
	if len(a.body) > 0 {
		w.Header().Set("Content-Length", strconv.Itoa(len(a.body)))
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body) // an error means that the sender has disconnected, which was recorded
}
