// Package engine advances the runs of workflows from their first stage to their end.
//
// Packages execution and graph do the rest: a stage that does work is an execution, and the graph
// says which components are ready. The engine knows neither HTTP nor who requested a run. It works
// in folds: under the lock of the run's row, a fold applies what has finished since the last one
// and commits everything that follows from it. The one invariant: folding again changes nothing,
// so any process may fold at any time.
package engine

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/environment"
	"github.com/weft-automation/weft/internal/account/storage"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/execution"
	"github.com/weft-automation/weft/internal/platform/clock"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/secret/vault"
	"github.com/weft-automation/weft/internal/workflow"
)

// Bounds of a run (decisions 8.5, 8.7).
const (
	MaxStages     = storage.MaxStages
	MaxItems      = 10_000
	maxOutput     = storage.MaxBytes // of the outputs of all stages
	maxStageValue = 1 << 20          // bytes of what a stage takes, and of an output that the engine itself makes
	// Lasts is how long a run may take: the longest wait, of 366 days, fits in.
	Lasts = 400 * 24 * time.Hour
)

// Deps is what the engine is made of.
type Deps struct {
	System *pgxpool.Pool // that serves all workspaces; FoldsAtOnce of its connections may be held
	Jobs   *river.Client[pgx.Tx]
	Hub    *notify.Hub

	Executions  *execution.Service
	Modules     *component.Registry
	Workflows   *workflow.Service
	Environment *environment.Service
	Vault       *vault.Vault // of secret outputs
	// Quarantined returns why nothing may be begun for now, if so; nil: never.
	Quarantined func() error
	Clock       *clock.Clock // of due times; nil: this process's own
	Log         *slog.Logger
}

// Unanswered comes with the news of a run that has neither ended nor answered.
const Unanswered = unanswered(true)

type unanswered bool

// Engine brings runs on.
type Engine struct {
	Deps
	folder   *folder
	items    itemCache
	memory   memory
	troubles troubles
}

// New makes it. Close ends it.
func New(deps Deps) *Engine {
	e := &Engine{Deps: deps}
	e.folder = newFolder(e)
	return e
}

// Close returns when no fold is under way any more, and begins none from now on.
func (e *Engine) Close() { e.folder.close() }

// Wake has a run folded soon, whatever has happened to it. It returns at once.
func (e *Engine) Wake(key notify.Key) { e.folder.wake(key) }

// Begun is the first fold of a run, made in the transaction that accepts it.
type Begun struct{ fold *fold }

// errNotBegun is of a transaction that may accept a run without its first fold.
var errNotBegun = errors.New("the run could not be begun where it was accepted")

// BeginTx folds a run that the caller has left tx.Last to insert, has it admitted with its
// first stages, and has row say how it then stands. Nil, with row as it was: the run is over
// at once, and only the engine itself may charge for it, so that fold is left to Follow.
// Errors: what the acceptance refuses, and what Unbegun knows.
func (e *Engine) BeginTx(ctx context.Context, tx *postgres.Tx, row *db.RunInsertParams, version workflow.Loaded, begins *execution.Beginning, how *execution.Acceptance) (*Begun, error) {
	now := e.Clock.Now()
	f := e.newFold(ctx, tx, db.RunLockRow{
		WorkspaceID: row.WorkspaceID, ID: row.ID, WorkflowID: row.WorkflowID, WorkflowVersion: row.WorkflowVersion,
		Status: row.Status, Trigger: row.Trigger, Input: row.Input, Variables: row.Variables, Reserved: row.Reserved, MaxCredits: row.MaxCredits,
		KeyRootID: row.KeyRootID, Traceparent: row.Traceparent, Deadline: now.Add(row.Lasts), CreatedAt: now, UpdatedAt: now, Now: now, RootRunID: row.ID,
	}, version)
	f.first = true
	if err := f.follow(news{}, nil); err != nil {
		return nil, fmt.Errorf("%w: %w", errNotBegun, err)
	}
	if f.fee() > 0 { // only the engine itself may charge for it
		return nil, errNotBegun
	}
	if err := f.countInTree(); err != nil {
		return nil, err
	}
	stored := f.stored()
	begins.Bytes += stored
	err := f.accept(func(ctx context.Context, tx *postgres.Tx, stages []execution.Stage) ([]error, error) {
		return how.BeginTx(ctx, tx, begins, stages)
	})
	if err != nil {
		return nil, err
	}
	if f.run.PendingCount == 0 {
		begins.Bytes -= stored // it is folded again
		return nil, nil
	}
	f.run.UncountedBytes = -stored
	return &Begun{f}, f.writeFirst(row)
}

