package egress

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"syscall"
	"time"
)

func (g *Guard) dialPlain(ctx context.Context, _, address string) (net.Conn, error) {
	conn, err := g.dial(ctx, address, false)
	if err != nil {
		return nil, err
	}
	return observe(conn, false), nil
}

func (g *Guard) dialTLS(ctx context.Context, _, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("split address: %w", err)
	}
	conn, err := g.dial(ctx, address, true)
	if err != nil {
		return nil, err
	}
	config := g.tls.Clone()
	config.ServerName = host
	demanded := false
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		demanded = true
		return &tls.Certificate{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	secured := tls.Client(conn, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, &handshakeError{err: err, demanded: demanded}
	}
	return observe(secured, demanded), nil
}

// dial resolves the name once, rejects the target if any of its addresses isn't allowed, and
// connects to the addresses in order. The dialer checks each address again at the socket, so
// security doesn't depend on dial alone.
func (g *Guard) dial(ctx context.Context, address string, secure bool) (net.Conn, error) {
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("split address: %w", err)
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return nil, &BlockedError{reasonPort}
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	addrs, err := g.resolve(ctx, host)
	if err != nil {
		return nil, err
	}
	check := func(target netip.AddrPort) error { return g.checkAddress(target, secure) }
	switch {
	case g.opened(host, uint16(port)):
		check = func(netip.AddrPort) error { return nil }
	case local(host):
		check = g.checkInside
	}
	refused, err := g.ownAddresses(ctx, uint16(port))
	if err != nil {
		return nil, err
	}
	checkAll := func(target netip.AddrPort) error {
		if refused(target.Addr()) {
			return &BlockedError{reasonOwn}
		}
		return check(target)
	}
	for _, addr := range addrs {
		if err := checkAll(netip.AddrPortFrom(addr, uint16(port))); err != nil {
			return nil, err
		}
	}
	return connect(ctx, addrs, uint16(port), checkAll)
}

// resolve returns the addresses of host. It unmaps IPv4-mapped addresses, because the system
// would dial the IPv4 address.
func (g *Guard) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{addr.Unmap()}, nil
	}
	addrs, err := g.resolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	for i := range addrs {
		addrs[i] = addrs[i].Unmap()
	}
	return addrs, nil
}

// connect tries the addresses one after the other. Each address gets an equal share of the
// remaining time, so that an unreachable address doesn't use up the time of the next.
func connect(ctx context.Context, addrs []netip.Addr, port uint16, check func(netip.AddrPort) error) (net.Conn, error) {
	dialer := net.Dialer{
		KeepAlive: 30 * time.Second,
		Control: func(_, address string, _ syscall.RawConn) error {
			target, err := netip.ParseAddrPort(address)
			if err != nil {
				return &BlockedError{reasonAddress}
			}
			return check(target)
		},
	}
	deadline, _ := ctx.Deadline()
	var first error
	for i, addr := range addrs {
		share := time.Until(deadline) / time.Duration(len(addrs)-i)
		conn, err := connectOne(ctx, &dialer, netip.AddrPortFrom(addr, port), share)
		if err == nil {
			return conn, nil
		}
		if first == nil {
			first = err
		}
	}
	if first == nil {
		first = &net.DNSError{Err: "no addresses", IsNotFound: true}
	}
	return nil, first
}

func connectOne(ctx context.Context, dialer *net.Dialer, target netip.AddrPort, limit time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return dialer.DialContext(ctx, "tcp", target.String())
}
