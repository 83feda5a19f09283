package server

import (
	"cmp"
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
	Stall      time.Duration         // after which a client that doesn't read a part of a response may be evicted; 0: 2 s
	Progress   time.Duration         // for the client to read a part of a response; 0: 10 s
	Metrics    *telemetry.Metrics    // nil: not counted
	Log        *slog.Logger
}

// Listener returns the listener that s, made by HTTPServer, serves. It accepts connections within
// the limits. When an address, or the listener, has reached its limit, the listener evicts the
// connection that has waited longest: for a request, for its body, or for a client that doesn't read
// the response. At the limit of an address, this is a connection of the same address. At the limit of the listener, it is a connection of the address
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
	l.limits.Stall, l.limits.Progress = cmp.Or(limits.Stall, 2*time.Second), cmp.Or(limits.Progress, 10*time.Second)
	s.ConnState = func(c net.Conn, state http.ConnState) {
		counted, ok := c.(*countedConn)
		switch {
		case !ok:
		case state == http.StateIdle:
			l.setWaiting(counted, forRequest, true)
		case state == http.StateActive || state == http.StateHijacked:
			l.setWaiting(counted, forRequest, false)
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
	waiting list.List // of *countedConn that wait for their client, the longest wait first
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
	c := &countedConn{TCPConn: tcp, listener: l, source: s, waits: forRequest}
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

// evict closes the connection of s that waits longest. It reports false if none waits. The kernel
// discards the data of a response that the client doesn't read.
func (l *boundedListener) evict(s *source) bool {
	if s == nil || s.waiting.Len() == 0 {
		return false
	}
	c, _ := s.waiting.Front().Value.(*countedConn)
	l.forget(c)
	if c.waits&forReader != 0 {
		_ = c.SetLinger(0)
	}
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

// wait is what a connection waits for.
type wait uint8

const (
	forRequest wait = 1 << iota // or its body
	forReader                   // a client that doesn't read the response
)

// setWaiting records whether a connection waits for its client in this way.
func (l *boundedListener) setWaiting(c *countedConn, what wait, waits bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.waits &^= what; waits {
		c.waits |= what
	}
	switch {
	case c.gone:
	case c.waits == 0:
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
		c.listener.setWaiting(c, forRequest, waits)
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
	waits    wait
	wait     *list.Element // nil if waits is 0
	gone     bool
	used     bool      // net/http reads with one goroutine at a time
	writeBy  time.Time // write deadline that net/http or a handler set; zero: no deadline
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

// SetWriteDeadline sets the deadline of all writes together. Each part also has its own deadline.
// net/http and handlers set the deadline and write with one goroutine at a time.
func (c *countedConn) SetWriteDeadline(by time.Time) error {
	c.writeBy = by
	return nil
}

// partSize is how many bytes of a response the client must read within Connections.Progress.
const partSize = 64 << 10

// Write writes to the connection, in parts. It fails if the client doesn't read a part in time.
// After such a timeout, it has the kernel discard unsent data on close. Otherwise the kernel would
// hold the data for minutes.
func (c *countedConn) Write(p []byte) (sent int, err error) {
	for len(p) > 0 && err == nil {
		var n int
		n, err = c.writePart(p[:min(len(p), partSize)])
		sent, p = sent+n, p[n:]
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		_ = c.SetLinger(0)
	}
	return sent, err
}

// writePart writes one part. While the client doesn't read it, the connection can be evicted.
func (c *countedConn) writePart(part []byte) (int, error) {
	limits, started := c.listener.limits, time.Now()
	n, err := c.writeUntil(part, started.Add(min(limits.Stall, limits.Progress)))
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return n, err
	}
	c.listener.setWaiting(c, forReader, true)
	defer c.listener.setWaiting(c, forReader, false)
	rest, err := c.writeUntil(part[n:], started.Add(limits.Progress))
	return n + rest, err
}

// writeUntil writes until by, or until the deadline of all writes if it is earlier.
func (c *countedConn) writeUntil(p []byte, by time.Time) (int, error) {
	if !c.writeBy.IsZero() && c.writeBy.Before(by) {
		by = c.writeBy
	}
	if err := c.TCPConn.SetWriteDeadline(by); err != nil {
		return 0, err
	}
	return c.TCPConn.Write(p)
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
