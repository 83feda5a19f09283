package execution

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/riverqueue/river"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/crashpoint"
	"github.com/weft-automation/weft/internal/notify"
	"github.com/weft-automation/weft/internal/postgres"
)

// Worker is the River worker of executions: what no process ran locally, what
// waits, what is attempted again, and what a lost process left.
type Worker struct {
	river.WorkerDefaults[Args]
	Runner *Runner
}

// Timeout is none of River's: the deadline of an attempt is the module's.
func (w *Worker) Timeout(*river.Job[Args]) time.Duration { return -1 }

// NextRetry applies to failures of our own only, such as a database that is
// away: a failed component is a job done well.
func (w *Worker) NextRetry(*river.Job[Args]) time.Time { return time.Now().Add(2 * time.Second) }

// quarantinePause is how long work that was fetched just before a quarantine is
// put off each time.
const quarantinePause = 5 * time.Second

// Work gives one execution a turn.
func (w *Worker) Work(ctx context.Context, job *river.Job[Args]) error {
	r := w.Runner
	worker, alive := r.identity.Worker()
	if !alive {
		return river.JobSnooze(time.Second)
	}
	if r.quarantined() != nil {
		return river.JobSnooze(quarantinePause)
	}
	key := notify.Key{WorkspaceID: job.Args.WorkspaceID, ID: job.Args.ExecutionID}
	r.hand.take(key.ID)
	crashpoint.Reached(crashpoint.AfterClaim)
	row, err := r.starts.Do(ctx, begin{key: key, jobID: job.ID, worker: worker})
	if err != nil || row == nil {
		r.hand.put(key.ID, 0, err)
	}
	if err != nil {
		return err
	}
	if row == nil {
		return r.notStarted(ctx, key, job.ID)
	}
	r.Hub.Publish(notify.Change{Key: key})
	again, err := r.turn(ctx, *row, false)
	r.hand.put(key.ID, row.Epoch, err)
	if err != nil {
		return err
	}
	if again > 0 {
		return river.JobSnooze(again)
	}
	return nil
}

// notStarted decides about a job whose execution could not be started: it is
// final or bound to another job (done), or somebody is at it (look later).
func (r *Runner) notStarted(ctx context.Context, key notify.Key, jobID int64) error {
	state, err := db.New().ExecutionState(ctx, r.DB, db.ExecutionStateParams{WorkspaceID: key.WorkspaceID, ID: key.ID})
	if postgres.NotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if state.FinishedAt == nil && state.JobID == jobID {
		return river.JobSnooze(5 * time.Second)
	}
	return nil
}

// begin is the start of one attempt on its way into the database.
type begin struct {
	key    notify.Key
	jobID  int64
	worker int32
}

// flushStarts starts attempts with one statement. An answer is nil where the
// execution was not free.
func (r *Runner) flushStarts(ctx context.Context, items []begin) ([]*db.ExecutionStartManyRow, error) {
	p := db.ExecutionStartManyParams{WorkerID: items[0].worker}
	for _, b := range items {
		// After a change of identity the older one's starts are refused: they
		// would look like those of a dead worker.
		if b.worker == p.WorkerID {
			p.WorkspaceIds = append(p.WorkspaceIds, b.key.WorkspaceID)
			p.Ids = append(p.Ids, b.key.ID)
			p.JobIds = append(p.JobIds, b.jobID)
		}
	}
	rows, err := db.New().ExecutionStartMany(ctx, r.DB, p)
	if err != nil {
		return nil, err
	}
	r.moved.Store(time.Now().UnixNano())
	started := make(map[uuid.UUID]*db.ExecutionStartManyRow, len(rows))
	for i := range rows {
		started[rows[i].ID] = &rows[i]
	}
	answers := make([]*db.ExecutionStartManyRow, len(items))
	for i, b := range items {
		// Two jobs of one execution may meet here, when one of them was given up.
		if row := started[b.key.ID]; row != nil && row.JobID == b.jobID {
			answers[i] = row
			delete(started, b.key.ID)
		}
	}
	return answers, nil
}
