package server

import "net/http"

// answer is a http.ResponseWriter that records the status and delays the header until the first
// byte. A write of uncounted bytes or more counts in the hold of the request until the client has
// received it.
type answer struct {
	http.ResponseWriter
	status  int
	started bool  // the header was sent
	broken  bool  // abort the connection
	refusal error // error of the first write; fail sends it as the response
	hold    *hold
	window  int64 // bytes reserved from the first write to the end of the request; 0: each write is counted on its own
	final   bool  // the request may have changed something, so its response is never rejected
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
	if len(data) >= uncounted {
		release, err := a.reserve(int64(len(data)))
		if err != nil {
			a.refusal = err
			return 0, err
		}
		defer release()
	}
	a.start()
	return a.ResponseWriter.Write(data)
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

// Unwrap returns the wrapped writer. http.ResponseController calls it.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// sent returns the status that the client sees.
func (a *answer) sent() int {
	if a.status == 0 {
		return http.StatusOK
	}
	return a.status
}
