package run

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/fault"
	"github.com/weft-automation/weft/internal/notify"
	"github.com/weft-automation/weft/internal/postgres"
	"github.com/weft-automation/weft/internal/status"
)

// Origin is the run that another one repeats (decisions 8.10).
type Origin struct {
	RunID       uuid.UUID  `json:"runId"`
	FromStageID *uuid.UUID `json:"fromStageId,omitempty"` // nil: all that is complete is taken over
}

// again makes of a trigger that repeats a run one of that run's version and input.
// NOT_FOUND for an unknown run or stage, CONFLICT for one that is still under way,
// INVALID_INPUT for one of another workflow.
func (s *Service) again(ctx context.Context, p *TriggerParams) error {
	key := notify.Key{WorkspaceID: p.WorkspaceID, ID: p.RerunOf.RunID}
	earlier, err := s.get(ctx, key)
	switch {
	case err != nil:
		return err
	case earlier.WorkflowID != p.WorkflowID:
		return fault.Invalid("/rerunOf/runId", "is a run of another workflow")
	case p.Version != nil && *p.Version != earlier.WorkflowVersion:
		return fault.Invalid("/version", "must be that of the earlier run, %d, or absent", earlier.WorkflowVersion)
	case len(p.Input) > 0:
		return fault.Invalid("/input", "must be absent: a run that repeats another one takes its input")
	case !earlier.Status.Terminal():
		return &fault.Error{Code: fault.Conflict, Reason: "run_not_finished", Message: "The earlier run is not over yet."}
	}
	if p.RerunOf.FromStageID != nil {
		_, err := db.New().StageComponent(ctx, s.API, db.StageComponentParams{WorkspaceID: key.WorkspaceID, RunID: key.ID, ID: *p.RerunOf.FromStageID})
		if postgres.NotFound(err) {
			return fault.Invalid("/rerunOf/fromStageId", "is no stage of that run")
		}
		if err != nil {
			return fmt.Errorf("look for a stage: %w", err)
		}
	}
	p.Version, p.Input = &earlier.WorkflowVersion, earlier.Input
	return nil
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
