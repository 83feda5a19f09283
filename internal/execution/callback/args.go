package callback

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
)

// Args are the arguments of a delivery's River job. They hold IDs only: the URL, secret and
// headers stay in the row, sealed.
type Args struct {
	WorkspaceID uuid.UUID `json:"workspaceId"`
	ExecutionID uuid.UUID `json:"executionId"`
}

// Kind returns the job kind. It is stored in the queue, so it must never change.
func (Args) Kind() string { return "callback_delivery" }

// Queue is the River queue of deliveries. Executions have a different queue, so that a slow
// receiver never delays a component.
const Queue = "callbacks"

// maxRuns is how often River may run one job. It is far more than any schedule needs, because the
// number of attempts in the callback's row decides when to stop.
const maxRuns = 10_000

// job returns the job of a delivery that is due at the specified time; zero means now.
func job(args Args, due time.Time) river.InsertManyParams {
	return river.InsertManyParams{Args: args, InsertOpts: &river.InsertOpts{Queue: Queue, ScheduledAt: due, MaxAttempts: maxRuns}}
}

// enqueueManyTx inserts delivery jobs that are due at the same time and returns their IDs, in
// order.
func enqueueManyTx(ctx context.Context, tx pgx.Tx, jobs *river.Client[pgx.Tx], deliveries []Args, due time.Time) ([]int64, error) {
	params := make([]river.InsertManyParams, len(deliveries))
	for i, args := range deliveries {
		params[i] = job(args, due)
	}
	return insertTx(ctx, tx, jobs, params)
}

// insertTx inserts delivery jobs and returns their IDs, in order.
func insertTx(ctx context.Context, tx pgx.Tx, jobs *river.Client[pgx.Tx], params []river.InsertManyParams) ([]int64, error) {
	inserted, err := jobs.InsertManyTx(ctx, tx, params)
	if err != nil {
		return nil, fmt.Errorf("insert delivery jobs: %w", err)
	}
	ids := make([]int64, len(inserted))
	for i, result := range inserted {
		ids[i] = result.Job.ID
	}
	return ids, nil
}
