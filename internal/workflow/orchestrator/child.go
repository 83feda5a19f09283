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
	"github.com/weft-automation/weft/internal/account/storage"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/workflow"
)

// Modes of a cancel request (decisions 8.9).
const (
	CancelGraceful  = "graceful" // running attempts may finish
	CancelImmediate = "immediate"
)

// reasonAbove is the cancelReason of a run that is canceled because of an ancestor.
const reasonAbove = "the run that started it ended"

// reasonLate is the cancelReason of a run that is canceled because its stage took too long.
const reasonLate = "the stage that started it exceeded its timeoutMs"

// prepareChild decides whether a RUN_WORKFLOW can start, and reads what its child run needs.
func (f *fold) prepareChild(t *stage) (err error) {
	t.starts = &child{}
	var config struct {
		WorkflowID uuid.UUID `json:"workflowId"`
		Version    *int32    `json:"version"`
	}
	if err := json.Unmarshal(Object(t.component.Config), &config); err != nil {
		t.starts.refusal = component.Permanent(component.CodeInvalidInput, "workflowId is not an id")
		return nil
	}
	may, err := f.mayRun(config.WorkflowID)
	if err != nil {
		return err
	}
	if !may {
		t.starts.refusal = errNotForKey
		return nil
	}
	loaded, err := f.childVersion(config.WorkflowID, config.Version, t.input)
	if refusal, ok := errors.AsType[*fault.Error](err); ok {
		t.starts.refusal = refusal
		return nil
	}
	if err == nil {
		t.starts.row, err = f.childRow(t, config.WorkflowID, loaded, t.input)
	}
	return err
}

// mayRun reports whether the key that triggered the root run may use a workflow (decisions 2.8).
// The run records the first key in the chain of rotations, which has access to the same workflows.
// Runs of schedules and hooks have no key and may use any workflow.
func (f *fold) mayRun(workflowID uuid.UUID) (bool, error) {
	if f.run.KeyRootID == nil {
		return true, nil
	}
	may, err := db.New().APIKeyMayUse(f.ctx, f.tx, db.APIKeyMayUseParams{
		WorkspaceID: f.run.WorkspaceID, ID: *f.run.KeyRootID, WorkflowID: workflowID,
	})
	if postgres.NotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the workflows of a key: %w", err)
	}
	return may, nil
}

// errTreeGrew is returned by a fold if its child runs, together with those that concurrent folds
// started, would exceed maxLive. Nothing of the fold is committed. The next fold reads the new
// count.
var errTreeGrew = errors.New("other folds of the tree started child runs at the same time")

// childVersion loads the version of a workflow that a child run uses. It returns a *fault.Error if
// the workflow cannot be run with this input.
func (f *fold) childVersion(workflowID uuid.UUID, number *int32, input json.RawMessage) (workflow.Loaded, error) {
	loaded, err := f.engine.Workflows.Load(f.ctx, f.tx, f.run.WorkspaceID, workflowID, number)
	switch {
	case err != nil:
		return loaded, err
	case loaded.Status != api.WorkflowStatusACTIVE:
		return loaded, NotActive(loaded.Status)
	}
	return loaded, loaded.Input.Check(f.ctx, "/input", input)
}

