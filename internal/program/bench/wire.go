package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
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
	body []byte
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
			return nil, errors.Join(err, closeAll(wires[:i]))
		}
	}
	return wires, nil
}

func closeAll(wires []*wire) error {
	var faults []error
	for _, w := range wires {
		faults = append(faults, w.conn.Close())
	}
	return errors.Join(faults...)
}

// do sends a request and returns the body of a 200 response. The body is valid until the next
// request.
func (w *wire) do(request []byte) ([]byte, error) {
	head, err := w.send(request)
	if err != nil {
		return nil, err
	}
	if err := w.read(head); err != nil {
		return nil, fmt.Errorf("read the response: %w", err)
	}
	if head.status != http.StatusOK {
		return nil, fmt.Errorf("status %d: %s", head.status, w.body)
	}
	return w.body, nil
}

// head is what the header of a response says about its body.
type head struct {
	status, length int
	chunked        bool
}

// send sends a request and reads the header of its response.
func (w *wire) send(request []byte) (head, error) {
	if err := w.conn.SetDeadline(time.Now().Add(answerTime)); err != nil {
		return head{}, err
	}
	if _, err := w.conn.Write(request); err != nil {
		return head{}, fmt.Errorf("send: %w", err)
	}
	h, err := w.head()
	if err != nil {
		return head{}, fmt.Errorf("read the response header: %w", err)
	}
	return h, nil
}

var (
	contentLength    = []byte("content-length")
	transferEncoding = []byte("transfer-encoding")
)

func (w *wire) head() (head, error) {
	line, err := w.in.ReadSlice('\n')
	if err != nil {
		return head{}, err
	}
	h := head{}
	if len(line) < len("HTTP/1.1 200") {
		return h, errors.New("no status line")
	}
	if h.status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return h, err
	}
	for {
		line, err := w.in.ReadSlice('\n')
		if err != nil {
			return h, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			return h, nil
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch {
		case bytes.EqualFold(name, contentLength):
			if h.length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return h, err
			}
		case bytes.EqualFold(name, transferEncoding):
			h.chunked = true
		}
	}
}

func (w *wire) read(h head) error {
	if !h.chunked {
		w.body = append(w.body[:0], make([]byte, h.length)...)
		_, err := io.ReadFull(w.in, w.body)
		return err
	}
	body, err := io.ReadAll(httputil.NewChunkedReader(w.in))
	if err != nil {
		return err
	}
	w.body = body
	_, err = w.in.Discard(len("\r\n"))
	return err
}

// call is a request that is sent many times. It is signed once a second: the same bytes may be sent
// again while the timestamp is valid (decisions 2.9), and signing is the client's cost, not the
// service's.
type call struct {
	signer               *client.Signer
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
	c.signer.Sign(header, c.method, c.target, c.body, now)
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
