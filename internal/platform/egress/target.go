package egress

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// encodeTarget percent-encodes the bytes of a path and a query that RFC 3986 does not allow there.
// Package net/url accepts such bytes in a query and writes them as they are, which breaks the
// request line. Escapes stay unchanged, because a server may distinguish %2F from a slash.
func encodeTarget(u *url.URL) {
	u.RawQuery = encoded(u.RawQuery, "/?")
	if u.RawPath != "" { // otherwise net/url encodes the path
		u.RawPath = encoded(u.RawPath, "/")
	}
}

// redirects reports whether net/http follows a response.
func redirects(response *http.Response) bool {
	switch response.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return response.Header.Get("Location") != ""
	}
	return false
}

// errLocation means that the target of a redirect isn't a URL.
var errLocation = errors.New("the Location of a redirect is not a URL")

// encodeLocation encodes the target of a redirect before net/http resolves it, because resolving
// decodes the escapes of a path that needs encoding. It returns errLocation if the target isn't a URL.
func encodeLocation(response *http.Response) error {
	target, err := url.Parse(response.Header.Get("Location"))
	if err != nil {
		return errLocation
	}
	encodeTarget(target)
	response.Header.Set("Location", target.String())
	return nil
}

// encoded returns the text with its escapes and allowed characters unchanged: those of pchar (RFC
// 3986, appendix A) and the others given.
func encoded(text, others string) string {
	var out strings.Builder
	for i := range len(text) {
		switch c := text[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("-._~!$&'()*+,;=:@"+others, c) >= 0:
			out.WriteByte(c)
		case c == '%' && i+2 < len(text) && hexadecimal(text[i+1]) && hexadecimal(text[i+2]):
			out.WriteByte(c)
		default:
			fmt.Fprintf(&out, "%%%02X", c)
		}
	}
	return out.String()
}

func hexadecimal(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}
