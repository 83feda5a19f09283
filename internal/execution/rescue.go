package execution

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/audit"
	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

const (
	maxCrashes  = 3   // re-runs after a lost worker (decisions 4.2)
	rescueBatch = 500 // executions in one page
)

// errQuarantined fails an execution that was in flight each time a worker died.
var errQuarantined = &component.Error{
	Code:    "QUARANTINED",
	Message: "a worker was lost four times while it ran this execution; it is not retried",
}

// rescueOf calls rescue for the executions that the workers have had for at least grace, one page
// at a time. The writes of a page share commits. Failures are logged once per page and left to the
// next round.
func (r *Runner) rescueOf(ctx context.Context, workers []int32, grace time.Duration, rescue func(context.Context, db.ExecutionListOfWorkersRow) error) (done int, err error) {
	p := db.ExecutionListOfWorkersParams{Workers: workers, Grace: grace, MaxRows: rescueBatch}
	for {
		rows, listed := db.New().ExecutionListOfWorkers(ctx, r.DB, p)
		if listed != nil {
			return done, fmt.Errorf("list executions of workers: %w", listed)
		}
		ids, failure := concurrently(rows, func(row db.ExecutionListOfWorkersRow) (uuid.UUID, error) { return row.ID, rescue(ctx, row) })
		done += len(ids)
		if failure != nil {
			r.log.WarnContext(ctx, "could not rescue executions", "count", len(rows)-len(ids), "error", failure)
			err = failure
		}
		if len(rows) < rescueBatch {
			return done, err
		}
		p.After = rows[len(rows)-1].ID
	}
}

// concurrently calls fn for all items at the same time, so that their writes share commits. It
// returns the IDs of the items that succeeded, and the error of one item that failed.
func concurrently[T any](items []T, fn func(T) (uuid.UUID, error)) (done []uuid.UUID, err error) {
	var all sync.WaitGroup
	var mu sync.Mutex
	for _, item := range items {
		all.Go(func() {
			id, failure := fn(item)
			mu.Lock()
			defer mu.Unlock()
			if failure != nil {
				err = failure
				return
			}
			done = append(done, id)
		})
	}
	all.Wait()
	return done, err
}

// RestoreUncertain is the code of executions and runs that fail after a restore, because a call that is
// not safe to repeat may have taken effect.
const RestoreUncertain = "RESTORE_UNCERTAIN"

// errRestoreUncertain fails an execution that is unfinished in a restored database and whose call
// is not safe to repeat.
var errRestoreUncertain = &component.Error{
	Code:    RestoreUncertain,
	Outcome: component.OutcomeUnknown,
	Message: "the database was restored from a backup in which this execution had not finished, and this call is not safe to repeat: whether it took effect is unknown",
}

// FailUnsafe fails the unfinished executions whose calls are not safe to repeat, in transactions
// of up to 500 executions, and returns their number. Each transaction is recorded in the audit
// logs of the affected workspaces. FailUnsafe returns an error if the database is not in
// quarantine.
func (r *Runner) FailUnsafe(ctx context.Context) (ended int, err error) {
	for {
		var f *Finishing
		err := billing.Books{}.InPeriod(ctx, r.DB, func() error {
			err := postgres.InTx(ctx, r.DB, nil, func(tx *postgres.Tx) (err error) {
				f, err = r.failUnsafeTx(ctx, tx)
				return err
			})
			return f.Failed(err)
		})
		if err != nil {
			return ended, fmt.Errorf("fail executions that are not safe to repeat: %w", err)
		}
		ended += len(f.rows.All())
		if len(f.rows.All()) < rescueBatch {
			return ended, nil
		}
	}
}

// failUnsafeTx is one transaction of FailUnsafe.
func (r *Runner) failUnsafeTx(ctx context.Context, tx *postgres.Tx) (*Finishing, error) {
	if held, err := db.New().InstallationIsQuarantined(ctx, tx); err != nil || !held {
		return nil, cmp.Or(err, errors.New("the database is not in quarantine"))
	}
	rows, err := db.New().ExecutionDetachUnsafe(ctx, tx, rescueBatch)
	if err != nil {
		return nil, err
	}
	items := make([]finish, len(rows))
	ofWorkspace := map[uuid.UUID]int{}
	for i, row := range rows {
		if items[i], err = failed(row.WorkspaceID, row.ID, row.Epoch, int(row.Attempt), errRestoreUncertain); err != nil {
			return nil, err
		}
		ofWorkspace[row.WorkspaceID]++
	}
	var batch postgres.Batch
	for id, n := range ofWorkspace {
		event := audit.Event{WorkspaceID: id, Action: "executions.failed", Details: map[string]any{"count": n, "code": errRestoreUncertain.Code}}
		if err := audit.RecordTx(ctx, tx, event); err != nil {
			return nil, err
		}
	}
	f := r.queueFinish(&batch, items)
	if err := tx.Send(ctx, &batch); err != nil {
		return nil, err
	}
	return f, f.Close(ctx, tx)
}

