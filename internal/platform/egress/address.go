package egress

import (
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// BlockedError means that the guard rejected a target. Reason is for the caller. It contains no
// address, so that callers can't learn how names resolve internally.
type BlockedError struct{ Reason string }

func (e *BlockedError) Error() string { return "blocked target: " + e.Reason }

const (
	reasonAddress = "the host must have public addresses only, unless this Weft was started with --allow-network for its network"
	reasonScheme  = "the scheme must be https"
	reasonPort    = "the port must be 443 or between 1024 and 65535"
)

// opened reports whether the policy names this host, or this host and port.
func (g *Guard) opened(host string, port uint16) bool {
	if len(g.hosts) == 0 {
		return false
	}
	host = strings.ToLower(host)
	if _, ok := g.hosts[host]; ok {
		return true
	}
	_, ok := g.hosts[net.JoinHostPort(host, strconv.Itoa(int(port)))]
	return ok
}

// allowed reports whether addr is in a network that the policy allows.
func (g *Guard) allowed(addr netip.Addr) bool {
	addr = addr.Unmap()
	for _, prefix := range g.allow {
		if prefix.Contains(addr) {
			return true
		}
	}
	return false
}

// checkAddress checks an address before it is dialled.
func (g *Guard) checkAddress(target netip.AddrPort, secure bool) error {
	if g.allowed(target.Addr()) {
		return nil
	}
	if g.public.SafeAddr(target.Addr()) != nil {
		return &BlockedError{reasonAddress}
	}
	if !secure {
		return &BlockedError{reasonScheme}
	}
	if !allowedPort(target.Port()) {
		return &BlockedError{reasonPort}
	}
	return nil
}

// checkInside checks an address of a name that no public host can have.
func (g *Guard) checkInside(target netip.AddrPort) error {
	if g.allowed(target.Addr()) {
		return nil
	}
	return &BlockedError{reasonAddress}
}

func allowedPort(port uint16) bool { return port == 443 || port >= 1024 }
