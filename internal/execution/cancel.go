package execution

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/platform/egress"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// errCanceled is the error of a stage whose run is canceled or has failed, if no attempt of the
// stage was cut off. errStopped is the error if an attempt may have taken effect.
var (
	errCanceled = &component.Error{Code: component.CodeCanceled, Message: "the run was canceled or failed"}
	errStopped  = &component.Error{Code: component.CodeCanceled, Message: "the run was canceled or failed after this call was sent: whether it took effect is unknown, and nothing was charged for it"}
)

// canceled returns the error of a stage whose run is ending. cut reports whether an attempt was
// cut off.
func canceled(rule string, cut bool) *component.Error {
	if !cut || component.Repeat(rule) == component.RepeatPure {
		return errCanceled
	}
	return errStopped.CutOff(component.Repeat(rule))
}

// refused reports whether an attempt that was just started must not run, because its run is
// ending. refused reads the run after the start was committed, so it sees each cancellation that
// was committed before the start.
//
// In a run that was canceled or has failed, no attempt starts. A waiting attempt continues, unless
// the run was canceled with mode immediate.
func (r *Runner) refused(ctx context.Context, row db.ExecutionStartManyRow) (refused bool, err error) {
	if row.RunID == nil || row.Canceling {
		return row.Canceling, nil
	}
	var run db.RunGetEndingRow
	err = r.persist(ctx, 0, func(ctx context.Context) (err error) {
		run, err = db.New().RunGetEnding(ctx, r.DB, db.RunGetEndingParams{WorkspaceID: row.WorkspaceID, ID: *row.RunID})
		return err
	})
	if err != nil {
		return false, fmt.Errorf("read whether the run is ending: %w", err)
	}
	return run.Immediate || run.Ending && !waited(row), nil
}

// waited reports whether row continues an attempt that was sent and waits.
func waited(row db.ExecutionStartManyRow) bool { return row.Elapsed > 0 }

// checkCanceled sets row.Canceling if the attempt must not run. If the database does not respond,
// checkCanceled returns false, and the execution is no longer in flight.
func (r *Runner) checkCanceled(ctx context.Context, row *db.ExecutionStartManyRow) bool {
	refused, err := r.refused(ctx, *row)
	if err != nil {
		r.inflight.remove(row.ID, 0, err)
		r.log.ErrorContext(ctx, "could not start execution", "execution_id", row.ID, "error", err)
		return false
	}
	row.Canceling = refused
	return true
}

// refuse fails an execution whose attempt was started but must not run.
func (r *Runner) refuse(ctx context.Context, row db.ExecutionStartManyRow, local bool) error {
	if !row.Continuing {
		row.Attempt-- // the start counted it
	}
	return r.fail(ctx, row, canceled(row.RepeatRule, !row.OutcomeKnown || waited(row)), local)
}

// cutOff returns the failure of an attempt. The outcome is unknown if the request was sent and not
// answered. If the failure doesn't say what was sent, the outcome is unknown if the attempt was interrupted
// or the component timed out.
func cutOff(run context.Context, row db.ExecutionStartManyRow, failure *component.Error) *component.Error {
	known := run.Err() == nil && failure.Code != component.CodeTimeout
	if sent := failure.Sent(); sent != "" {
		known = sent != egress.SentUnknown
	}
	if known {
		return failure
	}
	return failure.CutOff(component.Repeat(row.RepeatRule))
}

// mayHaveEffect reports whether an attempt that was in flight when its run was canceled, or an earlier one,
// may have taken effect. err is the error of its component; nil means that it started to wait.
func mayHaveEffect(row db.ExecutionStartManyRow, err error) bool {
	if err == nil || !row.OutcomeKnown || waited(row) {
		return true
	}
	sent := asError(err).Sent()
	return sent == "" || sent == egress.SentUnknown
}

// Stop selects which executions of a run are canceled.
type Stop int

const (
	StopAttempts Stop = iota // executions that have not started, or pause before a retry
	StopAll                  // all executions, including attempts that wait or are in flight
)

// cancelBatch is the number of executions canceled in one transaction.
const cancelBatch = 500

