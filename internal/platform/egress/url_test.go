package egress

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/kit/fault"
)

func loopback() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
}

// refusedURLs are rejected by any guard without an allow-list.
var refusedURLs = map[string]string{
	"empty":                "",
	"http":                 "http://example.com/hook",
	"ftp":                  "ftp://example.com/hook",
	"file":                 "file:///etc/passwd",
	"no scheme":            "example.com/hook",
	"scheme only":          "https:",
	"opaque":               "https:example.com",
	"missing host":         "https:///hook",
	"port without host":    "https://:443/hook",
	"user":                 "https://user@example.com/",
	"user and password":    "https://user:pass@example.com/",
	"empty user":           "https://@example.com/",
	"backslash user":       `https://example.com\@evil.example/`,
	"fragment":             "https://example.com/#top",
	"empty fragment":       "https://example.com/#",
	"port 22":              "https://example.com:22/",
	"port 80":              "https://example.com:80/",
	"port 0":               "https://example.com:0/",
	"port 1023":            "https://example.com:1023/",
	"port 65536":           "https://example.com:65536/",
	"port not a number":    "https://example.com:https/",
	"too long":             "https://example.com/" + strings.Repeat("a", 2048-19),
	"line feed":            "https://example.com/\nX: y",
	"tab":                  "https://example.com/\t",
	"nul":                  "https://example.com/\x00",
	"delete":               "https://example.com/\x7f",
	"control, 8 bit":       "https://example.com/\u0085",
	"space":                "https://example.com/a b",
	"invalid UTF-8":        "https://example.com/\xff",
	"zone":                 "https://[::1%25eth0]/",
	"zone, link local":     "https://[fe80::1%25eth0]/",
	"broken bracket":       "https://[::1/",
	"address in brackets":  "https://[127.0.0.1]/",
	"escaped host":         "https://%31%32%37.0.0.1/",
	"non-ASCII name":       "https://exämple.com/",
	"empty label":          "https://example..com/",
	"leading dot":          "https://.example.com/",
	"long label":           "https://" + strings.Repeat("a", 64) + ".com/",
	"long name":            "https://" + strings.Repeat("abcdefg.", 32) + "com/",
	"name of one label":    "https://metadata/",
	"comma in name":        "https://a,b.example.com/",
	"leading hyphen label": "https://-a.example.com/",
}

