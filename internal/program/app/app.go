// Package app builds the running service: it reads the configuration, constructs the parts, and
// starts and stops them in order.
//
// Package app only connects other packages. Invariant: Every part that was started is stopped, in
// reverse order, and no part stops while a part that depends on it is running.
//
// # Scaling
//
// Serving and working processes share nothing but PostgreSQL, so that is what bounds a deployment.
//
//   - Processor time of PostgreSQL: a server with 32 cores, half of them kept free, is about 10,000
//     executions a second.
//   - Disk: 4 kB of WAL for each execution and a fifth of a commit. One NVMe disk does ten times that.
//   - Connections: a few dozen per process. Ten processes are fine, a hundred are not planned for.
//   - Storage: about 2 kB for each execution, besides its payloads.
//   - Streams: 10,000 in one serving process hold about 300 MB.
//
// Beyond that come, in this order: read replicas for lists and docs, large payloads in object storage,
// and several PostgreSQL clusters with a directory from workspace to cluster. A workspace never spans
// two. Therefore no foreign key crosses workspaces, no hot path uses a global sequence, and every key
// starts with the workspace.
package app

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"github.com/weft-automation/weft/internal/account/audit"
	"github.com/weft-automation/weft/internal/account/auth"
	"github.com/weft-automation/weft/internal/account/environment"
	"github.com/weft-automation/weft/internal/account/person"
	"github.com/weft-automation/weft/internal/account/ratelimit"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/modules"
	"github.com/weft-automation/weft/internal/execution"
	"github.com/weft-automation/weft/internal/execution/callback"
	"github.com/weft-automation/weft/internal/kit/uuid7"
	"github.com/weft-automation/weft/internal/kit/wait"
	"github.com/weft-automation/weft/internal/platform/clock"
	"github.com/weft-automation/weft/internal/platform/egress"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/platform/quarantine"
	"github.com/weft-automation/weft/internal/platform/telemetry"
	"github.com/weft-automation/weft/internal/program/rotation"
	"github.com/weft-automation/weft/internal/secret/vault"
	"github.com/weft-automation/weft/internal/workflow"
	"github.com/weft-automation/weft/internal/workflow/changes"
	"github.com/weft-automation/weft/internal/workflow/hook"
	"github.com/weft-automation/weft/internal/workflow/orchestrator"
	"github.com/weft-automation/weft/internal/workflow/run"
	"github.com/weft-automation/weft/internal/workflow/schedule"
)

// App is one running process: API, workers, or both.
type App struct {
	cfg Config
	log *slog.Logger

	pools     *pools
	hub       *notify.Hub
	watch     *quarantine.Watch
	keys      *rotation.Holder
	clock     *clock.Clock // PostgreSQL's clock
	guard     *egress.Guard
	service   *execution.Service
	callbacks *callback.Service
	workflows *workflow.Service
	variables *environment.Service
	vault     *vault.Vault
	verifier  *auth.Verifier
	book      *audit.Book
	people    *person.Service
	limiter   *ratelimit.Limiter // nil in a process without an API
	metrics   *telemetry.Metrics
	workers   *workers // nil in a process without workers
	engine    *orchestrator.Orchestrator
	runs      *run.Service
	schedules *schedule.Service
	hooks     *hook.Service
	changes   *changes.Service
	runner    *execution.Runner // the runner of the workers, or a runner that only cancels executions and runs components without effect
	untrace   func(context.Context) error

	api, ops   endpoint
	accepting  sync.Once      // starts the listeners
	serving    chan struct{}  // closed once the process serves all requests
	unready    chan struct{}  // closed once readiness is false; requests are still served
	draining   chan struct{}  // closed when open streams must finish, which http.Server.Shutdown does not make them do
	streams    sync.WaitGroup // open streams
	background context.CancelFunc
	running    sync.WaitGroup
	failed     chan error
	stopped    sync.Once
}