// Unbegun reports whether a transaction that BeginTx was part of, and that failed, may
// succeed without it: then the run is accepted, and the engine tells of it what is wrong.
func Unbegun(err error) bool {
	return !postgres.Unavailable(err) && (errors.Is(err, errNotBegun) || hopeless(err))
}

// Follow is to be called when a run is committed. It goes on with what the first fold left
// to do, or makes that fold.
func (e *Engine) Follow(ctx context.Context, key notify.Key, b *Begun) {
	if b == nil {
		e.folder.wake(key)
		return
	}
	e.afterwards(ctx, b.fold)
	if b.fold.more {
		e.folder.wake(key)
	}
}

// Ended tells which executions of runs have finished: the runs are folded soon. It returns
// at once, and is what execution.Deps.Ended wants.
func (e *Engine) Ended(_ context.Context, stages map[notify.Key][]uuid.UUID) {
	for key, executions := range stages {
		e.folder.add(key, news{executions: executions})
	}
}

// End has the run go on in the transaction that ends the execution of one of its stages,
// where nothing else is known to run for it and nobody folds it at the moment; else, and
// when that fails, it returns an error. It is what execution.Deps.EndWithRun wants.
func (e *Engine) End(ctx context.Context, run notify.Key, end *execution.End) error {
	if !e.memory.alone(run.ID, end.ExecutionID) {
		return execution.ErrApart
	}
	return e.folder.now(ctx, run, news{executions: []uuid.UUID{end.ExecutionID}, end: end})
}

// Args is the River job of a run: the net under its beginning.
type Args struct {
	WorkspaceID uuid.UUID `json:"workspaceId"`
	RunID       uuid.UUID `json:"runId"`
}

// Kind is stored data: it never changes.
func (Args) Kind() string { return "workflow_run" }

// Queue is where the jobs of runs wait: with those of executions, since a queue of their own
// would be asked all the time.
const Queue = execution.Queue

// Job is the job of a run.
func (e *Engine) Job(workspaceID, runID uuid.UUID) river.InsertManyParams {
	return river.InsertManyParams{
		Args: Args{WorkspaceID: workspaceID, RunID: runID}, InsertOpts: &river.InsertOpts{Queue: Queue, ScheduledAt: e.Clock.Now().Add(SafetyNet)},
	}
}

// SafetyNet is how far ahead the job of a run is due, which the process that accepted it
// begins at once.
const SafetyNet = 10 * time.Second

// BegunWithin is when the sweep begins a run that nobody has begun.
const BegunWithin = 2 * time.Second

// Worker has runs folded whose job has come: whoever accepted them may be gone.
type Worker struct {
	river.WorkerDefaults[Args]
	Engine *Engine
}

// Work has the run folded soon. Should this process end before that, the sweep has it done.
func (w *Worker) Work(_ context.Context, job *river.Job[Args]) error {
	w.Engine.Wake(notify.Key{WorkspaceID: job.Args.WorkspaceID, ID: job.Args.RunID})
	return nil
}

const (
	dueAtOnce = 500
	// behindEvery is how often the sweep looks for runs whose folds were lost, of how many
	// executions, and behindAfter how long a fold may be on its way before it counts as that.
	behindEvery  = 2 * time.Second
	behindAtOnce = 5_000
	behindAfter  = time.Second
)

