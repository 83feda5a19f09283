package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/account/environment"
	"github.com/weft-automation/weft/internal/local/client"
	"github.com/weft-automation/weft/internal/local/demo"
	"github.com/weft-automation/weft/internal/local/devchain"
	"github.com/weft-automation/weft/internal/local/proxy"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// localServices are the servers that `weft dev` runs alongside Weft.
type localServices struct {
	demo  string
	chain string // "": no chain
	open  string // link that signs in once; "": the API does not listen on loopback

	proxy     net.Listener // nil: no signing proxy
	proxyBusy bool         // its address is in use, so no signing proxy runs
}

// hosts returns the addresses that components may reach.
func (s localServices) hosts() []string {
	if s.chain == "" {
		return []string{s.demo}
	}
	return []string{s.demo, s.chain}
}

// checkAddress returns an error if the address cannot be bound, or if other machines could reach it
// although dev.Expose is not set.
func (dev DevConfig) checkAddress(addr string) error {
	if addr == "" {
		return nil
	}
	listener, err := listen(addr)
	if err != nil {
		return err
	}
	defer listener.Close()
	if at, ok := listener.Addr().(*net.TCPAddr); !dev.Expose && (!ok || !at.IP.IsLoopback()) {
		return fmt.Errorf("%w, or add --expose", &proxy.ExposedError{Address: addr, Danger: "use this Weft over plain HTTP"})
	}
	return nil
}

// bindProxy binds the address of the signing proxy, before anything is created and before a component
// can run. An address in use leaves the proxy out.
func (dev DevConfig) bindProxy(ctx context.Context, local *localServices) (err error) {
	if dev.ProxyAddr == "" {
		return nil
	}
	port := portOf(dev.ProxyAddr)
	if local.proxyBusy = port != "" && port != "0" && (port == portOf(dev.Addr) || port == portOf(dev.OpsAddr)); local.proxyBusy {
		return nil
	}
	local.proxy, err = proxy.Listen(ctx, dev.ProxyAddr, false, "act with the key of weft dev")
	if local.proxyBusy = errors.Is(err, syscall.EADDRINUSE); local.proxyBusy {
		return nil
	}
	if err != nil {
		return fmt.Errorf("start the signing proxy: %w", err)
	}
	return nil
}

// openLink returns the link that signs in with a ticket, or "" if the API does not listen on a
// loopback address.
func openLink(base, secret string) string {
	u, err := url.Parse(base)
	if err != nil {
		return ""
	}
	addr, err := netip.ParseAddr(u.Hostname())
	if err == nil && addr.IsUnspecified() {
		u.Host = net.JoinHostPort("127.0.0.1", u.Port())
	} else if err != nil || !addr.IsLoopback() {
		return ""
	}
	return u.String() + "/open?t=" + secret
}

// portOf returns the port of an address, or "" if it has none.
func portOf(address string) string {
	_, port, _ := net.SplitHostPort(address) // binding reports the error
	return port
}

// ownAddresses returns the addresses that components must never reach. If the proxy's address is in
// use, the proxy of another weft dev may listen there.
func (dev DevConfig) ownAddresses(local localServices) []string {
	switch {
	case local.proxy != nil:
		return []string{local.proxy.Addr().String()}
	case local.proxyBusy:
		return []string{dev.ProxyAddr}
	}
	return nil
}

func (s localServices) closeProxy() {
	if s.proxy != nil {
		_ = s.proxy.Close()
	}
}

// serveProxy starts the signing proxy. stop stops it, and gives requests in flight a second.
func (s localServices) serveProxy(ctx context.Context, c client.Credentials, log *slog.Logger) (stop func(), err error) {
	if s.proxy == nil {
		return func() {}, nil
	}
	signer, err := client.NewSigner(c.APIKey, c.APISecret)
	if err != nil {
		return nil, fmt.Errorf("start the signing proxy: %w", err)
	}
	base, err := client.ParseBase(c.BaseURL)
	if err != nil {
		return nil, fmt.Errorf("start the signing proxy: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	server := proxy.NewServer(ctx, base, signer, proxy.Config{})
	wait := inBackground(func() error { return proxy.Serve(ctx, server, s.proxy, time.Second) })
	return func() {
		cancel()
		if err := wait(); err != nil {
			log.Warn("the signing proxy did not stop cleanly", "error", err)
		}
	}, nil
}

// startDemo starts the demo upstream on its last address, so that unfinished runs still reach it.
// If that address is in use, the upstream listens on any free address.
func (dev DevConfig) startDemo() (*http.Server, error) {
	made, err := dev.readExamples()
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", cmp.Or(made.Demo, demoAnywhere))
	if err != nil {
		listener, err = net.Listen("tcp", demoAnywhere)
	}
	if err != nil {
		return nil, fmt.Errorf("start the demo upstream: %w", err)
	}
	s := &http.Server{Addr: listener.Addr().String(), Handler: demo.Handler(), ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = s.Serve(listener) }()
	return s, nil
}

const demoAnywhere = "127.0.0.1:0"

// Environment variables through which workflows find the chain of `weft dev --chain`: its address,
// which may change, and a funded key.
const (
	chainVariable = "DEV_CHAIN_URL"
	keyVariable   = "DEV_CHAIN_KEY"
)

func (dev DevConfig) startChain(ctx context.Context) (*devchain.Chain, error) {
	dev.step("starting the chain")
	chain, err := devchain.Start(ctx, devchain.Config{Dir: filepath.Join(dev.DataDir, "chain"), Log: dev.Log})
	if err != nil {
		return nil, fmt.Errorf("start the private chain: %w", err)
	}
	return chain, nil
}

func (dev DevConfig) stopChain(chain *devchain.Chain) {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	if err := chain.Stop(ctx); err != nil {
		dev.Log.Warn("the private chain did not stop cleanly", "error", err)
	}
}

// setChainVariables sets the two variables unless they are correct. An existing key is kept,
// because its value is secret and cannot be compared.
func setChainVariables(ctx context.Context, variables *environment.Service, workspaceID uuid.UUID, addr string) error {
	ctx = postgres.Scope(ctx, workspaceID)
	const all = 200 // the most variables that a workspace can have
	page, err := variables.List(ctx, workspaceID, all, "")
	if err != nil {
		return err
	}
	for _, want := range []struct {
		name, value, description string
		secret                   bool
	}{
		{chainVariable, "http://" + addr, "JSON-RPC URL of the chain of weft dev --chain, updated at each start", false},
		{keyVariable, devchain.Key, "Key of the first account on the chain of weft dev --chain", true},
	} {
		if slices.ContainsFunc(page.Data, func(v api.EnvironmentVariable) bool {
			return v.Name == want.name && (want.secret || v.Value != nil && *v.Value == want.value)
		}) {
			continue
		}
		p := environment.SetParams{WorkspaceID: workspaceID, Name: want.name, Value: want.value, Description: &want.description}
		if want.secret {
			p.Secret = new(true)
		}
		if _, err := variables.Set(ctx, p); err != nil {
			return fmt.Errorf("set %s: %w", want.name, err)
		}
	}
	return nil
}