// Start builds and starts a process, and returns it once the API answers and the workers fetch. It
// waits for a database that is unavailable; the process is then alive and not ready. The schema must
// be up to date (see Migrate). If it returns an error, nothing is left running.
func Start(ctx context.Context, cfg Config, log *slog.Logger) (*App, error) {
	ctx = audit.By(ctx, audit.Actor{Kind: audit.System}) // the process itself acts, not a user
	a := &App{cfg: cfg, log: log, unready: make(chan struct{}), draining: make(chan struct{}), serving: make(chan struct{}), failed: make(chan error, 4)}
	background, cancel := context.WithCancel(context.WithoutCancel(ctx))
	a.background = cancel
	err := a.build(ctx, background)
	if err == nil {
		err = a.start(ctx, background)
	}
	if err != nil {
		a.Stop(context.WithoutCancel(ctx))
		return nil, err
	}
	return a, nil
}

// build constructs all parts while preflight checks the database.
func (a *App) build(ctx, background context.Context) (err error) {
	if a.untrace, err = telemetry.StartTracing(ctx, a.cfg.TraceEndpoint, Version, a.log); err != nil {
		return err
	}
	admit := func(ctx context.Context, session *pgx.Conn, on postgres.Server) error {
		return a.watch.Admit(ctx, session, on)
	}
	if a.pools, err = openPools(ctx, a.cfg, admit); err != nil { // this connects to nothing yet
		return err
	}
	a.clock = clock.New(a.cfg.now)
	a.watch = quarantine.NewWatch(a.pools.system, a.log)
	a.watch.Clock, a.watch.Tolerance = a.clock, cmp.Or(a.cfg.ClockTolerance, defaultClockTolerance)
	if a.cfg.now == nil { // a test's clock must not stop the IDs of other tests
		a.watch.IDs = uuid7.Process
	}
	checked := inBackground(func() error { return a.preflight(ctx, background) })
	err = a.construct()
	failed := checked()
	if err != nil || !postgres.Recoverable(failed) {
		return cmp.Or(failed, err)
	}
	a.accept() // a process that waits is alive, and not ready
	return awaitDatabase(ctx, a.log, failed, func() error { return a.preflight(ctx, background) })
}

// preflight checks that this process may work on the database, and publishes the fingerprints of
// its master keys.
func (a *App) preflight(ctx, background context.Context) error {
	if err := postgres.CheckPooler(ctx, a.cfg.DatabaseURL); err != nil {
		return fmt.Errorf("connect to the database: %w", err)
	}
	if err := a.checkSchema(ctx); err != nil {
		return err
	}
	if err := a.watch.Poll(ctx); err != nil {
		return err
	}
	keys, err := rotation.Hold(ctx, a.cfg.DatabaseURL, a.cfg.Keyring, a.log)
	if err != nil {
		return err
	}
	a.keys = keys
	a.running.Go(func() { keys.Run(background) })
	return nil
}

// held returns the reason why this process may currently accept and start nothing: the database is
// in quarantine, or this process has a wrong master key. Otherwise it returns nil.
func (a *App) held() error { return cmp.Or(a.watch.Check(), a.keys.Check()) }

// construct creates the parts, lowest layer first, without starting anything.
func (a *App) construct() error {
	a.guard = egress.New(egress.Policy{
		Allow: a.cfg.AllowNetworks, AllowHosts: a.cfg.AllowHosts, Roots: a.cfg.EgressRoots,
	})
	registry, err := component.NewRegistry(modules.All(a.guard)...)
	if err != nil {
		return fmt.Errorf("register modules: %w", err)
	}
	inserter, err := newInserter(a.pools.api, a.clock, a.log)
	if err != nil {
		return err
	}
	a.hub = notify.NewHub()
	a.observe(registry)
	a.vault = vault.New(a.pools.system, a.cfg.Keyring)
	deps := a.executionDeps(registry, inserter)
	if a.cfg.Work {
		a.workers = newWorkers(a, deps)
		a.runner = a.workers.runner
	} else {
		serving, slots := deps, a.cfg.Workers
		serving.DB, serving.Turns = a.pools.work, a.pools.workTurns
		if a.cfg.WorkersOnly {
			slots = 0
		}
		a.runner = execution.NewRunner(serving, &execution.Identity{}, slots, a.log)
	}
	a.service = execution.NewService(deps, a.runner)
	a.workflows = workflow.NewService(a.pools.api, registry, a.cfg.Keyring)
	a.workflows.Turns = a.pools.apiTurns
	if err := a.buildRuns(registry, inserter); err != nil {
		return err
	}
	a.callbacks = callback.NewService(a.pools.api, inserter)
	a.book = audit.NewBook(a.pools.system, a.pools.api, a.metrics.AuditLost, a.log)
	a.people = person.NewService(a.pools.system, a.pools.api, a.book, person.Options{
		Keyring: a.cfg.Keyring, Mail: a.cfg.Mail, PublicURL: a.cfg.PublicURL, Log: a.log,
	})
	if err := a.buildGates(); err != nil {
		return err
	}
	if err := a.buildListeners(registry); err != nil {
		return err
	}
	a.refuseOwn()
	return nil
}

