package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
)

// How far a request got. These values are part of the API.
const (
	SentNo       = "no"       // no byte of it was written to its connection
	SentUnknown  = "unknown"  // it was written, at least in part, and no complete response arrived
	SentAnswered = "answered" // a complete response arrived
)

// Exchange observes one request, including its redirects. It describes the last request that was
// sent. After a redirect that changed the method, such as POST to GET, the first request counts as
// answered, whatever happens to the rest.
//
// The methods of a nil Exchange do nothing.
type Exchange struct {
	mu            sync.Mutex
	method        string // of the first request
	turned        bool
	ended         bool
	conn          *observed
	read, written int64 // bytes of earlier exchanges on conn
}

type exchangeKey struct{}

// Observe returns a context whose request the Exchange observes. Use it for one request.
func Observe(ctx context.Context) (context.Context, *Exchange) {
	e := &Exchange{}
	return context.WithValue(ctx, exchangeKey{}, e), e
}

func exchangeOf(ctx context.Context) *Exchange {
	e, _ := ctx.Value(exchangeKey{}).(*Exchange)
	return e
}

// Sent returns how far the request got: a Sent constant.
func (e *Exchange) Sent() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.turned || e.ended:
		return SentAnswered
	case e.conn != nil && e.conn.written.Load() > e.written:
		return SentUnknown
	}
	return SentNo
}

// Begun reports whether at least one byte of a response to the last request arrived.
func (e *Exchange) Begun() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ended || e.conn != nil && e.conn.read.Load() > e.read
}

// Turned reports whether a redirect changed the method of the request.
func (e *Exchange) Turned() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.turned
}

// start starts a request: the first one, or that of a redirect.
func (e *Exchange) start(method string) {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.turned = e.turned || e.method != "" && e.method != method
	if e.method == "" {
		e.method = method
	}
	e.conn, e.ended = nil, false
}

// follow returns the request with a trace that reports its connection. An Exchange counts bytes on the
// connection itself, because net/http reports the writes to its buffers.
func (e *Exchange) follow(request *http.Request) *http.Request {
	if e == nil {
		return request
	}
	return request.WithContext(httptrace.WithClientTrace(request.Context(), &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) {
			conn, ok := info.Conn.(*observed)
			if !ok {
				return
			}
			e.mu.Lock()
			defer e.mu.Unlock()
			e.conn, e.read, e.written = conn, 0, 0
			if info.Reused {
				e.read, e.written = conn.read.Load(), conn.written.Load()
			}
		},
	}))
}

// end records that the response is complete.
func (e *Exchange) end() {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ended = true
}

// ending is the body of a response as it arrives. It records its end.
type ending struct {
	io.ReadCloser
	exchange *Exchange
}

func (b *ending) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.exchange.end()
	}
	return n, err
}

// observed counts the bytes of HTTP on a connection, above TLS. tls.Conn writes either a whole record
// or nothing that its peer can read, so no byte of a request was sent if Write returns 0.
type observed struct {
	net.Conn
	demanded      bool // the server requested a client certificate
	read, written atomic.Int64
	over          chan struct{} // closed when nothing more can be read
	stop          sync.Once
}

func observe(conn net.Conn, demanded bool) *observed {
	return &observed{Conn: conn, demanded: demanded, over: make(chan struct{})}
}

func (c *observed) end() { c.stop.Do(func() { close(c.over) }) }

func (c *observed) Close() error {
	c.end()
	return c.Conn.Close()
}

func (c *observed) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.read.Add(int64(n))
	if err != nil {
		c.end()
	}
	if alert := alertOf(err); alert != "" {
		err = &alertError{err: err, alert: alert, demanded: c.demanded}
	}
	return n, err
}

// Write writes to the connection. If that fails, it returns only once nothing more can be read: a server
// may answer a request before it has read all of it, and net/http drops the response if the write fails
// first.
func (c *observed) Write(p []byte) (int, error) {
	c.written.Add(1) // before the write, because the response may arrive before Write returns
	n, err := c.Conn.Write(p)
	c.written.Add(int64(n) - 1)
	if err != nil {
		<-c.over
	}
	return n, err
}

// alertError is an alert that ended a connection after the handshake.
type alertError struct {
	err      error
	alert    string
	demanded bool
}

func (e *alertError) Error() string { return "after the handshake: " + e.err.Error() }
func (e *alertError) Unwrap() error { return e.err }

// alertOf returns the text of the TLS alert that a peer sent, or "". The text is that of package tls,
// which has no exported type for the alerts of TCP connections.
func alertOf(err error) string {
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "remote error" {
		return e.Err.Error()
	}
	return ""
}

// The alerts that need a distinction (RFC 8446, section 6).
var (
	alertInternalError       = tls.AlertError(80).Error()
	alertUserCanceled        = tls.AlertError(90).Error()
	alertProtocolVersion     = tls.AlertError(70).Error()
	alertUnrecognizedName    = tls.AlertError(112).Error()
	alertCertificateRequired = tls.AlertError(116).Error()
)
