// Package orchestrator advances runs from their first stage to their last.
//
// A stage with an effect is an execution of package execution, and so is a stage that takes too long
// to compute. Package engine decides the next steps; package orchestrator loads the facts for the decisions,
// writes the changes, and commits them together with the completion of an execution. It does not depend
// on HTTP or on who requested a run. Invariant: advancing twice has the same result as advancing once,
// so any process may advance a run at any time.
package orchestrator

import (
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
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/execution"
	"github.com/weft-automation/weft/internal/platform/clock"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/secret/vault"
	"github.com/weft-automation/weft/internal/workflow"
)

// MaxDuration is the deadline of a run. It is longer than the longest wait, which is 366 days.
const MaxDuration = 400 * 24 * time.Hour

// Deps holds what the orchestrator depends on.
type Deps struct {
	System *pgxpool.Pool // sees all workspaces; advances hold up to AdvancesAtOnce of its connections
	Hub    *notify.Hub

	Executions  *execution.Service
	Modules     *component.Registry
	Workflows   *workflow.Service
	Environment *environment.Service
	Vault       *vault.Vault // decrypts secret outputs
	// Quarantined returns the reason if nothing may start at present. If the function is nil,
	// stages may always start.
	Quarantined func() error
	PublicURL   string // of the service, in run.url; empty: unknown
	ExecuteAll  bool   // compute no stages in this process: each becomes an execution
	// TimeLimit replaces the time limits of an advance and of each call in it, so that tests make the
	// same advances on a busy machine. Zero means the usual limits.
	TimeLimit time.Duration
	Clock     *clock.Clock // for due times; nil: the clock of this process
	Log       *slog.Logger
}

// Unanswered is the value of a notification about a run that has neither finished nor responded.
const Unanswered = unanswered(true)

type unanswered bool

// Orchestrator advances runs.
type Orchestrator struct {
	Deps
	dispatcher *dispatcher
	cache      runCache
	failures   failureLog
}

// New returns an orchestrator. Close stops it.
func New(deps Deps) *Orchestrator {
	o := &Orchestrator{Deps: deps}
	o.dispatcher = newDispatcher(o)
	return o
}

// Close accepts no more advances and returns when the advances in flight have finished.
func (o *Orchestrator) Close() { o.dispatcher.close() }

// Wake enqueues an advance of the run that checks everything it may wait for. It returns immediately.
func (o *Orchestrator) Wake(key notify.Key) { o.dispatcher.wake(key) }

// Started is the first advance of a run, made in the transaction that accepts the run.
type Started struct {
	advance *advance
	event   db.RunEventInsertParams
}

// Queue writes the changes of the first advance. The run must have been inserted.
func (s *Started) Queue(batch *postgres.Batch) {
	s.advance.queueStages(batch)
	_ = db.New().RunEventInsert(s.advance.ctx, batch, s.event)
}

// errNotStarted means that the first advance failed, but the run can be accepted without it.
var errNotStarted = errors.New("the run could not be started in the transaction that accepts it")

// StartTx makes the first advance of a run in the transaction that accepts the run. It admits the run,
// which stores the specified bytes, with its first stages, and sets row to the state after the advance.
// The caller must then insert row and call Started.Queue.
//
// If the run would finish in this advance, StartTx returns nil and leaves row unchanged: only a later
// advance, which Continue makes, may charge for the run. StartTx returns the errors with which the
// run is refused, and errors for which CanStartLater reports true.
func (o *Orchestrator) StartTx(ctx context.Context, tx *postgres.Tx, row *db.RunInsertParams, version workflow.Loaded, bytes int64, items *execution.Items) (*Started, error) {
	now := o.Clock.Now()
	a := o.newAdvance(ctx, tx, db.RunLockRow{
		WorkspaceID: row.WorkspaceID, ID: row.ID, WorkflowID: row.WorkflowID, WorkflowVersion: row.WorkflowVersion,
		Status: row.Status, Trigger: row.Trigger, Input: row.Input, Variables: row.Variables, Reserved: row.Reserved, MaxCredits: row.MaxCredits,
		ScheduleID: row.ScheduleID, ScheduledAt: row.ScheduledAt, KeyRootID: row.KeyRootID, Traceparent: row.Traceparent, Deadline: now.Add(row.Lasts), Limited: row.Limited, CreatedAt: now, UpdatedAt: now, Now: now, RootRunID: row.ID,
	}, version)
	a.First, a.Scanned = true, true
	err := a.readAbout(row.Metadata)
	if err == nil {
		err = a.decide(maxFirstTime)
	}
	if err == nil {
		err = a.readRemaining()
	}
	if err == nil && a.Fee() > 0 {
		err = errors.New("only a later advance may charge the fee")
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNotStarted, err)
	}
	if err := a.countInTree(); err != nil {
		return nil, err
	}
	stored := a.stored()
	want := billing.Want{WorkspaceID: row.WorkspaceID, Amount: row.Reserved, Run: true, New: true, Bytes: bytes + stored}
	if err := (billing.Books{}).ReserveTx(ctx, tx, want); err != nil {
		return nil, err
	}
	if err := a.accept(items, nil); err != nil {
		return nil, err
	}
	if a.Run.PendingCount == 0 {
		billing.QueueStore(ctx, tx.AtCommit(), row.WorkspaceID, -stored) // the next advance stores these bytes
		return nil, nil
	}
	a.row.UncountedBytes = -stored
	event, err := a.outcome()
	if err != nil {
		return nil, err
	}
	a.setRow(row)
	return &Started{a, event}, nil
}

// CanStartLater reports whether a failed transaction that included StartTx may succeed without
// StartTx. In that case the run is accepted first, and a later advance fails the run with the reason.
func CanStartLater(err error) bool {
	return !postgres.Unavailable(err) && (errors.Is(err, errNotStarted) || billing.Uncovered(err) || permanent(err))
}

// Continue continues a run after the transaction that accepted it has committed. It enqueues the
// first advance if StartTx did not make it, and otherwise the work that the first advance left undone.
func (o *Orchestrator) Continue(ctx context.Context, key notify.Key, b *Started) {
	if b == nil {
		o.dispatcher.wake(key)
		return
	}
	o.afterCommit(ctx, b.advance)
	if b.advance.More {
		o.dispatcher.wake(key)
	}
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
	Orchestrator *Orchestrator
}

// Work enqueues an advance of the run. If this process dies before the advance, the sweep enqueues it
// again.
func (w *Worker) Work(_ context.Context, job *river.Job[Args]) error {
	w.Orchestrator.Wake(notify.Key{WorkspaceID: job.Args.WorkspaceID, ID: job.Args.RunID})
	return nil
}
