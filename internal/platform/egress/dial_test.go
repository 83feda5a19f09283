package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/platform/egress/egresstest"
)

func addresses(texts ...string) []netip.Addr {
	var addrs []netip.Addr
	for _, text := range texts {
		addrs = append(addrs, netip.MustParseAddr(text))
	}
	return addrs
}

// second is a loopback address that represents a public address: 127.0.0.2 is allowed, 127.0.0.1
// isn't.
const second = "127.0.0.2"

func TestCB12NamesThatResolveToInternalAddressesAreBlocked(t *testing.T) {
	silent := egresstest.NewSilent(t)
	names := map[string][]netip.Addr{
		"loopback.test":   addresses("127.0.0.1"),
		"metadata.test":   addresses("169.254.169.254"),
		"loopback6.test":  addresses("::1"),
		"mapped.test":     addresses("::ffff:127.0.0.1"),
		"mixed.test":      addresses(second, "127.0.0.1"),
		"mixed-last.test": addresses("127.0.0.1", second),
		"mixed6.test":     addresses(second, "::1"),
	}
	guard := New(Policy{
		Allow:    []netip.Prefix{netip.MustParsePrefix(second + "/32")},
		Resolver: egresstest.Resolver(t, func(name string) []netip.Addr { return names[name] }),
	})
	for name := range names {
		client := guard.Client(ClientOptions{Timeout: 5 * time.Second})
		_, err := client.Get("https://" + net.JoinHostPort(name, silent.Port()) + "/")
		if Class(err) != ClassBlocked {
			t.Errorf("%s: class %q, %v", name, Class(err), err)
		}
	}
	if _, err := guard.Client(ClientOptions{}).Get("https://unknown.test/"); Class(err) != ClassDNS {
		t.Errorf("unknown name: %v", err)
	}
	if n := silent.Connections(); n != 0 {
		t.Fatalf("%d connections to the private address", n)
	}
}

func TestExceptionsApplyOnlyToAllowedNetworks(t *testing.T) {
	names := map[string][]netip.Addr{
		"inside.example": addresses("127.0.0.1"), "receiver": addresses("127.0.0.1"), "gateway": addresses("8.8.8.8"),
		"example.org": addresses("8.8.8.8"), "mixed.example": addresses("127.0.0.1", "8.8.8.8"), "corp.example": addresses("10.0.0.1"),
	}
	guard := New(Policy{
		Allow:    loopback(),
		Resolver: egresstest.Resolver(t, func(name string) []netip.Addr { return names[name] }),
	})
	receiver := egresstest.NewSilent(t)
	for _, c := range []struct {
		host, port string
		secure     bool
		class      string
	}{
		{"inside.example", receiver.Port(), false, ""},
		{"receiver", receiver.Port(), false, ""},
		{"inside.example", "1", true, ClassRefused},
		{"example.org", "8080", false, ClassBlocked},
		{"example.org", "80", true, ClassBlocked},
		{"mixed.example", receiver.Port(), false, ClassBlocked},
		{"corp.example", "443", true, ClassBlocked},
		{"gateway", "443", true, ClassBlocked}, // a public host never has a name of one label
		{"gone.example", "80", false, ClassDNS},
	} {
		conn, err := guard.dial(waittest.Context(t), net.JoinHostPort(c.host, c.port), c.secure)
		if err == nil {
			conn.Close()
		}
		if Class(err) != c.class {
			t.Errorf("%s:%s, TLS %v: class %q, %v", c.host, c.port, c.secure, Class(err), err)
		}
	}
}

func TestCB13RebindingNeverReachesThePrivateAddress(t *testing.T) {
	silent := egresstest.NewSilent(t)
	var asked atomic.Int64
	guard := New(Policy{
		Allow: []netip.Prefix{netip.MustParsePrefix(second + "/32")},
		Resolver: egresstest.Resolver(t, func(string) []netip.Addr {
			if (asked.Add(1)-1)/2%2 == 0 { // each look-up sends questions for A and AAAA, in any order
				return addresses(second)
			}
			return addresses("127.0.0.1")
		}),
	})
	classes := make(map[string]int)
	for range 200 {
		conn, err := guard.dial(t.Context(), net.JoinHostPort("rebind.test", silent.Port()), true)
		if err == nil {
			conn.Close()
		}
		classes[Class(err)]++
	}
	if n := silent.Connections(); n != 0 {
		t.Fatalf("%d connections to the private address", n)
	}
	if classes[ClassBlocked] == 0 || classes[ClassRefused] == 0 || len(classes) != 2 {
		t.Fatalf("the name did not alternate: %v", classes)
	}
}

