package egress

import (
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// CodingError means that the body of a response could not be decoded.
type CodingError struct{ reason string }

func (e *CodingError) Error() string { return e.reason }

// acceptCoding asks for gzip, the one coding that decode supports. A request for a range asks for
// no coding, because a part of a compressed body can't be decoded.
func acceptCoding(header http.Header) {
	coding := "gzip"
	if header.Get("Range") != "" {
		coding = "identity"
	}
	header.Set("Accept-Encoding", coding)
}

// decode makes the body of a response return its content without the gzip coding. Reading a body
// with any other coding fails with a *CodingError, unless the body is empty.
func decode(response *http.Response, maxBytes int64) {
	coding := strings.Join(response.Header.Values("Content-Encoding"), ", ")
	switch strings.ToLower(strings.TrimSpace(coding)) {
	case "", "identity":
	case "gzip", "x-gzip":
		response.Header.Del("Content-Encoding")
		response.Header.Del("Content-Length")
		response.ContentLength, response.Uncompressed = -1, true
		response.Body = &unzipped{ReadCloser: response.Body, packed: &capped{response.Body, maxBytes}}
	default:
		response.Body = undecodable{response.Body, coding}
	}
}

// unzipped decodes a gzip body.
type unzipped struct {
	io.ReadCloser
	packed io.Reader
	plain  *gzip.Reader // nil: not read yet
}

func (u *unzipped) Read(p []byte) (n int, err error) {
	if u.plain == nil {
		if u.plain, err = gzip.NewReader(u.packed); err != nil { // io.EOF if the body is empty
			u.plain = nil
			return 0, broken(err)
		}
	}
	n, err = u.plain.Read(p)
	return n, broken(err)
}

// broken converts the errors of package gzip, and returns other errors unchanged.
func broken(err error) error {
	_, corrupt := errors.AsType[flate.CorruptInputError](err)
	if corrupt || errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) {
		return &CodingError{"the body is not valid gzip, although its Content-Encoding is gzip"}
	}
	return err
}

// capped limits the size of a compressed body, which may have any size even if its content is empty.
type capped struct {
	io.Reader
	left int64
}

func (c *capped) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if c.left -= int64(n); c.left < 0 {
		return n, ErrTooLarge
	}
	return n, err
}

// undecodable is a body with an unsupported coding.
type undecodable struct {
	io.ReadCloser
	coding string
}

func (u undecodable) Read(p []byte) (int, error) {
	n, err := u.ReadCloser.Read(p)
	if n > 0 {
		return 0, &CodingError{fmt.Sprintf("its Content-Encoding %.60q is not supported, and the request accepts only gzip", u.coding)}
	}
	return 0, err
}
