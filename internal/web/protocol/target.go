// Package protocol implements the rules of HTTP that net/http leaves to a server: it validates a
// request's target, headers and body, and maps each error to its status.
//
// It also negotiates content, compresses shared responses and sends responses of unlimited length.
// It does not depend on operations, keys or workspaces. Invariant: A request that passes these
// checks has only one reading, so the router, the binder and the database can't interpret it
// differently.
package protocol

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/weft-automation/weft/internal/kit/fault"
)

const (
	maxTarget  = 8 << 10
	maxHeaders = 100 // values

	// ReasonHeaders is the reason of a PAYLOAD_TOO_LARGE that is caused by headers. Its status is
	// 431.
	ReasonHeaders = "too_many_headers"
)

// Target checks the target and the number of headers of a request. It returns URI_TOO_LONG,
// NOT_FOUND if the target isn't canonical (decisions 1.8), or PAYLOAD_TOO_LARGE. It replaces a target
// in absolute form by its origin form. If Target returns nil, the router matches exactly the bytes that
// were signed, because nothing in the target needs cleaning, decoding or a redirect.
func Target(r *http.Request) error {
	if len(r.RequestURI) > maxTarget {
		return fault.New(fault.URITooLong, "The request target is longer than %d bytes. Shorten the path or the query.", maxTarget)
	}
	toOrigin(r)
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
			Message: "The request has more than 100 header values. Send fewer headers.",
		}
	}
	return nil
}

// toOrigin replaces a target in absolute form (RFC 9112, section 3.2.2) by its origin form: what follows
// the host, which net/http returns as r.Host instead of the Host header. It leaves any other target as it is,
// and an absolute one whose host has a user name or is missing.
func toOrigin(r *http.Request) {
	scheme, rest, ok := strings.Cut(r.RequestURI, "://")
	if !ok || !strings.EqualFold(scheme, "http") && !strings.EqualFold(scheme, "https") || r.Method == http.MethodConnect {
		return
	}
	origin := strings.TrimLeftFunc(rest, func(c rune) bool { return c != '/' && c != '?' })
	host := strings.TrimSuffix(rest, origin)
	if r.URL.Host != host || r.URL.Hostname() == "" || r.URL.User != nil {
		return
	}
	if !strings.HasPrefix(origin, "/") {
		origin = "/" + origin // an empty path
	}
	if target, err := url.ParseRequestURI(origin); err == nil {
		r.RequestURI, r.URL, r.Host = origin, target, host
	}
}

// canonical reports whether a request target is in origin form, its path consists of plain
// segments, and its query is well formed. Escapes are allowed only in the query, because no
// path of the API needs one. They are signed as sent. The path /docs/ counts as canonical, because
// people type it.
func canonical(target string) bool {
	path, query, questioned := strings.Cut(target, "?")
	if len(path) == 0 || path[0] != '/' || (questioned && query == "") {
		return false
	}
	if path != "/" && path != "/docs/" {
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

// notQuery reports whether c is not allowed in a query. That includes the semicolon, which RFC
// 3986 allows, because Go's parser drops parameters that contain one.
func notQuery(c byte) bool {
	return c <= ' ' || c >= 0x7f || strings.IndexByte("\"#;<>[\\]^`{|}", c) >= 0
}

func hexDigit(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}
