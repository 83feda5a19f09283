package orchestrator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/account/storage"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/kit/uuid7"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/workflow"
	"github.com/weft-automation/weft/internal/workflow/engine"
)

// reasonLate is the cancelReason of a run that is canceled because its stage took too long.
const reasonLate = "the stage that started it exceeded its timeoutMs"

// prepareChild decides whether a RUN_WORKFLOW can start, and reads what its child run needs.
func (a *advance) prepareChild(t *engine.Stage) (child engine.Child, err error) {
	err = billing.CheckSuspended(a.ctx, a.tx, a.row.WorkspaceID) // otherwise a tree of runs could go on for ever
	if refusal, ok := errors.AsType[*fault.Error](err); ok {
		return engine.Child{Refusal: refusal}, nil
	}
	if err != nil {
		return child, err
	}
	named, err := a.o.Workflows.Child(a.ctx, a.tx, a.row.WorkspaceID, engine.Object(t.Component.Config))
	if refusal, ok := errors.AsType[*fault.Error](err); ok {
		return engine.Child{Refusal: refusal}, nil
	}
	if err != nil {
		return child, err
	}
	may, err := a.mayRun(named.ID)
	if err != nil {
		return child, err
	}
	if !may {
		return engine.Child{Refusal: engine.ErrNotForKey}, nil
	}
	input, secrets := t.Input()
	loaded, err := a.o.Workflows.Load(a.ctx, a.tx, a.row.WorkspaceID, named.ID, named.Version)
	switch {
	case err != nil:
	case loaded.Status != api.WorkflowStatusACTIVE:
		err = NotActive(loaded.Status)
	default:
		err = loaded.Input.Check(a.ctx, "/input", input)
	}
	if refusal, ok := errors.AsType[*fault.Error](err); ok {
		return engine.Child{Refusal: refusal}, nil
	}
	if err != nil {
		return child, err
	}
	row, err := a.childRow(t, named.ID, loaded, input, secrets)
	a.children[row.ID] = row
	return engine.Child{ID: row.ID}, err
}

// mayRun reports whether the key that triggered the root run may use a workflow (decisions 2.8).
// The run records the first key in the chain of rotations, which has access to the same workflows.
// Runs of schedules and hooks have no key and may use any workflow.
func (a *advance) mayRun(workflowID uuid.UUID) (bool, error) {
	if a.row.KeyRootID == nil {
		return true, nil
	}
	may, err := db.New().APIKeyMayUse(a.ctx, a.tx, db.APIKeyMayUseParams{
		WorkspaceID: a.row.WorkspaceID, ID: *a.row.KeyRootID, WorkflowID: workflowID,
	})
	if postgres.NotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the workflows of a key: %w", err)
	}
	return may, nil
}

// childRow returns the row of the child run of a stage.
func (a *advance) childRow(t *engine.Stage, workflowID uuid.UUID, loaded workflow.Loaded, input json.RawMessage, secrets []string) (row db.RunInsertParams, err error) {
	id, err := uuid7.New()
	if err != nil {
		return row, fmt.Errorf("make run id: %w", err)
	}
	lasts, limited := a.Run.Deadline.Sub(a.At), a.Run.Limited // At + lasts is the deadline of this run
	if loaded.Deadline > 0 && loaded.Deadline < lasts {
		lasts, limited = loaded.Deadline, true
	}
	row = db.RunInsertParams{
		WorkspaceID: a.row.WorkspaceID, ID: id, WorkflowID: workflowID, WorkflowVersion: loaded.Version, Status: status.RunCreated, Trigger: "RUN",
		Lasts: lasts, Limited: limited, Grace: StartWithin, Queue: Queue, SafetyNet: SafetyNet, ParentRunID: &a.Run.ID, ParentStageID: &t.ID, RootRunID: &a.row.RootRunID, KeyRootID: a.row.KeyRootID, Traceparent: a.row.Traceparent,
		UncountedBytes: storage.RunBytes + int64(len(input)), At: new(a.At),
	}
	effectRoot, err := a.EffectID(t)
	if err != nil {
		return row, err
	}
	row.EffectRootID = &effectRoot
	earlier, err := a.resumes(t, workflowID, loaded.Version, input)
	if err != nil {
		return row, err
	}
	if earlier != nil {
		row.RerunOf, _ = json.Marshal(earlier) // an id
	}
	hidden := loaded.Input.SecretPaths()
	if t.Secret {
		hidden = []string{component.AllMembers}
	}
	if row.Input, err = SealInput(a.ctx, a.o.Vault, a.row.WorkspaceID, id, input, hidden); err != nil {
		return row, err
	}
	if a.Run.MaxCredits != nil {
		row.MaxCredits = new(max(0, *a.Run.MaxCredits-a.Run.Committed-a.Run.Below))
	}
	if a.Variables.Err != nil {
		return row, a.Variables.Err
	}
	row.Variables, err = a.o.Environment.Take(a.ctx, a.tx, a.row.WorkspaceID, id, loaded.Wanted(slices.Concat(a.Variables.Secrets, secrets)))
	return row, err
}

