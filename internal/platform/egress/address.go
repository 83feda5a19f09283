package egress

import (
	"context"
	"net"
	"net/netip"
	"slices"
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

const reasonOwn = "the address belongs to Weft itself"

// own is a listener of Weft itself, or a server that it depends on. Components and callbacks never
// reach it, whatever the policy allows: a component could otherwise sign its calls through a local
// proxy, or connect to the database.
type own struct {
	host string // name or address; an unspecified address means every address of this machine
	port uint16
}

// Refuse makes the guard reject an address, as "host:port", from now on. It ignores an address of
// another form, such as the path of a Unix socket.
func (g *Guard) Refuse(address string) {
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		return
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return
	}
	g.ownMutex.Lock()
	defer g.ownMutex.Unlock()
	if host == "" { // a listener without a host listens on every address
		host = "::"
	}
	g.own = append(slices.Clip(g.own), own{strings.ToLower(host), uint16(port)})
}

// ownAt returns the refused servers that listen on the port.
func (g *Guard) ownAt(port uint16) (all []own) {
	g.ownMutex.Lock()
	defer g.ownMutex.Unlock()
	for _, one := range g.own {
		if one.port == port {
			all = append(all, one)
		}
	}
	return all
}

// ownAddresses returns a function that reports whether an address, with this port, is refused. It
// resolves the names of refused servers, so that it follows a failover of the database. It returns
// an error if a name cannot be resolved: then any address could be refused.
func (g *Guard) ownAddresses(ctx context.Context, port uint16) (refused func(netip.Addr) bool, err error) {
	var addrs []netip.Addr
	for _, one := range g.ownAt(port) {
		found, err := g.resolve(ctx, one.host)
		if err != nil {
			return nil, err
		}
		addrs = append(addrs, found...)
	}
	if len(addrs) == 0 {
		return func(netip.Addr) bool { return false }, nil
	}
	var machine []netip.Addr
	if slices.ContainsFunc(addrs, netip.Addr.IsUnspecified) {
		if machine, err = interfaces(); err != nil {
			return nil, err
		}
	}
	everywhere := machine != nil
	return func(addr netip.Addr) bool {
		addr = addr.Unmap().WithZone("")
		// The system connects an unspecified address to this machine.
		return slices.Contains(addrs, addr) || addr.IsUnspecified() || everywhere && (addr.IsLoopback() || slices.Contains(machine, addr))
	}, nil
}

// interfaces returns the addresses of this machine.
func interfaces() ([]netip.Addr, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	addrs := []netip.Addr{}
	for _, one := range all {
		if prefix, err := netip.ParsePrefix(one.String()); err == nil {
			addrs = append(addrs, prefix.Addr().Unmap().WithZone(""))
		}
	}
	return addrs, nil
}