func TestCB15ProxyVariablesAreIgnored(t *testing.T) {
	silent := egresstest.NewSilent(t)
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
		t.Setenv(name, "http://"+silent.Address)
	}
	t.Setenv("NO_PROXY", "")
	guard := New(Policy{Resolver: egresstest.Resolver(t, func(name string) []netip.Addr {
		if name == "inside.test" {
			return addresses("10.0.0.1")
		}
		return nil
	})})
	if guard.kept.Proxy != nil || guard.single.Proxy != nil {
		t.Error("a transport uses a proxy")
	}
	if _, err := guard.Client(ClientOptions{}).Get("https://inside.test/"); Class(err) != ClassBlocked {
		t.Errorf("%v", err)
	}
	if n := silent.Connections(); n != 0 {
		t.Fatalf("%d connections to the proxy", n)
	}
}

func TestCB21BadCertificatesAreClassTLS(t *testing.T) {
	ca, foreign := egresstest.NewCA(t), egresstest.NewCA(t)
	var served atomic.Int64
	handler := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served.Add(1) })
	certificate := func(c tls.Certificate) *tls.Config { return &tls.Config{Certificates: []tls.Certificate{c}} }
	old := ca.Config(t, "127.0.0.1")
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	guard := New(Policy{Allow: loopback(), Roots: ca.Pool})
	for name, config := range map[string]*tls.Config{
		"unknown authority": certificate(foreign.Issue(t, time.Now().Add(time.Hour), "127.0.0.1")),
		"expired":           certificate(ca.Issue(t, time.Now().Add(-time.Minute), "127.0.0.1")),
		"wrong name":        certificate(ca.Issue(t, time.Now().Add(time.Hour), "example.com")),
		"TLS 1.1":           old,
	} {
		server := egresstest.Serve(t, handler, config)
		if _, err := guard.Client(ClientOptions{}).Get(server.URL); Class(err) != ClassTLS {
			t.Errorf("%s: class %q, %v", name, Class(err), err)
		}
	}
	plain := &http.Server{Handler: handler}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = plain.Serve(listener) }()
	t.Cleanup(func() { plain.Close() })
	if _, err := guard.Client(ClientOptions{}).Get("https://" + listener.Addr().String()); Class(err) != ClassTLS {
		t.Errorf("plain HTTP on the HTTPS port: %q, %v", Class(err), err)
	}
	if n := served.Load(); n != 0 {
		t.Fatalf("%d requests were sent", n)
	}
	good := ca.Server(t, handler)
	response, err := guard.Client(ClientOptions{}).Get(good.URL)
	if err != nil {
		t.Fatalf("good certificate: %v", err)
	}
	response.Body.Close()
}

func TestConnectTriesTheNextAddress(t *testing.T) {
	silent := egresstest.NewSilent(t)
	ca := egresstest.NewCA(t)
	guard := New(Policy{Allow: loopback(), Roots: ca.Pool, Resolver: egresstest.Resolver(t, func(string) []netip.Addr {
		return addresses(second, "127.0.0.1")
	})})
	conn, err := guard.dial(t.Context(), net.JoinHostPort("two.test", silent.Port()), true)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}

func TestClass(t *testing.T) {
	for want, errs := range map[string][]error{
		"":               {nil},
		ClassDNS:         {&net.DNSError{IsNotFound: true}, &net.DNSError{IsTimeout: true}},
		ClassRefused:     {&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}},
		ClassReset:       {syscall.ECONNRESET, syscall.EPIPE, &handshakeError{err: syscall.ECONNRESET}},
		ClassUnreachable: {syscall.ENETUNREACH, syscall.EHOSTUNREACH},
		ClassTimeout:     {context.DeadlineExceeded, &handshakeError{err: context.DeadlineExceeded}},
		ClassTLS:         {&handshakeError{err: tls.RecordHeaderError{}}, &handshakeError{err: &net.OpError{Op: "remote error", Err: tls.AlertError(70)}}},
		ClassRedirect:    {&RedirectError{3}, &ForeignError{"https://example.com"}},
		ClassBlocked:     {&net.OpError{Op: "dial", Err: &BlockedError{"x"}}},
		ClassTooLarge:    {ErrTooLarge, ErrHeadersTooLarge},
		ClassStatus:      {&StatusError{500}},
		ClassBusy:        {ErrBusy},
		ClassConnection:  {io.ErrUnexpectedEOF, context.Canceled, &handshakeError{err: io.EOF}, &handshakeError{err: &net.OpError{Op: "remote error", Err: tls.AlertError(80)}}, errors.New("malformed HTTP response")},
	} {
		for _, err := range errs {
			if got := Class(err); got != want {
				t.Errorf("%v: %q instead of %q", err, got, want)
			}
		}
	}
}
