package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/weft-automation/weft/internal/account/auth"
	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/account/workspace"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/cursor"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/web/catalog"
	"github.com/weft-automation/weft/internal/web/console"
	"github.com/weft-automation/weft/internal/web/page"
	"github.com/weft-automation/weft/internal/web/portal"
	"github.com/weft-automation/weft/internal/web/server"
	"github.com/weft-automation/weft/internal/web/settings"
)

// endpoint is a listener and its HTTP server. The zero value listens nowhere.
type endpoint struct {
	listener net.Listener
	http     *http.Server
}

// open binds the address immediately, so that an address in use is reported before anything starts.
func open(addr string, handler http.Handler, limits server.Connections) (endpoint, error) {
	listener, err := listen(addr)
	if err != nil {
		return endpoint{}, err
	}
	s := server.HTTPServer(handler, limits.Log)
	return endpoint{listener: server.Listener(listener, s, limits), http: s}, nil
}

func listen(addr string) (net.Listener, error) {
	listener, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("the address %s is in use: stop the program that uses it, or choose another address with --addr and --ops-addr", addr)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %q: %w", addr, err)
	}
	return listener, nil
}

func (e endpoint) url() string {
	if e.listener == nil {
		return ""
	}
	return "http://" + e.listener.Addr().String()
}

func (e endpoint) close(ctx context.Context, log *slog.Logger) {
	if e.listener == nil {
		return
	}
	// Long downloads and slow readers must not use up the time of work in flight.
	ctx, cancel := context.WithTimeout(ctx, e.http.WriteTimeout)
	defer cancel()
	if err := e.http.Shutdown(ctx); err != nil {
		log.Warn("requests did not finish in time and were aborted", "error", err)
		_ = e.http.Close()
	}
	_ = e.listener.Close() // the listener is bound even if it was never served
}

// buildListeners binds the addresses of the API and of operations. Neither listener serves requests
// yet.
func (a *App) buildListeners(registry *component.Registry) error {
	if a.cfg.Addr != "" {
		proxies, keys := auth.Proxies(a.cfg.TrustedProxies), auth.NewKeys(a.pools.api)
		workspaces, credits := workspace.NewService(a.pools.system, a.pools.api), billing.Reader{DB: a.pools.api}
		memory := a.buffers()
		a.metrics.WatchMemory(memory.Held)
		listed := catalog.New(registry)
		pages, err := a.pages(keys, workspaces, credits, proxies, listed)
		if err != nil {
			return err
		}
		var opened http.Handler
		if a.cfg.ticket != nil {
			opened = settings.OpenHandler(a.cfg.ticket, a.people, proxies, a.log)
		}
		handler, err := server.New(server.Deps{
			Executions: a.service, Callbacks: a.callbacks, Workflows: a.workflows, Runs: a.runs, Schedules: a.schedules, Hooks: a.hooks, Changes: a.changes, Environment: a.variables, Catalogue: listed, Guard: a.guard,
			Verifier: a.verifier, Limiter: a.limiter, People: a.people, Keys: keys, Workspaces: workspaces, Audit: a.book,
			Credits: credits, Console: pages, Open: opened, Proxies: proxies, Memory: memory, ReadyFunc: a.ready,
			Docs: portal.Handler(listed.All()), Draining: a.draining, BindCursors: a.cfg.bindCursors || cursor.SendBound, Streams: &a.streams, Metrics: a.metrics, Log: a.log,
		})
		if err != nil {
			return err
		}
		if handler, err = a.whileStarting(handler); err != nil {
			return err
		}
		limits, err := a.connections(proxies)
		if err != nil {
			return err
		}
		if a.api, err = open(a.cfg.Addr, handler, limits); err != nil {
			return err
		}
	}
	if a.cfg.OpsAddr == "" {
		return nil
	}
	health, err := server.Health(a.ready, a.metrics, a.log)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/", health)
	mux.Handle("GET /metrics", a.metrics.Handler())
	a.ops, err = open(a.cfg.OpsAddr, mux, server.Connections{Max: opsConnections, PerAddress: opsConnections, Log: a.log})
	return err
}

