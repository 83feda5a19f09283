// Package engine advances runs from their first stage to their last.
//
// A stage with an effect is an execution of package execution, and so is a stage that takes too long
// to compute. Package graph decides which components are ready. Package engine does not depend on
// HTTP or on who requested a run. It works in folds: under the lock of the run's row, a fold applies
// what has finished since the last fold, computes the stages that have no effect, and commits
// everything that follows. Invariant: folding twice has the same result as folding once, so any
// process may fold a run at any time.
package orchestrator

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/billing"
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

// Limits of a run (decisions 8.5, 8.7).
const (
	MaxStages     = storage.MaxStages
	MaxItems      = 10_000
	maxOutput     = storage.MaxBytes // of the outputs of all stages together
	maxStageValue = 1 << 20          // bytes of a stage's input, and of an output that the engine computes
	// MaxDuration is the deadline of a run. It is longer than the longest wait, which is 366 days.
	MaxDuration = 400 * 24 * time.Hour
)

// Deps holds what the engine depends on.
type Deps struct {
	System *pgxpool.Pool // sees all workspaces; folds hold up to FoldsAtOnce of its connections
	Hub    *notify.Hub

	Executions  *execution.Service
	Modules     *component.Registry
	Workflows   *workflow.Service
	Environment *environment.Service
	Vault       *vault.Vault // decrypts secret outputs
	// Quarantined returns the reason if nothing may start at present. If the function is nil,
	// stages may always start.
	Quarantined func() error
	ExecuteAll  bool         // compute no stages in this process: each becomes an execution
	Clock       *clock.Clock // for due times; nil: the clock of this process
	Log         *slog.Logger
}

// Unanswered is the value of a notification about a run that has neither finished nor responded.
const Unanswered = unanswered(true)

type unanswered bool

// Engine folds runs.
type Engine struct {
	Deps
	dispatcher *dispatcher
	items      itemCache
	summaries  summaryCache
	failures   failureLog
}

// New returns an engine. Close stops it.
func New(deps Deps) *Engine {
	e := &Engine{Deps: deps}
	e.dispatcher = newDispatcher(e)
	return e
}

// Close accepts no more folds and returns when the folds in flight have finished.
func (e *Engine) Close() { e.dispatcher.close() }

// Wake enqueues a fold of the run that checks everything it may wait for. It returns immediately.
func (e *Engine) Wake(key notify.Key) { e.dispatcher.wake(key) }

// Started is the first fold of a run, made in the transaction that accepts the run.
type Started struct {
	fold  *fold
	event db.RunEventInsertParams
}

// Queue writes the changes of the first fold. The run must have been inserted.
func (s *Started) Queue(batch *postgres.Batch) {
	s.fold.queueStages(batch)
	_ = db.New().RunEventInsert(s.fold.ctx, batch, s.event)
}

// errNotStarted means that the first fold failed, but the run can be accepted without it.
var errNotStarted = errors.New("the run could not be started in the transaction that accepts it")

