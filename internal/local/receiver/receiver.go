// Package receiver receives callbacks as a customer's program would, so that a developer can see
// what arrived, whether its signature is valid, and what happens on failures.
//
// It is an http.Handler that reports each delivery, fails on purpose if asked to, and forwards
// deliveries to another program. It opens no port and prints nothing. It verifies with package
// signature, which also signs.
//
// The one invariant: a delivery whose signature must be checked and is wrong is refused with 401
// and not forwarded. All others keep their bytes.
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

// MaxBody bounds the body of a delivery: an output of a mebibyte, and the record
// around it.
const MaxBody = 2 << 20

// Config is what a receiver is to do, and whom it tells, which must be there.
type Config struct {
	Secret  *string  // the callbackSecret; nil: signatures are not checked
	Failure Failure  // on purpose; the zero value: none
	Forward *url.URL // of ParseForward; nil: deliveries are answered here
	Count   int      // deliveries after which it has done; 0: never

	// Told is called with each delivery, one at a time, before its answer goes out.
	Told func(Delivery)
	// Refused is called, one at a time, with what came and was no delivery.
	Refused func(why string)
}

// Receiver is the handler.
type Receiver struct {
	cfg    Config
	onward *forwarder
	memory memory
	done   chan struct{}
	random func() float64

	mu              sync.Mutex // one delivery is told at a time
	begun, finished int
	failed          int
}

// New makes a receiver.
func New(cfg Config) *Receiver {
	r := &Receiver{cfg: cfg, done: make(chan struct{}), random: rand.Float64}
	if cfg.Forward != nil {
		r.onward = newForwarder(cfg.Forward)
	}
	return r
}

// Done is closed when Count deliveries have been answered.
func (r *Receiver) Done() <-chan struct{} { return r.done }

// Summary says how many deliveries were answered, and how many of them Failed.
func (r *Receiver) Summary() (deliveries, failed int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.finished, r.failed
}

// ServeHTTP takes one delivery, by POST at any path.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	arrived := time.Now()
	if request.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		r.refuse(w, http.StatusMethodNotAllowed, request.Method+": callbacks come by POST")
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, request.Body, MaxBody))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		r.refuse(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("a body of more than %d bytes", MaxBody))
		return
	}
	if err != nil {
		r.refuse(w, http.StatusBadRequest, "a body that broke off")
		return
	}
	if !r.begin() {
		w.WriteHeader(http.StatusServiceUnavailable) // it has what it was to have
		return
	}
	d := read(request.Header, body)
	d.At = timestamp.Of(arrived)
	d.Signature, d.Reason = judge(r.cfg.Secret, request.Header, body, arrived)
	d.refused = r.cfg.Secret != nil && d.Signature != Good
	d.Attempt, d.Repeat = r.memory.arrive(d.ExecutionID, body, !d.refused)
	if d.Repeat == Altered {
		d.Faults = append(d.Faults, "it has other bytes than before")
	}
	out := r.answer(request, &d)
	d.took(request.Context(), time.Since(arrived), out)
	r.finish(d)
	out.write(w)
}

// answer decides what is answered, and has it fail where that was asked for.
func (r *Receiver) answer(request *http.Request, d *Delivery) answer {
	if d.refused {
		return plain(http.StatusUnauthorized, "the signature is not right")
	}
	if f := r.cfg.Failure; f.hits(d.Attempt, r.random()) {
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
		d.Faults = append(d.Faults, "it could not be forwarded: "+err.Error())
		return plain(http.StatusBadGateway, "it could not be forwarded")
	}
	return out
}

// begin takes a place among the deliveries that are asked for.
func (r *Receiver) begin() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cfg.Count > 0 && r.begun == r.cfg.Count {
		return false
	}
	r.begun++
	return true
}

// finish tells of a delivery, and whether it was the last.
func (r *Receiver) finish(d Delivery) {
	if d.accepted() {
		r.memory.accept(d.ExecutionID)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.finished++
	if d.Failed() {
		r.failed++
	}
	r.cfg.Told(d)
	if r.finished == r.cfg.Count {
		close(r.done)
	}
}

// refuse answers what is no delivery.
func (r *Receiver) refuse(w http.ResponseWriter, status int, why string) {
	r.mu.Lock()
	r.cfg.Refused(why)
	r.mu.Unlock()
	plain(status, why).write(w)
}

// answer is what a delivery is answered; the zero value drops the connection.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// plain is an answer of one line.
func plain(status int, text string) answer {
	return answer{
		status: status, body: []byte(text + "\n"),
		header: http.Header{"Content-Type": {"text/plain; charset=utf-8"}, "Cache-Control": {"no-store"}},
	}
}

func (a answer) write(w http.ResponseWriter) {
	if a.status == 0 {
		panic(http.ErrAbortHandler) // net/http closes the connection, and logs nothing
	}
	for name, values := range a.header {
		w.Header()[name] = values
	}
	if len(a.body) > 0 {
		w.Header().Set("Content-Length", strconv.Itoa(len(a.body)))
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body) // whoever has gone away was told of
}
