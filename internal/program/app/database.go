package app

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/modules"
	"github.com/weft-automation/weft/internal/execution"
	"github.com/weft-automation/weft/internal/kit/wait"
	"github.com/weft-automation/weft/internal/platform/egress"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/permit"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/workflow"
	"github.com/weft-automation/weft/internal/workflow/orchestrator"
	"github.com/weft-automation/weft/internal/workflow/schedule"
	"github.com/weft-automation/weft/internal/workflow/uncertain"
)

// pools are the connection pools, one per purpose, so that no purpose can starve the others.
type pools struct {
	api    *pgxpool.Pool // requests, each scoped to its workspace
	system *pgxpool.Pool // authentication and maintenance, which read across workspaces
	limits *pgxpool.Pool // rate limits; slow ones do not slow others
	runs   *pgxpool.Pool // folding of runs, which may take long
	work   *pgxpool.Pool // writes of executions and deliveries
	queue  *pgxpool.Pool // the queue's own; nil in a process without workers

	apiTurns, workTurns *permit.Turns // the dispatcher of runs has its own limit
}

// newTurns returns permits for something that workspaces share.
func (c Config) newTurns() *permit.Turns {
	return permit.New(permit.Each, cmp.Or(c.turnPatience, permit.Patience))
}

// openPools opens the pools. They use only sessions that gate admits.
func openPools(ctx context.Context, cfg Config, gate postgres.Gate) (p *pools, err error) {
	open := func(how func(context.Context, string, string, postgres.Role, int32, ...postgres.Gate) (*pgxpool.Pool, error), name string, role postgres.Role, conns int32) (pool *pgxpool.Pool) {
		if err == nil {
			pool, err = how(ctx, cfg.DatabaseURL, name, role, conns, gate)
		}
		return pool
	}
	p = &pools{
		apiTurns: cfg.newTurns(), workTurns: cfg.newTurns(),
		api: open(postgres.Open, "api", cmp.Or(cfg.apiRole, postgres.API), 16), system: open(postgres.Open, "system", postgres.System, 6),
		limits: open(postgres.Open, "limits", postgres.System, 4), runs: open(postgres.Open, "runs", postgres.System, orchestrator.AdvancesAtOnce+2),
	}
	work := int32(6) // without workers only for direct executions, which share commits
	if cfg.Work {
		work = 12
		p.queue = open(postgres.OpenWithoutTimeouts, "queue", postgres.System, 16)
	}
	p.work = open(postgres.Open, "work", postgres.System, work)
	return p, err
}

// addresses returns the addresses of the database servers, except Unix sockets.
func (p *pools) addresses() (all []string) {
	config := p.system.Config().ConnConfig
	servers := append([]*pgconn.FallbackConfig{{Host: config.Host, Port: config.Port}}, config.Fallbacks...)
	for _, server := range servers {
		if !strings.HasPrefix(server.Host, "/") {
			all = append(all, net.JoinHostPort(server.Host, strconv.Itoa(int(server.Port))))
		}
	}
	return all
}

// used returns a function that reports whether requests, runs or workers may have committed
// something since its last call.
func (p *pools) used() func() bool {
	var count int64
	var busy bool
	return func() bool {
		var now int64
		was := busy
		busy = false
		for _, pool := range []*pgxpool.Pool{p.api, p.runs, p.work} {
			if pool != nil {
				stat := pool.Stat()
				now += stat.AcquireCount()
				busy = busy || stat.AcquiredConns() > 0
			}
		}
		changed := now != count
		count = now
		return changed || was
	}
}

// closeTimeout is how long close waits for connections that are still in use.
const closeTimeout = 2 * time.Second

func (p *pools) close() {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		for _, pool := range []*pgxpool.Pool{p.api, p.system, p.limits, p.runs, p.work, p.queue} {
			if pool != nil {
				pool.Close()
			}
		}
	}()
	select {
	case <-closed:
	case <-time.After(closeTimeout):
	}
}

// checkSchema returns an error unless the database has this binary's schema. If the check fails,
// checkSchema repeats it as the owner and returns the error of the second check, because a schema
// that is too old lacks the roles.
func (a *App) checkSchema(ctx context.Context) error {
	if postgres.CheckSchema(ctx, a.pools.system) == nil {
		return nil
	}
	pool, err := postgres.Open(ctx, a.cfg.DatabaseURL, "check", postgres.Owner, 1)
	if err != nil {
		return err
	}
	defer pool.Close()
	return postgres.CheckSchema(ctx, pool)
}

