package server

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/web/protocol"
)

// maxBody is the most that a request may carry (decisions 1.1).
const maxBody = 1 << 20

// ambiguous reports whether another reader may understand the length of r in another way
// (RFC 9112, 6.1 and 6.3): a request with Content-Length and Transfer-Encoding, and one of
// HTTP/1.0 with Transfer-Encoding. net/http hides these headers, so it is any request with a
// coding and any of HTTP/1.0.
func ambiguous(r *http.Request) bool { return len(r.TransferEncoding) > 0 || !r.ProtoAtLeast(1, 1) }

// boundBody sets the time by which the body must have arrived, whether it is read here or
// discarded after the answer. Until then the connection can make room for others.
func (f *front) boundBody(w http.ResponseWriter, r *http.Request) {
	if r.Body != nil && r.Body != http.NoBody {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(f.timeouts.body)) // unsupported only by test recorders
		waitsForBody(r.Context(), true)
		body := protocol.NewBody(r)
		callOf(r.Context()).body, r.Body = body, body
	}
}

// readBody reads the whole body, which must arrive before the read deadline that ServeHTTP
// set. The buffer grows with the bytes that arrive, whatever length is declared, and is
// counted in the hold of the request. It returns PAYLOAD_TOO_LARGE before it reads more than
// maxBody, and UNAVAILABLE if the hold cannot grow.
func (f *front) readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	if r.ContentLength > maxBody {
		return nil, tooLarge()
	}
	body, err := receive(r.Body, callOf(r.Context()).hold)
	if err != nil {
		return nil, err
	}
	waitsForBody(r.Context(), false)
	// Left in place, the deadline would end the request while it is worked on.
	if err := http.NewResponseController(w).SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, err
	}
	return body, nil
}

// smallBody is the first size of the buffer for a body.
const smallBody = 4 << 10

// receive reads a body into a buffer that doubles when it is full.
func receive(from io.Reader, hold *hold) ([]byte, error) {
	body := make([]byte, 0, smallBody)
	for {
		n, err := from.Read(body[len(body):cap(body)])
		switch body = body[:len(body)+n]; {
		case len(body) > maxBody:
			return nil, tooLarge()
		case errors.Is(err, io.EOF):
			return body, nil
		case err != nil:
			refusal := fault.Invalid("", "the body did not arrive whole")
			refusal.Header, refusal.Err = map[string]string{"Connection": "close"}, err
			return nil, refusal
		case len(body) < cap(body):
			continue
		}
		larger := 2 * cap(body)
		if larger >= maxBody {
			larger = maxBody + 1 // to see a byte too many
		}
		if larger > uncounted {
			if err := hold.grow(int64(larger) - hold.bytes); err != nil {
				return nil, err
			}
		}
		body = append(make([]byte, 0, larger), body...)
	}
}

// tooLarge closes the connection: the rest of the body is discarded, up to a limit.
func tooLarge() error {
	return &fault.Error{
		Code: fault.PayloadTooLarge, Message: "The body is larger than 1 MiB.",
		Header: map[string]string{"Connection": "close"},
	}
}

// setBody puts the checked body in the place of the received one.
func setBody(r *http.Request, body []byte) {
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.ContentLength = int64(len(body))
}
