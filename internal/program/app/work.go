package app

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/execution"
	"github.com/weft-automation/weft/internal/execution/callback"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/platform/quarantine"
	"github.com/weft-automation/weft/internal/platform/retention"
	"github.com/weft-automation/weft/internal/workflow/engine"
)

// workingHalf runs components and delivers callbacks.
type workingHalf struct {
	identity *execution.Identity
	runner   *execution.Runner
	delivers *callback.Deliverer
	sweeper  *execution.Sweeper
	keeper   *retention.Keeper
	queue    *river.Client[pgx.Tx]
	runs     *engine.Sweeper
	watch    *quarantine.Watch
	log      *slog.Logger
	serving  <-chan struct{} // closed once the start has ended
	patience time.Duration   // how long work in flight may go on once the stop began
	deadline time.Time       // patience after the stop began
	stopped  chan struct{}   // closed once the queue's workers have ended

	fetching sync.Mutex
	stops    bool // nothing is to be fetched any more
}

func riverDriver(pool *pgxpool.Pool) *riverpgxv5.Driver { return riverpgxv5.New(pool) }

// queueLogger keeps the queue's own chatter out of the log, not its warnings.
func queueLogger(log *slog.Logger) *slog.Logger {
	return slog.New(atLeast{log.Handler(), slog.LevelWarn})
}

// atLeast is a handler that drops what is below a level.
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

// deliveriesPerSlot is how many callbacks a process has in hand for each slot:
// nearly all of them wait, for a receiver or for their turn at one.
const deliveriesPerSlot = 4

// slotsOf is how many executions can begin at once in a process, which is what the
// window of a workspace is a part of. What a process accepts it begins in slots
// beside those of the queue. Where nothing is accepted those begin only what comes
// in the place of what has ended: a window of them too would let one workspace fill
// the queue's, which others wait for.
func slotsOf(cfg Config) int {
	if cfg.Addr == "" {
		return cfg.Workers
	}
	return 2 * cfg.Workers
}

// executionDeps is what executions are made of. The engine is made after them.
func (a *App) executionDeps(registry *component.Registry, inserter *river.Client[pgx.Tx]) execution.Deps {
	return execution.Deps{
		DB: a.pools.api, Jobs: inserter, Modules: registry, Keyring: a.cfg.Keyring, Vault: a.vault, Hub: a.hub,
		Draining: a.draining, Metrics: a.metrics, Quarantined: a.held, Clock: a.clock, Ledger: billing.Books{},
		CallTimeout: a.cfg.componentTimeout(),
		Ended:       func(ctx context.Context, stages map[notify.Key][]uuid.UUID) { a.engine.ExecutionsFinished(ctx, stages) },
		EndWithRun: func(ctx context.Context, run notify.Key, end *execution.End) error {
			return a.engine.FinishStage(ctx, run, end)
		},
	}
}

func newWorkingHalf(a *App, deps execution.Deps) *workingHalf {
	h := &workingHalf{watch: a.watch, log: a.log, patience: a.cfg.stopTimeout(), serving: a.serving, stopped: make(chan struct{})}
	deps.DB = a.pools.work
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

// join gives the half its queue, and the runs that it brings on.
func (h *workingHalf) join(a *App, runs *engine.Engine) error {
	h.runs = engine.NewSweeper(runs)
	h.runs.Schedule = a.schedules.Enqueue
	workers := river.NewWorkers()
	river.AddWorker(workers, &execution.Worker{Runner: h.runner})
	river.AddWorker(workers, &callback.Worker{Deliverer: h.delivers})
	river.AddWorker(workers, &engine.Worker{Engine: runs})
	var err error
	h.queue, err = river.NewClient(riverDriver(a.pools.queue), &river.Config{
		Schema:  postgres.RiverSchema,
		Logger:  queueLogger(a.log),
		Workers: workers,
		Queues: map[string]river.QueueConfig{
			execution.Queue: {MaxWorkers: a.cfg.Workers, FetchPollInterval: 400 * time.Millisecond, FetchCooldown: time.Millisecond},
			callback.Queue:  {MaxWorkers: deliveriesPerSlot * a.cfg.Workers, FetchPollInterval: 2 * time.Second, FetchCooldown: time.Millisecond},
		},
		FetchOnlyKnownKinds:         true,
		JobTimeout:                  -1, // the deadline of work is our own
		CompletedJobRetentionPeriod: time.Hour,
		SoftStopTimeout:             h.patience,
		// River has no other way to follow PostgreSQL's clock: it would compute due times of
		// snoozes and retries, and which scheduled jobs are due, by this machine's.
		Test: river.TestConfig{Time: a.clock},
	})
	if err != nil {
		return fmt.Errorf("make the queue's workers: %w", err)
	}
	return nil
}

func (h *workingHalf) start(ctx, background context.Context, running *sync.WaitGroup) error {
	running.Go(func() {
		h.identity.Run(background, func(ctx context.Context) {
			select {
			case <-h.serving: // a sweep is as much work again as the rest of the start
			case <-ctx.Done():
				return
			}
			if h.watch.Held() {
				return // what a restored database shows is not to be put right yet
			}
			h.watch.Beat()
			h.sweeper.Sweep(ctx)
			h.delivers.Sweep(ctx)
			h.runs.Sweep(ctx)
			h.keeper.Sweep(ctx)
		})
	})
	running.Go(func() { h.runner.Reclaim(background) })
	select {
	case <-h.identity.Ready():
	case <-ctx.Done():
		return ctx.Err()
	}
	if !h.watch.Held() {
		if err := h.fetch(background); err != nil {
			return err
		}
	}
	running.Go(func() { h.tend(background) })
	return nil
}

// tend starts fetching once work may begin, and pauses while this process's clock differs
// from the database's: other processes go on with the work.
func (h *workingHalf) tend(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-h.watch.Freed():
	}
	ticker := time.NewTicker(tendEvery)
	defer ticker.Stop()
	for {
		var err error
		if h.watch.Adrift() {
			err = h.queue.Stop(ctx) // once it has stopped this does nothing, as does a second start
		} else {
			err = h.fetch(ctx)
		}
		if err != nil && ctx.Err() == nil {
			h.log.ErrorContext(ctx, "fetching from the queue could not be started or paused", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

const tendEvery = time.Second

// fetch starts the queue's workers, unless the stop has begun.
func (h *workingHalf) fetch(background context.Context) error {
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

// stopFetching starts the stop: no work is fetched from now on, and what the
// queue brought is interrupted after the stop timeout. It does not wait.
func (h *workingHalf) stopFetching(ctx context.Context) {
	h.deadline = time.Now().Add(h.patience)
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

// stop lets work under way finish, then interrupts it. The identity lives on
// until the end: what is being settled is still this worker's.
func (h *workingHalf) stop(ctx context.Context) {
	soft, cancel := context.WithDeadline(ctx, h.deadline)
	defer cancel()
	h.runner.Drain(soft)
	<-h.stopped
	h.runner.Close()
	h.delivers.Drain(soft)
}
