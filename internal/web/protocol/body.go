package protocol

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// MaxDiscarded is the largest number of bytes that Discard reads.
const MaxDiscarded = 8 << 20

// Body is a request body that may still be arriving when the response is sent.
type Body struct {
	io.Reader
	declared int64 // http.Request.ContentLength
	withheld bool  // the client waits for the 100 that the first Read sends
	whole    bool  // the body was read to its end
}

// NewBody wraps the body of r.
func NewBody(r *http.Request) *Body {
	// net/http responds with 417 to any other Expect, and ignores Expect in HTTP/1.0.
	return &Body{Reader: r.Body, declared: r.ContentLength, withheld: r.ProtoAtLeast(1, 1) && r.Header.Get("Expect") != ""}
}

// Read reads from the body. The first call makes net/http send 100 Continue.
func (b *Body) Read(part []byte) (int, error) {
	b.withheld = false
	n, err := b.Reader.Read(part)
	b.whole = b.whole || errors.Is(err, io.EOF)
	return n, err
}

// Close does nothing, because Discard may still have to read. net/http closes the body itself.
func (b *Body) Close() error { return nil }

// Discard reads and drops the rest of the body after the response was written. Otherwise the
// connection would be reset, and clients that write the whole body before they read would not see
// the response. Discard stops after MaxDiscarded bytes, or at the read deadline. If deadline is
// zero, the current deadline stays. Discard reads nothing if the declared length is above
// MaxDiscarded, or if the client still waits for 100 Continue, because such a client need not send
// the body.
func (b *Body) Discard(w http.ResponseWriter, deadline time.Time) {
	if b.whole {
		return
	}
	if b.withheld {
		deadline = time.Now() // otherwise net/http waits for the rest of the body when it closes the body
	}
	control := http.NewResponseController(w)
	if !deadline.IsZero() && control.SetReadDeadline(deadline) != nil {
		return
	}
	if b.withheld || b.declared > MaxDiscarded || control.Flush() != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, b.Reader, MaxDiscarded) // net/http closes the connection if this fails
}
