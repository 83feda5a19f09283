package execution

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/failpoint"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/wait"
	"github.com/weft-automation/weft/internal/platform/egress"
	"github.com/weft-automation/weft/internal/platform/groupcommit"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/platform/telemetry"
	"github.com/weft-automation/weft/internal/secret/vault"
)

// Runner runs executions: it starts attempts, runs the component outside of any transaction, and
// then finishes or pauses the execution.
type Runner struct {
	Deps
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
	r.directs = groupcommit.NewOwned(groupcommit.Options[direct]{Weigh: direct.weight}, groupcommit.Owners[direct]{Of: direct.owner, Held: billing.Held}, postgres.Unavailable, r.flushDirects)
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

// unreserve releases the slot of an execution that was not accepted, for the reason err. If err
// does not rule out that the database accepted the execution, Reclaim checks the database.
func (r *Runner) unreserve(worker int32, workspaceID, id uuid.UUID, err error) {
	if worker == 0 {
		return
	}
	r.inflight.remove(id, 0, err)
	r.slots.release(workspaceID)
}

// StopSuccessors makes this process leave parked executions to the queue from now on.
func (r *Runner) StopSuccessors() { r.slots.close() }

// start runs a local execution in its reserved slot. unsure means that its run, or an ancestor of
// the run, may have been canceled before the start was committed.
func (r *Runner) start(ctx context.Context, row db.ExecutionStartManyRow, unsure bool) {
	go func() {
		defer r.slots.release(row.WorkspaceID)
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(r.ctx, cancel)()
		if unsure && !r.checkCanceled(ctx, &row) {
			return
		}
		_, err := r.runAttempt(ctx, row, true)
		r.inflight.remove(row.ID, row.Epoch, err)
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

// runAttempt runs a started attempt until it finishes or pauses. retryIn is the delay after which
// the execution must continue. It is 0 if the execution is final or belongs to a different worker.
// local means that the queue did not fetch the execution's job.
func (r *Runner) runAttempt(ctx context.Context, row db.ExecutionStartManyRow, local bool) (retryIn time.Duration, err error) {
	ctx = telemetry.WithExecution(ctx, row.WorkspaceID, row.ID, row.Module, int(row.Attempt))
	if row.Traceparent != nil {
		ctx = telemetry.FromTraceparent(ctx, *row.Traceparent)
	}
	ctx, span := telemetry.StartSpan(ctx, "execute "+row.Module)
	start := time.Now()
	retryIn, outcome, err := r.attempt(ctx, row, local)
	failure := ""
	if outcome == outcomeFailed || outcome == outcomeRetry {
		failure = outcome
	}
	telemetry.EndSpan(span, failure)
	r.Metrics.Attempted(row.Module, outcome, time.Since(start))
	if err != nil {
		r.log.ErrorContext(ctx, "could not write the result of an attempt", "error", err)
	}
	return retryIn, err
}

// Outcomes of an attempt, for the metrics.
const (
	outcomeCompleted   = "completed"
	outcomeFailed      = "failed"
	outcomeRetry       = "retry"
	outcomeWaiting     = "waiting"
	outcomeInterrupted = "interrupted"
)

// attempt runs the component of a started attempt and writes the result: final, paused, or passed
// on to a different worker. outcome is for the metrics.
func (r *Runner) attempt(ctx context.Context, row db.ExecutionStartManyRow, local bool) (retryIn time.Duration, outcome string, err error) {
	entry, known := r.Modules.Lookup(row.Module)
	if row.Canceling {
		return 0, outcomeFailed, r.refuse(ctx, row, local)
	}
	if !known {
		// A worker with a newer version may have the component.
		return r.passOn(ctx, row, "the component is unknown to this worker", component.MaxWait, local)
	}
	if !r.Keyring.Holds(row.Call) {
		// A different worker may already have a master key that this one lacks.
		return r.passOn(ctx, row, "the input is sealed under a master key that this process does not have", keyPatience, local)
	}
	c, secret, err := r.open(ctx, row)
	switch {
	case fault.CodeOf(err) == fault.Unavailable:
		return r.passOn(ctx, row, "the state of the wait is sealed under a master key that this process does not have", keyPatience, local)
	case postgres.Unavailable(err): // and this process is stopping
		return 0, outcomeInterrupted, err
	case err != nil:
		return 0, outcomeFailed, r.fail(ctx, row, &component.Error{Code: "INTERNAL_ERROR", Message: "the stored input cannot be decrypted", Err: err}, local)
	}
	r.inflight.setRunning(row.ID, true)
	runCtx, c, cancel, err := r.bounded(ctx, row, entry.Timeout, c)
	defer cancel()
	var result component.Result
	if err == nil {
		result, err = r.Modules.Run(egress.WithTenant(runCtx, row.WorkspaceID.String()), row.Module, c)
	}
	r.inflight.setRunning(row.ID, false)
	failpoint.Reached(failpoint.AfterEffect)
	secretIn := func(result json.RawMessage) bool { return secret || entry.SecretResult(c, result) }
	switch {
	case (err != nil || result.Wait != nil) && errors.Is(context.Cause(runCtx), errCanceled):
		return 0, outcomeFailed, r.fail(ctx, row, canceled(row.RepeatRule, mayHaveEffect(row, err)), local)
	case err == nil && result.Wait != nil:
		retryIn, err = r.wait(ctx, row, result.Wait, secretIn(result.Wait.State), local)
		return retryIn, outcomeWaiting, err
	case err == nil:
		return 0, outcomeCompleted, r.complete(ctx, row, result.Output, secretIn(result.Output), local)
	case ctx.Err() != nil:
		retryIn, err = r.interrupted(ctx, row, entry.RepeatFor(c), local)
		return retryIn, outcomeInterrupted, err
	}
	failure := cutOff(runCtx, row, asError(err))
	if failure.Retryable && row.Attempt < row.Attempts {
		retryIn, err = r.pause(ctx, row, pause{
			delay: nextAttempt(int(row.Attempt), failure.RetryAfter), local: local,
			outcomeKnown: row.OutcomeKnown && failure.Outcome != component.OutcomeUnknown,
		})
		r.wakeQueueIn(retryIn)
		return retryIn, outcomeRetry, err
	}
	return 0, outcomeFailed, r.fail(ctx, row, failure, local)
}

// keyPatience is the delay before a different process tries an execution that this process cannot
// decrypt.
const keyPatience = 5 * time.Second

// unrunnableFor is how long an execution is passed on between workers that cannot run it. After
// that the execution fails. unrunnableFor is longer than a rollout or a key rotation should take,
// and longer than any component may wait.
const unrunnableFor = 2 * time.Hour

// passOn pauses an execution that this worker cannot run, so that a different worker may run it.
// The execution fails if no worker could run it for unrunnableFor.
func (r *Runner) passOn(ctx context.Context, row db.ExecutionStartManyRow, why string, delay time.Duration, local bool) (retryIn time.Duration, outcome string, err error) {
	if row.Unrunnable >= unrunnableFor {
		return 0, outcomeFailed, r.fail(ctx, row, &component.Error{
			Code: "INTERNAL_ERROR", Message: "no worker could run this execution for two hours", Err: errors.New(why),
		}, local)
	}
	r.log.WarnContext(ctx, "this worker cannot run the execution", "reason", why)
	retryIn, err = r.pause(ctx, row, pause{
		delay: delay, continuing: true, restart: !waited(row), state: row.WaitState, unrunnable: true, local: local,
		outcomeKnown: row.OutcomeKnown, // this worker sent nothing
	})
	return retryIn, outcomeWaiting, err
}

// interrupted handles an attempt that was cut off because this process shuts down.
func (r *Runner) interrupted(ctx context.Context, row db.ExecutionStartManyRow, rule component.Repeat, local bool) (time.Duration, error) {
	if rule == component.RepeatUnsafe {
		return 0, r.fail(ctx, row, errWorkerLost, local)
	}
	// A waiting attempt continues with its remaining time.
	return r.pause(ctx, row, pause{
		delay: time.Millisecond, continuing: true, restart: row.WaitState == nil, state: row.WaitState, local: local,
	})
}

// open decrypts the arguments for the module, and reports whether the output must be sealed even
// if the module does not mark it as secret. It returns UNAVAILABLE if only a different process can
// decrypt the state of a waiting attempt.
func (r *Runner) open(ctx context.Context, row db.ExecutionStartManyRow) (opened component.Call, secret bool, err error) {
	plain, err := r.Keyring.Open(row.Call, SealedAt(row.WorkspaceID, row.ID))
	if err != nil {
		return opened, false, err
	}
	var c call
	if err := json.Unmarshal(plain, &c); err != nil {
		return opened, false, fmt.Errorf("decode call: %w", err)
	}
	opened = component.Call{
		ExecutionID: row.ID, EffectKey: cmp.Or(c.EffectKey, row.ID), Attempt: int(row.Attempt), Input: c.Input, Config: c.Config, State: row.WaitState, Secrets: c.Secrets,
	}
	if !vault.Sealed(row.WaitState) {
		return opened, c.Secret, nil
	}
	err = r.persist(ctx, 0, func(ctx context.Context) (err error) {
		opened.State, err = r.Vault.OpenJSON(ctx, stateAt(row), row.WaitState)
		return err
	})
	return opened, c.Secret, err
}

// asError returns the component error in err. If err contains none, it returns INTERNAL_ERROR,
// which hides the text of err from callers.
func asError(err error) *component.Error {
	if e, ok := errors.AsType[*component.Error](err); ok {
		return e
	}
	return &component.Error{Code: "INTERNAL_ERROR", Message: "the component failed", Err: err}
}

// wait pauses the execution until its module checks again.
func (r *Runner) wait(ctx context.Context, row db.ExecutionStartManyRow, wait *component.Wait, secret, local bool) (time.Duration, error) {
	state, err := r.sealResult(ctx, stateAt(row), wait.State, secret)
	if err != nil {
		return 0, fmt.Errorf("pause execution: %w", err)
	}
	return r.pause(ctx, row, pause{
		delay: wait.After, continuing: true, state: state, outcomeKnown: row.OutcomeKnown, local: local,
	})
}

// pause describes how an execution is paused.
type pause struct {
	delay      time.Duration
	continuing bool            // continue the same attempt afterwards
	restart    bool            // with its full timeout
	unrunnable bool            // this worker cannot run the execution
	state      json.RawMessage // in stored form: sealed if secret
	local      bool

	// outcomeKnown means that each attempt so far got a response, except for an attempt that still
	// waits.
	outcomeKnown bool
}

// pause writes the pause. If the queue fetched the job, the caller snoozes the job for the
// returned delay. Otherwise (local), pause makes the job due. The database computes the due time,
// and the returned delay is corrected by the offset of this node's clock. The delay counts from the
// call of pause, because the write may have to wait for a connection or for the database.
func (r *Runner) pause(ctx context.Context, row db.ExecutionStartManyRow, p pause) (time.Duration, error) {
	q, start := db.New(), r.now()
	var paused db.ExecutionPauseRow
	unsure, takenOver := false, false // unsure: a write whose response was lost may have been committed
	err := r.persist(ctx, maxResultRefusals, func(ctx context.Context) error {
		err := r.DB.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
			delay := max(p.delay-r.now().Sub(start), 0) // from now(), which is the start of the transaction
			return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) (err error) {
				paused, err = q.ExecutionPause(ctx, tx, db.ExecutionPauseParams{
					WorkspaceID: row.WorkspaceID, ID: row.ID, Epoch: row.Epoch,
					Continuing: p.continuing, Restart: p.restart, WaitState: p.state, OutcomeKnown: p.outcomeKnown, Unrunnable: p.unrunnable, Delay: delay,
				})
				if err != nil || !p.local {
					return err
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
	return max(paused.NotBefore.Sub(r.Clock.Now()), time.Millisecond), nil
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
