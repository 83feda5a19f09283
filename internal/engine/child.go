package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/credit"
	"github.com/weft-automation/weft/internal/fault"
	"github.com/weft-automation/weft/internal/notify"
	"github.com/weft-automation/weft/internal/status"
	"github.com/weft-automation/weft/internal/workflow"
)

// How a run is ended on request (decisions 8.9).
const (
	CancelGraceful  = "graceful" // what runs may finish
	CancelImmediate = "immediate"
)

// maxDepth is how many runs may be below each other, and maxBelow about how many of a workspace
// may be under way below others for one of them to begin more: a workflow that runs itself, or
// a few that run each other, would fill the database.
const (
	maxDepth = 8
	maxBelow = 10_000
)

// runWorkflow begins a run of another workflow and waits for its end. Nothing is kept
// back for it beforehand: its stages are paid for as they come.
func (f *fold) runWorkflow(sc *scope, t *stage, input json.RawMessage) error {
	var config struct {
		WorkflowID uuid.UUID `json:"workflowId"`
		Version    *int32    `json:"version"`
	}
	if err := json.Unmarshal(Object(t.component.Config), &config); err != nil {
		f.put(sc, t.failed(component.Permanent(component.CodeInvalidInput, "workflowId is not an id")))
		return nil
	}
	refusal, err := f.crowded()
	if err != nil {
		return err
	}
	if refusal != nil {
		f.put(sc, t.failed(refusal))
		return nil
	}
	loaded, err := f.childVersion(config.WorkflowID, config.Version, input)
	if refusal, ok := errors.AsType[*fault.Error](err); ok {
		f.put(sc, t.failed(refusal))
		return nil
	}
	if err != nil {
		return err
	}
	if t.child, err = f.insertChild(t, config.WorkflowID, loaded, input); err != nil {
		return err
	}
	t.status = status.StageRunning
	f.put(sc, t)
	return nil
}

// crowded is why a run may begin none below it, if so. One that is below no other may.
func (f *fold) crowded() (refusal *component.Error, err error) {
	if f.run.ParentRunID == nil {
		return nil, nil
	}
	depth, err := db.New().RunDepth(f.ctx, f.tx, db.RunDepthParams{WorkspaceID: f.run.WorkspaceID, ID: f.run.ID, MaxDepth: maxDepth})
	if err != nil {
		return nil, fmt.Errorf("count the runs above: %w", err)
	}
	if depth >= maxDepth {
		return component.Permanent("LIMIT_EXCEEDED", "At most %d runs may be below each other.", maxDepth), nil
	}
	if f.below == nil {
		count, err := db.New().RunCountBelow(f.ctx, f.tx, db.RunCountBelowParams{WorkspaceID: f.run.WorkspaceID, MaxRows: 2 * maxBelow})
		if err != nil {
			return nil, fmt.Errorf("count the runs that others began: %w", err)
		}
		f.below = &count
	}
	if int(*f.below)+len(f.children) >= maxBelow {
		return component.Permanent("LIMIT_EXCEEDED", "A run below another one begins no more while some %d of them are under way.", maxBelow), nil
	}
	return nil, nil
}

// childVersion is which version of a workflow a child runs. A *fault.Error says why none.
func (f *fold) childVersion(workflowID uuid.UUID, number *int32, input json.RawMessage) (workflow.Loaded, error) {
	loaded, err := f.engine.Workflows.Load(f.ctx, f.tx, f.run.WorkspaceID, workflowID, number)
	switch {
	case err != nil:
		return loaded, err
	case loaded.Status != api.WorkflowStatusACTIVE:
		return loaded, NotActive(loaded.Status)
	}
	return loaded, fault.Unprocessable(loaded.Input.Check("/input", input))
}