// childRow returns the row of the child run of a stage.
func (f *fold) childRow(t *stage, workflowID uuid.UUID, loaded workflow.Loaded, input json.RawMessage) (row db.RunInsertParams, err error) {
	id, err := uuid.NewV7()
	if err != nil {
		return row, fmt.Errorf("make run id: %w", err)
	}
	row = db.RunInsertParams{ // with the deadline of this run: At + Lasts
		WorkspaceID: f.run.WorkspaceID, ID: id, WorkflowID: workflowID, WorkflowVersion: loaded.Version, Status: status.RunCreated, Trigger: "RUN",
		Lasts: f.run.Deadline.Sub(f.stamp), Grace: StartWithin, Queue: Queue, SafetyNet: SafetyNet, ParentRunID: &f.run.ID, ParentStageID: &t.id, RootRunID: &f.run.RootRunID, KeyRootID: f.run.KeyRootID, Traceparent: f.run.Traceparent,
		UncountedBytes: storage.RunBytes + int64(len(input)), At: new(f.stamp),
	}
	effectRoot, err := f.effectID(t)
	if err != nil {
		return row, err
	}
	row.EffectRootID = &effectRoot
	earlier, err := f.resumes(t, workflowID, loaded.Version, input)
	if err != nil {
		return row, err
	}
	if earlier != nil {
		row.RerunOf, _ = json.Marshal(earlier) // an id
	}
	hidden := loaded.Input.SecretPaths()
	if t.secret {
		hidden = []string{component.AllMembers}
	}
	if row.Input, err = SealInput(f.ctx, f.engine.Vault, f.run.WorkspaceID, id, input, hidden); err != nil {
		return row, err
	}
	if f.run.MaxCredits != nil {
		row.MaxCredits = new(max(0, *f.run.MaxCredits-f.run.Committed-f.run.Below))
	}
	if f.variables.err != nil {
		return row, f.variables.err
	}
	if row.Variables, err = f.engine.Environment.Take(f.ctx, f.tx, f.run.WorkspaceID, id, loaded.Wanted(slices.Concat(f.variables.Secrets, t.secrets))); err != nil {
		return row, err
	}
	return row, nil
}

// insertChildren inserts the child runs that start in this fold, each with its job.
func (f *fold) insertChildren() error {
	var batch postgres.Batch
	if f.canceled {
		_ = db.New().RunCancel(f.ctx, &batch, db.RunCancelParams{WorkspaceID: f.run.WorkspaceID, ID: f.run.ID, Mode: *f.run.CancelMode, Reason: reasonAbove, At: *f.run.CancelRequestedAt})
	}
	for _, row := range f.children {
		postgres.Returning[int64](&batch, db.RunInsert, row)
	}
	if !f.canceled && len(f.children) == 0 {
		return nil
	}
	if err := f.tx.Send(f.ctx, &batch); err != nil {
		return fmt.Errorf("insert child runs: %w", err)
	}
	return nil
}

// queueAbove adds the credits that this fold commits to the totals of the ancestors.
func (f *fold) queueAbove(batch *postgres.Batch) {
	if len(f.limited) == 0 || f.spent == 0 {
		return
	}
	p := db.RunAddCommittedBelowParams{WorkspaceID: f.run.WorkspaceID, Amount: f.spent}
	for _, run := range f.limited {
		p.Ids = append(p.Ids, run.ID)
	}
	_ = db.New().RunAddCommittedBelow(f.ctx, batch, p)
}

// stopChildren cancels the child runs that must stop, and their descendants.
func (e *Engine) stopChildren(ctx context.Context, f *fold, mode string) error {
	if len(f.orphans) == 0 {
		return nil
	}
	reason := reasonAbove
	if !f.ending() {
		reason = reasonLate
	}
	return e.CancelTree(ctx, e.System, f.run.WorkspaceID, f.orphans, mode, &reason)
}

// CancelTree requests the cancellation of the specified runs and of all their unfinished
// descendants in one statement, then wakes the canceled runs. If this process dies after the
// statement, the sweep wakes them.
func (e *Engine) CancelTree(ctx context.Context, conn db.DBTX, workspaceID uuid.UUID, ids []uuid.UUID, mode string, reason *string) error {
	canceled, err := db.New().RunCancelTree(ctx, conn, db.RunCancelTreeParams{
		WorkspaceID: workspaceID, Ids: ids, Mode: mode, Reason: reason, ReasonBelow: reasonAbove, MaxDepth: maxDepth,
	})
	if err != nil {
		return fmt.Errorf("cancel runs and the runs below them: %w", err)
	}
	for _, id := range canceled {
		e.dispatcher.wake(notify.Key{WorkspaceID: workspaceID, ID: id})
	}
	return nil
}

// NotActive returns the CONFLICT error for a workflow that cannot be run because of its status.
func NotActive(now api.WorkflowStatus) *fault.Error {
	word := strings.ToLower(string(now))
	return &fault.Error{Code: fault.Conflict, Reason: "workflow_" + word, Message: "This workflow is " + word + ", so it cannot be run."}
}