// Cancel cancels executions of a run; scope says which. Executions without a worker become FAILED
// with code CANCELED immediately. Attempts in flight, in any process, stop within two seconds, or
// somewhat later if the component ignores its context. Cancel skips locked rows, so call it again
// until the run has no live executions.
func (s *Service) Cancel(ctx context.Context, workspaceID, runID uuid.UUID, scope Stop) error {
	if err := s.quarantined(); err != nil {
		return err
	}
	r, run := s.local, notify.Key{WorkspaceID: workspaceID, ID: runID}
	page := db.RunListExecutionsParams{WorkspaceID: workspaceID, RunID: runID, MaxRows: cancelBatch}
	for {
		stages, err := db.New().RunListExecutions(ctx, r.DB, page)
		if err != nil {
			return fmt.Errorf("list executions of a run: %w", err)
		}
		p := db.ExecutionListOfRunParams{RunID: runID}
		for _, stage := range stages {
			p.WorkspaceIds, p.Ids = append(p.WorkspaceIds, workspaceID), append(p.Ids, stage.ExecutionID)
			page.After = stage.ID
		}
		if err := r.cancel(ctx, run, p, scope); err != nil {
			return err
		}
		if len(stages) < cancelBatch {
			return nil
		}
	}
}

// cancel cancels a page of executions of a run.
func (r *Runner) cancel(ctx context.Context, run notify.Key, p db.ExecutionListOfRunParams, scope Stop) error {
	rows, err := db.New().ExecutionListOfRun(ctx, r.DB, p)
	if err != nil {
		return fmt.Errorf("read executions of a run: %w", err)
	}
	var free db.ExecutionCancelManyParams
	var held db.ExecutionRequestCancelManyParams
	for _, row := range rows {
		switch {
		case row.Held && scope == StopAll && !row.Canceling:
			held.WorkspaceIds = append(held.WorkspaceIds, run.WorkspaceID)
			held.Ids, held.Epochs = append(held.Ids, row.ID), append(held.Epochs, row.Epoch)
		case !row.Held && (scope == StopAll || !row.Waiting):
			why, err := errorOf(canceled(row.RepeatRule, !row.OutcomeKnown || row.Waiting), int(row.Attempt))
			if err != nil {
				return err
			}
			free.WorkspaceIds = append(free.WorkspaceIds, run.WorkspaceID)
			free.Ids, free.Epochs, free.Errors = append(free.Ids, row.ID), append(free.Epochs, row.Epoch), append(free.Errors, string(why))
		}
	}
	if err := r.cancelFree(ctx, run.WorkspaceID, free); err != nil || len(held.Ids) == 0 {
		return err
	}
	marked, err := db.New().ExecutionRequestCancelMany(ctx, r.DB, held)
	if err != nil {
		return fmt.Errorf("cancel attempts in flight: %w", err)
	}
	changes := make([]notify.Change, len(marked))
	for i, id := range marked {
		changes[i].Key = notify.Key{WorkspaceID: run.WorkspaceID, ID: id}
	}
	r.Hub.Publish(changes...)
	return nil
}

// cancelFree fails executions that have no worker.
func (r *Runner) cancelFree(ctx context.Context, workspaceID uuid.UUID, p db.ExecutionCancelManyParams) error {
	if len(p.Ids) == 0 {
		return nil
	}
	made, err := r.commit(ctx, func(made *followUp) error {
		var first postgres.Batch
		_ = db.New().AccountLock(ctx, &first, workspaceID)
		rows := postgres.Returning[db.ExecutionCancelManyRow](&first, db.ExecutionCancelMany, p)
		return postgres.InTx(ctx, r.DB, &first, func(tx *postgres.Tx) error { return r.cancelTx(ctx, tx, workspaceID, rows.All(), made) })
	})
	if err != nil {
		return fmt.Errorf("cancel executions: %w", err)
	}
	keys := make([]notify.Key, len(made.done))
	for i, f := range made.done {
		keys[i] = f.key()
	}
	r.afterCommit(ctx, keys, made)
	return nil
}

