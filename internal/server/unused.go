package server

import (
	"net"
	"net/http"
	"time"
)

// Listener is what s, made by HTTPServer, is to serve. On it a connection that a client
// has opened and not yet used may wait as long as one between two requests. Clients
// open some ahead and keep them, but net/http counts the time for the header from the
// accept: the first request would go into a connection that is just being closed. From
// the first byte on the header has its own time.
func Listener(inner net.Listener, s *http.Server) net.Listener {
	return patientListener{inner, s.IdleTimeout, s.ReadHeaderTimeout}
}

type patientListener struct {
	net.Listener
	idle, header time.Duration
}

func (l patientListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if tcp, ok := conn.(*net.TCPConn); ok {
		return &unusedConn{TCPConn: tcp, times: l}, nil
	}
	return conn, err
}

// unusedConn waits for its first bytes. It is a *net.TCPConn for the rest, because
// net/http closes the two directions one by one.
type unusedConn struct {
	*net.TCPConn
	times patientListener
	used  bool // net/http reads with one goroutine at a time
}

// Unwrap gives the connection to a stream (sse.Wrapped), which begins after its use.
func (c *unusedConn) Unwrap() net.Conn { return c.TCPConn }

func (c *unusedConn) Read(p []byte) (int, error) {
	if c.used {
		return c.TCPConn.Read(p)
	}
	if err := c.SetReadDeadline(time.Now().Add(c.times.idle)); err != nil {
		return 0, err
	}
	n, err := c.TCPConn.Read(p)
	c.used = true
	if err == nil {
		err = c.SetReadDeadline(time.Now().Add(c.times.header))
	}
	return n, err
}
