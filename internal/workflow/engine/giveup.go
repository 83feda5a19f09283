package engine

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

// A run that cannot be brought on is ended: after so many tries over so long a time where
// trying again cannot help, and with much more patience where it may, because a module is
// missing or a key is not held in this process and an operator may put that right.
const (
	triesAtLeast  = 5
	hopelessAfter = 5 * time.Second
	hopefulAfter  = time.Hour
	troublesKept  = 10_000
)

// errPanic is a fault of the engine that a run brought to light.
var errPanic = errors.New("folding panicked")

// errOverran is a fold that had its run and came to no end in its time.
var errOverran = errors.New("a fold took longer than it may")

// Contained makes an error of a panic, when deferred: a run must not end the process that
// serves others.
func Contained(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%w: %v\n%s", errPanic, p, debug.Stack())
	}
}

// troubles are the runs whose folds have failed in this process, one after the other.
type troubles struct {
	mu   sync.Mutex
	runs map[notify.Key]trouble
}

type trouble struct {
	since time.Time
	tries int
}

func (t *troubles) over(key notify.Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.runs, key)
}

// lasting counts a fold that failed, and reports whether the run is to be given up.
func (t *troubles) lasting(key notify.Key, err error) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.runs == nil || len(t.runs) >= troublesKept {
		t.runs = map[notify.Key]trouble{}
	}
	now, of := time.Now(), t.runs[key]
	if of.tries == 0 {
		of.since = now
	}
	of.tries++
	t.runs[key] = of
	patience := hopefulAfter
	if hopeless(err) {
		patience = hopelessAfter
	}
	return of.tries >= triesAtLeast && now.Sub(of.since) >= patience
}

// hopeless reports whether folding again must fail again: the data or the constraints of
// the database do not take what the fold makes.
func hopeless(err error) bool {
	if errors.Is(err, errPanic) {
		return true
	}
	raised, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (strings.HasPrefix(raised.Code, "22") || strings.HasPrefix(raised.Code, "23"))
}

// troubled is told that a fold failed, and gives up a run whose folds go on failing. What
// the database or the quarantine holds up is no fault of the run.
func (e *Engine) troubled(ctx context.Context, key notify.Key, why error) error {
	if ctx.Err() != nil || postgres.Unavailable(why) || fault.CodeOf(why) == fault.Unavailable || !e.troubles.lasting(key, why) {
		return why
	}
	f, err := e.giveUp(ctx, key, why)
	if err != nil {
		return errors.Join(why, fmt.Errorf("give up run: %w", err))
	}
	if f == nil {
		return why
	}
	e.Log.ErrorContext(ctx, "a run that cannot be brought on is ended", "run_id", key.ID.String(), "error", why)
	e.afterwards(ctx, f)
	if f.run.Status.Terminal() {
		e.troubles.over(key)
	}
	return why
}

// giveUp ends a run without asking its definition: what nobody executes is CANCELED, what
// finished is charged, and the run is FAILED once nothing of it is executed any more.
func (e *Engine) giveUp(ctx context.Context, key notify.Key, why error) (f *fold, err error) {
	ctx, cancel := context.WithTimeout(ctx, foldTimeout)
	defer cancel()
	defer Contained(&err)
	err = (billing.Books{}).InPeriod(ctx, e.System, func() error {
		return postgres.InTx(ctx, e.System, func(tx *postgres.Tx) (err error) {
			f, err = e.giveUpTx(ctx, tx, key, why)
			return err
		})
	})
	return f, err
}

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
		return nil, fmt.Errorf("end stages: %w", err)
	}
	live, err := db.New().StageListLive(ctx, tx, db.StageListLiveParams{WorkspaceID: key.WorkspaceID, RunID: key.ID, MaxRows: MaxStages})
	if err != nil {
		return nil, fmt.Errorf("list live stages: %w", err)
	}
	count, err := db.New().StageCount(ctx, tx, db.StageCountParams{WorkspaceID: key.WorkspaceID, RunID: key.ID})
	if err != nil {
		return nil, fmt.Errorf("count stages: %w", err)
	}
	f := &fold{engine: e, ctx: ctx, tx: tx, run: run, stamp: stamp, own: made(run), live: []api.NonTerminalStage{}, looked: true, changed: true}
	f.run.StageCount, f.run.FailedCount, f.run.PendingCount = count.Stages, count.Failed, count.Pending
	f.run.UsageBelow = credit.Amount(count.UsageBelow)
	f.run.Usage, f.run.Status = credit.Amount(count.Usage)+f.run.StorageFee, status.RunFailed
	if count.Pending > 0 {
		f.run.Status = status.RunExecuting
	}
	for _, row := range live {
		f.live = append(f.live, living(row))
		if row.ChildRunID != nil {
			f.orphans = append(f.orphans, *row.ChildRunID)
		}
	}
	f.run.Error = nil
	f.failWith("INTERNAL_ERROR", "The run could not be brought on"+told(why)+".")
	return f, f.tell(f.nextWake())
}

