package egress

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/weft-automation/weft/internal/kit/fault"
)

const (
	maxURLLength  = 2048
	maxHostLength = 253
	maxLabel      = 63
)

// CheckCallbackURL checks the form of a callback URL (decisions 5.5). It returns nil, or a
// *fault.Error at /callbackUrl that doesn't contain the URL.
//
// It doesn't resolve names: a submission must not wait for a name server, and a repeated request
// must get the same result, even if its host no longer exists. Addresses are checked at every
// connect.
func (g *Guard) CheckCallbackURL(raw string) error {
	if reason := g.refuseURL(raw); reason != "" {
		return fault.Invalid("/callbackUrl", "callbackUrl: %s", reason)
	}
	return nil
}

// CheckTarget checks the form of a URL that is about to be called, by the rules of
// CheckCallbackURL. The dial checks addresses. CheckTarget returns nil or a *BlockedError.
func (g *Guard) CheckTarget(u *url.URL) error {
	if reason := g.refuse(u); reason != "" {
		return &BlockedError{reason}
	}
	return nil
}

func (g *Guard) refuseURL(raw string) string {
	if raw == "" {
		return "must not be empty"
	}
	if utf8.RuneCountInString(raw) > maxURLLength {
		return "must have at most 2048 characters"
	}
	if !utf8.ValidString(raw) || strings.ContainsFunc(raw, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }) {
		return "must not contain control characters or spaces"
	}
	if strings.Contains(raw, "#") {
		return "must not have a fragment"
	}
	u, err := url.Parse(raw)
	if err != nil {
		return "is not a valid URL"
	}
	return g.refuse(u)
}

// refuse returns the reason why u is not an allowed target, or "". If the policy allows a
// network, any name may resolve to an address in the network, so only the dial can reject plain
// HTTP, a low port or a local name.
func (g *Guard) refuse(u *url.URL) string {
	if u.Scheme != "https" && u.Scheme != "http" {
		return reasonScheme
	}
	if u.User != nil {
		return "must not contain user information"
	}
	host := u.Hostname()
	if host == "" {
		return "must contain a host"
	}
	port, ok := portOf(u)
	if !ok {
		return reasonPort
	}
	if g.opened(host, port) {
		return ""
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		switch reason := refuseName(host); {
		case reason != "":
			return reason
		case len(g.allow) > 0:
			return ""
		case local(host):
			return reasonAddress
		}
		return refusePublic(u.Scheme, port)
	}
	switch {
	case addr.Zone() != "":
		return reasonAddress
	case g.allowed(addr):
		return ""
	case g.public.SafeAddr(addr) != nil:
		return reasonAddress
	}
	return refusePublic(u.Scheme, port)
}

// refusePublic returns why a public host can't be called with this scheme and port, or "".
func refusePublic(scheme string, port uint16) string {
	if scheme != "https" {
		return reasonScheme
	}
	if !allowedPort(port) {
		return reasonPort
	}
	return ""
}

func portOf(u *url.URL) (uint16, bool) {
	text := u.Port()
	if text == "" {
		if u.Scheme == "http" {
			return 80, true
		}
		return 443, true
	}
	port, err := strconv.ParseUint(text, 10, 16)
	return uint16(port), err == nil && port > 0
}

// refuseName checks a host that isn't an address. It rejects names that some resolvers read as a
// number (127.1, 0x7f000001).
func refuseName(host string) string {
	if len(host) > maxHostLength {
		return "the host name is too long"
	}
	if strings.HasSuffix(host, ".") {
		return "the host name must not end with a dot"
	}
	labels := strings.Split(strings.ToLower(host), ".")
	for _, label := range labels {
		if !validLabel(label) {
			return "the host must be a name in ASCII (punycode for others) or an address"
		}
	}
	if numeric(labels[len(labels)-1]) {
		return "the host must be a name or an address in its usual form"
	}
	return ""
}

// local reports whether host is a name that no public host can have.
func local(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return false
	}
	at := strings.LastIndexByte(host, '.')
	return at < 0 || strings.EqualFold(host[at+1:], "localhost")
}

func validLabel(label string) bool {
	if label == "" || len(label) > maxLabel || label[0] == '-' || label[len(label)-1] == '-' {
		return false
	}
	for i := range len(label) {
		c := label[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

func numeric(label string) bool {
	digits := strings.Trim(label, "0123456789") == ""
	hexadecimal := strings.HasPrefix(label, "0x") && strings.Trim(label[2:], "0123456789abcdef") == ""
	return digits || hexadecimal
}
