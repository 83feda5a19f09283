package execution

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/wait"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// Timeouts of one try of a write, because the connection may be half open. The shorter timeout
// applies while the process stops.
const (
	writeTimeout     = 15 * time.Second
	lastWriteTimeout = 3 * time.Second
)

// withTimeout calls fn with a context that ends after timeout.
func withTimeout(ctx context.Context, timeout time.Duration, fn func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return fn(ctx)
}

// resolve finds out whether the commit that stores an execution succeeded if it is in doubt; see
// postgres.Resolve.
func resolve(ctx context.Context, conn postgres.DB, err error, a submission) error {
	return postgres.Resolve(ctx, conn, err, func(ctx context.Context) error {
		_, err := db.New().ExecutionGetWithoutCallback(ctx, conn, db.ExecutionGetWithoutCallbackParams{WorkspaceID: a.WorkspaceID, ID: a.id})
		return err
	})
}

// afterDoubt returns the record of an execution if err says that its acceptance is in doubt, and it
// was committed. No slot is reserved for the execution any more: it starts once Reclaim has freed it.
// In all other cases afterDoubt returns err, or outcome_unknown.
func (s *Service) afterDoubt(ctx context.Context, a submission, err error) (Submitted, error) {
	if a.Idempotency == nil { // otherwise flushAccepts has looked it up
		err = resolve(ctx, s.DB, err, a)
	}
	if err != nil {
		return Submitted{}, postgres.OutcomeUnknown(err, "executionId", a.id)
	}
	s.Metrics.Submitted(a.Module)
	record, err := s.Await(ctx, a.WorkspaceID, a.id, a.WaitFor)
	if err != nil { // the execution is stored, so the caller must not submit it again
		return Submitted{}, fault.OutcomeUnknown(err, map[string]any{"executionId": a.id})
	}
	return Submitted{Record: record}, nil
}

// maxResultRefusals is how often PostgreSQL may reject the result of an attempt before the result
// is dropped. The retries take at most 15 seconds, less than stalledAfter.
const maxResultRefusals = 18

// persist retries a write while the database is unavailable, because the result exists only in
// memory. If PostgreSQL rejects the write for a reason that may be temporary, persist retries up
// to maxRefusals times. It returns any other error immediately. When ctx is done or this process
// stops, it returns the last error.
//
// An execution whose result is dropped still names this worker. Reclaim frees the execution once
// its row has been unchanged for reclaimAfter. If this process stops earlier, the sweep of a
// different process frees it. If the call is not safe to repeat, the execution fails with
// WORKER_LOST. Otherwise any worker runs it again, and after maxCrashes repeats it fails with
// QUARANTINED.
func (r *Runner) persist(ctx context.Context, maxRefusals int, write func(context.Context) error) error {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.ctx, cancel)()
	var backoff wait.Backoff
	for refusals := 0; ; {
		timeout := writeTimeout
		if ctx.Err() != nil || r.ctx.Err() != nil {
			timeout = lastWriteTimeout
		}
		err := withTimeout(context.WithoutCancel(ctx), timeout, write)
		if err == nil {
			return nil
		}
		if !postgres.Unavailable(err) {
			if refusals == maxRefusals || !postgres.Refused(err) {
				return err
			}
			if refusals++; refusals == 1 {
				r.log.WarnContext(ctx, "the database refused a write; retrying", "error", err)
			}
		}
		if backoff.Wait(waiting) != nil {
			return err
		}
	}
}

// backoff returns the shortest delay after the n-th failed attempt: 1 s x 2^(n-1), +/- 20 %
// (decisions 4.2).
func backoff(n int) time.Duration {
	planned := float64(time.Second << (n - 1))
	return time.Duration(planned * (0.8 + 0.4*rand.Float64()))
}

// maxRetryAfter is the longest delay before the next attempt that an upstream can request.
const maxRetryAfter = time.Hour

// nextAttempt returns the delay after the n-th failed attempt: the longer of the backoff and the
// delay that the upstream requested.
func nextAttempt(n int, asked time.Duration) time.Duration {
	return max(backoff(n), min(asked, maxRetryAfter))
}

// write stores the outcome of the attempt. retryIn is the delay after which the execution must
// continue. It is 0 if the execution is final or belongs to a different worker.
func (a attempt) write(ctx context.Context, out Outcome) (retryIn time.Duration, err error) {
	if out.final != nil {
		return 0, a.settle(ctx, *out.final)
	}
	retryIn, err = a.writePause(ctx, *out.pause)
	if !out.pause.continuing {
		a.wakeQueueIn(retryIn)
	}
	return retryIn, err
}

// writePause writes a pause. If the queue fetched the job, the caller snoozes the job for the
// returned delay. Otherwise (local), writePause makes the job due. The database computes the due time,
// and the returned delay is corrected by the offset of this node's clock. The delay counts from the
// call, because the write may have to wait for a connection or for the database.
func (a attempt) writePause(ctx context.Context, p pause) (time.Duration, error) {
	q, row, start := db.New(), a.row, a.now()
	var paused db.ExecutionPauseRow
	unsure, takenOver := false, false // unsure: a write whose response was lost may have been committed
	err := a.persist(ctx, maxResultRefusals, func(ctx context.Context) error {
		err := a.DB.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
			delay := max(p.delay-a.now().Sub(start), 0) // from now(), which is the start of the transaction
			return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) (err error) {
				paused, err = q.ExecutionPause(ctx, tx, db.ExecutionPauseParams{
					WorkspaceID: row.WorkspaceID, ID: row.ID, Epoch: row.Epoch,
					Continuing: p.continuing, Restart: p.restart, WaitState: p.state, OutcomeKnown: p.outcomeKnown, Unrunnable: p.unrunnable, Delay: delay,
				})
				if err != nil || !a.local {
					return err
				}
				if paused.Canceling {
					delay = 0
				}
				return q.RiverJobMakeDue(ctx, tx, db.RiverJobMakeDueParams{ID: paused.JobID, Delay: delay})
			})
		})
		if takenOver = postgres.NotFound(err); takenOver {
			return nil // a different worker raised the epoch
		}
		unsure = unsure || postgres.Unavailable(err)
		return err
	})
	switch {
	case err != nil:
		return 0, fmt.Errorf("pause execution: %w", err)
	case takenOver && unsure:
		return p.delay, nil
	case takenOver:
		return 0, nil
	}
	return max(paused.NotBefore.Sub(a.Clock.Now()), time.Millisecond), nil
}
