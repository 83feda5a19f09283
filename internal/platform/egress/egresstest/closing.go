package egresstest

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
)

// Closing is an HTTP server that responds to the first request on each connection and keeps the
// connection open. It reads a second request and closes the connection without a response.
type Closing struct {
	URL string

	mu     sync.Mutex
	seen   map[string]int // requests by path
	reused int
}

// NewClosing starts the server. It runs until the test ends.
func NewClosing(t testing.TB) *Closing {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &Closing{URL: "http://" + listener.Addr().String(), seen: map[string]int{}}
	open(t, listener, c.serve)
	return c
}

func (c *Closing) serve(conn net.Conn) {
	reader := bufio.NewReader(conn)
	for i := range 2 {
		request, err := http.ReadRequest(reader)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, request.Body); err != nil {
			return
		}
		c.mu.Lock()
		c.seen[request.URL.Path]++
		c.reused += i
		c.mu.Unlock()
		if i == 0 {
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Type: application/json\r\n\r\n{}")
		}
	}
}

// Seen returns how many requests for path were read.
func (c *Closing) Seen(path string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen[path]
}

// Reused returns how many requests were read on a reused connection.
func (c *Closing) Reused() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reused
}