// StartTx makes the first fold of a run in the transaction that accepts the run. It admits the run,
// which stores the specified bytes, with its first stages, and sets row to the state after the fold.
// The caller must then insert row and call Started.Queue.
//
// If the run would finish in this fold, StartTx returns nil and leaves row unchanged: only a later
// fold, which Continue makes, may charge for the run. StartTx returns the errors with which the
// run is refused, and errors for which CanStartLater reports true.
func (e *Engine) StartTx(ctx context.Context, tx *postgres.Tx, row *db.RunInsertParams, version workflow.Loaded, bytes int64, how *execution.Acceptance) (*Started, error) {
	now := e.Clock.Now()
	f := e.newFold(ctx, tx, db.RunLockRow{
		WorkspaceID: row.WorkspaceID, ID: row.ID, WorkflowID: row.WorkflowID, WorkflowVersion: row.WorkflowVersion,
		Status: row.Status, Trigger: row.Trigger, Input: row.Input, Variables: row.Variables, Reserved: row.Reserved, MaxCredits: row.MaxCredits,
		KeyRootID: row.KeyRootID, Traceparent: row.Traceparent, Deadline: now.Add(row.Lasts), CreatedAt: now, UpdatedAt: now, Now: now, RootRunID: row.ID,
	}, version)
	f.first = true
	f.scanned = true
	if err := f.derive(wakeup{}); err != nil {
		return nil, fmt.Errorf("%w: %w", errNotStarted, err)
	}
	if f.fee() > 0 { // only a later fold may charge the fee
		return nil, errNotStarted
	}
	if err := f.countInTree(); err != nil {
		return nil, err
	}
	stored := f.stored()
	want := billing.Want{WorkspaceID: row.WorkspaceID, Amount: row.Reserved, Run: true, New: true, Bytes: bytes + stored}
	if err := (billing.Books{}).ReserveTx(ctx, tx, want); err != nil {
		return nil, err
	}
	if err := f.accept(how.AcceptTx); err != nil {
		return nil, err
	}
	if f.run.PendingCount == 0 {
		billing.QueueStore(ctx, tx.AtCommit(), row.WorkspaceID, -stored) // the next fold stores these bytes
		return nil, nil
	}
	f.run.UncountedBytes = -stored
	event, err := f.decideFirst(row)
	return &Started{f, event}, err
}

// CanStartLater reports whether a failed transaction that included StartTx may succeed without
// StartTx. In that case the run is accepted first, and a later fold fails the run with the reason.
func CanStartLater(err error) bool {
	return !postgres.Unavailable(err) && (errors.Is(err, errNotStarted) || permanent(err))
}

// Continue continues a run after the transaction that accepted it has committed. It enqueues the
// first fold if StartTx did not make it, and otherwise the work that the first fold left undone.
func (e *Engine) Continue(ctx context.Context, key notify.Key, b *Started) {
	if b == nil {
		e.dispatcher.wake(key)
		return
	}
	e.afterCommit(ctx, b.fold)
	if b.fold.more {
		e.dispatcher.wake(key)
	}
}

// ExecutionsFinished enqueues folds of the runs whose executions have finished. It returns
// immediately. It is meant for execution.Deps.Ended.
func (e *Engine) ExecutionsFinished(_ context.Context, stages map[notify.Key][]uuid.UUID) {
	for key, executions := range stages {
		e.dispatcher.enqueue(key, wakeup{executions: executions})
	}
}

// FinishStage commits the completion of a stage's execution and the fold of its run in one
// transaction. It does so only if the run waits for no other execution and is not being folded.
// Otherwise, or if the transaction fails, FinishStage returns an error, and the caller commits the
// completion separately. FinishStage is meant for execution.Deps.EndWithRun.
func (e *Engine) FinishStage(ctx context.Context, run notify.Key, end *execution.End) error {
	if !e.summaries.waitsOnlyFor(run.ID, end.ExecutionID) {
		return execution.ErrApart
	}
	return e.dispatcher.foldNow(ctx, run, wakeup{executions: []uuid.UUID{end.ExecutionID}, end: end})
}

// Args are the arguments of a run's River job. The job starts the run if the process that accepted
// it dies first.
type Args struct {
	WorkspaceID uuid.UUID `json:"workspaceId"`
	RunID       uuid.UUID `json:"runId"`
}

// Kind returns the job kind.
func (Args) Kind() string { return "workflow_run" }

// Queue is the queue of run jobs. Runs share the queue with executions, because a separate queue
// would be polled all the time.
const Queue = execution.Queue

// SafetyNet is the delay of a run's job. The process that accepted the run normally starts the run
// long before the job is due.
const SafetyNet = 10 * time.Second

// StartWithin is the delay after which the sweep starts a run that has not started.
const StartWithin = 2 * time.Second

// Worker wakes the runs whose jobs are due: the process that accepted them may have died.
type Worker struct {
	river.WorkerDefaults[Args]
	Engine *Engine
}

// Work enqueues a fold of the run. If this process dies before the fold, the sweep enqueues it
// again.
func (w *Worker) Work(_ context.Context, job *river.Job[Args]) error {
	w.Engine.Wake(notify.Key{WorkspaceID: job.Args.WorkspaceID, ID: job.Args.RunID})
	return nil
}

