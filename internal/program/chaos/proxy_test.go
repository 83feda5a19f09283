package chaos

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// faultProxy is a proxy between a process and PostgreSQL. It parses the protocol, so that it can
// fail at the most harmful times.
type faultProxy struct {
	listener net.Listener
	socket   string // of the server
	database string

	dropAfterCommit atomic.Int64 // every n-th commit is executed and its response dropped; 0: none
	deaf            atomic.Bool  // drop notifications
	delay           atomic.Int64 // delay of every response in nanoseconds
	commits, drops  atomic.Int64

	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

// newFaultProxy starts a proxy in front of a database.
func newFaultProxy(t testing.TB, dsn string) *faultProxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	place, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	p := &faultProxy{
		listener: listener, socket: place.Query().Get("host") + "/.s.PGSQL.5432",
		database: strings.TrimPrefix(place.Path, "/"), conns: map[net.Conn]struct{}{},
	}
	var accepting sync.WaitGroup
	accepting.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			accepting.Go(func() { p.serve(conn) })
		}
	})
	t.Cleanup(func() { listener.Close(); p.cut(); accepting.Wait() })
	return p
}

// dsn returns the address of the database through the proxy.
func (p *faultProxy) dsn() string {
	return fmt.Sprintf("postgres://postgres@%s/%s?sslmode=disable", p.listener.Addr(), p.database)
}

// cut closes every connection.
func (p *faultProxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.conns {
		conn.Close()
	}
}

func (p *faultProxy) keep(conn net.Conn) (forget func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns[conn] = struct{}{}
	return func() {
		conn.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.conns, conn)
	}
}

func (p *faultProxy) serve(client net.Conn) {
	defer p.keep(client)()
	backend, err := net.Dial("unix", p.socket)
	if err != nil {
		return
	}
	defer p.keep(backend)()
	var doomed atomic.Bool // drop the response to the commit in flight
	var both sync.WaitGroup
	both.Go(func() { defer backend.Close(); p.forward(client, backend, &doomed) })
	both.Go(func() { defer client.Close(); defer backend.Close(); p.back(backend, client, &doomed) })
	both.Wait()
}

// forward passes messages of the client. The first message has no type.
func (p *faultProxy) forward(client io.Reader, backend io.Writer, doomed *atomic.Bool) {
	prepared := map[string]bool{} // names of prepared statements that commit
	for first := true; ; first = false {
		message, err := readMessage(client, first)
		if err != nil {
			return
		}
		if !first && commits(message, prepared) {
			n := p.dropAfterCommit.Load()
			if count := p.commits.Add(1); n > 0 && count%n == 0 {
				doomed.Store(true)
			}
		}
		if _, err := backend.Write(message); err != nil {
			return
		}
	}
}

// commits reports whether a message commits, directly or by a prepared statement.
func commits(message []byte, prepared map[string]bool) bool {
	is := func(text []byte) bool { return bytes.EqualFold(bytes.TrimRight(text, ";\x00 "), []byte("commit")) }
	body := bytes.SplitN(message[5:], []byte{0}, 3)
	switch message[0] {
	case 'Q':
		return is(message[5:])
	case 'P': // name, then query
		prepared[string(body[0])] = is(body[1])
	case 'B': // portal, then name of the statement
		return prepared[string(body[1])]
	}
	return false
}

// back passes messages of the server, unless they are to be dropped.
func (p *faultProxy) back(backend io.Reader, client io.Writer, doomed *atomic.Bool) {
	for {
		message, err := readMessage(backend, false)
		if err != nil {
			return
		}
		if message[0] == 'C' && bytes.HasPrefix(message[5:], []byte("COMMIT")) && doomed.Load() {
			p.drops.Add(1)
			return
		}
		if message[0] == 'A' && p.deaf.Load() {
			continue
		}
		if delay := p.delay.Load(); delay > 0 {
			<-time.After(time.Duration(delay))
		}
		if _, err := client.Write(message); err != nil {
			return
		}
	}
}

// readMessage reads one whole message: a type, a length that includes itself, and the rest.
func readMessage(r io.Reader, untyped bool) ([]byte, error) {
	head := make([]byte, 5)
	if untyped {
		head = head[:4]
	}
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	length := binary.BigEndian.Uint32(head[len(head)-4:])
	if length < 4 || length > 64<<20 {
		return nil, fmt.Errorf("invalid message length %d", length)
	}
	message := make([]byte, len(head)+int(length)-4)
	copy(message, head)
	_, err := io.ReadFull(r, message[len(head):])
	return message, err
}
