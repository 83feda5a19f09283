package execution

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/notify"
	"github.com/weft-automation/weft/internal/postgres"
)

const (
	maxCrashes  = 3   // re-runs after a lost worker (decisions 4.2)
	rescueBatch = 500 // executions in one round
)

// errQuarantined ends an execution that was in flight each time a worker died.
var errQuarantined = &component.Error{
	Code:    "QUARANTINED",
	Message: "the worker was lost again after three repeats of this execution; it is not tried again",
}

// rescueOf deals with the executions that the workers have had for at least the
// given time, one by one: what fails with one is logged and left to the next
// round.
func (r *Runner) rescueOf(ctx context.Context, workers []int32, grace time.Duration, rescue func(context.Context, db.ExecutionListOfWorkersRow) error) (done int, err error) {
	p := db.ExecutionListOfWorkersParams{Workers: workers, Grace: grace, MaxRows: rescueBatch}
	for {
		rows, err := db.New().ExecutionListOfWorkers(ctx, r.DB, p)
		if err != nil {
			return done, fmt.Errorf("list executions of workers: %w", err)
		}
		for _, row := range rows {
			if failure := rescue(ctx, row); failure != nil {
				r.log.WarnContext(ctx, "execution could not be rescued", "execution_id", row.ID, "error", failure)
				err = failure
				continue
			}
			done++
		}
		if len(rows) < rescueBatch {
			return done, err
		}
		p.After = rows[len(rows)-1].ID
	}
}

// rescue decides about an execution whose attempt was cut off, by the repeat
// rule of its call.
func (r *Runner) rescue(ctx context.Context, row db.ExecutionListOfWorkersRow) error {
	var end *component.Error
	switch {
	case component.Repeat(row.RepeatRule) == component.RepeatUnsafe:
		end = errWorkerLost
	case row.Crashes+1 > maxCrashes:
		end = errQuarantined
	default:
		r.Metrics.Rescued("again")
		return r.requeue(ctx, requeue{
			key: notify.Key{WorkspaceID: row.WorkspaceID, ID: row.ID}, epoch: row.Epoch, job: row.JobID, worker: row.WorkerID, crashed: true,
		})
	}
	f, err := failed(row.WorkspaceID, row.ID, row.Epoch, int(row.Attempt), end)
	if err != nil {
		return err
	}
	r.Metrics.Rescued("failed")
	if _, err := r.finishes.Do(ctx, f); err != nil {
		return fmt.Errorf("finish orphaned execution: %w", err)
	}
	return nil
}

// requeue frees an execution: from a worker, or from a job that brings nothing.
type requeue struct {
	key     notify.Key
	epoch   int32  // that the row was seen in
	job     int64  // that it is bound to
	worker  *int32 // that has it; nil: none
	parked  bool   // and waits for others of its workspace to end
	crashed bool   // counts as a repeat after a lost worker
}

// requeue binds the execution to a fresh job. The old one goes: whoever still
// holds it can no longer start the execution.
func (r *Runner) requeue(ctx context.Context, p requeue) error {
	q := db.New()
	err := pgx.BeginFunc(ctx, r.DB, func(tx pgx.Tx) error {
		job, err := r.Jobs.InsertTx(ctx, tx, Args{WorkspaceID: p.key.WorkspaceID, ExecutionID: p.key.ID}, insertOpts(time.Time{}, p.parked))
		if err != nil {
			return err
		}
		_, err = q.ExecutionRequeue(ctx, tx, db.ExecutionRequeueParams{
			WorkspaceID: p.key.WorkspaceID, ID: p.key.ID, Epoch: p.epoch, OldJobID: p.job, NewJobID: job.Job.ID,
			WorkerID: p.worker, Crashed: p.crashed,
		})
		if err != nil {
			return err
		}
		return q.RiverJobDeleteMany(ctx, tx, []int64{p.job})
	})
	if postgres.NotFound(err) {
		return nil // it went on meanwhile
	}
	if err != nil {
		return fmt.Errorf("requeue execution: %w", err)
	}
	return nil
}
