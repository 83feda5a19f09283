// Package egress makes every connection that leaves the service on behalf of a caller, so that
// internal addresses stay out of reach: callbacks and the upstreams of components (decisions 5.5,
// 5.6).
//
// It decides which URLs, addresses, ports and headers are allowed, dials, and classifies failures.
// It does not know what is sent or why.
//
// The one invariant: no socket is opened to an address that is not public, unless the operator's
// policy allows it. The check covers the address that is actually dialled, whatever a name
// resolved to before.
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
	"time"

	"code.dny.dev/ssrf"
)

const (
	connectTimeout   = 5 * time.Second // name look-up and TCP together
	handshakeTimeout = 5 * time.Second
	idleTimeout      = time.Second // shorter than servers keep a connection, so that few close while a request is on its way
	idlePerHost      = 64
	idleTotal        = 1024
	maxHeaderBytes   = 16 << 10
)

// Policy is what the operator opens beyond public addresses. The zero value
// opens nothing.
type Policy struct {
	// Allow lists networks that may be reached on any port and without TLS.
	Allow []netip.Prefix
	// AllowHosts lists hosts, as "host" or "host:port", that may be reached
	// whatever they resolve to, on any port (or that port) and without TLS.
	AllowHosts []string
	// Roots replaces the system's certificate authorities when set.
	Roots *x509.CertPool
	// Resolver replaces the system's resolver when set.
	Resolver *net.Resolver
}

// Guard checks and dials by one Policy. It is safe for concurrent use.
type Guard struct {
	allow    []netip.Prefix
	hosts    map[string]struct{}
	resolver *net.Resolver
	public   *ssrf.Guardian
	tls      *tls.Config
	single   *http.Transport // a new connection for each request
	kept     *http.Transport // reuses connections
	answers  *budget
}

// Addresses inside public space that are nobody's public service: the host
// agent of Azure machines is not in the special-purpose registries.
var deniedPublic = []netip.Prefix{netip.MustParsePrefix("168.63.129.16/32")}

// New makes a guard.
func New(policy Policy) *Guard {
	g := &Guard{
		hosts:    make(map[string]struct{}, len(policy.AllowHosts)),
		resolver: policy.Resolver,
		answers:  newBudget(),
		public:   ssrf.New(ssrf.WithAnyPort(), ssrf.WithDeniedV4Prefixes(deniedPublic...)),
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

// newTransport makes a transport that dials through the guard. Proxies are never
// taken from the environment: behind one, the guard would see only the proxy's address.
// HTTP/1.1 alone keeps the surface towards hostile servers small.
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
		MaxResponseHeaderBytes: maxHeaderBytes,
	}
}

// Open reports whether the policy opens anything beyond public addresses.
func (g *Guard) Open() bool { return len(g.allow) > 0 || len(g.hosts) > 0 }

// Close drops the idle connections.
func (g *Guard) Close() { g.kept.CloseIdleConnections() }
