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
	"github.com/weft-automation/weft/internal/workflow/engine"
)

// Origin is the run that a rerun repeats (decisions 8.10).
type Origin struct {
	RunID       uuid.UUID  `json:"runId"`
	FromStageID *uuid.UUID `json:"fromStageId,omitempty"` // first stage to repeat; nil: reuse all completed stages
}

// ErrEarlierGone means that retention has deleted the run that is to be repeated.
var ErrEarlierGone = errors.New("the run that is repeated is no longer stored")

// Reused returns what a rerun reuses of a finished run with the same version and input (see
// engine.Repeat). It returns ErrEarlierGone if the finished run, or the stage from which it is repeated,
// is missing. If the finished run is a rerun without stages, the run that it repeats is used instead.
func Reused(ctx context.Context, conn postgres.DB, plan *graph.Plan, workspaceID uuid.UUID, of Origin) (r engine.Reuse, err error) {
	repeated, err := db.New().RunGetRepeated(ctx, conn, db.RunGetRepeatedParams{WorkspaceID: workspaceID, ID: of.RunID})
	if postgres.NotFound(err) {
		return r, ErrEarlierGone
	}
	if err != nil {
		return r, fmt.Errorf("read the earlier run: %w", err)
	}
	rows, err := db.New().StageListForRerun(ctx, conn, db.StageListForRerunParams{WorkspaceID: workspaceID, RunID: of.RunID})
	if err != nil {
		return r, fmt.Errorf("read the stages of the earlier run: %w", err)
	}
	if len(rows) == 0 && len(repeated.RerunOf) > 0 && of.FromStageID == nil {
		origin, err := originOf(repeated.RerunOf)
		if err != nil {
			return r, err
		}
		return Reused(ctx, conn, plan, workspaceID, origin)
	}
	stages := make([]engine.EarlierStage, len(rows))
	for i, row := range rows {
		stages[i] = engine.EarlierStage(row)
	}
	changes := map[string]bool{}
	for _, c := range plan.Components() {
		if _, m := plan.Component(c.ID); m.Loop {
			changed, err := environment.ChangedSince(ctx, conn, workspaceID, envref.Names(c.Input), startOf(of.RunID, repeated.CreatedAt))
			if err != nil {
				return r, err
			}
			changes[c.ID] = len(changed) > 0 || plan.AboutRun(c.ID)
		}
	}
	r, err = engine.Repeat(plan, stages, repeated.ResumedChildren, of.FromStageID, changes)
	if errors.Is(err, engine.ErrNoSuchStage) {
		err = ErrEarlierGone
	}
	r.From = of.RunID
	return r, err
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

// reused returns what this run reuses. It reads the earlier run once per advance.
func (a *advance) reused() (*engine.Reuse, error) {
	if a.reuse != nil {
		return a.reuse, nil
	}
	origin, err := originOf(a.row.RerunOf)
	if err != nil {
		return nil, err
	}
	r, err := Reused(a.ctx, a.tx, a.Plan, a.row.WorkspaceID, origin)
	if err != nil {
		return nil, err
	}
	a.reuse = &r
	return a.reuse, nil
}

// resumes returns the earlier child run that the child run of a RUN_WORKFLOW repeats. It returns
// nil if the earlier run has no such child run, or if that child run completed, is deleted, or has
// a different version or input.
func (a *advance) resumes(t *engine.Stage, workflowID uuid.UUID, version int32, input json.RawMessage) (*Origin, error) {
	if len(a.row.RerunOf) == 0 {
		return nil, nil
	}
	reuse, err := a.reused()
	if errors.Is(err, ErrEarlierGone) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	child, found := reuse.Children[engine.PlaceOf(t.Component.ID, t.Iteration)]
	if !found {
		return nil, nil
	}
	id := child.RunID
	row, err := db.New().RunGet(a.ctx, a.tx, db.RunGetParams{WorkspaceID: a.row.WorkspaceID, ID: id})
	if postgres.NotFound(err) || err == nil && (row.WorkflowID != workflowID || row.WorkflowVersion != version) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the earlier child run: %w", err)
	}
	earlier, _, err := OpenInput(a.ctx, a.o.Vault, a.row.WorkspaceID, id, row.Input)
	if err != nil {
		return nil, err
	}
	if same, err := engine.SameValue(earlier, input); err != nil || !same {
		return nil, err
	}
	return &Origin{RunID: id}, nil
}

// copyReused copies the stages that this run reuses from the run that it repeats.
func (a *advance) copyReused() error {
	if a.Run.Status != status.RunCreated || len(a.row.RerunOf) == 0 {
		return nil
	}
	reuse, err := a.reused()
	if errors.Is(err, ErrEarlierGone) {
		a.FailWith(string(fault.NotFound), "The run that rerunOf names was deleted before this run started. Trigger the workflow without rerunOf.")
		return nil
	}
	if err != nil {
		return err
	}
	if len(reuse.Children) > 0 {
		children, _ := json.Marshal(slices.Collect(maps.Values(reuse.Children))) // places and ids
		err := db.New().RunSetResumedChildren(a.ctx, a.tx, db.RunSetResumedChildrenParams{WorkspaceID: a.row.WorkspaceID, ID: a.Run.ID, ResumedChildren: children})
		if err != nil {
			return fmt.Errorf("store the child runs to resume: %w", err)
		}
	}
	if len(reuse.Stages) == 0 {
		return nil
	}
	row, err := db.New().StageCopyMany(a.ctx, a.tx, db.StageCopyManyParams{
		WorkspaceID: a.row.WorkspaceID, RunID: a.Run.ID, EarlierRunID: reuse.From, Ids: reuse.Stages,
	})
	if err != nil {
		return fmt.Errorf("copy stages: %w", err)
	}
	response, err := a.open(row.ResponseID, row.Response)
	if err != nil {
		return err
	}
	a.Copied(storage.Usage{Stages: int64(row.Stages), Bytes: row.Bytes}, row.Failed, row.FinishedAt, response)
	return nil
}