// buildGates constructs what every request passes first: authentication and rate limits.
func (a *App) buildGates() (err error) {
	if a.verifier, err = auth.NewVerifier(a.pools.system, auth.Options{Leeway: a.cfg.TimestampLeeway}); err != nil || a.cfg.Addr == "" {
		return err
	}
	a.limiter, err = ratelimit.New(a.pools.limits, a.metrics, cmp.Or(a.cfg.LimiterPatience, ratelimit.Patience))
	return err
}

// buildRuns constructs the engine and the services of workflow runs. Every process has the engine
// and these services, because advancing a run needs no worker.
func (a *App) buildRuns(registry *component.Registry, inserter *river.Client[pgx.Tx]) error {
	a.variables = environment.NewService(a.pools.api, a.cfg.Keyring)
	a.variables.CheckTarget, a.variables.Turns = a.guard.CheckTarget, a.pools.apiTurns
	a.engine = orchestrator.New(orchestrator.Deps{
		System: a.pools.runs, Hub: a.hub, Executions: a.service, Modules: registry,
		Workflows: a.workflows, Environment: a.variables, Vault: a.vault, Quarantined: a.held, Clock: a.clock, Log: a.log,
		ExecuteAll: !a.cfg.Work && a.cfg.WorkersOnly, PublicURL: a.cfg.PublicURL,
	})
	a.runner.Finish = a.engine.FinishStage
	a.runs = run.NewService(run.Deps{
		API: a.pools.api, Turns: a.pools.apiTurns, Hub: a.hub, Engine: a.engine, Executions: a.service, Modules: registry,
		Workflows: a.workflows, Environment: a.variables, Vault: a.vault, Draining: a.draining, Quarantined: a.held,
	})
	a.schedules = schedule.NewService(schedule.Deps{API: a.pools.api, Turns: a.pools.apiTurns, Runs: a.runs, Vault: a.vault, Log: a.log})
	a.workflows.Unfit = a.schedules.Unfit
	a.changes = changes.NewService(changes.Deps{API: a.pools.api, Hub: a.hub, Log: a.log})
	a.hooks = hook.NewService(hook.Deps{API: a.pools.api, Turns: a.pools.apiTurns, System: a.pools.system, Runs: a.runs, Keyring: a.cfg.Keyring, Log: a.log})
	if a.workers == nil {
		return nil
	}
	return a.workers.join(a, a.engine)
}

// observe creates the metrics and registers the values that they sample.
func (a *App) observe(registry *component.Registry) {
	a.metrics = telemetry.NewMetrics(Version)
	for name, pool := range map[string]*pgxpool.Pool{
		"api": a.pools.api, "system": a.pools.system, "limits": a.pools.limits, "runs": a.pools.runs, "work": a.pools.work, "queue": a.pools.queue,
	} {
		if pool != nil {
			a.metrics.WatchPool(name, pool)
		}
	}
	a.metrics.WatchDatabase(a.pools.system)
	a.metrics.WatchStuck(registry.Stuck)
	a.metrics.WatchComputing(registry.Computing)
	a.metrics.WatchClock(a.clock.Offset)
}

// start starts the parts, lowest layer first: notifications, workers, then the listeners.
func (a *App) start(ctx, background context.Context) error {
	relay := &notify.Relay{Hub: a.hub, DSN: a.cfg.DatabaseURL, Log: a.log, Changed: a.changed, Lost: a.metrics.ListenLost}
	a.running.Go(func() { relay.Run(background) })
	a.running.Go(func() { a.watch.Run(background) })
	a.running.Go(func() { a.watch.Track(background, a.pools.used()) })
	a.running.Go(func() { a.book.Run(background) })
	if a.limiter != nil {
		a.running.Go(func() { a.limiter.Run(background) })
	}
	prepared := inBackground(func() error { return a.prepare(ctx) })
	var err error
	if a.workers != nil {
		err = a.workers.start(ctx, background, &a.running)
	}
	if err = cmp.Or(err, prepared()); err != nil {
		return err
	}
	a.serve()
	a.running.Go(func() { a.afterStart(background) })
	return nil
}

