package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/graph"
	"github.com/weft-automation/weft/internal/status"
)

// Origin is the run that another one repeats (decisions 8.10).
type Origin struct {
	RunID       uuid.UUID  `json:"runId"`
	FromStageID *uuid.UUID `json:"fromStageId,omitempty"` // nil: all that is complete is taken over
}

// Kept are the components of the root whose stages are taken over from an earlier run, each
// loop with all that is in it: those that are complete there and come neither after the given
// stage nor after one that is not complete, whose outcome may be another one this time.
func Kept(ctx context.Context, conn db.DBTX, plan *graph.Plan, workspaceID uuid.UUID, of Origin) (kept []string, err error) {
	var again []string
	if of.FromStageID != nil {
		id, err := db.New().StageComponent(ctx, conn, db.StageComponentParams{WorkspaceID: workspaceID, RunID: of.RunID, ID: *of.FromStageID})
		if err != nil {
			return nil, fmt.Errorf("look for a stage: %w", err)
		}
		again = append(again, plan.Outermost(id))
	}
	var places []place
	for _, id := range plan.Members("") {
		places = append(places, at(id, nil))
	}
	components, iterations := sortedPlaces(places)
	rows, err := db.New().StageListStates(ctx, conn, db.StageListStatesParams{
		WorkspaceID: workspaceID, RunID: of.RunID, ComponentIds: components, Iterations: iterations,
	})
	if err != nil {
		return nil, fmt.Errorf("read the stages of the earlier run: %w", err)
	}
	for _, row := range rows {
		if row.Status != status.StageCompleted {
			again = append(again, row.ComponentID)
		}
	}
	again = append(again, plan.After(again...)...)
	for _, row := range rows {
		if !slices.Contains(again, row.ComponentID) {
			kept = append(kept, row.ComponentID)
		}
	}
	return kept, nil
}

// takeOverEarlier takes what is complete over from the run that this one repeats.
func (f *fold) takeOverEarlier() error {
	if f.run.Status != status.RunCreated || len(f.run.RerunOf) == 0 {
		return nil
	}
	var origin Origin
	if err := json.Unmarshal(f.run.RerunOf, &origin); err != nil {
		return fmt.Errorf("read what is repeated: %w", err)
	}
	kept, err := Kept(f.ctx, f.tx, f.plan, f.run.WorkspaceID, origin)
	if err != nil || len(kept) == 0 {
		return err
	}
	for _, id := range kept {
		if _, m := f.plan.Component(id); m.Loop {
			kept = append(kept, f.plan.Below(id)...)
		}
	}
	row, err := db.New().StageCopyMany(f.ctx, f.tx, db.StageCopyManyParams{
		WorkspaceID: f.run.WorkspaceID, RunID: f.run.ID, EarlierRunID: origin.RunID, ComponentIds: kept,
	})
	if err != nil {
		return fmt.Errorf("take stages over: %w", err)
	}
	f.copied, f.changed = true, f.changed || row.Stages > 0
	f.run.StageCount += row.Stages
	f.run.FailedCount += row.Failed
	f.run.Output = row.Response
	f.gave(row.Bytes)
	return nil
}
