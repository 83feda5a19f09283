package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/weft-automation/weft/internal/local/client"
)

// wire is a kept connection. It costs a fraction of an http.Client, so that the load generator uses
// little of the machine that it measures.
type wire struct {
	conn net.Conn
	in   *bufio.Reader
	body bytes.Buffer
}

const answerTime = 60 * time.Second

func dial(ctx context.Context, addr string) (*wire, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &wire{conn: conn, in: bufio.NewReaderSize(conn, 4<<10)}, nil
}

// dialAll opens a connection for each client.
func dialAll(ctx context.Context, addr string, clients int) ([]*wire, error) {
	wires := make([]*wire, clients)
	for i := range wires {
		var err error
		if wires[i], err = dial(ctx, addr); err != nil {
			closeAll(wires[:i])
			return nil, err
		}
	}
	return wires, nil
}

// closeAll closes the connections. Some may be nil.
func closeAll(wires []*wire) {
	for _, w := range wires {
		if w != nil {
			_ = w.conn.Close()
		}
	}
}

// do sends a request and returns the body of a 200 or 201 response. The body is valid until the next
// request.
func (w *wire) do(request []byte) ([]byte, error) {
	response, err := w.send(request)
	if err != nil {
		return nil, err
	}
	w.body.Reset()
	if _, err := w.body.ReadFrom(response.Body); err != nil {
		return nil, fmt.Errorf("read the response: %w", err)
	}
	if response.StatusCode != http.StatusOK && response.StatusCode != http.StatusCreated {
		return nil, fmt.Errorf("status %d: %s", response.StatusCode, &w.body)
	}
	return w.body.Bytes(), nil
}

// send sends a request and reads the header of its response. Invariant: The body is read to its end
// before the next request.
func (w *wire) send(request []byte) (*http.Response, error) {
	if err := w.conn.SetDeadline(time.Now().Add(answerTime)); err != nil {
		return nil, err
	}
	if _, err := w.conn.Write(request); err != nil {
		return nil, fmt.Errorf("send: %w", err)
	}
	response, err := http.ReadResponse(w.in, nil)
	if err != nil {
		return nil, fmt.Errorf("read the response header: %w", err)
	}
	return response, nil
}

// once sends one request on a new connection and returns the body of its
// response, as do does.
func once(ctx context.Context, c *call) ([]byte, error) {
	w, err := dial(ctx, c.host)
	if err != nil {
		return nil, err
	}
	defer w.conn.Close()
	return w.do(c.request())
}

// call is a request that is sent many times. It is signed once a second: the same bytes may be sent
// again while the timestamp is valid (decisions 2.9), and signing is the client's cost, not the
// service's.
type call struct {
	signer               *client.Signer // nil: not signed
	method, target, host string
	body                 []byte
	signed               atomic.Pointer[signedCall]
}

type signedCall struct {
	second int64
	bytes  []byte
}

// request returns the bytes of the request, signed for the current second.
func (c *call) request() []byte {
	now := time.Now()
	if kept := c.signed.Load(); kept != nil && kept.second == now.Unix() {
		return kept.bytes
	}
	fresh := &signedCall{second: now.Unix(), bytes: c.render(now)}
	c.signed.Store(fresh)
	return fresh.bytes
}

func (c *call) render(now time.Time) []byte {
	header := http.Header{}
	if c.signer != nil {
		c.signer.Sign(header, c.method, c.target, c.body, now)
	}
	if len(c.body) > 0 {
		header.Set("Content-Type", "application/json")
		header.Set("Content-Length", strconv.Itoa(len(c.body)))
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "%s %s HTTP/1.1\r\nHost: %s\r\n", c.method, c.target, c.host)
	_ = header.Write(&out) // cannot fail: writes to memory
	out.WriteString("\r\n")
	out.Write(c.body)
	return out.Bytes()
}

// openStream opens an event stream and returns its reader.
func openStream(ctx context.Context, c *call) (*wire, io.Reader, error) {
	w, err := dial(ctx, c.host)
	if err != nil {
		return nil, nil, err
	}
	response, err := w.send(c.request())
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d of a stream", response.StatusCode)
	}
	if err != nil {
		return nil, nil, errors.Join(err, w.conn.Close())
	}
	return w, response.Body, nil
}

// repeat returns a load: clients send requests to addr. The function each returns the n-th request.
// The function check, unless nil, checks the response.
func (r *rig) repeat(ctx context.Context, addr string, clients int, each func(n int) *call, check func(answer []byte) error) load {
	return func() (sample, error) {
		wires, err := dialAll(ctx, addr, clients)
		if err != nil {
			return sample{}, err
		}
		defer closeAll(wires)
		counts := make([]int, clients)
		return closedLoop(ctx, clients, r.Length, func(_ context.Context, client int) error {
			n := counts[client]*clients + client
			counts[client]++
			answer, err := wires[client].do(each(n).request())
			if err != nil || check == nil {
				return err
			}
			return check(answer)
		})
	}
}

// repeatOne returns a load: clients repeat one request.
func (r *rig) repeatOne(ctx context.Context, clients int, c *call, check func(answer []byte) error) load {
	return r.repeat(ctx, c.host, clients, func(int) *call { return c }, check)
}