// checkDatabase returns an error if the database rejects writes, or if its sessions lack their
// roles and settings. The latter happens if a pooler was put in between after the startup.
func (a *App) checkDatabase(ctx context.Context) error {
	if err := postgres.CheckWritable(ctx, a.pools.api); err != nil {
		return err
	}
	if err := postgres.CheckSession(ctx, a.pools.api); err != nil {
		return err
	}
	return postgres.CheckSession(ctx, a.pools.system)
}

// waitLogInterval is how often a process that waits for the database logs why.
const waitLogInterval = 30 * time.Second

// awaitDatabase calls try until the database is available, ctx is done, or try fails for a reason
// that waiting does not fix. err is the error of the first attempt; if it is not recoverable,
// awaitDatabase returns it.
func awaitDatabase(ctx context.Context, log *slog.Logger, err error, try func() error) error {
	var backoff wait.Backoff
	var logged time.Time
	for postgres.Recoverable(err) {
		if time.Since(logged) >= waitLogInterval {
			logged = time.Now()
			log.WarnContext(ctx, "waiting for the database", "error", err)
		}
		if backoff.Wait(ctx) != nil {
			return err
		}
		err = try()
	}
	return err
}

// Migrate migrates the database to this binary's schema.
func Migrate(ctx context.Context, dsn string) error {
	if err := postgres.CheckPooler(ctx, dsn); err != nil {
		return fmt.Errorf("connect for migration: %w", err)
	}
	pool, err := postgres.OpenWithoutTimeouts(ctx, dsn, "migrate", postgres.Owner, 4)
	if err != nil {
		return err
	}
	defer pool.Close()
	return postgres.Migrate(ctx, pool)
}

// finder finds the runs of a restored database that would repeat a call that is not safe to repeat.
func finder(pool *pgxpool.Pool) (*uncertain.Finder, error) {
	registry, err := component.NewRegistry(modules.All(egress.New(egress.Policy{}))...)
	if err != nil {
		return nil, err
	}
	return &uncertain.Finder{DB: pool, Workflows: workflow.NewService(pool, registry, nil), Modules: registry}, nil
}

// CountUncertainRuns returns the number of unfinished runs in which a component that is not safe to
// repeat may still start.
func CountUncertainRuns(ctx context.Context, pool *pgxpool.Pool) (n int, err error) {
	f, err := finder(pool)
	if err != nil {
		return 0, err
	}
	err = f.Each(ctx, func(notify.Key) error { n++; return nil })
	return n, err
}

// FailUncertainRuns fails the runs that CountUncertainRuns counts, and returns their number. They finish
// after the release.
func FailUncertainRuns(ctx context.Context, pool *pgxpool.Pool) (n int, err error) {
	f, err := finder(pool)
	if err != nil {
		return 0, err
	}
	o := orchestrator.New(orchestrator.Deps{System: pool, Modules: f.Modules, Workflows: f.Workflows, Log: slog.New(slog.DiscardHandler)})
	defer o.Close()
	err = f.Each(ctx, func(key notify.Key) error {
		failed, err := o.FailRun(ctx, key, execution.RestoreUncertain, "The database was restored from a backup in which this run had not finished, and a component that is not safe to repeat may have run since. Check what took effect, then rerun it.")
		if failed {
			n++
		}
		return err
	})
	return n, err
}

// SkipDueSchedules skips the times of schedules that are due or queued, and returns the number of
// schedules. The runs of these times may have started after the backup.
func SkipDueSchedules(ctx context.Context, pool *pgxpool.Pool) (int, error) {
	return schedule.SkipDue(ctx, pool)
}

// FailUnsafe fails the unfinished executions of a database in quarantine that are not safe to
// repeat. It returns their number.
func FailUnsafe(ctx context.Context, pool *pgxpool.Pool) (int, error) {
	log := slog.New(slog.DiscardHandler)
	inserter, err := newInserter(pool, nil, log) // jobs are due immediately, so no clock is needed
	if err != nil {
		return 0, err
	}
	runner := execution.NewRunner(execution.Deps{DB: pool, Jobs: inserter}, &execution.Identity{}, 0, log)
	defer runner.Close()
	return runner.FailUnsafe(ctx)
}