// rescue requeues or fails an execution whose attempt was cut off, depending on the repeat rule of
// its call.
func (r *Runner) rescue(ctx context.Context, row db.ExecutionListOfWorkersRow) error {
	var end *component.Error
	switch {
	case component.Repeat(row.RepeatRule) == component.RepeatUnsafe:
		end = errWorkerLost
	case row.Crashes+1 > maxCrashes && !row.Survived:
		end = errQuarantined.CutOff(component.Repeat(row.RepeatRule))
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
		return fmt.Errorf("fail execution of a lost worker: %w", err)
	}
	return nil
}

// requeue describes an execution to be freed, either from its worker or from a job that will not
// run it.
type requeue struct {
	key     notify.Key
	epoch   int32  // of the row when it was read
	job     int64  // the job that the execution is bound to
	worker  *int32 // the worker that has the execution, or nil
	parked  bool   // waits for other executions of its workspace to finish
	crashed bool   // counts as a crash, unless the worker's process survived
}

// requeue binds the execution to a new job, unless the execution changed meanwhile. The old job is
// deleted, so a worker that still holds it can no longer start the execution.
func (r *Runner) requeue(ctx context.Context, p requeue) error {
	if _, err := r.requeues.Do(ctx, p); err != nil {
		return fmt.Errorf("requeue execution: %w", err)
	}
	return nil
}

// flushRequeues frees executions in one transaction.
func (r *Runner) flushRequeues(ctx context.Context, items []requeue) ([]struct{}, error) {
	var p db.ExecutionRequeueManyParams
	jobs := make([]river.InsertManyParams, len(items))
	for i, it := range items {
		jobs[i] = river.InsertManyParams{Args: Args{WorkspaceID: it.key.WorkspaceID, ExecutionID: it.key.ID}, InsertOpts: &river.InsertOpts{Queue: Queue, Pending: it.parked}}
		p.WorkspaceIds, p.Ids = append(p.WorkspaceIds, it.key.WorkspaceID), append(p.Ids, it.key.ID)
		p.Epochs, p.OldJobIds, p.Crashed = append(p.Epochs, it.epoch), append(p.OldJobIds, it.job), append(p.Crashed, it.crashed)
		var worker int32
		if it.worker != nil {
			worker = *it.worker
		}
		p.WorkerIds = append(p.WorkerIds, worker)
	}
	q := db.New()
	err := pgx.BeginFunc(ctx, r.DB, func(tx pgx.Tx) error {
		if err := q.WorkerLockMany(ctx, tx, p.WorkerIds); err != nil {
			return err
		}
		inserted, err := r.Jobs.InsertManyTx(ctx, tx, jobs)
		if err != nil {
			return err
		}
		for _, job := range inserted {
			p.NewJobIds = append(p.NewJobIds, job.Job.ID)
		}
		bound, err := q.ExecutionRequeueMany(ctx, tx, p)
		if err != nil {
			return err
		}
		unneeded := make([]int64, len(items)) // the old job, or the new one if the execution changed meanwhile
		for i, fresh := range p.NewJobIds {
			unneeded[i] = fresh
			if slices.Contains(bound, fresh) {
				unneeded[i] = items[i].job
			}
		}
		return q.RiverJobDeleteMany(ctx, tx, unneeded)
	})
	if err != nil {
		return nil, err
	}
	return make([]struct{}, len(items)), nil
}

// errWorkerLost fails an execution whose attempt was cut off and may not be repeated, because it
// may have taken effect.
var errWorkerLost = &component.Error{
	Code:    "WORKER_LOST",
	Outcome: component.OutcomeUnknown,
	Message: "the worker was lost during the attempt, and this call is not safe to repeat: whether it took effect is unknown",
}
