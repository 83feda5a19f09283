package app

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/weft-automation/weft/internal/account/accesstoken"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/execution"
	"github.com/weft-automation/weft/internal/execution/callback"
	"github.com/weft-automation/weft/internal/kit/wait"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/platform/quarantine"
	"github.com/weft-automation/weft/internal/platform/retention"
	"github.com/weft-automation/weft/internal/workflow/orchestrator"
)

// workers are the parts that execute components, deliver callbacks and sweep.
type workers struct {
	identity    *execution.Identity
	runner      *execution.Runner
	delivers    *callback.Deliverer
	sweeper     *execution.Sweeper
	keeper      *retention.Keeper
	queue       *river.Client[pgx.Tx]
	runs        *orchestrator.Sweeper
	watch       *quarantine.Watch
	log         *slog.Logger
	serving     <-chan struct{} // closed once the process serves
	stopTimeout time.Duration   // how long work in flight may continue after the stop has started
	deadline    time.Time       // stopTimeout after the start of the stop
	stopped     chan struct{}   // closed once the queue's workers have stopped

	fetching sync.Mutex
	stops    bool // nothing more may be fetched
}

func riverDriver(pool *pgxpool.Pool) *riverpgxv5.Driver { return riverpgxv5.New(pool) }

// queueLogger returns a logger for the queue that logs warnings and errors only.
func queueLogger(log *slog.Logger) *slog.Logger {
	return slog.New(atLeast{log.Handler(), slog.LevelWarn})
}

// atLeast is a handler that drops records below a level.
type atLeast struct {
	slog.Handler
	level slog.Level
}

func (h atLeast) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= h.level && h.Handler.Enabled(ctx, level)
}

func (h atLeast) WithAttrs(attrs []slog.Attr) slog.Handler {
	return atLeast{h.Handler.WithAttrs(attrs), h.level}
}

func (h atLeast) WithGroup(name string) slog.Handler {
	return atLeast{h.Handler.WithGroup(name), h.level}
}

// deliveriesPerSlot is how many callbacks a process handles concurrently for each slot. Nearly all
// callbacks wait, for a receiver or for their next attempt.
const deliveriesPerSlot = 4

// slotsOf returns how many executions a process can start at once. A workspace's share is a part of
// this number.
//
// A process with an API has the same number of slots again, for executions that it accepts
// directly. In a process without an API, these slots only start the successors of finished
// executions. If they were counted too, one workspace could fill all slots of the queue while other
// workspaces wait.
func slotsOf(cfg Config) int {
	if cfg.Addr == "" {
		return cfg.Workers
	}
	return 2 * cfg.Workers
}

// executionDeps returns the dependencies of executions.
func (a *App) executionDeps(registry *component.Registry, inserter *river.Client[pgx.Tx]) execution.Deps {
	return execution.Deps{
		DB: a.pools.api, Turns: a.pools.apiTurns, Jobs: inserter, Modules: registry, Keyring: a.cfg.Keyring, Vault: a.vault, Hub: a.hub,
		Draining: a.draining, Metrics: a.metrics, Quarantined: a.held, Clock: a.clock,
		Tokens:      accesstoken.New(a.pools.system, a.cfg.Keyring, a.guard),
		CallTimeout: a.cfg.componentTimeout(),
	}
}

func newWorkers(a *App, deps execution.Deps) *workers {
	h := &workers{watch: a.watch, log: a.log, stopTimeout: a.cfg.stopTimeout(), serving: a.serving, stopped: make(chan struct{})}
	deps.DB, deps.Turns = a.pools.work, a.pools.workTurns
	h.identity = execution.NewIdentity(a.cfg.DatabaseURL, slotsOf(a.cfg), a.log)
	h.identity.MayLead = func() bool { return !a.watch.Adrift() }
	h.delivers = callback.NewDeliverer(callback.Deps{
		DB: deps.DB, Jobs: deps.Jobs, Keyring: deps.Keyring, Vault: deps.Vault, Guard: a.guard, Clock: a.clock, Log: a.log,
		Attempted: a.metrics.CallbackAttempted, Quarantined: func() bool { return a.held() != nil },
	}, callback.Settings{
		Schedule: a.cfg.CallbackSchedule,
		InFlight: deliveriesPerSlot * a.cfg.Workers / 2, // the other half of the queue's slots is for jobs that wait for their turn
	})
	deps.Deliverer = h.delivers
	h.runner = execution.NewRunner(deps, h.identity, a.cfg.Workers, a.log)
	h.sweeper = execution.NewSweeper(h.runner)
	h.keeper = retention.NewKeeper(deps.DB, a.cfg.Retention, a.metrics, a.log)
	return h
}

