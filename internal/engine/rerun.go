package engine

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/notify"
	"github.com/weft-automation/weft/internal/postgres"
	"github.com/weft-automation/weft/internal/status"
)

// Origin is the run that another one repeats (decisions 8.10).
type Origin struct {
	RunID       uuid.UUID  `json:"runId"`
	FromStageID *uuid.UUID `json:"fromStageId,omitempty"` // nil: all that is complete is taken over
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
	earlier := notify.Key{WorkspaceID: f.run.WorkspaceID, ID: origin.RunID}
	kept, responds, err := f.keptOf(earlier, origin.FromStageID)
	if err != nil || len(kept) == 0 {
		return err
	}
	n, err := db.New().StageCopyMany(f.ctx, f.tx, db.StageCopyManyParams{
		WorkspaceID: f.run.WorkspaceID, RunID: f.run.ID, EarlierRunID: earlier.ID, ComponentIds: kept,
	})
	if err != nil {
		return fmt.Errorf("take stages over: %w", err)
	}
	f.run.StageCount += int32(n)
	f.changed = f.changed || n > 0
	f.copied = true
	if responds {
		row, err := db.New().RunGet(f.ctx, f.tx, db.RunGetParams{WorkspaceID: earlier.WorkspaceID, ID: earlier.ID})
		if err != nil && !postgres.NotFound(err) {
			return fmt.Errorf("read the earlier run: %w", err)
		}
		f.run.Output = row.Output
	}
	return nil
}

// keptOf are the components whose stages are taken over: those of the root that are
// complete and do not come after the given stage, with all that is in them.
func (f *fold) keptOf(earlier notify.Key, from *uuid.UUID) (kept []string, responds bool, err error) {
	var again []string
	if from != nil {
		id, err := db.New().StageComponent(f.ctx, f.tx, db.StageComponentParams{WorkspaceID: earlier.WorkspaceID, RunID: earlier.ID, ID: *from})
		if err != nil {
			return nil, false, fmt.Errorf("look for a stage: %w", err)
		}
		again = append(f.plan.After(id), f.plan.Outermost(id))
	}
	var places []place
	for _, id := range f.plan.Members("") {
		places = append(places, at(id, nil))
	}
	components, iterations := sortedPlaces(places)
	rows, err := db.New().StageListStates(f.ctx, f.tx, db.StageListStatesParams{
		WorkspaceID: earlier.WorkspaceID, RunID: earlier.ID, ComponentIds: components, Iterations: iterations,
	})
	if err != nil {
		return nil, false, fmt.Errorf("read the stages of the earlier run: %w", err)
	}
	for _, row := range rows {
		if row.Status != status.StageCompleted || slices.Contains(again, row.ComponentID) {
			continue
		}
		kept = append(kept, row.ComponentID)
		c, m := f.plan.Component(row.ComponentID)
		responds = responds || c.Module == "RESPOND"
		if m.Loop {
			kept = append(kept, f.plan.Below(row.ComponentID)...)
		}
	}
	return kept, responds, nil
}