// pages returns the pages for people.
func (a *App) pages(keys *auth.Keys, workspaces *workspace.Service, credits billing.Reader, proxies auth.Proxies, listed *catalog.Catalog) (*http.ServeMux, error) {
	common := page.Deps{People: a.people, Audit: a.book, Proxies: proxies, Log: a.log}
	mux, err := page.NewMux(common)
	if err != nil {
		return nil, err
	}
	return mux, errors.Join(
		console.Mount(mux, console.Deps{Page: common, Workflows: a.workflows, Runs: a.runs, Catalogue: listed, Limiter: a.limiter, Executions: a.service, Callbacks: a.callbacks, Schedules: a.schedules, Credits: credits, Views: a.cfg.newTurns()}),
		settings.Mount(mux, settings.Deps{Page: common, Workspaces: workspaces, Keys: keys, Workflows: a.workflows, Credits: credits}),
	)
}

// refuseOwn keeps egress away from the listeners of this process and from PostgreSQL.
func (a *App) refuseOwn() {
	own := append(a.pools.addresses(), a.cfg.OwnAddresses...)
	for _, e := range []endpoint{a.api, a.ops} {
		if e.listener != nil {
			own = append(own, e.listener.Addr().String())
		}
	}
	for _, address := range own {
		a.guard.Refuse(address)
	}
}

const (
	// mostConnections is the limit even if descriptors would allow more: each connection costs about
	// 20 KiB of memory.
	mostConnections = 16_384
	// opsConnections is for the listener of health and metrics.
	opsConnections = 64
	// otherDescriptors are reserved for the operations listener, the database pools, files and
	// callbacks.
	otherDescriptors = opsConnections + 128
	// leastBuffer is the least memory for bodies of requests and responses.
	leastBuffer = 64 << 20
)

// connectionsFor returns how many connections the API may have open under a descriptor limit. It
// reserves descriptors for the operations listener, the database and the workers' requests: at
// least a quarter of the limit, and at most half of a low limit.
func connectionsFor(descriptors uint64, workers int) int {
	limit := int(min(descriptors, 1<<30))
	reserve := max(limit/4, min(limit/2, 2*workers+otherDescriptors))
	return min(limit-reserve, mostConnections)
}

// CheckConnections returns an error if the descriptor limit of this process is too low for
// WEFT_CONNECTIONS.
func (c Config) CheckConnections() error {
	_, err := c.descriptors()
	return err
}

// descriptors returns the descriptor limit of this process. It returns an error if the limit is too
// low for WEFT_CONNECTIONS.
func (c Config) descriptors() (uint64, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("read the file descriptor limit: %w", err)
	}
	return limit.Cur, c.fit(limit.Cur)
}

// fit returns an error if a descriptor limit is too low for WEFT_CONNECTIONS or, if that isn't set,
// for the service.
func (c Config) fit(descriptors uint64) error {
	highest := int(min(descriptors, 1<<30)) - otherDescriptors
	switch {
	case highest < 1:
		return fmt.Errorf("the file descriptor limit of %d is too low: Weft needs at least %d; raise the limit (ulimit -n, LimitNOFILE)", descriptors, otherDescriptors+1)
	case c.Connections > highest:
		return fmt.Errorf("WEFT_CONNECTIONS: the file descriptor limit of %d allows at most %d connections; raise the limit (ulimit -n, LimitNOFILE)", descriptors, highest)
	}
	return nil
}

// bufferMemory returns how many bytes the bodies of requests and responses in flight may hold: the
// configured number, but at most a third of the memory limit of the process, because Go's heap and
// what is decoded from the bodies need more than they do. It is at least leastBuffer.
func bufferMemory(configured, limit int64) int64 {
	return min(cmp.Or(configured, server.DefaultMemory), max(limit/3, leastBuffer))
}

