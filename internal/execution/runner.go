package execution

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/riverqueue/river"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/kit/failpoint"
	"github.com/weft-automation/weft/internal/kit/wait"
	"github.com/weft-automation/weft/internal/platform/groupcommit"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// Runner runs executions: it starts attempts, runs the component outside of any transaction, and
// then finishes or pauses the execution.
type Runner struct {
	Deps

	// Finish advances the run of executions that are final. If it is called with an execution that is not
	// stored yet, it makes the execution final in the same commit, or returns an error. The Runner then
	// finishes the execution separately and calls Finish again. Finish must return immediately if all is
	// stored, and must be safe for concurrent use. If such a call is lost, the sweep of runs finds the
	// finished stages. Finish may be nil.
	Finish func(ctx context.Context, out Outcome) error

	log      *slog.Logger
	identity *Identity
	inflight *inflight
	starts   *groupcommit.Group[attemptStart, *db.ExecutionStartManyRow]
	finishes *groupcommit.Group[finish, struct{}]
	requeues *groupcommit.Group[requeue, struct{}]
	directs  *groupcommit.Group[direct, *db.ExecutionGetRow]

	lastProgress atomic.Int64 // when an attempt last started or finished, Unix nanoseconds
	slots        *slots
	ctx          context.Context // canceled when running attempts must stop
	stop         context.CancelFunc
}

// NewRunner returns a Runner with size slots for executions that this process accepted. Executions
// from the queue have separate slots.
func NewRunner(deps Deps, identity *Identity, size int, log *slog.Logger) *Runner {
	r := &Runner{Deps: deps, log: log, identity: identity, inflight: newInflight(), slots: newSlots(size)}
	r.starts = groupcommit.New(groupcommit.Options[attemptStart]{}, postgres.Unavailable, r.flushStarts)
	r.finishes = groupcommit.NewOwned(groupcommit.Options[finish]{
		Weigh: finish.weight, MaxQueue: 1 << 30, // the number of running executions limits the queue
	}, groupcommit.Owners[finish]{Of: finish.owner, Held: billing.Held}, postgres.Unavailable, r.flushFinishes)
	r.directs = groupcommit.NewOwned(groupcommit.Options[direct]{Weigh: direct.weight}, groupcommit.Owners[direct]{Of: direct.owner, Held: billing.Held}, postgres.Unavailable, r.storeDirects)
	r.requeues = groupcommit.New(groupcommit.Options[requeue]{Max: rescueBatch}, postgres.Unavailable, r.flushRequeues)
	r.ctx, r.stop = context.WithCancel(context.Background())
	return r
}

// reserve acquires a slot for an execution of a workspace, and returns the worker that holds the slot.
// It returns 0 if the workspace gets no slot or this process must not start work. next is set for
// an execution that starts because another one has finished.
func (r *Runner) reserve(workspaceID uuid.UUID, next bool) int32 {
	worker, starts := r.mayStart()
	if !starts || !r.slots.acquire(workspaceID, next) {
		return 0
	}
	return worker
}

// takeOver is reserve for an execution that takes over the slot of one that finishes in the same
// commit.
func (r *Runner) takeOver(workspaceID uuid.UUID) int32 {
	worker, starts := r.mayStart()
	if !starts || r.slots.isClosed() {
		return 0
	}
	r.slots.pass(workspaceID)
	return worker
}

// mayStart returns the number of this worker, and whether this process may start executions.
func (r *Runner) mayStart() (worker int32, starts bool) {
	worker, alive := r.identity.Worker()
	return worker, alive && r.quarantined() == nil && r.ctx.Err() == nil
}

// hold lets an execution that is being accepted hold a slot of the worker, unless worker is 0.
func (r *Runner) hold(a *submission, worker int32) {
	if a.worker = worker; worker != 0 {
		r.inflight.add(a.id)
	}
}

// unreserve releases the slot, if any, of an execution that was not accepted, for the reason err. If err
// does not rule out that the database accepted the execution, Reclaim checks the database.
func (r *Runner) unreserve(a *submission, err error) {
	if a.worker != 0 {
		r.inflight.remove(a.id, 0, err)
		r.slots.release(a.WorkspaceID)
		a.worker = 0
	}
}

// StopSuccessors makes this process leave parked executions to the queue from now on.
func (r *Runner) StopSuccessors() { r.slots.close() }

// start runs a local execution in its reserved slot. unsure is as in attempt.
func (r *Runner) start(ctx context.Context, row db.ExecutionStartManyRow, unsure bool) {
	go func() {
		defer r.slots.release(row.WorkspaceID)
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(r.ctx, cancel)()
		_, _ = r.runAttempt(ctx, attempt{row: row, local: true, unsure: unsure}) // it logs the error
	}()
}

