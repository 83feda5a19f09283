package execution

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/component"
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
