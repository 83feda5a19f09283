package execution

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/fault"
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

// maxReason is the maximum size of a reason in an error, in bytes: the 1,000 characters of the contract.
const maxReason = 4_000

// withdrawn returns the error of an execution that was canceled. cut reports whether an attempt was cut off.
func withdrawn(reason *string, rule string, cut bool) *component.Error {
	failure := component.Permanent(component.CodeCanceled, "the execution was canceled")
	if cut && component.Repeat(rule) != component.RepeatPure {
		failure.Message += " after this call was sent: whether it took effect is unknown, and nothing was charged for it"
		failure = failure.CutOff(component.Repeat(rule)).With(map[string]string{"sent": egress.SentUnknown})
	}
	if reason != nil && *reason != "" {
		failure.Message += ". Reason: " + component.Cut(*reason, maxReason)
	}
	return failure
}

// canceled returns the error of an execution that must end. reason is that of the request, if the execution
// is not a stage.
func (a attempt) canceled(reason *string, cut bool) *component.Error {
	if a.row.RunID == nil {
		return withdrawn(reason, a.row.RepeatRule, cut)
	}
	return canceled(a.row.RepeatRule, cut)
}

// canceledFor is the cause of a context whose execution was canceled.
type canceledFor struct{ reason *string }

func (canceledFor) Error() string { return "the execution was canceled" }

// errOfRun is the answer to the cancellation of a stage.
var errOfRun = &fault.Error{Code: fault.Conflict, Reason: "stage_of_run", Message: "This execution is a stage of a run. Cancel the run."}

// CancelOne cancels an execution that is not a stage, and returns its record. It ends FAILED with code
// CANCELED: at once if no worker has it, otherwise within seconds. CancelOne changes nothing if the
// execution is final or was canceled before.
func (s *Service) CancelOne(ctx context.Context, workspaceID, executionID uuid.UUID, reason *string) (api.ComponentExecution, error) {
	if err := s.quarantined(); err != nil {
		return api.ComponentExecution{}, err
	}
	stage, err := db.New().ExecutionIsStage(ctx, s.DB, db.ExecutionIsStageParams{WorkspaceID: workspaceID, ID: executionID})
	switch {
	case postgres.NotFound(err):
		return api.ComponentExecution{}, errNotFound
	case err != nil:
		return api.ComponentExecution{}, fmt.Errorf("read execution: %w", err)
	case stage:
		return api.ComponentExecution{}, errOfRun
	}
	key := notify.Key{WorkspaceID: workspaceID, ID: executionID}
	row, err := db.New().ExecutionRequestCancel(ctx, s.local.DB, db.ExecutionRequestCancelParams{WorkspaceID: workspaceID, ID: executionID, Reason: reason})
	switch {
	case postgres.NotFound(err): // it is final
	case err != nil:
		return api.ComponentExecution{}, fmt.Errorf("cancel execution: %w", err)
	case row.Held:
		s.Hub.Publish(notify.Change{Key: key})
	default: // if a worker starts it meanwhile, that start sees the request
		f, err := failed(workspaceID, executionID, row.Epoch, int(row.Attempt), withdrawn(row.CancelReason, row.RepeatRule, !row.OutcomeKnown || row.Waiting))
		if err != nil {
			return api.ComponentExecution{}, err
		}
		if err := s.local.finishNow(ctx, func(b *postgres.Batch) *Finishing { return s.local.queueCancel(ctx, b, []finish{f}) }); err != nil {
			return api.ComponentExecution{}, fmt.Errorf("cancel execution: %w", err)
		}
	}
	return s.Get(ctx, workspaceID, executionID)
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
	var free []finish
	var held db.ExecutionRequestCancelManyParams
	for _, row := range rows {
		switch {
		case row.Held && scope == StopAll && !row.Canceling:
			held.WorkspaceIds = append(held.WorkspaceIds, run.WorkspaceID)
			held.Ids, held.Epochs = append(held.Ids, row.ID), append(held.Epochs, row.Epoch)
		case !row.Held && (scope == StopAll || !row.Waiting):
			f, err := failed(run.WorkspaceID, row.ID, row.Epoch, int(row.Attempt), canceled(row.RepeatRule, !row.OutcomeKnown || row.Waiting))
			if err != nil {
				return err
			}
			free = append(free, f)
		}
	}
	if len(free) > 0 {
		if err := r.finishNow(ctx, func(b *postgres.Batch) *Finishing { return r.queueCancel(ctx, b, free) }); err != nil {
			return fmt.Errorf("cancel executions: %w", err)
		}
	}
	if len(held.Ids) == 0 {
		return nil
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

// queueCancel is queueFinish for executions of one workspace that have not started or are paused. It locks
// the account first, in the same order as the release of parked executions.
func (r *Runner) queueCancel(ctx context.Context, batch *postgres.Batch, items []finish) *Finishing {
	f := &Finishing{runner: r, free: true, items: make(map[attemptKey]finish, len(items))}
	var p db.ExecutionCancelManyParams
	for _, item := range items {
		f.keys, f.items[attemptKey{item.key, item.epoch}] = append(f.keys, item.key), item
		p.WorkspaceIds, p.Ids = append(p.WorkspaceIds, item.key.WorkspaceID), append(p.Ids, item.key.ID)
		p.Epochs, p.Errors = append(p.Epochs, item.epoch), append(p.Errors, string(item.err))
	}
	_ = db.New().AccountLock(ctx, batch, items[0].key.WorkspaceID)
	f.rows = postgres.Returning[db.ExecutionFinishManyRow](batch, db.ExecutionCancelMany, p)
	return f
}
