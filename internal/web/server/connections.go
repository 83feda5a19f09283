package server

import (
	"container/list"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/weft-automation/weft/internal/platform/telemetry"
	"github.com/weft-automation/weft/internal/platform/throttle"
)

// Connections bounds the open connections of a listener.
type Connections struct {
	Max        int                   // open at the same time
	PerAddress int                   // open at the same time per client address
	ExemptFunc func(netip.Addr) bool // reports addresses that PerAddress doesn't apply to, such as proxies; nil: no address
	Metrics    *telemetry.Metrics    // nil: not counted
	Log        *slog.Logger
}

// Listener returns the listener that s, made by HTTPServer, serves. It accepts connections within
// the limits. When an address, or the listener, has reached its limit, the listener evicts the
// connection that has waited longest for a request or its body. At the limit of an address, this is
// a connection of the same address. At the limit of the listener, it is a connection of the address
// with the most connections, or of the same address if no address has more. An address never
// displaces a connection of an address that has fewer. If no connection is waiting, the new
// connection is closed.
//
// A new connection may wait for its first request as long as a used one for its next. Clients
// open connections ahead of use, but net/http starts the header timeout on accept and could
// close a connection just as its first request arrives. Here the header timeout starts with the
// first byte.
func Listener(inner net.Listener, s *http.Server, limits Connections) net.Listener {
	l := &boundedListener{Listener: inner, limits: limits, idle: s.IdleTimeout, header: s.ReadHeaderTimeout, sources: make(map[netip.Addr]*source)}
	s.ConnState = func(c net.Conn, state http.ConnState) {
		counted, ok := c.(*countedConn)
		switch {
		case !ok:
		case state == http.StateIdle:
			l.setWaiting(counted, true)
		case state == http.StateActive || state == http.StateHijacked:
			l.setWaiting(counted, false)
		}
	}
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, connectionKey{}, c)
	}
	limits.Metrics.WatchConnections(l.count)
	return l
}

type boundedListener struct {
	net.Listener
	limits       Connections
	idle, header time.Duration

	mu      sync.Mutex
	open    int
	sources map[netip.Addr]*source
	closed  map[string]int // connections closed since the last log line, by the reason
	logged  time.Time
}

// source is an address with open connections.
type source struct {
	address netip.Addr
	exempt  bool
	open    int
	waiting list.List // of *countedConn that haven't received a whole request, the longest wait first
}

// weight returns the number of connections that count against the address. The address with the
// largest weight makes room first. Exempt addresses have weight 0.
func (s *source) weight() int {
	if s.exempt {
		return 0
	}
	return s.open
}

// Accept returns the next connection that is within the limits. It closes connections beyond the
// limits.
func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		tcp, ok := conn.(*net.TCPConn)
		if err != nil || !ok {
			return conn, err
		}
		if counted := l.admit(tcp); counted != nil {
			return counted, nil
		}
		_ = tcp.Close()
	}
}

// admit counts a connection, or returns nil if there is no room for it.
func (l *boundedListener) admit(tcp *net.TCPConn) *countedConn {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.source(tcp.RemoteAddr())
	if !s.exempt && s.open >= l.limits.PerAddress && !l.evict(s) {
		l.note("address")
		return nil
	}
	if l.open >= l.limits.Max && !l.evict(l.largest(s.weight()+1)) && !l.evict(s) {
		l.note("full")
		return nil
	}
	l.sources[s.address] = s
	s.open++
	l.open++
	c := &countedConn{TCPConn: tcp, listener: l, source: s}
	c.wait = s.waiting.PushBack(c)
	return c
}

// source returns the source of an address. A new source isn't stored until admit counts a
// connection of the address.
func (l *boundedListener) source(remote net.Addr) *source {
	var address netip.Addr
	if at, ok := remote.(*net.TCPAddr); ok {
		address = throttle.Subscriber(at.AddrPort().Addr())
	}
	if s := l.sources[address]; s != nil {
		return s
	}
	s := &source{address: address}
	if l.limits.ExemptFunc != nil {
		at, _ := remote.(*net.TCPAddr)
		s.exempt = at != nil && l.limits.ExemptFunc(at.AddrPort().Addr().Unmap())
	}
	return s
}

