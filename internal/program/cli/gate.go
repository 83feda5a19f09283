package cli

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// gate protects a local port from web pages. A page in this machine's browser can send requests to
// any port, and through a name that resolves to 127.0.0.1 even read the responses. The headers
// Host, Origin and Sec-Fetch-Site reveal such requests.
type gate struct {
	reason     string   // reason in the problems that it returns
	names      []string // allowed in Host, in addition to addresses and localhost
	anyAddress bool     // Host may be any address, not only loopback
	allowed    allowances
	refused    func(why string) // called for each rejected request; nil: not reported
	next       http.Handler
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	why := g.rejectReason(r)
	if why == "" {
		g.next.ServeHTTP(w, r)
		return
	}
	if g.refused != nil {
		g.refused(why)
	}
	refuse(w, g.reason, http.StatusForbidden, "FORBIDDEN", why)
}

// rejectReason returns why a request is rejected, or "".
func (g *gate) rejectReason(r *http.Request) string {
	origins := r.Header.Values("Origin")
	site := r.Header.Get("Sec-Fetch-Site")
	switch {
	case r.URL.Host != "" || r.Method == http.MethodConnect:
		return "requests for other addresses are not passed on here"
	case !g.allowsHost(r.Host):
		return "the Host header names another machine; --host allows a name"
	case slices.ContainsFunc(origins, func(origin string) bool { return !sameOrigin(origin, r.Host) }):
		return "the request comes from a page of another origin"
	case site != "" && site != "same-origin" && site != "none":
		return "the request comes from another site"
	case !g.allowed.pass(r):
		return "this proxy was started with --allow, which does not name this request"
	}
	return ""
}

// allowsHost reports whether host, from the Host header, is a name of this port.
func (g *gate) allowsHost(host string) bool {
	name := host
	if bare, _, err := net.SplitHostPort(host); err == nil {
		name = bare
	}
	name = strings.ToLower(strings.Trim(name, "[]"))
	if address, err := netip.ParseAddr(name); err == nil {
		return g.anyAddress || address.IsLoopback()
	}
	return name == "localhost" || slices.ContainsFunc(g.names, func(own string) bool { return strings.EqualFold(own, name) })
}

func sameOrigin(origin, host string) bool {
	u, err := url.Parse(origin)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && strings.EqualFold(u.Host, host)
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

// allowances are the rules of --allow. No rules allow everything.
type allowances []allowance

// allowance is one rule. In the path * matches anything within one segment.
type allowance struct{ method, path string }

var methodForm = regexp.MustCompile(`^(\*|[A-Z]+)$`)

// Decode parses one --allow: METHOD and PATH as one argument or as two.
func (a *allowances) Decode(ctx *kong.DecodeContext) error {
	var rule string
	if err := ctx.Scan.PopValueInto("METHOD PATH", &rule); err != nil {
		return err
	}
	method, pattern, both := strings.Cut(rule, " ")
	if !both {
		if err := ctx.Scan.PopValueInto("PATH", &pattern); err != nil {
			return fmt.Errorf("--allow needs a method and a path: %w", err)
		}
	}
	pattern = strings.TrimSpace(pattern)
	if _, err := path.Match(pattern, "/"); err != nil || !strings.HasPrefix(pattern, "/") || !methodForm.MatchString(method) {
		return fmt.Errorf("--allow needs a method and a path, such as GET /v1/sdk/components/*, not %q %q", method, pattern)
	}
	*a = append(*a, allowance{method, pattern})
	return nil
}

// pass checks the path as it will be sent, including escapes. No rule matches a path that a
// different server could interpret differently.
func (a allowances) pass(r *http.Request) bool {
	if len(a) == 0 {
		return true
	}
	return path.Clean(r.URL.Path) == r.URL.Path && slices.ContainsFunc(a, func(rule allowance) bool {
		matches, _ := path.Match(rule.path, r.URL.EscapedPath())
		return matches && (rule.method == "*" || rule.method == r.Method)
	})
}
