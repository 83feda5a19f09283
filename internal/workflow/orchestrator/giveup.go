package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/execution"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// A run whose folds keep failing is given up after triesAtLeast failures: after permanentAfter if
// retrying cannot help, and after transientAfter if retrying may help, for example because an
// operator can still add a missing module or key.
const (
	triesAtLeast   = 5
	permanentAfter = 5 * time.Second
	transientAfter = time.Hour
	failuresKept   = 10_000
)

// errPanic means that a fold panicked, which is a bug in the engine.
var errPanic = errors.New("a fold panicked")

// errFoldTimeout means that a fold exceeded foldTimeout after it had locked the run.
var errFoldTimeout = errors.New("a fold exceeded its timeout")

// RecoverPanic, when deferred, turns a panic into an error, so that one run cannot stop the whole
// process.
func RecoverPanic(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%w: %v\n%s", errPanic, p, debug.Stack())
	}
}

// failureLog counts the consecutive failures of each run's folds in this process.
type failureLog struct {
	mu   sync.Mutex
	runs map[notify.Key]failureCount
}

type failureCount struct {
	since time.Time
	tries int
}

// clear forgets the failures of a run.
func (t *failureLog) clear(key notify.Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.runs, key)
}

// tries returns how many folds of a run have failed in a row.
func (t *failureLog) tries(key notify.Key) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.runs[key].tries
}

// record counts a failed fold, and reports whether the run is to be given up.
func (t *failureLog) record(key notify.Key, err error) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.runs == nil || len(t.runs) >= failuresKept {
		t.runs = map[notify.Key]failureCount{}
	}
	now, count := time.Now(), t.runs[key]
	if count.tries == 0 {
		count.since = now
	}
	count.tries++
	t.runs[key] = count
	patience := transientAfter
	if permanent(err) {
		patience = permanentAfter
	}
	return count.tries >= triesAtLeast && now.Sub(count.since) >= patience
}

// permanent reports whether folding again is bound to fail, either because the fold panicked or
// because PostgreSQL rejected its data.
func permanent(err error) bool {
	if errors.Is(err, errPanic) {
		return true
	}
	raised, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (strings.HasPrefix(raised.Code, "22") || strings.HasPrefix(raised.Code, "23"))
}

// handleFailure handles a failed fold and returns its error. It gives up the run if its folds keep
// failing. Failures due to an unavailable database or a quarantine do not count.
func (e *Engine) handleFailure(ctx context.Context, key notify.Key, why error) error {
	if ctx.Err() != nil || postgres.Unavailable(why) || fault.CodeOf(why) == fault.Unavailable || !e.failures.record(key, why) {
		return why
	}
	f, err := e.giveUp(ctx, key, why)
	if err != nil {
		return errors.Join(why, fmt.Errorf("give up run: %w", err))
	}
	if f == nil {
		return why
	}
	e.Log.ErrorContext(ctx, "gave up a run whose folds keep failing", "run_id", key.ID.String(), "error", why)
	e.afterCommit(ctx, f)
	if f.run.Status.Terminal() {
		e.failures.clear(key)
	}
	return why
}

// giveUp fails a run without evaluating its workflow. It cancels stages without an execution,
// charges the stages that have finished, and sets the run to FAILED once all executions have
// finished.
func (e *Engine) giveUp(ctx context.Context, key notify.Key, why error) (f *fold, err error) {
	ctx, cancel := context.WithTimeout(ctx, foldTimeout)
	defer cancel()
	defer RecoverPanic(&err)
	err = (billing.Books{}).InPeriod(ctx, e.System, func() error {
		err := postgres.InTx(ctx, e.System, nil, func(tx *postgres.Tx) (err error) {
			f, err = e.giveUpTx(ctx, tx, key, why)
			return err
		})
		return billing.PeriodError(err, key.WorkspaceID)
	})
	return f, err
}

