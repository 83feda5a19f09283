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

// maxBody is the largest request body in bytes (decisions 1.1).
const maxBody = 1 << 20

// ambiguous reports whether a proxy may disagree about the length of r (RFC 9112, 6.1 and 6.3).
// Such requests have both Content-Length and Transfer-Encoding, or are HTTP/1.0 with
// Transfer-Encoding. net/http hides these headers, so ambiguous returns true for every request
// with a transfer coding and every HTTP/1.0 request.
func ambiguous(r *http.Request) bool { return len(r.TransferEncoding) > 0 || !r.ProtoAtLeast(1, 1) }

// boundBody sets the read deadline of the body, which applies whether the body is read or discarded
// after the response. Until the body has arrived, the connection may be evicted.
func (f *front) boundBody(w http.ResponseWriter, r *http.Request) {
	if r.Body != nil && r.Body != http.NoBody {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(f.timeouts.body)) // only test recorders don't support it
		waitsForBody(r.Context(), true)
		body := protocol.NewBody(r)
		callOf(r.Context()).body, r.Body = body, body
	}
}

// readBody reads and returns the whole body, within the deadline that boundBody set. The buffer
// grows as bytes arrive, regardless of the declared length, and is counted in the hold of the
// request. readBody returns PAYLOAD_TOO_LARGE if the body is larger than maxBody, and UNAVAILABLE
// if the hold can't grow.
func (f *front) readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	if r.ContentLength > maxBody {
		return nil, tooLarge()
	}
	body, err := receive(r.Body, r.ContentLength, callOf(r.Context()).hold)
	if err != nil {
		return nil, err
	}
	waitsForBody(r.Context(), false)
	// If the deadline stayed, it would cancel the request while its handler runs.
	if err := http.NewResponseController(w).SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, err
	}
	return body, nil
}

// smallBody is the largest initial size of the buffer for a body.
const smallBody = 4 << 10

// receive reads a body into a buffer that doubles when it is full. It counts the buffer in
// reservation. declared is the declared length, or -1.
func receive(from io.Reader, declared int64, reservation *hold) ([]byte, error) {
	size := smallBody
	if declared >= 0 {
		size = int(min(declared+1, smallBody)) // one more byte, to read the end without a larger buffer
	}
	body := make([]byte, 0, size)
	for {
		n, err := from.Read(body[len(body):cap(body)])
		switch body = body[:len(body)+n]; {
		case len(body) > maxBody:
			return nil, tooLarge()
		case errors.Is(err, io.EOF):
			return body, nil
		case err != nil:
			refusal := fault.Invalid("", "the body ended early or took too long to arrive. Send the request again")
			refusal.Header, refusal.Err = map[string]string{"Connection": "close"}, err
			return nil, refusal
		case len(body) < cap(body):
			continue
		}
		larger := 2 * cap(body)
		if larger >= maxBody {
			larger = maxBody + 1 // one more byte, to detect a body that is too large
		}
		if larger > uncounted {
			if err := reservation.grow(int64(larger) - reservation.bytes); err != nil {
				return nil, err
			}
		}
		body = append(make([]byte, 0, larger), body...)
	}
}

// tooLarge returns PAYLOAD_TOO_LARGE. Its header closes the connection, because the rest of the
// body is discarded only up to a limit.
func tooLarge() error {
	return &fault.Error{
		Code: fault.PayloadTooLarge, Message: "The body is larger than 1 MiB.",
		Header: map[string]string{"Connection": "close"},
	}
}

// setBody replaces the body of r with the validated one.
func setBody(r *http.Request, body []byte) {
	if len(body) == 0 {
		r.Body, r.ContentLength = http.NoBody, 0
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.ContentLength = int64(len(body))
}
