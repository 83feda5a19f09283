package execution

import (
	"context"
	"time"

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