func TestCB10CallbackURLForms(t *testing.T) {
	guard := New(Policy{})
	for name, raw := range refusedURLs {
		err := guard.CheckCallbackURL(raw)
		refusal, ok := errors.AsType[*fault.Error](err)
		if !ok || refusal.Code != fault.InvalidInput || refusal.Unprocessable || refusal.Details[0].Pointer != "/callbackUrl" {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(raw) > 8 && strings.Contains(err.Error(), raw[8:]) {
			t.Errorf("%s: the error shows the URL: %v", name, err)
		}
	}
	for _, raw := range []string{
		"https://example.com", "https://example.com/", "HTTPS://EXAMPLE.com:443/a?b=c%20d", "https://a.b.example.com:8443/hook",
		"https://example.com:1024/", "https://example.com:65535/", "https://xn--exmple-cua.com/", "https://8.8.8.8/",
		"https://[2606:4700:4700::1111]:8443/", "https://my_service.example.com/", "https://1.example.com/", "https://example.com/ü",
		"https://example.com/" + strings.Repeat("a", 2048-20),
	} {
		if err := guard.CheckCallbackURL(raw); err != nil {
			t.Errorf("%.60s: %v", raw, err)
		}
	}
}

func TestCB16OddSpellingsOfAddressesAreRefused(t *testing.T) {
	guard := New(Policy{})
	for _, host := range []string{
		"2130706433", "0177.0.0.1", "0x7f000001", "0x7f.0.0.1", "127.1", "127.0.1", "0", "0x0", "017700000001", "127.0.0.0x1",
		"①②⑦.⓪.⓪.①", "１２７.0.0.1", "127。0。0。1", "127.0.0.1.", "example.com.", "LOCALHOST", "localhost", "localhost.", "a.LocalHost", "foo.127.1",
	} {
		if err := guard.CheckCallbackURL("https://" + host + "/"); err == nil {
			t.Errorf("%s passed", host)
		}
		u := &url.URL{Scheme: "https", Host: host, Path: "/"}
		if err := guard.CheckTarget(u); Class(err) != ClassBlocked {
			t.Errorf("%s as a target: %v", host, err)
		}
	}
}

func TestPolicyAllowsOnlyWhatItNames(t *testing.T) {
	networks := New(Policy{Allow: loopback(), Resolver: neverAsked(t)})
	hosts := New(Policy{AllowHosts: []string{"Receiver.internal", "127.0.0.1:8099"}, Resolver: neverAsked(t)})
	for _, c := range []struct {
		guard *Guard
		raw   string
		ok    bool
	}{
		{networks, "http://127.0.0.1:80/", true},
		{networks, "http://localhost:22/", true},
		{networks, "http://[::1]:8080/", true},
		{networks, "https://example.org:8443/", true},
		// Where a name leads is checked at the connect.
		{networks, "http://receiver:8080/", true},
		{networks, "http://hooks.corp.example:80/", true},
		{networks, "https://hooks.corp.example:22/", true},
		{networks, "http://10.0.0.1/", false},
		{networks, "https://10.0.0.1/", false},
		{networks, "http://8.8.8.8/", false},
		{networks, "https://8.8.8.8:22/", false},
		{networks, "https://8.8.8.8/", true},
		{networks, "ftp://127.0.0.1/", false},
		{networks, "ftp://receiver/", false},
		{networks, "http://user@127.0.0.1/", false},
		{networks, "http://user@receiver/", false},
		{networks, "https://127.1/", false},
		{hosts, "http://receiver.INTERNAL:22/", true},
		{hosts, "http://127.0.0.1:8099/", true},
		{hosts, "http://127.0.0.1:8098/", false},
		{hosts, "http://other.internal/", false},
		{hosts, "https://localhost/", false},
	} {
		if err := c.guard.CheckCallbackURL(c.raw); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.raw, err)
		}
		u, err := url.Parse(c.raw)
		if err != nil || (c.guard.CheckTarget(u) == nil) != c.ok {
			t.Errorf("%s as a target: %v, %v", c.raw, c.guard.CheckTarget(u), err)
		}
	}
	if New(Policy{}).Open() || !networks.Open() || !hosts.Open() {
		t.Error("Open is wrong")
	}
}

// neverAsked returns a resolver that fails the test if it is called.
func neverAsked(t *testing.T) *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		t.Error("a name was looked up")
		return nil, errors.New("the name server is down")
	}}
}

func FuzzCheckCallbackURL(f *testing.F) {
	for _, raw := range refusedURLs {
		f.Add(raw)
	}
	f.Add("https://example.com:8443/a?b=c")
	f.Add("https://[2606:4700::1]:1024/")
	guard := New(Policy{})
	f.Fuzz(func(t *testing.T, raw string) {
		if guard.CheckCallbackURL(raw) != nil {
			return
		}
		request, err := http.NewRequest(http.MethodPost, raw, nil)
		if err != nil {
			t.Fatalf("accepted, but no request can be made: %v", err)
		}
		u := request.URL
		if u.Scheme != "https" || u.User != nil || u.Fragment != "" || len([]rune(raw)) > maxURLLength {
			t.Fatalf("accepted %q", raw)
		}
		for _, c := range []byte(u.Host) {
			if c <= ' ' || c > '~' || strings.ContainsRune(`\/@%?#`, rune(c)) {
				t.Fatalf("accepted host %q", u.Host)
			}
		}
		port, ok := portOf(u)
		if !ok || !allowedPort(port) {
			t.Fatalf("accepted port of %q", u.Host)
		}
		if addr, err := netip.ParseAddr(u.Hostname()); err == nil && guard.checkAddress(netip.AddrPortFrom(addr, port), true) != nil {
			t.Fatalf("accepted address %v", addr)
		}
		if guard.CheckTarget(u) != nil {
			t.Fatalf("%q is accepted at submit, but not as a target", raw)
		}
	})
}
