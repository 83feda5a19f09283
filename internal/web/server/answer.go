package server

import (
	"errors"
	"net/http"
	"time"
)

// progressPart is how many bytes of a large response the client must receive within
// timeouts.progress.
const progressPart = 64 << 10

// answer is a http.ResponseWriter that records the status and delays the header until the first
// byte. A write of uncounted bytes or more counts in the hold of the request until the client has
// received it, and fails if the client makes no progress.
type answer struct {
	http.ResponseWriter
	status   int
	started  bool  // the header was sent
	broken   bool  // abort the connection
	refusal  error // error of the first write; fail sends it as the response
	hold     *hold
	window   int64         // bytes reserved from the first write to the end of the request; 0: each write is counted on its own
	final    bool          // the request may have changed something, so its response is never rejected
	progress time.Duration // for each progressPart
	deadline time.Time     // for the client to receive the whole response; zero: no limit
}

// WriteHeader records the status. The header is sent with the first bytes, because reserving
// memory for them may still fail.
func (a *answer) WriteHeader(status int) {
	switch {
	case status < 200:
		a.ResponseWriter.WriteHeader(status)
	case a.status == 0:
		a.status = status
	}
}

// start sends the header.
func (a *answer) start() {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	if !a.started {
		a.started = true
		a.ResponseWriter.WriteHeader(a.status)
	}
}

// FlushError flushes the response. http.ResponseController calls it.
func (a *answer) FlushError() error {
	a.start()
	return http.NewResponseController(a.ResponseWriter).Flush()
}

// Write sends the header, if it wasn't sent, and data. If nothing was written before and too many
// bytes of other responses are in flight, Write returns UNAVAILABLE and writes nothing. Every later
// Write then fails in the same way, because some handlers don't check the error of the first Write.
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
	a.start()
	if !large && a.window == 0 {
		return a.ResponseWriter.Write(data) // the write timeout of the server applies
	}
	return a.send(data)
}

// reserve counts n bytes until release is called. If a.window is set, that many bytes stay reserved
// until the end of the request. It returns UNAVAILABLE if the memory budget is exhausted.
func (a *answer) reserve(n int64) (release func(), err error) {
	first := a.window > 0 && !a.started
	if first {
		n = max(n, a.window)
	} else if n -= a.window; n <= 0 {
		return func() {}, nil
	}
	if a.final || a.started {
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

// Unwrap returns the wrapped writer. http.ResponseController calls it.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// sent returns the status that the client sees.
func (a *answer) sent() int {
	if a.status == 0 {
		return http.StatusOK
	}
	return a.status
}
