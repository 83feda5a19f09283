// Package egress makes every connection that the service opens on behalf of a caller, so that
// internal addresses stay out of reach. It is used for callbacks and for the upstreams of components
// (decisions 5.5, 5.6).
//
// It decides which URLs, addresses, ports and headers are allowed, dials, and classifies failures. It
// never opens a socket to an address that isn't public, unless the operator's policy allows the
// address. It checks the address that it dials, not the address to which a name resolved earlier. It
// never reaches Weft's own listeners and database (see Guard.Refuse).
//
// A request is sent at most once. Retries are up to the caller.
package egress

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"code.dny.dev/ssrf"
)

const (
	connectTimeout   = 5 * time.Second // for the name look-up and TCP together
	handshakeTimeout = 5 * time.Second
	idleTimeout      = time.Second // shorter than that of servers, so that few close a connection while a request is in flight
	idlePerHost      = 64
	idleTotal        = 1024
)

// MaxHeaderBytes is the maximum size of the headers of a response.
const MaxHeaderBytes = 64 << 10

// Policy defines what the operator allows in addition to public addresses. The zero value allows
// only public addresses.
type Policy struct {
	// Allow lists networks that may be reached on any port and without TLS.
	Allow []netip.Prefix
	// AllowHosts lists hosts, as "host" or "host:port", that may be reached without TLS and at
	// any address. Without a port, any port of the host is allowed.
	AllowHosts []string
	// Roots replaces the system's certificate authorities when set.
	Roots *x509.CertPool
	// Resolver replaces the system's resolver when set.
	Resolver *net.Resolver
}

// Guard checks and dials targets under one Policy. It is safe for concurrent use.
type Guard struct {
	allow     []netip.Prefix
	hosts     map[string]struct{}
	resolver  *net.Resolver
	public    *ssrf.Guardian
	tls       *tls.Config
	single    *http.Transport // a new connection for each request
	kept      *http.Transport // reuses connections
	responses *budget

	ownMutex sync.Mutex
	own      []own
}

// Addresses in public ranges that must not be reached. The host agent of Azure machines isn't in
// the special-purpose registries.
var deniedPublic = []netip.Prefix{netip.MustParsePrefix("168.63.129.16/32")}

// New returns a guard for a policy.
func New(policy Policy) *Guard {
	g := &Guard{
		hosts:     make(map[string]struct{}, len(policy.AllowHosts)),
		resolver:  policy.Resolver,
		responses: newBudget(),
		public:    ssrf.New(ssrf.WithAnyPort(), ssrf.WithDeniedV4Prefixes(deniedPublic...)),
		tls: &tls.Config{
			MinVersion:         tls.VersionTLS12,
			RootCAs:            policy.Roots,
			ClientSessionCache: tls.NewLRUClientSessionCache(idleTotal),
		},
	}
	for _, prefix := range policy.Allow {
		g.allow = append(g.allow, prefix.Masked())
	}
	for _, host := range policy.AllowHosts {
		g.hosts[strings.ToLower(host)] = struct{}{}
	}
	if g.resolver == nil {
		g.resolver = net.DefaultResolver
	}
	g.kept = g.newTransport()
	g.single = g.kept.Clone()
	g.single.DisableKeepAlives = true
	return g
}

// newTransport returns a transport that dials through the guard. It ignores proxies from the
// environment, because the guard would only see the proxy's address. It supports only HTTP/1.1,
// which leaves less to attack for hostile servers.
func (g *Guard) newTransport() *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		Proxy:                  nil,
		DialContext:            g.dialPlain,
		DialTLSContext:         g.dialTLS,
		Protocols:              protocols,
		DisableCompression:     true,
		MaxIdleConns:           idleTotal,
		MaxIdleConnsPerHost:    idlePerHost,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: MaxHeaderBytes,
	}
}

// Open reports whether the policy allows anything in addition to public addresses.
func (g *Guard) Open() bool { return len(g.allow) > 0 || len(g.hosts) > 0 }

// Close closes the idle connections.
func (g *Guard) Close() { g.kept.CloseIdleConnections() }