// largest returns the heaviest address that has a waiting connection and at least that
// weight, or nil.
func (l *boundedListener) largest(atLeast int) *source {
	var found *source
	for _, s := range l.sources {
		if s.waiting.Len() > 0 && s.weight() >= atLeast && (found == nil || s.weight() > found.weight()) {
			found = s
		}
	}
	return found
}

// evict closes the connection of s that waits longest. It reports false if none waits.
func (l *boundedListener) evict(s *source) bool {
	if s == nil || s.waiting.Len() == 0 {
		return false
	}
	c, _ := s.waiting.Front().Value.(*countedConn)
	l.forget(c)
	_ = c.TCPConn.Close()
	l.note("evicted")
	return true
}

// forget stops counting a connection. It may be called more than once.
func (l *boundedListener) forget(c *countedConn) {
	if c.gone {
		return
	}
	c.gone = true
	l.stopWait(c)
	l.open--
	if c.source.open--; c.source.open == 0 {
		delete(l.sources, c.source.address)
	}
}

func (l *boundedListener) stopWait(c *countedConn) {
	if c.wait != nil {
		c.source.waiting.Remove(c.wait)
		c.wait = nil
	}
}

// setWaiting records whether a connection waits for a request or its body.
func (l *boundedListener) setWaiting(c *countedConn, waits bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case c.gone:
	case !waits:
		l.stopWait(c)
	case c.wait == nil:
		c.wait = c.source.waiting.PushBack(c)
	}
}

// connectionKey is the key of a request's connection in its context.
type connectionKey struct{}

// waitsForBody records whether the connection of a request waits for the body. The service
// does nothing for a request before its body has arrived, so the connection can make room.
func waitsForBody(ctx context.Context, waits bool) {
	if c, ok := ctx.Value(connectionKey{}).(*countedConn); ok {
		c.listener.setWaiting(c, waits)
	}
}

// count returns the number of open connections.
func (l *boundedListener) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open
}

// logEvery is the time between two log lines about closed connections.
const logEvery = 10 * time.Second

// note counts a connection that was closed because the limit was reached. It logs the counts once
// in logEvery.
func (l *boundedListener) note(reason string) {
	l.limits.Metrics.ConnectionClosed(reason)
	if l.closed == nil {
		l.closed = make(map[string]int)
	}
	l.closed[reason]++
	if now := time.Now(); now.Sub(l.logged) >= logEvery {
		l.limits.Log.Warn("closed connections over the limit",
			"evicted", l.closed["evicted"], "over_address_limit", l.closed["address"], "full", l.closed["full"],
			"open", l.open, "max", l.limits.Max, "per_address", l.limits.PerAddress)
		l.logged = now
		clear(l.closed)
	}
}

// countedConn is a counted connection. It embeds *net.TCPConn, because net/http closes the two
// directions separately and looks for CloseWrite.
type countedConn struct {
	*net.TCPConn
	listener *boundedListener
	source   *source
	wait     *list.Element // nil while it has a whole request
	gone     bool
	used     bool // net/http reads with one goroutine at a time
}

// Unwrap returns the TCP connection. A stream (sse.Wrapped) writes to it, but closes the
// countedConn.
func (c *countedConn) Unwrap() net.Conn { return c.TCPConn }

// Close closes the connection and stops counting it.
func (c *countedConn) Close() error {
	c.listener.mu.Lock()
	c.listener.forget(c)
	c.listener.mu.Unlock()
	return c.TCPConn.Close()
}

// Write writes to the connection. After a write timeout, it has the kernel discard unsent data
// on close. Otherwise the kernel would hold the data for minutes.
func (c *countedConn) Write(p []byte) (int, error) {
	n, err := c.TCPConn.Write(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		_ = c.SetLinger(0)
	}
	return n, err
}

// Read reads from the connection. It sets the deadlines of the first request: the idle timeout
// until its first byte, then the header timeout.
func (c *countedConn) Read(p []byte) (int, error) {
	if c.used {
		return c.TCPConn.Read(p)
	}
	if err := c.SetReadDeadline(time.Now().Add(c.listener.idle)); err != nil {
		return 0, err
	}
	n, err := c.TCPConn.Read(p)
	c.used = true
	if err == nil {
		err = c.SetReadDeadline(time.Now().Add(c.listener.header))
	}
	return n, err
}