// giveUpTx does the work of giveUp in tx. It returns nil if the run is final or unknown.
func (e *Engine) giveUpTx(ctx context.Context, tx *postgres.Tx, key notify.Key, why error) (*fold, error) {
	run, err := db.New().RunLock(ctx, tx, db.RunLockParams{WorkspaceID: key.WorkspaceID, ID: key.ID})
	if postgres.NotFound(err) || err == nil && run.Status.Terminal() {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("lock run: %w", err)
	}
	stamp := later(run.Now, run.UpdatedAt)
	if err := db.New().StageCancelAbandoned(ctx, tx, db.StageCancelAbandonedParams{WorkspaceID: key.WorkspaceID, RunID: key.ID, At: stamp}); err != nil {
		return nil, fmt.Errorf("cancel stages: %w", err)
	}
	live, err := db.New().StageListWaiting(ctx, tx, db.StageListWaitingParams{WorkspaceID: key.WorkspaceID, RunID: key.ID, MaxRows: MaxStages})
	if err != nil {
		return nil, fmt.Errorf("list live stages: %w", err)
	}
	count, err := db.New().StageCount(ctx, tx, db.StageCountParams{WorkspaceID: key.WorkspaceID, RunID: key.ID})
	if err != nil {
		return nil, fmt.Errorf("count stages: %w", err)
	}
	f := &fold{engine: e, ctx: ctx, tx: tx, run: run, stamp: stamp, own: made(run), live: []api.NonTerminalStage{}, scanned: true, changed: true}
	f.run.StageCount, f.run.FailedCount, f.run.PendingCount = count.Stages, count.Failed, count.Pending
	f.run.UsageBelow = credit.Amount(count.UsageBelow)
	f.run.Usage, f.run.Status = credit.Amount(count.Usage)+f.run.StorageFee, status.RunFailed
	if count.Pending > 0 {
		f.run.Status = status.RunExecuting
	}
	for _, row := range live {
		f.live = append(f.live, liveStage(row))
		if row.ChildRunID != nil {
			f.orphans = append(f.orphans, *row.ChildRunID)
		}
	}
	f.run.Error = nil
	f.failWith("INTERNAL_ERROR", "The run could not be advanced"+publicReason(why)+".")
	return f, f.queueOutcome(tx.AtCommit())
}

// publicReason returns the part of a fold's error that a user may see.
func publicReason(why error) string {
	if e, ok := errors.AsType[*fault.Error](why); ok {
		return ": " + strings.TrimSuffix(e.Message, ".")
	}
	return ""
}

// afterCommit does the work that follows a committed fold: it notifies waiters, wakes related
// runs, cancels what must stop, and sets the timer.
func (e *Engine) afterCommit(ctx context.Context, f *fold) {
	key := notify.Key{WorkspaceID: f.run.WorkspaceID, ID: f.run.ID}
	e.countComputed(f)
	if f.changed {
		e.summaries.put(key.ID, f.summary())
		change := notify.Change{Key: key}
		if !f.run.Status.Terminal() && f.run.Output == nil {
			change.Value = Unanswered
		}
		e.Hub.Publish(change)
	}
	for _, row := range f.children {
		e.dispatcher.wake(notify.Key{WorkspaceID: key.WorkspaceID, ID: row.ID})
	}
	if f.run.Status.Terminal() {
		e.Log.InfoContext(ctx, "run finished", "workspace_id", key.WorkspaceID.String(), "run_id", key.ID.String(), "status", string(f.run.Status))
		e.items.forget(key.ID)
		e.summaries.forget(key.ID)
		if f.run.ParentRunID != nil {
			e.dispatcher.wake(notify.Key{WorkspaceID: key.WorkspaceID, ID: *f.run.ParentRunID})
		}
		return
	}
	if f.ending() && f.run.PendingCount > 0 && (f.halted || f.scanned) {
		e.cancelRemaining(ctx, f)
	} else if err := e.stopChildren(ctx, f, CancelImmediate); err != nil && ctx.Err() == nil {
		e.Log.WarnContext(ctx, "failed to cancel the child runs of a stage that timed out; the next fold retries", "run_id", f.run.ID.String(), "error", err)
	}
	if !f.wake.IsZero() && !f.more {
		e.dispatcher.wakeAt(key, f.wake.Sub(f.run.Now))
	}
}

// cancelRemaining cancels the unfinished stages of a run that is ending. Attempts in flight may
// finish, but are not retried. If the run is canceled with mode immediate, they are interrupted.
func (e *Engine) cancelRemaining(ctx context.Context, f *fold) {
	mode, stop := CancelGraceful, execution.StopAttempts
	immediate := f.run.CancelMode != nil && *f.run.CancelMode == CancelImmediate || !f.run.Deadline.After(f.run.Now)
	if immediate {
		mode, stop = CancelImmediate, execution.StopAll
	}
	if err := e.stopChildren(ctx, f, mode); err != nil && ctx.Err() == nil {
		e.Log.WarnContext(ctx, "failed to cancel the child runs of a run; the next fold retries", "run_id", f.run.ID.String(), "error", err)
	}
	if err := e.Executions.Cancel(ctx, f.run.WorkspaceID, f.run.ID, stop); err != nil && ctx.Err() == nil {
		e.Log.WarnContext(ctx, "failed to cancel the executions of a run; the next fold retries", "run_id", f.run.ID.String(), "error", err)
	}
}
