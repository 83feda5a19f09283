// Package protocol implements the rules of HTTP that net/http leaves to a server: it validates a
// request's target, headers and body, and maps each error to its status.
//
// It also negotiates content, compresses shared responses and sends responses of unlimited length.
// It knows no operation, key or workspace. The one invariant: the router, the binder and the
// database read whatever it lets through in one way only.
package protocol

import (
	"net/http"
	"strings"

	"github.com/weft-automation/weft/internal/kit/fault"
)

const (
	maxTarget  = 8 << 10
	maxHeaders = 100 // values

	// ReasonHeaders marks the one PAYLOAD_TOO_LARGE that is about headers: 431.
	ReasonHeaders = "too_many_headers"
)

// Target lets canonical targets pass and nothing else (decisions 1.8): the
// bytes that were signed are then the very ones that the router matches, and it
// never has a reason to clean, decode or redirect.
func Target(r *http.Request) error {
	if len(r.RequestURI) > maxTarget {
		return fault.New(fault.URITooLong, "The target of the request is longer than %d bytes.", maxTarget)
	}
	if !canonical(r.RequestURI) {
		return fault.New(fault.NotFound, "There is nothing at this path.")
	}
	count := 0
	for _, values := range r.Header {
		count += len(values)
	}
	if count > maxHeaders {
		return &fault.Error{
			Code: fault.PayloadTooLarge, Reason: ReasonHeaders,
			Message: "The request has too many header fields.",
		}
	}
	return nil
}

// canonical reports whether a request target is in origin form, its path is
// made of plain segments, and its query is well formed. No path of ours needs
// an escape; in a query they are legal and signed as they are.
func canonical(target string) bool {
	path, query, questioned := strings.Cut(target, "?")
	if len(path) == 0 || path[0] != '/' || (questioned && query == "") {
		return false
	}
	if path != "/" {
		for segment := range strings.SplitSeq(path[1:], "/") {
			if segment == "" || segment == "." || segment == ".." || strings.ContainsFunc(segment, notPath) {
				return false
			}
		}
	}
	for i := 0; i < len(query); i++ {
		switch c := query[i]; {
		case c == '%':
			if i+2 >= len(query) || !hexDigit(query[i+1]) || !hexDigit(query[i+2]) {
				return false
			}
			i += 2
		case notQuery(c):
			return false
		}
	}
	return true
}

func notPath(r rune) bool {
	return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-._~", r))
}

// notQuery reports a byte that RFC 3986 does not allow in a query. A semicolon
// is allowed there, but Go's parser drops what holds one.
func notQuery(c byte) bool {
	return c <= ' ' || c >= 0x7f || strings.IndexByte("\"#;<>[\\]^`{|}", c) >= 0
}

func hexDigit(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}