// cancelTx is finishTx for executions that have not started or are paused. Their account was locked
// first, in the same order as the release of parked executions.
func (r *Runner) cancelTx(ctx context.Context, tx *postgres.Tx, workspaceID uuid.UUID, rows []db.ExecutionCancelManyRow, made *followUp) error {
	if len(rows) == 0 {
		return nil
	}
	charges := make([]billing.Charge, len(rows))
	jobs := make([]int64, len(rows))
	made.done = make([]finished, len(rows))
	var parked int32
	for i, row := range rows {
		charges[i] = billing.Charge{WorkspaceID: row.WorkspaceID, ExecutionID: row.ID, Stage: true}
		jobs[i] = row.JobID
		made.done[i] = finished{run: row.RunID, row: db.ExecutionGetRow{
			WorkspaceID: row.WorkspaceID, ID: row.ID, Module: row.Module, Status: row.Status,
			Error: row.Error, Usage: row.Usage, CreatedAt: row.CreatedAt, UpdatedAt: row.UpdatedAt,
		}}
		if row.WasParked {
			parked++
		}
	}
	if parked > 0 {
		if err := db.New().AccountAddParked(ctx, tx, db.AccountAddParkedParams{WorkspaceID: workspaceID, Count: -parked}); err != nil {
			return fmt.Errorf("count parked executions: %w", err)
		}
	}
	_ = db.New().RiverJobDeleteMany(ctx, tx.AtCommit(), jobs)
	made.left = []vacancy{{workspaceID: workspaceID}}
	r.queueCharges(ctx, tx.AtCommit(), charges, false, made)
	return nil
}

// bounded waits for the turn of an attempt's call, and returns a context that ends with the attempt's
// time limit. The wait doesn't count. For a stage, the context is also canceled, with cause errCanceled,
// when the run is canceled with mode immediate. bounded fails only if the context is done.
func (r *Runner) bounded(ctx context.Context, row db.ExecutionStartManyRow, limit time.Duration, call component.Call) (context.Context, component.Call, context.CancelFunc, error) {
	if row.TimeoutMs != nil {
		limit = min(limit, time.Duration(*row.TimeoutMs)*time.Millisecond)
	}
	limit -= row.Elapsed
	if r.CallTimeout > 0 {
		limit = min(limit, r.CallTimeout)
	}
	ctx, cancelFor := context.WithCancelCause(ctx)
	if row.RunID != nil {
		go r.watchCancel(ctx, r.Hub.Subscribe(notify.Key{WorkspaceID: row.WorkspaceID, ID: row.ID}), cancelFor)
	}
	call, err := r.Modules.Turn(ctx, row.WorkspaceID, row.Module, call)
	if err != nil {
		return ctx, call, func() { cancelFor(nil) }, err
	}
	ctx, stop := context.WithTimeout(ctx, limit)
	return ctx, call, func() { stop(); cancelFor(nil) }, nil
}

// watchCancel cancels an attempt once its row is marked as canceling. It returns when ctx is
// done.
func (r *Runner) watchCancel(ctx context.Context, changed *notify.Subscription, cancelFor context.CancelCauseFunc) {
	defer changed.Close()
	key := changed.Key()
	var retry <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed.C():
		case <-retry:
		}
		retry = nil
		if ctx.Err() != nil {
			return
		}
		canceling, err := r.canceling(ctx, key)
		if err != nil {
			retry = time.After(rereadAfter)
		}
		if canceling {
			cancelFor(errCanceled)
			return
		}
	}
}

// canceling reads whether the attempt is to be canceled. It does not stop when ctx is done:
// interrupting a query would close the connection and lose its prepared plans.
func (r *Runner) canceling(ctx context.Context, key notify.Key) (canceling bool, err error) {
	err = withTimeout(context.WithoutCancel(ctx), writeTimeout, func(ctx context.Context) (err error) {
		canceling, err = db.New().ExecutionIsCanceling(ctx, r.DB, db.ExecutionIsCancelingParams{WorkspaceID: key.WorkspaceID, ID: key.ID})
		return err
	})
	return canceling, err
}
