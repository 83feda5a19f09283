package egress

import (
	"net"
	"net/netip"
	"testing"

	"github.com/weft-automation/weft/internal/kit/waittest"
)

// specialAddresses has at least one address of every special-purpose range, and of ranges that
// are missing in the registries.
var specialAddresses = []string{
	"0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.255.255.254", "168.63.129.16",
	"169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.0.192", "192.0.2.1", "192.88.99.1", "192.168.1.1",
	"198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "240.0.0.1", "255.255.255.255",
	"::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1", "64:ff9b:1::1", "100::1",
	"2001::1", "2001:db8::1", "2002:7f00:1::1", "3fff::1", "5f00::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fec0::1", "ff02::1",
}

func TestCB11LiteralAddressesAreRefused(t *testing.T) {
	guard := New(Policy{})
	for _, text := range specialAddresses {
		addr := netip.MustParseAddr(text)
		target := netip.AddrPortFrom(addr, 443)
		if err := guard.CheckCallbackURL("https://" + target.String() + "/"); err == nil {
			t.Errorf("%s passes at submit", text)
		}
		if err := guard.checkAddress(target, true); Class(err) != ClassBlocked {
			t.Errorf("%s passes the address check: %v", text, err)
		}
		conn, err := guard.dialPlain(t.Context(), "tcp", target.String())
		if err == nil {
			conn.Close()
		}
		if Class(err) != ClassBlocked {
			t.Errorf("%s was dialled: %v", text, err)
		}
		// The check at the socket, without the earlier check of the address.
		conn, err = connect(waittest.Context(t), []netip.Addr{addr}, 443, func(at netip.AddrPort) error { return guard.checkAddress(at, true) })
		if err == nil {
			conn.Close()
		}
		if Class(err) != ClassBlocked {
			t.Errorf("%s reached the socket: %v", text, err)
		}
	}
	for _, text := range []string{"8.8.8.8", "2606:4700:4700::1111"} {
		target := netip.AddrPortFrom(netip.MustParseAddr(text), 443)
		if err := guard.checkAddress(target, true); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if err := guard.CheckCallbackURL("https://" + target.String() + "/"); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestCB11PortsAndSchemesAreCheckedByTheDial(t *testing.T) {
	guard := New(Policy{Allow: loopback()})
	for _, c := range []struct {
		target string
		secure bool
		ok     bool
	}{
		{"8.8.8.8:443", true, true},
		{"8.8.8.8:8443", true, true},
		{"8.8.8.8:443", false, false},
		{"8.8.8.8:80", true, false},
		{"8.8.8.8:22", true, false},
		{"127.0.0.1:22", false, true},
		{"[::ffff:127.0.0.1]:80", false, true},
		{"10.0.0.1:443", true, false},
	} {
		if err := guard.checkAddress(netip.MustParseAddrPort(c.target), c.secure); (err == nil) != c.ok {
			t.Errorf("%s secure=%v: %v", c.target, c.secure, err)
		}
	}
}

func TestABlockedTargetRevealsNoAddress(t *testing.T) {
	_, err := New(Policy{}).dialPlain(t.Context(), "tcp", net.JoinHostPort("10.1.2.3", "443"))
	if err == nil || err.Error() != "blocked target: "+reasonAddress {
		t.Fatalf("%v", err)
	}
}