// Sweeper folds the runs that nobody else does: those whose timers are due, and those
// whose folds were lost with a process. One process sweeps at a time. It goes through what
// there is in parts, and begins again after the last one.
type Sweeper struct {
	// Schedule is told which schedules are due, each second; it returns at once. Nil: nobody
	// is.
	Schedule func(notify.Key)

	engine    *Engine
	due       mark      // the last run that was due
	schedules mark      // the last schedule that was
	waiting   mark      // the last schedule of which a run waits
	again     time.Time // when to look for lost folds
	behind    uuid.UUID // the last execution that was looked at for them
}

// NewSweeper makes a sweeper.
func NewSweeper(e *Engine) *Sweeper { return &Sweeper{engine: e} }

// Sweep is to be called about every second. Failures are logged: the next call comes
// soon.
func (w *Sweeper) Sweep(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := w.sweep(ctx); err != nil && ctx.Err() == nil && !postgres.Unavailable(err) {
		w.engine.Log.WarnContext(ctx, "runs were not swept", "error", err)
	}
}

func (w *Sweeper) sweep(ctx context.Context) error {
	if err := w.wakeDue(ctx); err != nil {
		return fmt.Errorf("list runs that are due: %w", err)
	}
	if time.Now().Before(w.again) {
		return nil
	}
	w.again = time.Now().Add(behindEvery)
	if err := w.wakeBehind(ctx); err != nil {
		return fmt.Errorf("list runs that are behind: %w", err)
	}
	return nil
}

func (w *Sweeper) wakeDue(ctx context.Context) error {
	e := w.engine
	rows, err := db.New().RunListDue(ctx, e.System, db.RunListDueParams{
		After: w.due.at, SchedulesAfter: w.schedules.at, SchedulesAfterID: w.schedules.id, WaitingAfter: w.waiting.id, MaxRows: dueAtOnce,
	})
	if err != nil {
		return err
	}
	var runs, schedules, waiting page
	for _, row := range rows {
		key := notify.Key{WorkspaceID: row.WorkspaceID, ID: row.ID}
		switch row.Kind {
		case "run":
			e.folder.wake(key)
			runs.add(mark{row.At, row.ID})
			continue
		case "schedule":
			schedules.add(mark{row.At, row.ID})
		case "waiting":
			waiting.add(mark{id: row.ID})
		}
		if w.Schedule != nil {
			w.Schedule(key)
		}
	}
	w.due, w.schedules, w.waiting = runs.next(), schedules.next(), waiting.next()
	return nil
}

// mark is how far a sweep has read: times come in order, and at the same time ids.
type mark struct {
	at time.Time
	id uuid.UUID
}

func (m mark) compare(other mark) int {
	return cmp.Or(m.at.Compare(other.at), bytes.Compare(m.id[:], other.id[:]))
}

// page is what a sweep has read of what is due.
type page struct {
	rows int
	last mark
}

func (p *page) add(m mark) {
	p.rows++
	if m.compare(p.last) > 0 {
		p.last = m
	}
}

// next is where the next sweep begins: after all that was read, if there may be more.
func (p *page) next() mark {
	if p.rows < dueAtOnce {
		return mark{}
	}
	return p.last
}

func (w *Sweeper) wakeBehind(ctx context.Context) error {
	e := w.engine
	rows, err := db.New().RunListStageExecutions(ctx, e.System, db.RunListStageExecutionsParams{After: w.behind, Grace: behindAfter, MaxRows: behindAtOnce})
	if err != nil {
		return err
	}
	w.behind = uuid.Nil
	for _, row := range rows {
		if row.Behind {
			e.folder.wake(notify.Key{WorkspaceID: row.WorkspaceID, ID: row.RunID})
		}
	}
	if len(rows) == behindAtOnce {
		w.behind = rows[len(rows)-1].ExecutionID
	}
	return nil
}
