package execution

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/platform/groupcommit"
	"github.com/weft-automation/weft/internal/platform/idempotency"
	"github.com/weft-automation/weft/internal/platform/notify"
)

const (
	reclaimEvery = 3 * time.Second
	reclaimAfter = 5 * time.Second
	// doubtLasts is how long Reclaim continues to check after a response was lost. By then, the
	// commit has either succeeded or failed.
	doubtLasts = time.Minute
)

// inflight holds the executions that this process is writing as its own, running, or finishing. If
// a row names this worker but its execution is not in flight, the row was committed although the
// response was lost.
type inflight struct {
	mu      sync.Mutex
	flights map[uuid.UUID]flight
	lost    map[uuid.UUID]int32 // epochs that ran here and whose results could not be written
	doubt   time.Time           // until when there may be rows that are not in flight; zero: all rows are in flight
}

// flight is one execution in flight.
type flight struct {
	refs    int
	running bool
	since   time.Time // when the execution was added, or its component last started or returned
}

func newInflight() *inflight {
	return &inflight{flights: map[uuid.UUID]flight{}, lost: map[uuid.UUID]int32{}}
}

// add adds an execution. If the execution is already in flight, add counts one more reference to
// it.
func (f *inflight) add(id uuid.UUID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t, known := f.flights[id]
	if !known {
		t.since = time.Now()
	}
	t.refs++
	f.flights[id] = t
}

// setRunning records that the component of an execution started, or that it returned.
func (f *inflight) setRunning(id uuid.UUID, runs bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if t, inFlight := f.flights[id]; inFlight {
		f.flights[id] = flight{refs: t.refs, running: runs, since: time.Now()}
	}
}

// progress returns the number of running components, each of which has a deadline, and how long
// the oldest of the other executions has been waiting.
func (f *inflight) progress() (running int, longest time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, t := range f.flights {
		if t.running {
			running++
		} else {
			longest = max(longest, time.Since(t.since))
		}
	}
	return running, longest
}

// remove reverses one add. ran is the epoch that ran here, or 0 if the execution did not run. err
// is the error of the write, which may have been committed nevertheless.
func (f *inflight) remove(id uuid.UUID, ran int32, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.flights[id]
	if t.refs--; t.refs > 0 {
		f.flights[id] = t
	} else {
		delete(f.flights, id)
	}
	if err == nil {
		return
	}
	if ran > 0 {
		f.lost[id] = ran
	} else if unwritten(err) {
		return
	}
	f.doubt = time.Now().Add(doubtLasts)
}

// unsure makes Reclaim check for rows that a failed write may have committed. err may be nil.
func (f *inflight) unsure(err error) {
	if err == nil || unwritten(err) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.doubt = time.Now().Add(doubtLasts)
}

// unwritten reports whether err guarantees that nothing was written: either the write never left
// its queue, or the transaction was rolled back on purpose.
func unwritten(err error) bool {
	_, refused := errors.AsType[*fault.Error](err)
	_, over := errors.AsType[*billing.PeriodOver](err)
	_, used := errors.AsType[*idempotency.Used](err)
	return refused || over || used || billing.Uncovered(err) || groupcommit.Unwritten(err)
}

// doubtful reports whether there may be rows of this worker that are not in flight.
func (f *inflight) doubtful() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.doubt.IsZero()
}

// checked clears the doubt after a successful check, if the check started after the last such row
// could have appeared.
func (f *inflight) checked(start time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if start.After(f.doubt) {
		f.doubt = time.Time{}
		clear(f.lost)
	}
}

// state reports whether an execution is in flight, and whether the specified epoch ran here and
// its result was lost.
func (f *inflight) state(id uuid.UUID, epoch int32) (inFlight, ran bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.flights[id].refs > 0, f.lost[id] == epoch
}

// Reclaim runs until ctx is done. It frees executions that the database assigned to this worker
// although the response was lost, and executions whose results could not be written. It queries
// the database only after a response was lost.
func (r *Runner) Reclaim(ctx context.Context) {
	ticker := time.NewTicker(reclaimEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		worker, alive := r.identity.Worker()
		if !alive || !r.inflight.doubtful() || r.quarantined() != nil {
			continue
		}
		start := time.Now()
		done, err := r.rescueOf(ctx, []int32{worker}, reclaimAfter, r.reclaim)
		r.Metrics.Swept("lost_answers", done, err)
		if err == nil {
			r.inflight.checked(start)
		} else if ctx.Err() == nil {
			r.log.WarnContext(ctx, "could not reclaim executions with lost answers", "error", err)
		}
	}
}

// reclaim handles one execution whose row names this worker. An execution in flight is left alone.
// If the execution ran and its result was lost, it is treated as if the worker had died. Otherwise
// the execution never started, so it is requeued regardless of its repeat rule.
func (r *Runner) reclaim(ctx context.Context, row db.ExecutionListOfWorkersRow) error {
	inFlight, ran := r.inflight.state(row.ID, row.Epoch)
	switch {
	case inFlight:
		return nil
	case ran:
		return r.rescue(ctx, row)
	}
	return r.requeue(ctx, requeue{
		key: notify.Key{WorkspaceID: row.WorkspaceID, ID: row.ID}, epoch: row.Epoch, job: row.JobID, worker: row.WorkerID,
	})
}

// stalledAfter is how long work may be ready while this process starts and finishes nothing
// although it has free slots. If all slots are occupied by components within their deadlines, the
// process is not stalled. Readiness reports a stall within 30 s (reliability OP-02).
const stalledAfter = 25 * time.Second

// CheckProgress returns an error if this worker is not fit to work: other workers consider it
// dead, or it is idle although work is waiting in the queue or in its own inflight set. A process
// can be up while nothing in it makes progress, so readiness depends on this check.
func (r *Runner) CheckProgress(ctx context.Context) error {
	if _, alive := r.identity.Worker(); !alive {
		return errors.New("the worker has no session with the database")
	}
	inside, stuck := r.inflight.progress()
	full := inside >= r.slots.size && r.slots.size > 0
	if full || r.quarantined() != nil || time.Since(time.Unix(0, r.lastProgress.Load())) < stalledAfter {
		return nil
	}
	if stuck > stalledAfter {
		return fmt.Errorf("an execution in flight has been waiting for %.0f s to start or to be written", stuck.Seconds())
	}
	waits, err := db.New().RiverJobOldestDue(ctx, r.DB, Queue)
	if err != nil {
		return fmt.Errorf("read the oldest due job: %w", err)
	}
	if waits > stalledAfter.Seconds() {
		return fmt.Errorf("a job has been due for %.0f s and this worker has started none", waits)
	}
	return nil
}
