package egress

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/platform/egress/egresstest"
)

func TestOwnListenersAreRefusedWhateverThePolicyAllows(t *testing.T) {
	port := egresstest.NewSilent(t).Port() // on 127.0.0.1
	names := map[string][]netip.Addr{
		"database.example": addresses("127.0.0.1"), "inside.example": addresses("127.0.0.1"), "other.example": addresses(second),
	}
	resolver := egresstest.Resolver(t, func(name string) []netip.Addr { return names[name] })
	machine, err := interfaces()
	if err != nil || len(machine) == 0 {
		t.Fatalf("the machine has the addresses %v (%v)", machine, err)
	}
	for _, c := range []struct {
		own   string
		host  string
		wants string
	}{
		{"127.0.0.1:" + port, "127.0.0.1", reasonOwn},
		{"127.0.0.1:" + port, "inside.example", reasonOwn},
		{"127.0.0.1:" + port, "::ffff:127.0.0.1", reasonOwn},
		{"127.0.0.1:" + port, "0.0.0.0", reasonOwn},
		{"127.0.0.1:" + port, "::", reasonOwn},
		{"127.0.0.1:" + port, "opened.example", reasonOwn},
		{"127.0.0.1:" + port, second, ""},
		{"127.0.0.1:1", "127.0.0.1", ""},
		{"[::]:" + port, "127.0.0.1", reasonOwn},
		{"[::]:" + port, second, reasonOwn},
		{"0.0.0.0:" + port, "other.example", reasonOwn},
		{"0.0.0.0:" + port, machine[len(machine)-1].String(), reasonOwn},
		{":" + port, "127.0.0.1", reasonOwn},
		{"[::]:" + port, "192.0.2.1", ""},
		{"database.example:" + port, "127.0.0.1", reasonOwn},
		{"Database.Example:" + port, "database.example", reasonOwn},
		{"database.example:" + port, second, ""},
		{"gone.example:" + port, "127.0.0.1", "no such host"}, // any address could be the database's
		{"/run/postgresql/.s.PGSQL.5432", "127.0.0.1", ""},
	} {
		names["opened.example"] = addresses("127.0.0.1")
		guard := New(Policy{Allow: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}, AllowHosts: []string{"opened.example"}, Resolver: resolver})
		guard.Refuse(c.own)
		if c.wants == "" { // is allowed, but not dialled: most of these addresses don't answer
			addr, _ := guard.resolve(t.Context(), c.host)
			number, _ := net.LookupPort("tcp", port)
			refused, err := guard.ownAddresses(t.Context(), uint16(number))
			if err != nil || len(addr) != 1 || refused(addr[0]) {
				t.Errorf("with %s, %s is refused (%v)", c.own, c.host, err)
			}
			continue
		}
		conn, err := guard.dial(waittest.Context(t), net.JoinHostPort(c.host, port), false)
		if err == nil {
			conn.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.wants) {
			t.Errorf("with %s, the dial of %s returned %v, want %q", c.own, c.host, err, c.wants)
		}
	}
}
