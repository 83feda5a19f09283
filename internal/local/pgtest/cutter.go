//go:build linux

package pgtest

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

// Cutter is a proxy between a client and PostgreSQL that can lose a response: it forwards a statement
// and closes the connection instead of returning the response. The statement took effect, but the
// client does not know that.
type Cutter struct {
	DSN string // address of the database through the cutter

	network, address string // of PostgreSQL
	loss             atomic.Pointer[Loss]
	down             atomic.Bool
	stall            sync.RWMutex // locked while no response is returned
}

// Loss says which response a Cutter loses.
type Loss struct {
	Request  string   // sent by the client in the transaction that the response is part of
	Response []string // all of these are in the response
	Down     bool     // from then on, the database can't be reached
}

// NewCutter starts a cutter in front of the database at dsn. It stops when the test ends.
func NewCutter(t testing.TB, dsn string) *Cutter {
	t.Helper()
	through, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	c := &Cutter{network: "tcp", address: through.Host}
	query := through.Query()
	if folder := query.Get("host"); filepath.IsAbs(folder) {
		c.network, c.address = "unix", filepath.Join(folder, ".s.PGSQL.5432")
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	query.Del("host")
	through.Host, through.RawQuery = listener.Addr().String(), query.Encode()
	c.DSN = through.String()
	ctx, stop := context.WithCancel(context.Background())
	var clients sync.WaitGroup
	clients.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			clients.Go(func() { c.serve(ctx, client) })
		}
	})
	t.Cleanup(func() {
		stop()
		listener.Close()
		clients.Wait()
	})
	return c
}

// Lose makes the cutter lose the next response that matches.
func (c *Cutter) Lose(loss Loss) { c.loss.Store(&loss) }

// Lost reports whether the response of the last call to Lose was lost.
func (c *Cutter) Lost() bool { return c.loss.Load() == nil }

// Restore makes the database reachable again after a Loss with Down.
func (c *Cutter) Restore() { c.down.Store(false) }

// Stall holds back all responses until Resume is called.
func (c *Cutter) Stall() { c.stall.Lock() }

// Resume returns the responses that Stall held back.
func (c *Cutter) Resume() { c.stall.Unlock() }

func (c *Cutter) serve(ctx context.Context, client net.Conn) {
	defer client.Close()
	if c.down.Load() {
		return
	}
	server, err := (&net.Dialer{}).DialContext(ctx, c.network, c.address)
	if err != nil {
		return
	}
	defer server.Close()
	defer context.AfterFunc(ctx, func() { client.Close(); server.Close() })()
	sent := &requests{}
	var forwarding sync.WaitGroup
	defer forwarding.Wait()
	forwarding.Go(func() {
		defer server.Close()
		_, _ = io.Copy(server, io.TeeReader(client, sent)) // on an error both sides see a closed connection
	})
	c.answer(server, client, sent)
	client.Close()
}

// answer returns the responses of the server to the client, except the one to lose.
func (c *Cutter) answer(server, client net.Conn, sent *requests) {
	response := make([]byte, 1<<20)
	for {
		n, readErr := server.Read(response)
		if c.loses(response[:n], sent) || c.down.Load() {
			return
		}
		if bytes.HasSuffix(response[:n], idle) {
			sent.forget()
		}
		c.stall.RLock()
		_, err := client.Write(response[:n])
		c.stall.RUnlock()
		if err != nil || readErr != nil {
			return
		}
	}
}

// idle is ReadyForQuery, which ends a response, outside of a transaction.
var idle = []byte("Z\x00\x00\x00\x05I")

func (c *Cutter) loses(response []byte, sent *requests) bool {
	loss := c.loss.Load()
	if loss == nil || !sent.contain(loss.Request) {
		return false
	}
	for _, mark := range loss.Response {
		if !bytes.Contains(response, []byte(mark)) {
			return false
		}
	}
	if !c.loss.CompareAndSwap(loss, nil) {
		return false
	}
	c.down.Store(loss.Down)
	return true
}

// requests is what a client has sent in its current transaction.
type requests struct {
	mu   sync.Mutex
	data []byte
}

func (r *requests) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.data = append(r.data, p...)
	return len(p), nil
}

func (r *requests) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.data = r.data[:0]
}

func (r *requests) contain(mark string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return bytes.Contains(r.data, []byte(mark))
}
