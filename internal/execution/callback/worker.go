package callback

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/riverqueue/river"
)

// Worker is the River worker of deliveries. It handles retries, replays, deliveries that no
// process made without the queue, and deliveries that a lost process left behind.
type Worker struct {
	river.WorkerDefaults[Args]
	Deliverer *Deliverer
}

// Timeout disables River's timeout, because an attempt has its own timeout.
func (w *Worker) Timeout(*river.Job[Args]) time.Duration { return -1 }

// NextRetry applies only to errors in Weft itself, such as an unavailable database. A failed
// callback attempt is not a job failure: the delivery's schedule determines its retries.
func (w *Worker) NextRetry(job *river.Job[Args]) time.Time {
	return w.Deliverer.Clock.Now().Add(min(time.Duration(len(job.Errors)+1)*2*time.Second, time.Minute))
}

// Work makes one attempt.
func (w *Worker) Work(ctx context.Context, job *river.Job[Args]) error {
	retryIn, err := w.Deliverer.work(ctx, job)
	switch {
	case errors.Is(err, errNothingToDo):
		return nil
	case ctx.Err() != nil:
		return river.JobSnooze(0) // this process is stopping: a different one continues
	case err != nil:
		return err
	case retryIn > 0:
		return river.JobSnooze(retryIn)
	}
	return nil
}

// work makes the attempt for a fetched job. It returns the delay for which to snooze the job, or
// errNothingToDo.
func (d *Deliverer) work(ctx context.Context, job *river.Job[Args]) (time.Duration, error) {
	// A dead host can have thousands of jobs in the queue: snooze most of them without loading
	// them.
	if retryIn, yes := d.workspaces.full(job.Args.WorkspaceID.String()); yes {
		return retryIn, nil
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
		Args: job.Args, jobID: job.ID, ofRun: row.OfRun, kind: row.WebhookType, restores: row.Restores, url: row.URL, sealed: row.Sealed, body: row.Body, tries: int(row.Tries), held: true,
		unopened: row.Unopened,
	}
	if row.Traceparent != nil {
		c.traceparent = *row.Traceparent
	}
	return d.deliver(ctx, c)
}
