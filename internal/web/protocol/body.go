package protocol

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// MaxDiscarded is the most that Discard reads of a body.
const MaxDiscarded = 8 << 20

// Body is the body of a request that may be answered before the body was read whole.
type Body struct {
	io.Reader
	declared int64 // as in http.Request.ContentLength
	withheld bool  // the client waits for the 100 that the first Read sends
	whole    bool  // nothing is left
}

// NewBody returns the body of r, which net/http received.
func NewBody(r *http.Request) *Body {
	// net/http answers 417 to any other Expect, and ignores that of HTTP/1.0.
	return &Body{Reader: r.Body, declared: r.ContentLength, withheld: r.ProtoAtLeast(1, 1) && r.Header.Get("Expect") != ""}
}

// Read reads the body.
func (b *Body) Read(part []byte) (int, error) {
	b.withheld = false
	n, err := b.Reader.Read(part)
	b.whole = b.whole || errors.Is(err, io.EOF)
	return n, err
}

// Close does nothing, because Discard may still have to read. net/http closes the body itself.
func (b *Body) Close() error { return nil }

// Discard reads and drops the rest of the body after the answer was written. Otherwise the
// connection would be reset under clients that write the whole body before they read, and they
// would not see the answer. It stops after MaxDiscarded bytes, and at the read deadline by. A
// zero deadline leaves the present one in place. Discard reads nothing if the declared length
// is above MaxDiscarded, or if the client got no 100 and so need not send the body.
func (b *Body) Discard(w http.ResponseWriter, by time.Time) {
	if b.whole {
		return
	}
	if b.withheld {
		by = time.Now() // otherwise net/http waits for the body when it closes it
	}
	control := http.NewResponseController(w)
	if !by.IsZero() && control.SetReadDeadline(by) != nil {
		return
	}
	if b.withheld || b.declared > MaxDiscarded || control.Flush() != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, b.Reader, MaxDiscarded) // net/http closes the connection if this fails
}