// Drain waits for local executions to finish, interrupts the remaining ones when ctx is done, and
// returns when all have stopped. Before Drain is called, the process must have stopped accepting
// executions.
func (r *Runner) Drain(ctx context.Context) {
	r.StopSuccessors()
	wait.Drain(ctx, &r.slots.running, r.stop)
}

// Close stops the write groups. Call it after all local executions and the queue have stopped:
// results that are not yet written would be lost.
func (r *Runner) Close() {
	r.stop()
	r.starts.Close()
	r.finishes.Close()
	r.requeues.Close()
	r.directs.Close()
}

// Worker is the River worker of executions. It runs executions that no process ran locally, that
// were paused, that are retried, and that a lost process left behind.
type Worker struct {
	river.WorkerDefaults[Args]
	Runner *Runner
}

// Timeout disables River's timeout: the module's timeout limits an attempt.
func (w *Worker) Timeout(*river.Job[Args]) time.Duration { return -1 }

// NextRetry applies only to errors in Weft itself, such as an unavailable database. A failed
// component is not a job failure: the execution's own attempts determine its retries.
func (w *Worker) NextRetry(*river.Job[Args]) time.Time {
	return w.Runner.Clock.Now().Add(2 * time.Second)
}

// quarantinePause is the delay before work is retried that was fetched just before a quarantine.
const quarantinePause = 5 * time.Second

// Work runs one attempt of an execution, or continues it.
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
	r.inflight.add(key.ID)
	failpoint.Reached(failpoint.AfterClaim)
	row, err := r.starts.Do(ctx, attemptStart{key: key, jobID: job.ID, worker: worker})
	if err != nil || row == nil {
		r.inflight.remove(key.ID, 0, err)
	}
	if err != nil {
		return err
	}
	if row == nil {
		return r.notStarted(ctx, key, job.ID)
	}
	r.Hub.Publish(notify.Change{Key: key})
	retryIn, err := r.runAttempt(ctx, attempt{row: *row, unsure: true})
	if err == nil && retryIn > 0 {
		return river.JobSnooze(retryIn)
	}
	return err
}

// notStarted handles a job whose execution could not be started. If the execution is final or
// bound to a different job, this job is finished. Otherwise a worker has the execution, and the
// job is snoozed.
func (r *Runner) notStarted(ctx context.Context, key notify.Key, jobID int64) error {
	state, err := db.New().ExecutionGetState(ctx, r.DB, db.ExecutionGetStateParams{WorkspaceID: key.WorkspaceID, ID: key.ID})
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

// attemptStart is the start of one attempt, to be written.
type attemptStart struct {
	key    notify.Key
	jobID  int64
	worker int32
}

// flushStarts starts attempts with one statement. A result is nil if the execution could not be
// started.
func (r *Runner) flushStarts(ctx context.Context, items []attemptStart) ([]*db.ExecutionStartManyRow, error) {
	p := db.ExecutionStartManyParams{WorkerID: items[0].worker}
	for _, b := range items {
		// After a change of identity, skip starts under the old number: they would look like starts
		// of a dead worker.
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
	r.lastProgress.Store(time.Now().UnixNano())
	started := make(map[uuid.UUID]*db.ExecutionStartManyRow, len(rows))
	for i := range rows {
		started[rows[i].ID] = &rows[i]
	}
	answers := make([]*db.ExecutionStartManyRow, len(items))
	for i, b := range items {
		// If the job of an execution was replaced, a batch may contain both jobs.
		if row := started[b.key.ID]; row != nil && row.JobID == b.jobID {
			answers[i] = row
			delete(started, b.key.ID)
		}
	}
	return answers, nil
}

// wakesWithin is the longest delay of a retry for which this process wakes the queue.
const wakesWithin = time.Minute

// wakeQueueIn notifies the workers of all processes when a retry is due. Otherwise the retry would
// start up to a poll interval too late. A margin covers the time until the job is snoozed.
func (r *Runner) wakeQueueIn(delay time.Duration) {
	if delay <= 0 || delay > wakesWithin {
		return
	}
	time.AfterFunc(delay+20*time.Millisecond, func() {
		if r.ctx.Err() == nil {
			r.wakeQueue(r.ctx)
		}
	})
}

// now returns the current time, for measuring durations.
func (r *Runner) now() time.Time {
	if r.Now != nil {
		return r.Now()
	}
	return time.Now()
}
