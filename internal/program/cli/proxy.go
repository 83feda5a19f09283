package cli

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
	httpgate "github.com/weft-automation/weft/internal/web/protocol"
)

// maxProxied limits the body of a request, which must be read completely to be signed. The service
// itself allows a mebibyte and returns a better error.
const maxProxied = 2 << 20

// discardTimeout limits how long the rest of a rejected body is read.
const discardTimeout = 10 * time.Second

// proxyReason is the reason in the proxy's own problems.
const proxyReason = "weft_proxy"

// proxyCommand signs requests of programs on this machine with one key.
type proxyCommand struct {
	target
	Listen string     `default:"127.0.0.1:8081" placeholder:"ADDR" help:"Address to listen on (${default})."`
	Expose bool       `help:"Listen on an address that other machines can reach. Anyone who can reach the address acts with your key."`
	Host   []string   `placeholder:"NAME" help:"Allowed host names of an exposed proxy, in addition to the addresses of this machine."`
	Allow  allowances `placeholder:"METHOD PATH" help:"Forward only matching requests, such as GET /v1/sdk/components/*; may be repeated."`
}

func (c *proxyCommand) Run(s *session) error {
	credentials, signer, err := c.signer()
	if err != nil {
		return err
	}
	base, err := client.ParseBase(credentials.BaseURL)
	if err != nil {
		return err
	}
	listener, err := listenAt(s.ctx, c.Listen, c.Expose, "act with your key")
	if err != nil {
		return err
	}
	door := &gate{reason: proxyReason, names: c.Host, anyAddress: c.Expose, allowed: c.Allow, next: signingProxy(base, signer)}
	server := &http.Server{
		Handler:           discarding(door),
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          log.New(s.stderr, "weft proxy: ", 0),
		BaseContext:       func(net.Listener) context.Context { return s.ctx }, // cancels the streams
	}
	s.note("Signing for %s", credentials)
	s.note("Listening on http://%s", listener.Addr())
	if c.Expose {
		s.note("EXPOSED: anyone who can reach this address acts with your key.")
	}
	return serveUntil(s.ctx, server, listener, 5*time.Second)
}

// listenAt listens on an address, which must be loopback unless expose is set. danger says what
// clients of other machines could do.
func listenAt(ctx context.Context, address string, expose bool, danger string) (net.Listener, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	if at, ok := listener.Addr().(*net.TCPAddr); !expose && (!ok || !at.IP.IsLoopback()) {
		_ = listener.Close()
		return nil, fmt.Errorf("%s can be reached from other machines, which could then %s; listen on 127.0.0.1, or add --expose", address, danger)
	}
	return listener, nil
}

// serveUntil serves until ctx is done. Requests in flight then get the time grace to finish, and
// unused connections are closed.
func serveUntil(ctx context.Context, server *http.Server, listener net.Listener, grace time.Duration) error {
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

// signingProxy forwards requests with the three headers added. httputil flushes event streams
// immediately.
func signingProxy(base *url.URL, signer *client.Signer) http.Handler {
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
			for _, own := range []string{"Cookie", "Origin", "Referer", "X-Forwarded-For"} {
				r.Out.Header.Del(own) // these concern this machine only
			}
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
				refuseBody(w, tooLarge.Limit)
				return
			}
			refuse(w, proxyReason, http.StatusBadGateway, "UNAVAILABLE", "the service cannot be reached: "+err.Error())
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength > maxProxied {
			refuseBody(w, maxProxied)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxProxied)
		proxy.ServeHTTP(w, r)
	})
}

// discarding calls next, then reads the rest of the body.
func discarding(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == http.NoBody {
			next.ServeHTTP(w, r)
			return
		}
		body := httpgate.NewBody(r)
		r = r.WithContext(r.Context()) // a copy, because net/http checks the type of the original body
		r.Body = body
		next.ServeHTTP(w, r)
		body.Discard(w, time.Now().Add(discardTimeout))
	})
}

func refuseBody(w http.ResponseWriter, limit int64) {
	refuse(w, proxyReason, http.StatusRequestEntityTooLarge, "PAYLOAD_TOO_LARGE", fmt.Sprintf("the body is larger than %d bytes", limit))
}
