package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/kit/wait"
	"github.com/weft-automation/weft/internal/workflow/engine"
)

// canceledBatch is how many runs or executions one statement cancels.
const canceledBatch = 200

// reasonOperator is the cancelReason of runs that the operator cancels.
const reasonOperator = "the operator of the service has suspended the workspace"

// cancelAll requests the cancellation of all unfinished runs of a suspended workspace, with those below
// them, and of its executions outside of runs. It returns how many runs that no run started, and how many
// executions, it canceled. Processes notice within seconds.
func cancelAll(ctx context.Context, pool *pgxpool.Pool, workspaceID uuid.UUID) (runs, executions int, err error) {
	q := db.New()
	for {
		ids, err := q.RunListLiveRoots(ctx, pool, db.RunListLiveRootsParams{WorkspaceID: workspaceID, MaxRows: canceledBatch})
		if err != nil {
			return runs, executions, fmt.Errorf("list unfinished runs: %w", err)
		}
		if len(ids) == 0 {
			break
		}
		reason := reasonOperator
		if _, err := q.RunCancelTree(ctx, pool, db.RunCancelTreeParams{
			WorkspaceID: workspaceID, Ids: ids, Mode: engine.CancelImmediate, Reason: &reason, ReasonBelow: engine.ReasonAbove, MaxDepth: engine.MaxDepth,
		}); err != nil {
			return runs, executions, fmt.Errorf("cancel runs: %w", err)
		}
		runs += len(ids)
	}
	for {
		ids, err := q.ExecutionCancelAlone(ctx, pool, db.ExecutionCancelAloneParams{WorkspaceID: workspaceID, MaxRows: canceledBatch})
		if err != nil {
			return runs, executions, fmt.Errorf("cancel executions: %w", err)
		}
		executions += len(ids)
		left, err := q.ExecutionCountAlone(ctx, pool, workspaceID)
		switch {
		case err != nil:
			return runs, executions, fmt.Errorf("count executions: %w", err)
		case left == 0:
			return runs, executions, nil
		case len(ids) == 0: // a worker is writing the others
			err = wait.For(ctx, 50*time.Millisecond)
		}
		if err != nil {
			return runs, executions, err
		}
	}
}