// insertChildren inserts the child runs that start in this advance, each with its job.
func (a *advance) insertChildren() error {
	var batch postgres.Batch
	if a.CancelSelf {
		_ = db.New().RunCancel(a.ctx, &batch, db.RunCancelParams{WorkspaceID: a.row.WorkspaceID, ID: a.Run.ID, Mode: *a.Run.CancelMode, Reason: engine.ReasonAbove, At: *a.Run.CancelRequestedAt})
	}
	for _, id := range a.Children {
		postgres.Returning[int64](&batch, db.RunInsert, a.children[id])
	}
	if err := a.tx.Send(a.ctx, &batch); err != nil {
		return fmt.Errorf("insert child runs: %w", err)
	}
	return nil
}

// queueAbove adds the credits that this advance commits to the totals of the ancestors.
func (a *advance) queueAbove(batch *postgres.Batch) {
	if len(a.limits) == 0 || a.Spent == 0 {
		return
	}
	p := db.RunAddCommittedBelowParams{WorkspaceID: a.row.WorkspaceID, Amount: a.Spent, Ids: a.limits}
	_ = db.New().RunAddCommittedBelow(a.ctx, batch, p)
}

// stopChildren cancels the child runs that must stop, and their descendants.
func (o *Orchestrator) stopChildren(ctx context.Context, a *advance, mode string) {
	if len(a.CancelChildren) == 0 {
		return
	}
	reason := engine.ReasonAbove
	if !a.Ending() {
		reason = reasonLate
	}
	if err := o.CancelTree(ctx, o.System, a.row.WorkspaceID, a.CancelChildren, mode, &reason); err != nil && ctx.Err() == nil {
		o.Log.WarnContext(ctx, "failed to cancel child runs; the next advance retries", "run_id", a.Run.ID.String(), "error", err)
	}
}

// CancelTree requests the cancellation of the specified runs and of all their unfinished
// descendants in one statement, then wakes the canceled runs. If this process dies after the
// statement, the sweep wakes them.
func (o *Orchestrator) CancelTree(ctx context.Context, conn db.DBTX, workspaceID uuid.UUID, ids []uuid.UUID, mode string, reason *string) error {
	canceled, err := db.New().RunCancelTree(ctx, conn, db.RunCancelTreeParams{
		WorkspaceID: workspaceID, Ids: ids, Mode: mode, Reason: reason, ReasonBelow: engine.ReasonAbove, MaxDepth: engine.MaxDepth,
	})
	if err != nil {
		return fmt.Errorf("cancel runs and the runs below them: %w", err)
	}
	for _, id := range canceled {
		o.dispatcher.wake(notify.Key{WorkspaceID: workspaceID, ID: id})
	}
	return nil
}

// NotActive returns the CONFLICT error for a workflow that cannot be run because of its status.
func NotActive(now api.WorkflowStatus) *fault.Error {
	word := strings.ToLower(string(now))
	return &fault.Error{Code: fault.Conflict, Reason: "workflow_" + word, Message: "This workflow is " + word + ", so it cannot be run."}
}
