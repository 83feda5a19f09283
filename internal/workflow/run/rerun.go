package run

import (
	"context"
	"errors"
	"fmt"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/workflow/engine"
)

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
		return fault.InvalidAt("/rerunOf/runId", "is a run of another workflow")
	case p.Version != nil && *p.Version != earlier.WorkflowVersion:
		return fault.InvalidAt("/version", "must be that of the earlier run, %d, or absent", earlier.WorkflowVersion)
	case len(p.Input) > 0:
		return fault.InvalidAt("/input", "must be absent: a run that repeats another one takes its input")
	case !earlier.Status.Terminal():
		return &fault.Error{Code: fault.Conflict, Reason: "run_not_finished", Message: "The earlier run is not over yet."}
	}
	if p.RerunOf.FromStageID != nil {
		_, err := db.New().StageGetComponent(ctx, s.API, db.StageGetComponentParams{WorkspaceID: key.WorkspaceID, RunID: key.ID, ID: *p.RerunOf.FromStageID})
		if postgres.NotFound(err) {
			return fault.InvalidAt("/rerunOf/fromStageId", "is no stage of that run")
		}
		if err != nil {
			return fmt.Errorf("look for a stage: %w", err)
		}
	}
	if p.Input, p.hidden, err = engine.OpenInput(ctx, s.Vault, key.WorkspaceID, key.ID, earlier.Input); err != nil {
		return err
	}
	p.Version, p.effectRoot = &earlier.WorkflowVersion, &earlier.ID
	if earlier.EffectRootID != nil {
		p.effectRoot = earlier.EffectRootID
	}
	if earlier.Trigger == "SCHEDULE" || earlier.Trigger == "WEBHOOK" {
		p.By.Trigger = earlier.Trigger // it begins where that one did
	}
	return nil
}

// done returns the components whose price a run need not reserve, because it takes their
// stages over.
func (s *Service) done(ctx context.Context, p TriggerParams, plan *graph.Plan) ([]string, error) {
	if p.RerunOf == nil {
		return nil, nil
	}
	reuse, err := engine.Reused(ctx, s.API, plan, p.WorkspaceID, *p.RerunOf)
	if errors.Is(err, engine.ErrEarlierGone) {
		err = errNoRun
	}
	return reuse.Done, err
}
