package callback

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/riverqueue/river"
)

// Worker is the River worker of deliveries: retries, replays, what no process
// delivered itself, and what a lost process left.
type Worker struct {
	river.WorkerDefaults[Args]
	Deliverer *Deliverer
}

// Timeout is none of River's: an attempt has its own.
func (w *Worker) Timeout(*river.Job[Args]) time.Duration { return -1 }

// NextRetry applies to failures of our own only, such as a database that is
// away: a failed attempt is a job done well.
func (w *Worker) NextRetry(job *river.Job[Args]) time.Time {
	return w.Deliverer.Clock.Now().Add(min(time.Duration(len(job.Errors)+1)*2*time.Second, time.Minute))
}

// Work makes one attempt.
func (w *Worker) Work(ctx context.Context, job *river.Job[Args]) error {
	again, err := w.Deliverer.work(ctx, job)
	switch {
	case errors.Is(err, errNothingToDo):
		return nil
	case ctx.Err() != nil:
		return river.JobSnooze(0) // this process stops: another goes on
	case err != nil:
		return err
	case again > 0:
		return river.JobSnooze(again)
	}
	return nil
}

func (d *Deliverer) work(ctx context.Context, job *river.Job[Args]) (time.Duration, error) {
	// Behind a dead host stand thousands of jobs: most are sent away unread.
	if again, yes := d.workspaces.full(job.Args.WorkspaceID.String()); yes {
		return again, nil
	}
	row, err := d.loads.Do(ctx, job.Args)
	if err != nil {
		return 0, fmt.Errorf("load callback: %w", err)
	}
	if row == nil || row.JobID == nil || *row.JobID != job.ID {
		return 0, errNothingToDo
	}
	if row.Wait > 0 {
		return row.Wait, nil
	}
	c := delivery{
		Args: job.Args, jobID: job.ID, restores: row.Restores, url: row.URL, sealed: row.Sealed, body: row.Body, tries: int(row.Tries), held: true,
		unopened: row.Unopened,
	}
	if row.Traceparent != nil {
		c.traceparent = *row.Traceparent
	}
	return d.deliver(ctx, c)
}
