package proxy

import (
	"encoding/json"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"
)

// Gate protects a local port from web pages. A page in this machine's browser can send requests to
// any port, and through a name that resolves to 127.0.0.1 even read the responses. The headers
// Host, Origin and Sec-Fetch-Site reveal such requests.
type Gate struct {
	Program    string           // reason in the problems that it returns
	Names      []string         // allowed in Host, in addition to addresses and localhost
	HostFlag   bool             // the program sets Names from its flag --host
	AnyAddress bool             // Host may be any address, not only loopback
	Rules      []Rule           // requests that pass; none: all
	OnRejected func(why string) // called for each rejected request; nil: not reported
	Next       http.Handler
}

func (g *Gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	why := g.rejectReason(r)
	if why == "" {
		g.Next.ServeHTTP(w, r)
		return
	}
	if g.OnRejected != nil {
		g.OnRejected(why)
	}
	refuse(w, g.Program, http.StatusForbidden, "FORBIDDEN", why)
}

// rejectReason returns why a request is rejected, or "".
func (g *Gate) rejectReason(r *http.Request) string {
	origins := r.Header.Values("Origin")
	site := r.Header.Get("Sec-Fetch-Site")
	switch {
	case r.URL.Host != "" || r.Method == http.MethodConnect:
		return "requests for other addresses are not passed on here"
	case !g.allowsHost(r.Host):
		why := "the Host header names another machine; use 127.0.0.1 or localhost"
		if g.HostFlag {
			why += ", or allow the name with --host"
		}
		return why
	case slices.ContainsFunc(origins, func(origin string) bool { return !sameOrigin(origin, r.Host) }):
		return "the request comes from a page of another origin"
	case site != "" && site != "same-origin" && site != "none":
		return "the request comes from another site"
	case len(g.Rules) > 0 && !g.follows(r):
		return "this proxy was started with --allow, which does not name this request"
	}
	return ""
}

// allowsHost reports whether host, from the Host header, is a name of this port.
func (g *Gate) allowsHost(host string) bool {
	name := host
	if bare, _, err := net.SplitHostPort(host); err == nil {
		name = bare
	}
	name = strings.ToLower(strings.Trim(name, "[]"))
	if address, err := netip.ParseAddr(name); err == nil {
		return g.AnyAddress || address.IsLoopback()
	}
	return name == "localhost" || slices.ContainsFunc(g.Names, func(own string) bool { return strings.EqualFold(own, name) })
}

func sameOrigin(origin, host string) bool {
	u, err := url.Parse(origin)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && strings.EqualFold(u.Host, host)
}

// Rule allows requests. In the path * matches anything within one segment; the method * is any.
type Rule struct{ Method, Path string }

// follows checks the path as it will be sent, including escapes. No rule matches a path that a
// different server could interpret differently.
func (g *Gate) follows(r *http.Request) bool {
	return path.Clean(r.URL.Path) == r.URL.Path && slices.ContainsFunc(g.Rules, func(rule Rule) bool {
		matches, _ := path.Match(rule.Path, r.URL.EscapedPath())
		return matches && (rule.Method == "*" || rule.Method == r.Method)
	})
}

// refuse responds with a problem in the service's format.
func refuse(w http.ResponseWriter, reason string, status int, code, message string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"type": "about:blank", "title": http.StatusText(status), "status": status, "detail": message,
		"code": code, "error": code, "message": message, "reason": reason, "retryable": status == http.StatusBadGateway,
	})
}