// told is what a caller may know of why a fold failed.
func told(why error) string {
	if e, ok := errors.AsType[*fault.Error](why); ok {
		return ": " + strings.TrimSuffix(e.Message, ".")
	}
	return ""
}

// afterwards does what follows from a fold once it is committed.
func (e *Engine) afterwards(ctx context.Context, f *fold) {
	key := notify.Key{WorkspaceID: f.run.WorkspaceID, ID: f.run.ID}
	if f.changed {
		e.memory.put(key.ID, f.stands())
		change := notify.Change{Key: key}
		if !f.run.Status.Terminal() && f.run.Output == nil {
			change.Value = Unanswered
		}
		e.Hub.Publish(change)
	}
	for _, id := range f.children {
		e.folder.wake(notify.Key{WorkspaceID: key.WorkspaceID, ID: id})
	}
	if f.run.Status.Terminal() {
		e.Log.InfoContext(ctx, "run finished", "workspace_id", key.WorkspaceID.String(), "run_id", key.ID.String(), "status", string(f.run.Status))
		e.items.forget(key.ID)
		e.memory.forget(key.ID)
		if f.run.ParentRunID != nil {
			e.folder.wake(notify.Key{WorkspaceID: key.WorkspaceID, ID: *f.run.ParentRunID})
		}
		return
	}
	if f.ending() && f.run.PendingCount > 0 && (f.halted || f.looked) {
		e.stop(ctx, f)
	} else if err := e.stopChildren(ctx, f, CancelImmediate); err != nil && ctx.Err() == nil {
		e.Log.WarnContext(ctx, "the child runs of a late stage could not be canceled; it is tried again", "run_id", f.run.ID.String(), "error", err)
	}
	if !f.wake.IsZero() && !f.more {
		e.folder.wakeAt(key, f.wake.Sub(f.run.Now))
	}
}

// stop ends what is not over yet of a run that is ending. Attempts under way may finish, without
// further attempts, unless the run ends immediately.
func (e *Engine) stop(ctx context.Context, f *fold) {
	mode, stop := CancelGraceful, execution.StopAttempts
	immediate := f.run.CancelMode != nil && *f.run.CancelMode == CancelImmediate || !f.run.Deadline.After(f.run.Now)
	if immediate {
		mode, stop = CancelImmediate, execution.StopAll
	}
	if err := e.stopChildren(ctx, f, mode); err != nil && ctx.Err() == nil {
		e.Log.WarnContext(ctx, "the child runs of a run could not be canceled; it is tried again", "run_id", f.run.ID.String(), "error", err)
	}
	if err := e.Executions.Cancel(ctx, f.run.WorkspaceID, f.run.ID, stop); err != nil && ctx.Err() == nil {
		e.Log.WarnContext(ctx, "the executions of a run could not be canceled; it is tried again", "run_id", f.run.ID.String(), "error", err)
	}
}
