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

// Detach is like Serve, for many streams that are mostly idle. It hijacks the connection from the
// HTTP server, sends the header and the available events, and returns. Then the handler, its
// request and the server's buffers are freed, while two small goroutines serve the stream. When
// the stream ends, ended is called once with the result that Serve would return, or with ErrGone
// if the client disconnected.
//
// The server's Shutdown doesn't know about such a stream: to stop, cancel ctx or use Options.Drain,
// and wait for ended. ctx must not be that of the request, which is cancelled when the handler
// returns.
//
// The body ends with the connection. If a connection can't be hijacked, as with HTTP/2, Detach
// blocks like Serve.
func Detach[T any](ctx context.Context, w http.ResponseWriter, source Source[T], opts Options, ended func(error)) {
	SetHeader(w.Header())
	conn, _, err := http.NewResponseController(w).Hijack()
	if errors.Is(err, errors.ErrUnsupported) {
		ended(serve(ctx, w, source, opts))
		return
	}
	if err != nil {
		ended(fmt.Errorf("hijack the connection of an event stream: %w", err))
		return
	}
	d := newDetached(conn, opts.writeTimeout())
	go d.read()
	if err := d.write(head(w.Header())); err != nil {
		d.end(err, ended)
		return
	}
	// Available events are sent by this goroutine, whose stack has already grown. So the stack of
	// the new goroutine stays small.
	if err := catchUp(ctx, &d.stream, source, opts); err != nil {
		d.end(err, ended)
		return
	}
	d.startHeartbeat(opts.heartbeat())
	go func() { d.end(loop(ctx, &d.stream, source, opts), ended) }()
}

// catchUp writes the available events. It returns early if ctx is done or Drain is closed.
func catchUp[T any](ctx context.Context, out *stream, source Source[T], opts Options) error {
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

// Wrapped is a connection that a listener has wrapped for its requests. A stream uses the inner
// connection, and closes the outer connection when the stream ends. Writing through the wrapper
// would add a frame to the stacks of the stream's goroutines and double their size, which is
// kilobytes for each stream.
type Wrapped interface {
	net.Conn
	Unwrap() net.Conn
}

// ErrGone is the error of a detached stream whose client closed the connection.
var ErrGone = errors.New("the client closed the event stream")

// maxUnread is how many bytes a client may send after its request before it is considered gone.
// Clients should send nothing.
const maxUnread = 64 << 10

// linger is how long the last frame may take before the connection is closed. If the connection
// were closed with unread bytes, the system would discard the frame.
const linger = 500 * time.Millisecond

// detached is the stream of a hijacked connection.
type detached struct {
	stream
	conn    net.Conn
	whole   net.Conn // the connection of the listener, which counts calls to Close
	timeout time.Duration
	unread  [64]byte
}

func newDetached(conn net.Conn, timeout time.Duration) *detached {
	d := &detached{conn: conn, whole: conn, timeout: timeout}
	d.sink, d.failed = d, make(chan struct{})
	if wrapped, ok := conn.(Wrapped); ok {
		d.conn = wrapped.Unwrap()
	}
	return d
}

func (d *detached) writeFrame(text []byte) error {
	if err := d.conn.SetWriteDeadline(time.Now().Add(d.timeout)); err != nil {
		return fmt.Errorf("set write deadline of event stream: %w", err)
	}
	if _, err := d.conn.Write(text); err != nil {
		return fmt.Errorf("write event stream: %w", err)
	}
	return nil
}

// read waits until the client closes its side, and then closes the connection. Only a read
// detects that the client closed its side.
func (d *detached) read() {
	for total := 0; total < maxUnread; {
		n, err := d.conn.Read(d.unread[:])
		if err != nil {
			break
		}
		total += n
	}
	d.fail(ErrGone)
	_ = d.whole.Close()
}

// end closes the connection as the cause requires, and calls ended.
func (d *detached) end(err error, ended func(error)) {
	d.stopHeartbeat()
	if errors.Is(err, errFinished) {
		err = nil
	}
	half, ok := d.conn.(interface{ CloseWrite() error })
	stalled := errors.Is(err, os.ErrDeadlineExceeded)
	if tcp, ok := d.conn.(interface{ SetLinger(seconds int) error }); ok && stalled {
		_ = tcp.SetLinger(0) // discard the data that the client doesn't read
	}
	if stalled || !ok || half.CloseWrite() != nil {
		_ = d.whole.Close()
	} else {
		_ = d.conn.SetReadDeadline(time.Now().Add(linger)) // afterwards read closes the connection
	}
	ended(err)
}

// head returns the status line and the headers in the form of net/http.
func head(header http.Header) []byte {
	var text bytes.Buffer
	text.WriteString("HTTP/1.1 200 OK\r\nDate: " + time.Now().UTC().Format(http.TimeFormat) + "\r\n")
	_ = header.Write(&text) // a buffer never fails
	text.WriteString("\r\n")
	return text.Bytes()
}
