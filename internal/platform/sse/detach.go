package sse

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"
)

// Detach is Serve for streams that are many and mostly idle. It takes the
// connection away from the HTTP server, sends the header and what events are
// there already, and returns: the handler, its request and the server's buffers
// can go, while two small goroutines carry the stream on. ended is called once,
// with what Serve would have returned, when the stream has ended; a client that
// goes away is ErrGone.
//
// The server's Shutdown does not know of such a stream: whoever stops must end
// ctx, or use Options.Drain, and wait for ended. ctx must not be the request's,
// which ends when the handler returns.
//
// The body ends with the connection. Where a connection cannot be taken, as of
// HTTP/2, Detach blocks like Serve.
func Detach[T any](ctx context.Context, w http.ResponseWriter, source Source[T], opts Options, ended func(error)) {
	SetHeader(w.Header())
	conn, _, err := http.NewResponseController(w).Hijack()
	if errors.Is(err, errors.ErrUnsupported) {
		ended(serve(ctx, w, source, opts))
		return
	}
	if err != nil {
		ended(fmt.Errorf("take the connection of an event stream: %w", err))
		return
	}
	d := &detached{conn: conn, whole: conn, timeout: opts.writeTimeout(), gone: make(chan struct{})}
	if wrapped, ok := conn.(Wrapped); ok {
		d.conn = wrapped.Unwrap()
	}
	go d.read()
	if err := d.write(head(w.Header())); err != nil {
		d.end(err, ended)
		return
	}
	// What is there already is sent by this goroutine, whose stack has grown
	// anyway: that of the one below then stays small.
	if err := catchUp(ctx, d, source, opts); err != nil {
		d.end(err, ended)
		return
	}
	go func() { d.end(loop(ctx, d, source, opts, d.gone), ended) }()
}

// catchUp writes events until none is there, or loop has another end to look at.
func catchUp[T any](ctx context.Context, out sink, source Source[T], opts Options) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-opts.Drain:
			return nil
		default:
		}
		select {
		case item, open := <-source.Events:
			if err := forward(out, source, item, open); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

// Wrapped is a connection that a listener has put something around, for the requests. A
// stream goes on without it, and closes it at its end: one more frame on the stacks of its goroutines makes them
// twice as large, which is kilobytes for each stream.
type Wrapped interface {
	net.Conn
	Unwrap() net.Conn
}

// ErrGone is why a detached stream ends when its client closes the connection.
var ErrGone = errors.New("the client closed the event stream")

// maxUnread is how much a client may send after its request, which asks for
// nothing, before it counts as gone.
const maxUnread = 64 << 10

// linger is how long the last frame may travel before the connection closes: a
// close with unread bytes would have the system throw the frame away.
const linger = 500 * time.Millisecond

// detached is a connection taken from the server.
type detached struct {
	conn    net.Conn
	whole   net.Conn // what the listener returned, which counts its Close
	timeout time.Duration
	gone    chan struct{} // closed when the client has closed its side
	unread  [64]byte
}

func (d *detached) write(text []byte) error {
	if err := d.conn.SetWriteDeadline(time.Now().Add(d.timeout)); err != nil {
		return fmt.Errorf("set write deadline of event stream: %w", err)
	}
	if _, err := d.conn.Write(text); err != nil {
		return fmt.Errorf("write event stream: %w", err)
	}
	return nil
}

// read waits for the client to close, which only a read tells, and then closes
// our side too.
func (d *detached) read() {
	for total := 0; total < maxUnread; {
		n, err := d.conn.Read(d.unread[:])
		if err != nil {
			break
		}
		total += n
	}
	close(d.gone)
	_ = d.whole.Close()
}

// end closes the connection in a way that fits the cause, and tells.
func (d *detached) end(err error, ended func(error)) {
	if errors.Is(err, errFinished) {
		err = nil
	}
	half, ok := d.conn.(interface{ CloseWrite() error })
	stalled := errors.Is(err, os.ErrDeadlineExceeded)
	if tcp, ok := d.conn.(interface{ SetLinger(seconds int) error }); ok && stalled {
		_ = tcp.SetLinger(0) // drop what the client does not read
	}
	if stalled || !ok || half.CloseWrite() != nil {
		_ = d.whole.Close()
	} else {
		_ = d.conn.SetReadDeadline(time.Now().Add(linger)) // then read closes
	}
	ended(err)
}

// head is the answer's first lines. net/http would write the same ones.
func head(header http.Header) []byte {
	var text bytes.Buffer
	text.WriteString("HTTP/1.1 200 OK\r\nDate: " + time.Now().UTC().Format(http.TimeFormat) + "\r\n")
	_ = header.Write(&text) // memory takes everything
	text.WriteString("\r\n")
	return text.Bytes()
}
