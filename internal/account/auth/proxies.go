package auth

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Proxies are the networks of trusted proxies, whose X-Forwarded-For is used.
type Proxies []netip.Prefix

// Client returns the address of the client whose request came from remote
// (http.Request.RemoteAddr). Each trusted proxy appended the address of its peer to the
// header, so Client reads the header from the end: the first address that isn't a trusted proxy
// is the client. Earlier addresses are unverified claims of the client.
func (p Proxies) Client(remote string, header http.Header) netip.Addr {
	var client netip.Addr
	if at, err := netip.ParseAddrPort(remote); err == nil {
		client = at.Addr().Unmap()
	}
	if !p.Trusts(client) {
		return client
	}
	hops := strings.Split(strings.Join(header.Values("X-Forwarded-For"), ","), ",")
	for _, hop := range slices.Backward(hops) {
		address, err := netip.ParseAddr(strings.TrimSpace(hop))
		if err != nil {
			return client
		}
		if client = address.Unmap(); !p.Trusts(client) {
			return client
		}
	}
	return client
}

// Secure reports whether the client uses https, either to this process or to the
// trusted proxy in front of it.
func (p Proxies) Secure(r *http.Request) bool {
	if r.TLS != nil {
		return true
	}
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !p.Trusts(at.Addr().Unmap()) {
		return false
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-Proto"), ","), ",")
	return strings.EqualFold(strings.TrimSpace(hops[len(hops)-1]), "https")
}

// Origin returns the origin of the service as the client calls it.
func (p Proxies) Origin(r *http.Request) string {
	if p.Secure(r) {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// Trusts reports whether client is one of the proxies.
func (p Proxies) Trusts(client netip.Addr) bool {
	return slices.ContainsFunc(p, func(network netip.Prefix) bool { return network.Contains(client) })
}
