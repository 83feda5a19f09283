package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/weft-automation/weft/internal/fault"
)

const (
	maxURLLength  = 2048
	maxHostLength = 253
	maxLabel      = 63
	lookUpTimeout = 2 * time.Second // while somebody waits for an answer
)

// CheckCallbackURL checks the form of a callback URL (decisions 5.5). A name is
// resolved only if nothing but an opened network makes its URL an allowed one; where
// it leads is judged anew at every connect. Returns nil or a *fault.Error at
// /callbackUrl that does not show the URL.
func (g *Guard) CheckCallbackURL(ctx context.Context, raw string) error {
	if reason := g.refuseURL(ctx, raw); reason != "" {
		return fault.Invalid("/callbackUrl", "callbackUrl: %s", reason)
	}
	return nil
}

// CheckTarget checks the form of a URL that is about to be called, by the same
// rules; where a name leads is left to the dial. Returns nil or a *BlockedError.
func (g *Guard) CheckTarget(u *url.URL) error {
	if reason, unlessInside := g.refuse(u); reason != "" && !unlessInside {
		return &BlockedError{reason}
	}
	return nil
}

func (g *Guard) refuseURL(ctx context.Context, raw string) string {
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
	reason, unlessInside := g.refuse(u)
	switch {
	case !unlessInside:
		return reason
	case g.leadsInside(ctx, u.Hostname()):
		return ""
	}
	return reason + ", but for a host whose addresses are all in a network that was opened"
}

// leadsInside reports whether a name has addresses in opened networks and no others. Where
// nobody can tell for now it may: what was taken once is to be taken when it is sent again.
func (g *Guard) leadsInside(ctx context.Context, host string) bool {
	ctx, cancel := context.WithTimeout(ctx, lookUpTimeout)
	defer cancel()
	addrs, err := g.resolve(ctx, host)
	if failure, ok := errors.AsType[*net.DNSError](err); ok && !failure.IsNotFound {
		return true
	}
	return err == nil && len(addrs) > 0 && !slices.ContainsFunc(addrs, func(addr netip.Addr) bool { return !g.allowed(addr) })
}

// refuse gives the reason why u is no allowed target, or "". unlessInside says that the
// reason falls away if its name leads into an opened network.
func (g *Guard) refuse(u *url.URL) (reason string, unlessInside bool) {
	if u.Scheme != "https" && u.Scheme != "http" {
		return reasonScheme, false
	}
	if u.User != nil {
		return "must not contain user information", false
	}
	host := u.Hostname()
	if host == "" {
		return "must name a host", false
	}
	port, ok := portOf(u)
	if !ok {
		return reasonPort, false
	}
	if g.opened(host, port) {
		return "", false
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		if reason := refuseName(host); reason != "" {
			return reason, false
		}
		reason := refusePublic(u.Scheme, port)
		if local(host) {
			reason = reasonAddress
		}
		return reason, reason != "" && len(g.allow) > 0
	}
	switch {
	case addr.Zone() != "":
		return reasonAddress, false
	case g.allowed(addr):
		return "", false
	case g.public.SafeAddr(addr) != nil:
		return reasonAddress, false
	}
	return refusePublic(u.Scheme, port), false
}

// refusePublic gives the reason why no public host may be called so, or "".
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

// refuseName checks a host that is not an address. A name that some resolver
// would read as a number (127.1, 0x7f000001) is refused, not interpreted.
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

// local reports whether a name is never that of a public host.
func local(host string) bool {
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
