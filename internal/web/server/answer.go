package server

import (
	"errors"
	"net/http"
	"time"
)

// progressPart is how much of a large answer the client must receive within timeouts.progress.
const progressPart = 64 << 10

// answer notes what was answered. A write of uncounted bytes or more is counted in the hold of
// the request until the client has received it, and is cut where the client makes no progress.
type answer struct {
	http.ResponseWriter
	status   int
	begun    bool  // the header was passed on
	broken   bool  // the connection has to be cut
	refusal  error // of the first write; fail answers with it
	hold     *hold
	window   int64         // bytes that a large answer holds until its end; 0: each write is counted alone
	final    bool          // the request changed something: its answer is never refused
	progress time.Duration // for each progressPart
	deadline time.Time     // when the whole answer must have been received; zero: no limit
}

// WriteHeader notes the status. The header is passed on with the first bytes, since these
// may still be refused.
func (a *answer) WriteHeader(status int) {
	switch {
	case status < 200:
		a.ResponseWriter.WriteHeader(status)
	case a.status == 0:
		a.status = status
	}
}

// begin passes the header on.
func (a *answer) begin() {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	if !a.begun {
		a.begun = true
		a.ResponseWriter.WriteHeader(a.status)
	}
}

// FlushError is for http.ResponseController.
func (a *answer) FlushError() error {
	a.begin()
	return http.NewResponseController(a.ResponseWriter).Flush()
}

// Write notes that the answer has begun. It returns UNAVAILABLE, and writes nothing, if
// nothing was written before and too many bytes of other answers are in flight. So does
// every later Write, because some handlers don't check the error of the first one.
func (a *answer) Write(data []byte) (int, error) {
	if a.refusal != nil {
		return 0, a.refusal
	}
	large := len(data) >= uncounted
	if large {
		release, err := a.reserve(int64(len(data)))
		if err != nil {
			a.refusal = err
			return 0, err
		}
		defer release()
	}
	a.begin()
	if !large && a.window == 0 {
		return a.ResponseWriter.Write(data) // within the write timeout of the server
	}
	return a.send(data)
}

// reserve counts n bytes until release is called, or a.window of them to the end of the
// request.
func (a *answer) reserve(n int64) (release func(), err error) {
	first := a.window > 0 && !a.begun
	if first {
		n = max(n, a.window)
	} else if n -= a.window; n <= 0 {
		return func() {}, nil
	}
	if a.final || a.begun {
		a.hold.add(n)
	} else if err := a.hold.grow(n); err != nil {
		return nil, err
	}
	if first {
		n -= a.window // released with the rest of the hold
	}
	return func() { a.hold.shrink(n) }, nil
}

// send writes data in parts. Each part has its own deadline.
func (a *answer) send(data []byte) (sent int, err error) {
	control := http.NewResponseController(a.ResponseWriter)
	for len(data) > 0 {
		by := time.Now().Add(a.progress)
		if !a.deadline.IsZero() && a.deadline.Before(by) {
			by = a.deadline
		}
		if err := control.SetWriteDeadline(by); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return sent, err
		}
		n, err := a.ResponseWriter.Write(data[:min(len(data), progressPart)])
		if sent += n; err != nil {
			return sent, err
		}
		data = data[n:]
	}
	return sent, nil
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// sent is the status that the caller sees.
func (a *answer) sent() int {
	if a.status == 0 {
		return http.StatusOK
	}
	return a.status
}