const (
	dueBatch = 500
	// Every behindEvery, the sweep checks for runs whose folds were lost, in batches of
	// behindAtOnce executions. A fold counts as lost behindAfter after the execution finished.
	behindEvery  = 5 * time.Second
	behindAtOnce = 5_000
	behindAfter  = time.Second
)

// Sweeper wakes runs that no process folds: runs with a due timer, and runs whose folds were lost
// with a process. One process sweeps at a time. Each sweep reads the batch after that of the
// previous sweep, and starts over after the last row.
type Sweeper struct {
	// Schedule is called every second for each schedule that is due. It must return immediately. If
	// it is nil, schedules are ignored.
	Schedule func(notify.Key)

	engine    *Engine
	due       mark      // last due run of the previous batch
	schedules mark      // last due schedule of the previous batch
	waiting   mark      // last schedule of the previous batch with a waiting run
	again     time.Time // when to check for lost folds next
	behind    uuid.UUID // last execution that was checked for a lost fold
}

// NewSweeper returns a Sweeper for the engine.
func NewSweeper(e *Engine) *Sweeper { return &Sweeper{engine: e} }

// Sweep wakes the runs and schedules that are due. Call it about once a second. It logs failures
// and leaves them to the next call.
func (w *Sweeper) Sweep(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := w.sweep(ctx); err != nil && ctx.Err() == nil && !postgres.Unavailable(err) {
		w.engine.Log.WarnContext(ctx, "failed to sweep runs; the next sweep retries", "error", err)
	}
}

func (w *Sweeper) sweep(ctx context.Context) error {
	if err := w.wakeDue(ctx); err != nil {
		return fmt.Errorf("list due runs: %w", err)
	}
	if time.Now().Before(w.again) {
		return nil
	}
	w.again = time.Now().Add(behindEvery)
	if err := w.wakeBehind(ctx); err != nil {
		return fmt.Errorf("list runs whose folds were lost: %w", err)
	}
	return nil
}

// wakeDue wakes the next batch of runs and schedules that are due.
func (w *Sweeper) wakeDue(ctx context.Context) error {
	e := w.engine
	rows, err := db.New().RunListDue(ctx, e.System, db.RunListDueParams{
		After: w.due.at, SchedulesAfter: w.schedules.at, SchedulesAfterID: w.schedules.id, WaitingAfter: w.waiting.id, MaxRows: dueBatch,
	})
	if err != nil {
		return err
	}
	var runs, schedules, waiting page
	for _, row := range rows {
		key := notify.Key{WorkspaceID: row.WorkspaceID, ID: row.ID}
		switch row.Kind {
		case "run":
			e.dispatcher.wake(key)
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

// mark is a position in the list of due rows, which is ordered by time, then ID.
type mark struct {
	at time.Time
	id uuid.UUID
}

func (m mark) compare(other mark) int {
	return cmp.Or(m.at.Compare(other.at), bytes.Compare(m.id[:], other.id[:]))
}

// page counts the rows of a batch and holds the position of the last one.
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

// next returns the position after which the next sweep starts. The position is zero if the batch
// was not full.
func (p *page) next() mark {
	if p.rows < dueBatch {
		return mark{}
	}
	return p.last
}

// wakeBehind wakes runs whose executions have finished without a fold.
func (w *Sweeper) wakeBehind(ctx context.Context) error {
	e := w.engine
	rows, err := db.New().RunListStageExecutions(ctx, e.System, db.RunListStageExecutionsParams{After: w.behind, Grace: behindAfter, MaxRows: behindAtOnce})
	if err != nil {
		return err
	}
	w.behind = uuid.Nil
	for _, row := range rows {
		if row.Behind {
			e.dispatcher.wake(notify.Key{WorkspaceID: row.WorkspaceID, ID: row.RunID})
		}
	}
	if len(rows) == behindAtOnce {
		w.behind = rows[len(rows)-1].ExecutionID
	}
	return nil
}
