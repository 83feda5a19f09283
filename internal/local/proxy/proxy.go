// Package proxy signs the requests of programs on this machine with one key and forwards them to a
// Weft, so that plain curl works.
//
// Invariant: Web pages of other sites (see Gate), and components and callbacks of any Weft (see
// egress.Mark), get nothing forwarded, because everything that the proxy forwards is done with the
// key.
package proxy

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	"github.com/weft-automation/weft/internal/local/client"
	"github.com/weft-automation/weft/internal/platform/egress"
	"github.com/weft-automation/weft/internal/web/protocol"
)

// maxBody limits the body of a request, which must be read completely to be signed. The service
// itself allows a mebibyte and returns a better error.
const maxBody = 2 << 20

// discardTimeout limits how long the rest of a rejected body is read.
const discardTimeout = 10 * time.Second

// reason is the reason in the proxy's own problems.
const reason = "weft_proxy"

// Config holds the settings of a proxy. Its zero value accepts only requests for loopback addresses
// and localhost.
type Config struct {
	Names      []string    // allowed in Host
	HostFlag   bool        // Names comes from a flag --host
	AnyAddress bool        // Host may be any address
	Rules      []Rule      // requests to forward; none: all
	ErrorLog   *log.Logger // nil: the standard logger
}

// NewServer returns the server of a proxy that forwards to base. Its streams end with ctx.
func NewServer(ctx context.Context, base *url.URL, signer *client.Signer, cfg Config) *http.Server {
	gate := &Gate{Program: reason, Names: cfg.Names, HostFlag: cfg.HostFlag, AnyAddress: cfg.AnyAddress, Rules: cfg.Rules, Next: forward(base, signer)}
	return &http.Server{
		Handler:           Discarding(gate),
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          cfg.ErrorLog,
		BaseContext:       func(net.Listener) context.Context { return ctx }, // cancels the streams
	}
}

// Listen listens on an address, which must be loopback unless expose is set. danger says what
// clients of other machines could do.
func Listen(ctx context.Context, address string, expose bool, danger string) (net.Listener, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	if at, ok := listener.Addr().(*net.TCPAddr); !expose && (!ok || !at.IP.IsLoopback()) {
		_ = listener.Close()
		return nil, &ExposedError{Address: address, Danger: danger}
	}
	return listener, nil
}

// ExposedError means that other machines could reach an address that is not to be exposed.
type ExposedError struct{ Address, Danger string }

func (e *ExposedError) Error() string {
	return fmt.Sprintf("%s can be reached from other machines, which could then %s; listen on 127.0.0.1", e.Address, e.Danger)
}

// Serve serves until ctx is done. Requests in flight then get the time grace to finish, and unused
// connections are closed.
func Serve(ctx context.Context, server *http.Server, listener net.Listener, grace time.Duration) error {
	stopped := make(chan error, 1)
	release := context.AfterFunc(ctx, func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer cancel()
		err := server.Shutdown(ending)
		if errors.Is(err, context.DeadlineExceeded) {
			err = server.Close()
		}
		stopped <- err
	})
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		release()
		return fmt.Errorf("serve on %s: %w", listener.Addr(), err)
	}
	return <-stopped
}

// forward forwards requests with the three headers added. httputil flushes event streams
// immediately.
func forward(base *url.URL, signer *client.Signer) http.Handler {
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true,
		DisableCompression: true, // bodies are forwarded unchanged
	}
	proxy := &httputil.ReverseProxy{
		Transport:     &client.Transport{Signer: signer, Prefix: base.EscapedPath(), Base: transport},
		FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = base.Scheme, base.Host, base.Host
			r.Out.URL.RawPath = base.EscapedPath() + r.In.URL.EscapedPath()
			r.Out.URL.Path = base.Path + r.In.URL.Path
			r.Out.URL.RawQuery = r.In.URL.RawQuery // as sent, including what httputil would drop
			for _, own := range []string{"Cookie", "Origin", "Referer"} {
				r.Out.Header.Del(own) // these concern this machine only
			}
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
				refuseBody(w, tooLarge.Limit)
				return
			}
			refuse(w, reason, http.StatusBadGateway, "UNAVAILABLE", "the service cannot be reached: "+err.Error())
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.Header.Values(egress.Mark)) > 0 {
			refuse(w, reason, http.StatusForbidden, "FORBIDDEN", "components and callbacks of a Weft cannot use a signing proxy")
			return
		}
		if r.ContentLength > maxBody {
			refuseBody(w, maxBody)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		proxy.ServeHTTP(w, r)
	})
}

// Discarding calls next, then reads the rest of the body.
func Discarding(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == http.NoBody {
			next.ServeHTTP(w, r)
			return
		}
		body := protocol.NewBody(r)
		r = r.WithContext(r.Context()) // a copy, because net/http checks the type of the original body
		r.Body = body
		next.ServeHTTP(w, r)
		body.Discard(w, time.Now().Add(discardTimeout))
	})
}

func refuseBody(w http.ResponseWriter, limit int64) {
	refuse(w, reason, http.StatusRequestEntityTooLarge, "PAYLOAD_TOO_LARGE", fmt.Sprintf("the body is larger than %d bytes", limit))
}
