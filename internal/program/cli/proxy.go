package cli

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"path"
	"regexp"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/weft-automation/weft/internal/local/client"
	"github.com/weft-automation/weft/internal/local/proxy"
)

// proxyCommand signs requests of programs on this machine with one key.
type proxyCommand struct {
	target
	Listen string     `default:"127.0.0.1:8081" placeholder:"ADDR" help:"Address to listen on (${default})."`
	Expose bool       `help:"Listen on an address that other machines can reach. Anyone who can reach the address acts with your key."`
	Host   []string   `placeholder:"NAME" help:"Allowed host names of an exposed proxy, in addition to the addresses of this machine."`
	Allow  allowances `placeholder:"METHOD PATH" help:"Forward only matching requests, such as GET /v1/sdk/components/*; may be repeated."`
}

func (c *proxyCommand) Run(s *session) error {
	credentials, signer, err := c.signer(s)
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
	server := proxy.NewServer(s.ctx, base, signer, proxy.Config{Names: c.Host, HostFlag: true, AnyAddress: c.Expose, Rules: c.Allow, ErrorLog: log.New(s.stderr, "weft proxy: ", 0)})
	s.note("Signing for %s", credentials)
	s.note("Listening on http://%s", listener.Addr())
	if c.Expose {
		s.note("EXPOSED: anyone who can reach this address acts with your key.")
	}
	return proxy.Serve(s.ctx, server, listener, 5*time.Second)
}

// listenAt is proxy.Listen for commands that have the flag --expose.
func listenAt(ctx context.Context, address string, expose bool, danger string) (net.Listener, error) {
	listener, err := proxy.Listen(ctx, address, expose, danger)
	if exposed, ok := errors.AsType[*proxy.ExposedError](err); ok {
		return nil, fmt.Errorf("%w, or add --expose", exposed)
	}
	return listener, err
}

// allowances are the rules of --allow.
type allowances []proxy.Rule

var methodForm = regexp.MustCompile(`^(\*|[A-Z]+)$`)

// Decode parses one --allow.
func (a *allowances) Decode(ctx *kong.DecodeContext) error {
	var rule string
	if err := ctx.Scan.PopValueInto("METHOD PATH", &rule); err != nil {
		return err
	}
	method, pattern, _ := strings.Cut(rule, " ")
	pattern = strings.TrimSpace(pattern)
	if _, err := path.Match(pattern, "/"); err != nil || !strings.HasPrefix(pattern, "/") || !methodForm.MatchString(method) {
		return fmt.Errorf("--allow needs a method and a path, such as GET /v1/sdk/components/*, not %q %q", method, pattern)
	}
	*a = append(*a, proxy.Rule{Method: method, Path: pattern})
	return nil
}
