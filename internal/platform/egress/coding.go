package egress

import (
	"compress/flate"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"strings"
)

// CodingError means that the body of a response could not be decoded.
type CodingError struct{ reason string }

func (e *CodingError) Error() string { return "the response " + Words(e.reason) }

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
// with any other coding fails with a *CodingError, unless the body is empty. A body that can't be decoded
// is read to its end before it fails, which shows whether the response was complete.
func decode(response *http.Response, maxBytes int64) {
	coding := strings.Join(response.Header.Values("Content-Encoding"), ", ")
	switch strings.ToLower(strings.TrimSpace(coding)) {
	case "", "identity":
	case "gzip", "x-gzip":
		response.Header.Del("Content-Encoding")
		response.Header.Del("Content-Length")
		response.ContentLength, response.Uncompressed = -1, true
		response.Body = &unzipped{ReadCloser: response.Body, packed: &capped{Reader: response.Body, left: maxBytes}}
	default:
		response.Body = undecodable{response.Body, maxBytes}
	}
}

// unzipped decodes a gzip body.
type unzipped struct {
	io.ReadCloser
	packed *capped
	plain  *gzip.Reader // nil: not read yet
}

func (u *unzipped) Read(p []byte) (n int, err error) {
	if u.plain == nil {
		if u.plain, err = gzip.NewReader(u.packed); err != nil { // io.EOF if the body is empty
			u.plain = nil
			return 0, u.broken(err)
		}
	}
	n, err = u.plain.Read(p)
	return n, u.broken(err)
}

// broken converts the errors of package gzip, and returns other errors unchanged.
func (u *unzipped) broken(err error) error {
	_, corrupt := errors.AsType[flate.CorruptInputError](err)
	if corrupt || errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) || err == io.ErrUnexpectedEOF && u.packed.ended {
		return rest(u.packed, &CodingError{ReasonGzip})
	}
	return err
}

// rest reads the rest of a body that can't be decoded. It returns the error of a body that has no
// end, or otherwise the other error.
func rest(body io.Reader, coding *CodingError) error {
	if _, err := io.Copy(io.Discard, body); err != nil && !errors.Is(err, ErrTooLarge) {
		return err
	}
	return coding
}

// capped limits the size of a compressed body, which may have any size even if its content is empty.
type capped struct {
	io.Reader
	left  int64
	ended bool // the body was read to its end
}

func (c *capped) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if c.left -= int64(n); c.left < 0 {
		return n, ErrTooLarge
	}
	c.ended = err == io.EOF
	return n, err
}

// undecodable is a body with an unsupported coding.
type undecodable struct {
	io.ReadCloser
	maxBytes int64
}

func (u undecodable) Read(p []byte) (int, error) {
	n, err := u.ReadCloser.Read(p)
	if n == 0 || err != nil && err != io.EOF {
		return 0, err
	}
	return 0, rest(&capped{Reader: u.ReadCloser, left: u.maxBytes - int64(n)}, &CodingError{ReasonContentCoding})
}
