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
	"github.com/weft-automation/weft/internal/workflow/orchestrator"
)

// prepareRerun sets the version and input in p to the version and input of the run that p repeats.
// It returns NOT_FOUND for an unknown run, CONFLICT for a run that is not finished, and
// INVALID_INPUT for a run of another workflow or a stage of another run.
func (s *Service) prepareRerun(ctx context.Context, p *TriggerParams) error {
	key := notify.Key{WorkspaceID: p.WorkspaceID, ID: p.RerunOf.RunID}
	earlier, err := s.get(ctx, key)
	switch {
	case err != nil:
		return err
	case earlier.WorkflowID != p.WorkflowID:
		return fault.InvalidAt("/rerunOf/runId", "must be a run of this workflow")
	case p.Version != nil && *p.Version != earlier.WorkflowVersion:
		return fault.InvalidAt("/version", "must be the version of the earlier run, %d, or absent", earlier.WorkflowVersion)
	case len(p.Input) > 0:
		return fault.InvalidAt("/input", "must be absent: a rerun uses the input of the earlier run")
	case !earlier.Status.Terminal():
		return &fault.Error{Code: fault.Conflict, Reason: "run_not_finished", Message: "The earlier run is not finished. Wait until it is, or cancel it."}
	}
	if p.RerunOf.FromStageID != nil {
		_, err := db.New().StageGetComponent(ctx, s.API, db.StageGetComponentParams{WorkspaceID: key.WorkspaceID, RunID: key.ID, ID: *p.RerunOf.FromStageID})
		if postgres.NotFound(err) {
			return fault.InvalidAt("/rerunOf/fromStageId", "must be a stage of that run")
		}
		if err != nil {
			return fmt.Errorf("find a stage of the earlier run: %w", err)
		}
	}
	if p.Input, p.hidden, err = orchestrator.OpenInput(ctx, s.Vault, key.WorkspaceID, key.ID, earlier.Input); err != nil {
		return err
	}
	p.Version, p.effectRoot = &earlier.WorkflowVersion, &earlier.ID
	if earlier.EffectRootID != nil {
		p.effectRoot = earlier.EffectRootID
	}
	if earlier.Trigger == "SCHEDULE" || earlier.Trigger == "WEBHOOK" {
		p.By.Trigger = earlier.Trigger // the rerun starts at the same trigger
	}
	return s.copySchedule(ctx, key, p)
}

// reusedComponents returns the components whose stages a rerun reuses. Their prices need not be
// reserved.
func (s *Service) reusedComponents(ctx context.Context, p TriggerParams, plan *graph.Plan) ([]string, error) {
	if p.RerunOf == nil {
		return nil, nil
	}
	reuse, err := orchestrator.Reused(ctx, s.API, plan, p.WorkspaceID, *p.RerunOf)
	if errors.Is(err, orchestrator.ErrEarlierGone) {
		err = errNoRun
	}
	return reuse.Done, err
}