// join creates the queue's workers and connects them to the engine of runs.
func (h *workers) join(a *App, runs *orchestrator.Orchestrator) error {
	h.runs = orchestrator.NewSweeper(runs)
	h.runs.Schedule = a.schedules.Enqueue
	kinds := river.NewWorkers()
	river.AddWorker(kinds, &execution.Worker{Runner: h.runner})
	river.AddWorker(kinds, &callback.Worker{Deliverer: h.delivers})
	river.AddWorker(kinds, &orchestrator.Worker{Orchestrator: runs})
	var err error
	h.queue, err = river.NewClient(riverDriver(a.pools.queue), &river.Config{
		Schema:  postgres.RiverSchema,
		Logger:  queueLogger(a.log),
		Workers: kinds,
		Queues: map[string]river.QueueConfig{
			// Executions start within 1.5 s even if notifications are lost (EX-16). A second would leave
			// too little for a busy machine.
			execution.Queue: {MaxWorkers: a.cfg.Workers, FetchPollInterval: 750 * time.Millisecond, FetchCooldown: time.Millisecond},
			// Workers start a first delivery without the queue, and River schedules retries every 5 s.
			callback.Queue: {MaxWorkers: deliveriesPerSlot * a.cfg.Workers, FetchPollInterval: 5 * time.Second, FetchCooldown: time.Millisecond},
		},
		FetchOnlyKnownKinds:         true,
		JobTimeout:                  -1, // executions and callbacks have their own deadlines
		CompletedJobRetentionPeriod: time.Hour,
		SoftStopTimeout:             h.stopTimeout,
		// River has no other way to follow PostgreSQL's clock. Otherwise it would use this machine's
		// clock to compute due times of snoozes and retries, and to find due jobs.
		Test: river.TestConfig{Time: a.clock},
	})
	if err != nil {
		return fmt.Errorf("create the queue's workers: %w", err)
	}
	return nil
}

func (h *workers) start(ctx, background context.Context, running *sync.WaitGroup) error {
	running.Go(func() {
		h.identity.Run(background, func(ctx context.Context) {
			select {
			case <-h.serving: // a sweep would nearly double the work of the start
			case <-ctx.Done():
				return
			}
			if h.watch.Held() {
				return // a restored database must not be changed yet
			}
			h.sweeper.Sweep(ctx)
			h.delivers.Sweep(ctx)
			h.runs.Sweep(ctx)
			h.keeper.Sweep(ctx)
			h.watch.Beat()
		})
	})
	running.Go(func() { h.runner.Reclaim(background) })
	select {
	case <-h.identity.Ready():
	case <-ctx.Done():
		return ctx.Err()
	}
	if !h.watch.Held() {
		if err := h.fetch(background); err != nil && !postgres.Unavailable(err) { // controlFetching repeats it
			return err
		}
	}
	running.Go(func() { h.controlFetching(background) })
	return nil
}

// controlFetching starts fetching once the quarantine is lifted. It pauses fetching while this
// process's clock differs from the database's, so that other processes do the work.
func (h *workers) controlFetching(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-h.watch.Freed():
	}
	for again := true; again; again = wait.For(ctx, controlInterval) == nil {
		var err error
		if h.watch.Adrift() {
			err = h.queue.Stop(ctx) // stopping twice is harmless, as is starting twice
		} else {
			err = h.fetch(ctx)
		}
		if err != nil && ctx.Err() == nil {
			h.log.ErrorContext(ctx, "could not start or pause fetching from the queue", "error", err)
		}
	}
}

const controlInterval = time.Second

// fetch starts the queue's workers, unless the process is stopping.
func (h *workers) fetch(background context.Context) error {
	h.fetching.Lock()
	defer h.fetching.Unlock()
	if h.stops {
		return nil
	}
	if err := h.queue.Start(background); err != nil {
		return fmt.Errorf("start the queue's workers: %w", err)
	}
	return nil
}

// stopFetching stops fetching work without waiting. Jobs in flight are interrupted after the stop
// timeout.
func (h *workers) stopFetching(ctx context.Context) {
	h.deadline = time.Now().Add(h.stopTimeout)
	h.runner.StopSuccessors()
	h.fetching.Lock()
	h.stops = true
	h.fetching.Unlock()
	go func() {
		defer close(h.stopped)
		if err := h.queue.Stop(ctx); err != nil {
			h.log.Warn("the queue's workers did not stop in time", "error", err)
		}
	}()
}

// stop waits for work in flight until the deadline, then interrupts it. The worker's identity stays
// alive until that work has stopped, because the worker still owns the executions.
func (h *workers) stop(ctx context.Context) {
	soft, cancel := context.WithDeadline(ctx, h.deadline)
	defer cancel()
	h.runner.Drain(soft)
	<-h.stopped
	h.runner.Close()
	h.delivers.Drain(soft)
}
