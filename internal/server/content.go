package server

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/weft-automation/weft/internal/fault"
)

// maxBody is the most that a request may carry (decisions 1.1).
const maxBody = 1 << 20

// readBody reads the whole body, which must arrive in time: a request that is
// larger is refused before more than the limit is read.
func (f *front) readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	if r.ContentLength > maxBody {
		return nil, tooLarge()
	}
	control := http.NewResponseController(w)
	if err := control.SetReadDeadline(time.Now().Add(f.timeouts.body)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, err
	}
	var body bytes.Buffer
	if r.ContentLength > 0 {
		body.Grow(int(r.ContentLength) + bytes.MinRead)
	}
	n, err := io.Copy(&body, io.LimitReader(r.Body, maxBody+1))
	if n > maxBody {
		return nil, tooLarge()
	}
	if err != nil {
		refusal := fault.Invalid("", "the body did not arrive whole")
		refusal.Header, refusal.Err = map[string]string{"Connection": "close"}, err
		return nil, refusal
	}
	// Left in place, the deadline would end the request while it is worked on.
	if err := control.SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, err
	}
	return body.Bytes(), nil
}

// tooLarge closes the connection: what else of the body is under way is not
// read.
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