func (f *fold) insertChild(t *stage, workflowID uuid.UUID, loaded workflow.Loaded, input json.RawMessage) (uuid.UUID, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return id, fmt.Errorf("make run id: %w", err)
	}
	net := Job(f.run.WorkspaceID, id)
	job, err := f.engine.Jobs.InsertTx(f.ctx, f.tx, net.Args, net.InsertOpts)
	if err != nil {
		return id, fmt.Errorf("insert job: %w", err)
	}
	row := db.RunInsertParams{
		WorkspaceID: f.run.WorkspaceID, ID: id, WorkflowID: workflowID, WorkflowVersion: loaded.Version, Status: status.RunCreated, Trigger: "RUN",
		Lasts: f.run.Deadline.Sub(f.run.Now), Grace: BegunWithin, JobID: job.Job.ID, ParentRunID: &f.run.ID, ParentStageID: &t.id, Traceparent: f.run.Traceparent,
	}
	hidden := loaded.Input.SecretPaths()
	if t.secret {
		hidden = []string{component.AllMembers}
	}
	if row.Input, err = SealInput(f.ctx, f.engine.Vault, f.run.WorkspaceID, id, input, hidden); err != nil {
		return id, err
	}
	if f.run.MaxCredits != nil {
		row.MaxCredits = new(max(0, *f.run.MaxCredits-f.run.Committed-f.run.Below))
	}
	env, err := f.environment()
	if err != nil {
		return id, err
	}
	if row.Variables, err = f.engine.Environment.Take(f.ctx, f.tx, f.run.WorkspaceID, id, loaded.Variables, slices.Concat(env.Secrets, t.secrets)); err != nil {
		return id, err
	}
	if err := db.New().RunInsert(f.ctx, f.tx, row); err != nil {
		return id, fmt.Errorf("insert run: %w", err)
	}
	f.children = append(f.children, id)
	return id, nil
}

// beyond is the maxCredits that a stage of that price would exceed, of the run itself or of
// one above it; nil if none.
func (f *fold) beyond(price credit.Amount) (*credit.Amount, error) {
	most := f.run.MaxCredits
	if most == nil || price == 0 {
		return nil, nil
	}
	if f.run.Committed+f.run.Below+price > *most {
		return most, nil
	}
	if f.run.ParentRunID != nil && f.above == nil {
		rows, err := db.New().RunLockAbove(f.ctx, f.tx, db.RunLockAboveParams{WorkspaceID: f.run.WorkspaceID, ID: f.run.ID, MaxDepth: maxDepth})
		if err != nil {
			return nil, fmt.Errorf("lock the runs above: %w", err)
		}
		f.above = rows
	}
	for _, run := range f.above {
		if run.Committed+run.Below+f.spent+price > *run.MaxCredits {
			return run.MaxCredits, nil
		}
	}
	return nil, nil
}

// writeAbove counts for the runs above what this fold has committed.
func (f *fold) writeAbove(tx pgx.Tx) error {
	if len(f.above) == 0 || f.spent == 0 {
		return nil
	}
	p := db.RunCommitBelowParams{WorkspaceID: f.run.WorkspaceID, Amount: f.spent}
	for _, run := range f.above {
		p.Ids = append(p.Ids, run.ID)
	}
	if err := db.New().RunCommitBelow(f.ctx, tx, p); err != nil {
		return fmt.Errorf("commit for the runs above: %w", err)
	}
	return nil
}

// stopChildren passes the end of a run down.
func (e *Engine) stopChildren(ctx context.Context, f *fold, mode string) error {
	reason := "the run that began it ended"
	for _, id := range f.orphans {
		_, err := db.New().RunCancel(ctx, e.System, db.RunCancelParams{WorkspaceID: f.run.WorkspaceID, ID: id, Mode: mode, Reason: &reason})
		if err != nil {
			return fmt.Errorf("cancel a child run: %w", err)
		}
		e.folder.wake(notify.Key{WorkspaceID: f.run.WorkspaceID, ID: id})
	}
	return nil
}

// NotActive is why a workflow is not run.
func NotActive(now api.WorkflowStatus) *fault.Error {
	word := strings.ToLower(string(now))
	return &fault.Error{Code: fault.Conflict, Reason: "workflow_" + word, Message: "This workflow is " + word + ", so it cannot be run."}
}