// buffers returns the memory for bodies. It logs if that is less than what was configured.
func (a *App) buffers() *server.Memory {
	limitMemory()
	limit := debug.SetMemoryLimit(-1) // reads it
	bytes := bufferMemory(a.cfg.BufferMemory, limit)
	if bytes < a.cfg.BufferMemory {
		a.log.Warn("WEFT_BUFFER_MEMORY is more than a third of the memory limit and was reduced", "configured_mib", a.cfg.BufferMemory>>20, "mib", bytes>>20, "limit_mib", limit>>20)
	}
	return server.NewMemory(bytes)
}

// connections returns the limits of the API's listener. It returns an error if the descriptor limit
// is too low for WEFT_CONNECTIONS.
func (a *App) connections(proxies auth.Proxies) (server.Connections, error) {
	descriptors, err := a.cfg.descriptors()
	if err != nil {
		return server.Connections{}, err
	}
	most := cmp.Or(a.cfg.Connections, connectionsFor(descriptors, a.cfg.Workers))
	return server.Connections{
		Max: most, PerAddress: cmp.Or(a.cfg.ConnectionsPerAddress, max(most/8, 1)), ExemptFunc: proxies.Trusts,
		Metrics: a.metrics, Log: a.log,
	}, nil
}

// prepare runs beforeServing, if set.
func (a *App) prepare(ctx context.Context) error {
	if a.cfg.beforeServing == nil {
		return nil
	}
	return a.cfg.beforeServing(ctx, a)
}

// whileStarting returns a handler that only answers health checks until the process serves.
func (a *App) whileStarting(handler http.Handler) (http.Handler, error) {
	starting, err := server.Starting(a.ready, a.metrics, a.log)
	if err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-a.serving:
			handler.ServeHTTP(w, r)
		default:
			starting.ServeHTTP(w, r)
		}
	}), nil
}

// serve starts serving all requests.
func (a *App) serve() {
	close(a.serving)
	a.accept()
}

// accept starts answering requests on the bound addresses, once. Until the process serves, they
// only answer health checks.
func (a *App) accept() { a.accepting.Do(a.acceptOnce) }

func (a *App) acceptOnce() {
	for _, e := range []endpoint{a.ops, a.api} {
		if e.listener == nil {
			continue
		}
		a.running.Go(func() {
			if err := e.http.Serve(e.listener); !errors.Is(err, http.ErrServerClosed) {
				a.failed <- fmt.Errorf("serve %s: %w", e.listener.Addr(), err)
			}
		})
	}
}

// ready returns the readiness checks: the database answers within a second and accepts writes, its
// schema is this binary's, the workers make progress, and the process is not stopping.
func (a *App) ready(ctx context.Context) []server.Check {
	select {
	case <-a.serving:
	default: // preflight hasn't set all that the other checks read
		a.metrics.Ready("database", false)
		return []server.Check{{Name: "database", Err: errors.New("the process waits for the database")}}
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	checks := []server.Check{
		{Name: "database", Err: a.checkDatabase(ctx)},
		{Name: "migrations", Err: postgres.CheckSchema(ctx, a.pools.system)},
		{Name: "quarantine", Err: a.watch.CheckRestore()},
		{Name: "master_key", Err: a.keys.Check()},
		{Name: "clock", Err: a.watch.CheckClock()},
	}
	if a.cfg.Addr != "" {
		checks = append(checks, server.Check{Name: "acceptance", Err: a.service.Accepts()})
	}
	if a.workers != nil {
		checks = append(checks, server.Check{Name: "workers", Err: a.workers.runner.CheckProgress(ctx)})
	}
	select {
	case <-a.unready:
		checks = append(checks, server.Check{Name: "process", Err: errors.New("the process is stopping")})
	default:
	}
	for _, check := range checks {
		a.metrics.Ready(check.Name, check.Err == nil)
	}
	return checks
}
