package orchestrator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/environment"
	"github.com/weft-automation/weft/internal/account/storage"
	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/kit/envref"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// Origin is the run that a rerun repeats (decisions 8.10).
type Origin struct {
	RunID       uuid.UUID  `json:"runId"`
	FromStageID *uuid.UUID `json:"fromStageId,omitempty"` // first stage to repeat; nil: reuse all completed stages
}

// ErrEarlierGone means that retention has deleted the run that is to be repeated.
var ErrEarlierGone = errors.New("the run that is repeated is no longer stored")

// Reused returns what a rerun reuses of a finished run with the same version and input. It returns
// ErrEarlierGone if the finished run, or the stage from which it is repeated, is missing.
//
// In each scope, completed stages are reused unless they come after the specified stage, or after
// a stage that did not complete: that stage may have a different outcome this time. A completed
// loop is reused with all its stages. A loop that did not complete, or that contains the specified
// stage, is resumed if its items are the same: its finished items are reused with all their
// stages, and these rules apply to its other items. A RUN_WORKFLOW that did not complete is
// resumed too: its child run repeats the earlier child run.
//
// If the earlier run is itself a rerun, the loops and child runs that it did not reach are resumed
// too. If it has no stages, the run that it repeats is used instead.
func Reused(ctx context.Context, conn postgres.DB, plan *graph.Plan, workspaceID uuid.UUID, of Origin) (reuse Reuse, err error) {
	repeated, err := db.New().RunGetRepeated(ctx, conn, db.RunGetRepeatedParams{WorkspaceID: workspaceID, ID: of.RunID})
	if postgres.NotFound(err) {
		return reuse, ErrEarlierGone
	}
	if err != nil {
		return reuse, fmt.Errorf("read the earlier run: %w", err)
	}
	rows, err := db.New().StageListForRerun(ctx, conn, db.StageListForRerunParams{WorkspaceID: workspaceID, RunID: of.RunID})
	if err != nil {
		return reuse, fmt.Errorf("read the stages of the earlier run: %w", err)
	}
	if len(rows) == 0 && len(repeated.RerunOf) > 0 && of.FromStageID == nil {
		origin, err := originOf(repeated.RerunOf)
		if err != nil {
			return reuse, err
		}
		return Reused(ctx, conn, plan, workspaceID, origin)
	}
	e := &earlier{plan: plan, stages: make(map[place]db.StageListForRerunRow, len(rows)), changes: map[string]bool{}}
	e.reuse.from, e.reuse.children = of.RunID, map[place]resumedChild{}
	for _, row := range rows {
		e.stages[placeOf(row.ComponentID, row.Iteration)] = row
		if of.FromStageID != nil && row.ID == *of.FromStageID {
			e.from = &row
		}
	}
	if of.FromStageID != nil && e.from == nil {
		return reuse, ErrEarlierGone
	}
	if err := e.addUnreached(rows, repeated.ResumedChildren); err != nil {
		return reuse, err
	}
	for _, c := range plan.Components() {
		if _, m := plan.Component(c.ID); m.Loop {
			changed, err := environment.ChangedSince(ctx, conn, workspaceID, envref.Names(c.Input), startOf(of.RunID, repeated.CreatedAt))
			if err != nil {
				return reuse, err
			}
			e.changes[c.ID] = len(changed) > 0
		}
	}
	e.scope("", nil)
	return e.reuse, nil
}

// startOf returns the earlier of a run's creation time and the time in its ID. If the clock was
// set back, the creation time of a child run may be ahead of the clock. The time in the ID comes
// from the process.
func startOf(id uuid.UUID, created time.Time) time.Time {
	if made := time.Unix(id.Time().UnixTime()); made.Before(created) {
		return made
	}
	return created
}

// originOf decodes the column rerun_of.
func originOf(rerunOf json.RawMessage) (origin Origin, err error) {
	if err := json.Unmarshal(rerunOf, &origin); err != nil {
		return origin, fmt.Errorf("decode the run that is repeated: %w", err)
	}
	return origin, nil
}

// reused returns Reused for this run. It reads the earlier run once per fold.
func (f *fold) reused() (*Reuse, error) {
	if f.reuse != nil {
		return f.reuse, nil
	}
	origin, err := originOf(f.run.RerunOf)
	if err != nil {
		return nil, err
	}
	reuse, err := Reused(f.ctx, f.tx, f.plan, f.run.WorkspaceID, origin)
	if err != nil {
		return nil, err
	}
	f.reuse = &reuse
	return f.reuse, nil
}

// resumes returns the earlier child run that the child run of a RUN_WORKFLOW repeats. It returns
// nil if the earlier run has no such child run, or if that child run completed, is deleted, or has
// a different version or input.
func (f *fold) resumes(t *stage, workflowID uuid.UUID, version int32, input json.RawMessage) (*Origin, error) {
	if len(f.run.RerunOf) == 0 {
		return nil, nil
	}
	reuse, err := f.reused()
	if errors.Is(err, ErrEarlierGone) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	child, found := reuse.children[placeOf(t.component.ID, t.iteration)]
	if !found {
		return nil, nil
	}
	id := child.RunID
	row, err := db.New().RunGet(f.ctx, f.tx, db.RunGetParams{WorkspaceID: f.run.WorkspaceID, ID: id})
	if postgres.NotFound(err) || err == nil && (row.WorkflowID != workflowID || row.WorkflowVersion != version) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the earlier child run: %w", err)
	}
	earlier, _, err := OpenInput(f.ctx, f.engine.Vault, f.run.WorkspaceID, id, row.Input)
	if err != nil {
		return nil, err
	}
	if same, err := sameValue(earlier, input); err != nil || !same {
		return nil, err
	}
	return &Origin{RunID: id}, nil
}

// copyReused copies the stages that this run reuses from the run that it repeats.
func (f *fold) copyReused() error {
	if f.run.Status != status.RunCreated || len(f.run.RerunOf) == 0 {
		return nil
	}
	reuse, err := f.reused()
	if errors.Is(err, ErrEarlierGone) {
		f.failWith(string(fault.NotFound), "The run that rerunOf names was deleted before this run started. Trigger the workflow without rerunOf.")
		return nil
	}
	if err != nil {
		return err
	}
	if len(reuse.children) > 0 {
		children, _ := json.Marshal(slices.Collect(maps.Values(reuse.children))) // places and ids
		err := db.New().RunSetResumedChildren(f.ctx, f.tx, db.RunSetResumedChildrenParams{WorkspaceID: f.run.WorkspaceID, ID: f.run.ID, ResumedChildren: children})
		if err != nil {
			return fmt.Errorf("store the child runs to resume: %w", err)
		}
	}
	if len(reuse.Stages) == 0 {
		return nil
	}
	row, err := db.New().StageCopyMany(f.ctx, f.tx, db.StageCopyManyParams{
		WorkspaceID: f.run.WorkspaceID, RunID: f.run.ID, EarlierRunID: reuse.from, Ids: reuse.Stages,
	})
	if err != nil {
		return fmt.Errorf("copy stages: %w", err)
	}
	f.copied, f.changed = true, true
	f.notBefore(row.FinishedAt)
	f.run.StageCount += row.Stages
	f.run.FailedCount += row.Failed
	f.countOutput(row.Bytes)
	f.reusedUsage = storage.Usage{Stages: int64(row.Stages), Bytes: row.Bytes}
	from, err := f.open(row.ResponseID, row.Response)
	f.run.Output, f.secretOutput = from.output, from.secret
	return err
}