// afterStart does work that can wait until the clients that were waiting for the start are served.
func (a *App) afterStart(ctx context.Context) {
	if wait.For(ctx, time.Second) == nil {
		rotation.WarnOfUnreadableValues(ctx, a.pools.system, a.cfg.Keyring, a.log)
	}
}

// inBackground calls fn in a goroutine. The caller calls wait exactly once, which returns fn's
// error.
func inBackground(fn func() error) (wait func() error) {
	result := make(chan error, 1)
	go func() { result <- fn() }()
	return func() error { return <-result }
}

// changed returns those of the watched executions and runs that changed within the given duration.
func (a *App) changed(ctx context.Context, keys []notify.Key, window time.Duration) ([]notify.Key, error) {
	executions, err := execution.Changed(a.pools.system)(ctx, keys, window)
	if err != nil {
		return nil, err
	}
	runs, err := run.Changed(a.pools.system)(ctx, keys, window)
	return append(executions, runs...), err
}

// URL returns the base URL of the API, or "" if this process serves none.
func (a *App) URL() string { return a.api.url() }

// OpsURL returns the base URL of health and metrics, or "" if this process serves none.
func (a *App) OpsURL() string { return a.ops.url() }

// Failed returns a channel that receives an error when a part has stopped working for good.
func (a *App) Failed() <-chan error { return a.failed }

// tuneMemory returns the memory that the startup used to the system. It also raises GOGC to 200,
// unless GOGC is set, because a small heap would be collected too often. GOMEMLIMIT still bounds
// the heap.
func tuneMemory() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(200)
	}
	limitMemory()
	time.AfterFunc(time.Second, debug.FreeOSMemory)
}

// limitMemory sets GOMEMLIMIT to nine tenths of the memory that the cgroup allows, unless it is set.
var limitMemory = sync.OnceFunc(func() {
	_, _ = memlimit.Set() // a process without a cgroup keeps its limit
})

// Run starts a process and stops it when ctx is done or a part fails. It returns the error of the
// failed part, or of the startup.
func Run(ctx context.Context, cfg Config, log *slog.Logger) error {
	a, err := Start(ctx, cfg, log)
	if err != nil {
		return unlessStopped(ctx, err)
	}
	tuneMemory()
	if len(cfg.AllowNetworks) > 0 {
		log.Warn("egress may reach non-public networks, also over plain http: use this for development and tests only",
			"networks", fmt.Sprint(cfg.AllowNetworks))
	}
	log.Info("weft is running", "version", Version, "api", a.URL(), "ops", a.OpsURL(), "works", cfg.Work)
	select {
	case <-ctx.Done():
		err = nil
	case err = <-a.failed:
	}
	log.Info("weft is stopping", "drainDelay", cfg.DrainDelay.String(), "stopTimeout", cfg.stopTimeout().String())
	a.Stop(context.WithoutCancel(ctx))
	return err
}

// unlessStopped returns the error of a startup, or nil if ctx is done: the startup was stopped.
func unlessStopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// newInserter returns a River client that only inserts jobs. The services use this client, so
// accepting work needs no workers.
func newInserter(pool *pgxpool.Pool, databaseClock *clock.Clock, log *slog.Logger) (*river.Client[pgx.Tx], error) {
	client, err := river.NewClient(riverDriver(pool), &river.Config{
		Schema: postgres.RiverSchema, Logger: queueLogger(log),
		// River notifies fetchers at most once per cooldown. A job inserted during the cooldown
		// would wait until the fetchers poll.
		FetchCooldown: time.Millisecond,
		Test:          river.TestConfig{Time: databaseClock},
	})
	if err != nil {
		return nil, fmt.Errorf("create the queue's inserter: %w", err)
	}
	return client, nil
}
