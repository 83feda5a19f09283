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
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/workflow/engine"
)

// A run whose advances keep failing is given up after triesAtLeast failures: after permanentAfter if
// retrying cannot help, and after transientAfter if retrying may help, for example because an
// operator can still add a missing module or key.
const (
	triesAtLeast   = 5
	permanentAfter = 5 * time.Second
	transientAfter = time.Hour
	failuresKept   = 10_000
)

// errPanic means that an advance panicked, which is a bug in the engine.
var errPanic = errors.New("an advance panicked")

// errAdvanceTimeout means that an advance exceeded advanceTimeout after it had locked the run.
var errAdvanceTimeout = errors.New("an advance exceeded its timeout")

// RecoverPanic, when deferred, turns a panic into an error, so that one run cannot stop the whole
// process.
func RecoverPanic(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%w: %v\n%s", errPanic, p, debug.Stack())
	}
}

// failureLog counts the consecutive failures of each run's advances in this process.
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

// tries returns how many advances of a run have failed in a row.
func (t *failureLog) tries(key notify.Key) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.runs[key].tries
}

// record counts a failed advance, and reports whether the run is to be given up.
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

// permanent reports whether advancing again is bound to fail, either because the advance panicked or
// because PostgreSQL rejected its data.
func permanent(err error) bool {
	if errors.Is(err, errPanic) {
		return true
	}
	raised, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (strings.HasPrefix(raised.Code, "22") || strings.HasPrefix(raised.Code, "23"))
}

// handleFailure handles a failed advance and returns its error. It gives up the run if its advances keep
// failing. Failures due to an unavailable database or a quarantine do not count.
func (o *Orchestrator) handleFailure(ctx context.Context, key notify.Key, why error) error {
	excused := (postgres.Unavailable(why) || fault.CodeOf(why) == fault.Unavailable) && !errors.Is(why, errAdvanceTimeout)
	if ctx.Err() != nil || excused || !o.failures.record(key, why) {
		return why
	}
	a, err := o.giveUp(ctx, key, "INTERNAL_ERROR", "The run could not be advanced"+publicReason(why)+".")
	if err != nil {
		return errors.Join(why, fmt.Errorf("give up run: %w", err))
	}
	if a == nil {
		return why
	}
	o.Log.ErrorContext(ctx, "gave up a run whose advances keep failing", "run_id", key.ID.String(), "error", why)
	o.afterCommit(ctx, a)
	if a.Run.Status.Terminal() {
		o.failures.clear(key)
	}
	return why
}

// giveUp fails a run without evaluating its workflow. It cancels stages without an execution,
// charges the stages that have finished, and sets the run to FAILED once all executions have
// finished.
func (o *Orchestrator) giveUp(ctx context.Context, key notify.Key, code, message string) (a *advance, err error) {
	ctx, cancel := context.WithTimeout(ctx, advanceTimeout)
	defer cancel()
	defer RecoverPanic(&err)
	err = (billing.Books{}).InPeriod(ctx, o.System, func() error {
		err := postgres.InTx(ctx, o.System, nil, func(tx *postgres.Tx) (err error) {
			a, err = o.giveUpTx(ctx, tx, key, code, message)
			return err
		})
		return billing.PeriodError(err, key.WorkspaceID)
	})
	return a, err
}

// giveUpTx does the work of giveUp in tx. It returns nil if the run is final or unknown.
func (o *Orchestrator) giveUpTx(ctx context.Context, tx *postgres.Tx, key notify.Key, code, message string) (*advance, error) {
	run, err := db.New().RunLock(ctx, tx, db.RunLockParams{WorkspaceID: key.WorkspaceID, ID: key.ID})
	if postgres.NotFound(err) || err == nil && run.Status.Terminal() {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("lock run: %w", err)
	}
	a := &advance{o: o, ctx: ctx, tx: tx, row: run, live: []api.NonTerminalStage{}, Advance: engine.Begin(o.Modules, stateOf(run))}
	if err := db.New().StageCancelAbandoned(ctx, tx, db.StageCancelAbandonedParams{WorkspaceID: key.WorkspaceID, RunID: key.ID, At: a.At}); err != nil {
		return nil, fmt.Errorf("cancel stages: %w", err)
	}
	live, err := db.New().StageListWaiting(ctx, tx, db.StageListWaitingParams{WorkspaceID: key.WorkspaceID, RunID: key.ID, MaxRows: engine.MaxStages})
	if err != nil {
		return nil, fmt.Errorf("list live stages: %w", err)
	}
	count, err := db.New().StageCount(ctx, tx, db.StageCountParams{WorkspaceID: key.WorkspaceID, RunID: key.ID})
	if err != nil {
		return nil, fmt.Errorf("count stages: %w", err)
	}
	a.Scanned, a.Changed = true, true
	a.Run.StageCount, a.Run.FailedCount, a.Run.PendingCount = count.Stages, count.Failed, count.Pending
	a.Run.UsageBelow = credit.Amount(count.UsageBelow)
	a.Run.Usage, a.Run.Status = credit.Amount(count.Usage)+a.Run.StorageFee, status.RunFailed
	if count.Pending > 0 {
		a.Run.Status = status.RunExecuting
	}
	for _, row := range live {
		a.live = append(a.live, liveStage(engine.Waiting(row)))
		if row.ChildRunID != nil {
			a.CancelChildren = append(a.CancelChildren, *row.ChildRunID)
		}
	}
	a.Run.Error = nil
	a.FailWith(code, message)
	event, err := a.nextEvent()
	if err != nil {
		return nil, err
	}
	a.queueOutcome(tx.AtCommit(), event)
	return a, nil
}

// FailRun fails an unfinished run without advancing it, for a database in quarantine. It reports whether
// it did. Another process finishes what the run still waits for.
func (o *Orchestrator) FailRun(ctx context.Context, key notify.Key, code, message string) (bool, error) {
	a, err := o.giveUp(ctx, key, code, message)
	return a != nil, err
}

// publicReason returns the part of an advance's error that a user may see.
func publicReason(why error) string {
	if e, ok := errors.AsType[*fault.Error](why); ok {
		return ": " + strings.TrimSuffix(e.Message, ".")
	}
	return ""
}
