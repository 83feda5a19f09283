package execution

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/notify"
	"github.com/weft-automation/weft/internal/postgres"
)

const (
	maxCrashes = 3   // re-runs after a lost worker (decisions 4.2)
	sweepBatch = 500 // executions in one round
	// strandedAfter is how long a live execution may be without anybody who
	// could bring it on before the reconciler does.
	strandedAfter = 10 * time.Second
)

// errQuarantined ends an execution that was in flight each time a worker died.
var errQuarantined = &component.Error{
	Code:    "QUARANTINED",
	Message: "the worker was lost again after three repeats of this execution; it is not tried again",
}

// Sweeper brings back what lost processes left. One process sweeps at a time.
type Sweeper struct {
	runner     *Runner
	reconciled time.Time
	tidied     time.Time
}

// NewSweeper makes a sweeper that acts through the runner.
func NewSweeper(r *Runner) *Sweeper { return &Sweeper{runner: r} }

// Sweep frees the executions of dead workers; every five seconds it also looks
// for executions that nothing would bring on. Failures are logged: the next
// round is a second away.
func (s *Sweeper) Sweep(ctx context.Context) {
	freed, err := s.sweepDead(ctx)
	s.runner.Metrics.Swept("lost_workers", freed, err)
	if err != nil && ctx.Err() == nil {
		s.runner.log.Warn("sweep failed", "error", err)
	}
	if time.Since(s.reconciled) < 5*time.Second {
		return
	}
	brought, err := s.reconcile(ctx)
	if err == nil {
		err = s.backlog(ctx)
	}
	s.runner.Metrics.Swept("stranded", brought, err)
	if err != nil && ctx.Err() == nil {
		s.runner.log.Warn("reconciliation failed", "error", err)
		return
	}
	s.reconciled = time.Now()
	if time.Since(s.tidied) >= time.Hour {
		s.tidy(ctx)
	}
}

// tidy forgets idempotency keys that no longer count.
func (s *Sweeper) tidy(ctx context.Context) {
	gone, err := db.New().IdempotencyDeleteExpired(ctx, s.runner.DB)
	s.runner.Metrics.Swept("idempotency_keys", int(gone), err)
	if err == nil {
		s.tidied = time.Now()
	}
}

// backlog shows how much is unfinished.
func (s *Sweeper) backlog(ctx context.Context) error {
	live, err := db.New().ExecutionCountLive(ctx, s.runner.DB)
	if err != nil {
		return fmt.Errorf("count live executions: %w", err)
	}
	oldest := time.Duration(live.OldestSeconds * float64(time.Second))
	s.runner.Metrics.Backlog("executions", live.Created+live.Executing, oldest)
	return nil
}

func (s *Sweeper) sweepDead(ctx context.Context) (freed int, err error) {
	r, q := s.runner, db.New()
	dead, err := q.WorkerListDead(ctx, r.DB, workerLockClass)
	if err != nil || len(dead) == 0 {
		return 0, err
	}
	if freed, err = s.freeOf(ctx, dead); err != nil {
		return freed, err
	}
	return freed, q.WorkerDelete(ctx, r.DB, dead)
}

// freeOf frees all executions that the workers held.
func (s *Sweeper) freeOf(ctx context.Context, dead []int32) (freed int, err error) {
	r, q := s.runner, db.New()
	for {
		rows, err := q.ExecutionListOrphaned(ctx, r.DB, db.ExecutionListOrphanedParams{DeadWorkers: dead, MaxRows: sweepBatch})
		if err != nil {
			return freed, fmt.Errorf("list orphaned executions: %w", err)
		}
		for _, row := range rows {
			if err := s.free(ctx, row); err != nil {
				return freed, err
			}
			freed++
		}
		if len(rows) > 0 {
			r.log.Info("executions of lost workers freed", "count", len(rows), "workers", dead)
		}
		if len(rows) < sweepBatch {
			return freed, nil
		}
	}
}

// free decides about one execution of a dead worker by the repeat rule of its
// call.
func (s *Sweeper) free(ctx context.Context, row db.ExecutionListOrphanedRow) error {
	r := s.runner
	var end *component.Error
	switch {
	case s.rule(row) == component.RepeatUnsafe:
		end = errWorkerLost
	case row.Crashes+1 > maxCrashes:
		end = errQuarantined
	default:
		r.Metrics.Rescued("again")
		return s.requeue(ctx, notify.Key{WorkspaceID: row.WorkspaceID, ID: row.ID}, row.JobID, row.WorkerID)
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

func (s *Sweeper) rule(row db.ExecutionListOrphanedRow) component.Repeat {
	entry, known := s.runner.Modules.Lookup(row.Module)
	if !known {
		return component.RepeatUnsafe
	}
	c, err := s.runner.open(db.ExecutionStartManyRow{WorkspaceID: row.WorkspaceID, ID: row.ID, Call: row.Call, Attempt: row.Attempt})
	if err != nil {
		return component.RepeatUnsafe
	}
	return entry.RepeatFor(c)
}

// requeue binds the execution to a fresh job. The old one goes: whoever still
// holds it can no longer start the execution.
func (s *Sweeper) requeue(ctx context.Context, key notify.Key, oldJob int64, worker *int32) error {
	r, q := s.runner, db.New()
	err := pgx.BeginFunc(ctx, r.DB, func(tx pgx.Tx) error {
		job, err := r.Jobs.InsertTx(ctx, tx, Args{WorkspaceID: key.WorkspaceID, ExecutionID: key.ID}, insertOpts(time.Time{}))
		if err != nil {
			return err
		}
		_, err = q.ExecutionRequeue(ctx, tx, db.ExecutionRequeueParams{
			WorkspaceID: key.WorkspaceID, ID: key.ID, OldJobID: oldJob, NewJobID: job.Job.ID, WorkerID: worker,
		})
		if err != nil {
			return err
		}
		return q.RiverJobDeleteMany(ctx, tx, []int64{oldJob})
	})
	if postgres.NotFound(err) {
		return nil // it went on meanwhile
	}
	if err != nil {
		return fmt.Errorf("requeue execution: %w", err)
	}
	return nil
}

// reconcile finds live executions without anything that would bring them on,
// whatever the cause: a job that was deleted, discarded, or fetched by a process
// that died before the start.
func (s *Sweeper) reconcile(ctx context.Context) (brought int, err error) {
	r := s.runner
	forgotten, err := db.New().WorkerListForgotten(ctx, r.DB)
	if err != nil {
		return 0, fmt.Errorf("list forgotten workers: %w", err)
	}
	if len(forgotten) > 0 {
		if brought, err = s.freeOf(ctx, forgotten); err != nil {
			return brought, err
		}
	}
	rows, err := db.New().ExecutionListStranded(ctx, r.DB, db.ExecutionListStrandedParams{Grace: strandedAfter, MaxRows: sweepBatch})
	if err != nil {
		return 0, fmt.Errorf("list stranded executions: %w", err)
	}
	for _, row := range rows {
		if err := s.requeue(ctx, notify.Key{WorkspaceID: row.WorkspaceID, ID: row.ID}, row.JobID, nil); err != nil {
			return brought, err
		}
		brought++
	}
	if len(rows) > 0 {
		ids := make([]uuid.UUID, 0, 8)
		for _, row := range rows[:min(len(rows), 8)] {
			ids = append(ids, row.ID)
		}
		r.log.Warn("stranded executions brought back", "count", len(rows), "first", ids)
	}
	return brought, nil
}
