package execution

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/db"
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

// Runner is the executing half: it starts attempts, runs the component outside
// of any transaction, and finishes or gives back the execution.
type Runner struct {
	Deps
	log      *slog.Logger
	identity *Identity
	hand     *hand
	starts   *groupcommit.Group[begin, *db.ExecutionStartManyRow]
	finishes *groupcommit.Group[finish, struct{}]
	requeues *groupcommit.Group[requeue, struct{}]

	moved   atomic.Int64 // when an attempt last began or ended, Unix nanoseconds
	slots   *slots
	window  *window
	running sync.WaitGroup
	winding sync.RWMutex    // ending is set under it
	ending  bool            // nothing begins because another ended
	ctx     context.Context // of the work: ends when interrupted work must stop
	stop    context.CancelFunc
}

// NewRunner makes the executing half with so many slots for executions that
// this process accepted itself. What the queue brings has slots of its own.
func NewRunner(deps Deps, identity *Identity, size int, log *slog.Logger) *Runner {
	r := &Runner{Deps: deps, log: log, identity: identity, hand: newHand(), slots: &slots{size: size}, window: &window{}}
	r.starts = groupcommit.New(groupcommit.Options[begin]{}, postgres.Unavailable, r.flushStarts)
	r.finishes = groupcommit.New(groupcommit.Options[finish]{
		Weigh: finish.weight, MaxQueue: 1 << 30, // bounded by what may run at once
	}, postgres.Unavailable, r.flushFinishes)
	r.requeues = groupcommit.New(groupcommit.Options[requeue]{Max: rescueBatch}, postgres.Unavailable, r.flushRequeues)
	r.ctx, r.stop = context.WithCancel(context.Background())
	return r
}

// reserve takes a slot for a local run and returns the worker that holds it; 0
// when there is no free slot or this process must not begin work. ending is how
// many slots become free with the commit that it is taken for.
func (r *Runner) reserve(ending int) int32 {
	worker, alive := r.identity.Worker()
	if !alive || r.ctx.Err() != nil || r.quarantined() != nil || !r.slots.take(ending) {
		return 0
	}
	r.running.Add(1)
	return worker
}

// giveUp gives back a slot that was reserved for an execution which was not
// accepted; err says why, and that the database may have accepted it after all.
func (r *Runner) giveUp(worker int32, id uuid.UUID, err error) {
	if worker == 0 {
		return
	}
	r.hand.put(id, 0, err)
	r.free()
}

func (r *Runner) free() {
	r.slots.free()
	r.running.Done()
}

// reserveNext is reserve for what begins because another ended: not once the
// process winds up.
func (r *Runner) reserveNext(ending int) int32 {
	r.winding.RLock()
	defer r.winding.RUnlock()
	if r.ending {
		return 0
	}
	return r.reserve(ending)
}

// WindUp ends the beginning of parked executions in this process: they are left to
// the queue from now on.
func (r *Runner) WindUp() {
	r.winding.Lock()
	defer r.winding.Unlock()
	r.ending = true
}

// start runs a local execution in its reserved slot. unsure says that its run, or one above it,
// may have been canceled before the start was committed.
func (r *Runner) start(ctx context.Context, row db.ExecutionStartManyRow, unsure bool) {
	go func() {
		defer r.free()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(r.ctx, cancel)()
		if unsure && !r.ask(ctx, &row) {
			return
		}
		_, err := r.turn(ctx, row, true)
		r.hand.put(row.ID, row.Epoch, err)
	}()
}

// Drain waits until ctx ends for local runs to finish, interrupts the rest, and
// returns when none is left. Nothing may be accepted any more.
func (r *Runner) Drain(ctx context.Context) {
	r.WindUp()
	wait.Drain(ctx, &r.running, r.stop)
}

// Close ends the writing. Call it when neither a local run nor the queue works
// any more: what they still had to write would be lost.
func (r *Runner) Close() {
	r.stop()
	r.starts.Close()
	r.finishes.Close()
	r.requeues.Close()
}

// turn runs one started attempt until it ends or waits. again is the delay
// after which the execution wants another turn, 0 when it is settled or
// another worker has it. local says that the queue did not fetch its job.
func (r *Runner) turn(ctx context.Context, row db.ExecutionStartManyRow, local bool) (again time.Duration, err error) {
	ctx = telemetry.WithExecution(ctx, row.WorkspaceID, row.ID, row.Module, int(row.Attempt))
	if row.Traceparent != nil {
		ctx = telemetry.FromTraceparent(ctx, *row.Traceparent)
	}
	ctx, span := telemetry.StartSpan(ctx, "execute "+row.Module)
	began := time.Now()
	again, outcome, err := r.attempt(ctx, row, local)
	failure := ""
	if outcome == outcomeFailed || outcome == outcomeRetry {
		failure = outcome
	}
	telemetry.EndSpan(span, failure)
	r.Metrics.Attempted(row.Module, outcome, time.Since(began))
	if err != nil {
		r.log.ErrorContext(ctx, "execution could not be settled", "error", err)
	}
	return again, err
}

// What came of an attempt, for the metrics.
const (
	outcomeCompleted   = "completed"
	outcomeFailed      = "failed"
	outcomeRetry       = "retry"
	outcomeWaiting     = "waiting"
	outcomeInterrupted = "interrupted"
)

func (r *Runner) attempt(ctx context.Context, row db.ExecutionStartManyRow, local bool) (again time.Duration, outcome string, err error) {
	entry, known := r.Modules.Lookup(row.Module)
	if row.Canceling {
		return 0, outcomeFailed, r.refuse(ctx, row, local)
	}
	if !known {
		// Another node may be of a newer version that knows it.
		return r.cannot(ctx, row, "the component is not known to this worker", component.MaxWait, local)
	}
	if !r.Keyring.Holds(row.Call) {
		// Another node has a master key that this one was not given yet.
		return r.cannot(ctx, row, "the input is sealed under a master key that this process does not have", keyPatience, local)
	}
	c, secret, err := r.open(ctx, row)
	switch {
	case fault.CodeOf(err) == fault.Unavailable:
		return r.cannot(ctx, row, "the state of the wait is sealed under a master key that this process does not have", keyPatience, local)
	case postgres.Unavailable(err): // and this process ends
		return 0, outcomeInterrupted, err
	case err != nil:
		return 0, outcomeFailed, r.fail(ctx, row, &component.Error{Code: "INTERNAL_ERROR", Message: "the stored input cannot be opened", Err: err}, local)
	}
	runCtx, cancel := r.bounded(ctx, row, entry.Timeout)
	defer cancel()
	r.hand.runs(row.ID, true)
	result, err := r.Modules.Run(egress.WithTenant(runCtx, row.WorkspaceID.String()), row.Module, c)
	r.hand.runs(row.ID, false)
	failpoint.Reached(failpoint.AfterEffect)
	// What is told of a secret is one, whoever tells it.
	shows := func(given json.RawMessage) bool {
		return secret || len(entry.SecretPaths.Output) > 0 || entry.Shows(c, given)
	}
	switch {
	case (err != nil || result.Wait != nil) && errors.Is(context.Cause(runCtx), errCanceled):
		return 0, outcomeFailed, r.fail(ctx, row, canceled(row.RepeatRule, true), local)
	case err == nil && result.Wait != nil:
		again, err = r.wait(ctx, row, result.Wait, shows(result.Wait.State), local)
		return again, outcomeWaiting, err
	case err == nil:
		return 0, outcomeCompleted, r.complete(ctx, row, result.Output, shows(result.Output), local)
	case ctx.Err() != nil:
		again, err = r.interrupted(ctx, row, entry.RepeatFor(c), local)
		return again, outcomeInterrupted, err
	}
	failure := cutOff(runCtx, row, asError(err))
	if failure.Retryable && row.Attempt < row.Attempts {
		again, err = r.pause(ctx, row, pause{
			delay: nextAttempt(int(row.Attempt), failure.RetryAfter), local: local,
			outcomeKnown: row.OutcomeKnown && failure.Outcome != component.OutcomeUnknown,
		})
		return again, outcomeRetry, err
	}
	return 0, outcomeFailed, r.fail(ctx, row, failure, local)
}

// keyPatience is how long an execution waits that this process cannot open, for
// another that can.
const keyPatience = 5 * time.Second

// unrunnableFor is how long an execution goes from one worker to the next that cannot
// run it. It is longer than a roll-out or a rotation of keys ought to take, and than
// any component may wait.
const unrunnableFor = 2 * time.Hour

// cannot gives an execution to a worker that may run it, as this one cannot; or ends
// it when for long none could.
func (r *Runner) cannot(ctx context.Context, row db.ExecutionStartManyRow, why string, delay time.Duration, local bool) (again time.Duration, outcome string, err error) {
	if row.Unrunnable >= unrunnableFor {
		return 0, outcomeFailed, r.fail(ctx, row, &component.Error{
			Code: "INTERNAL_ERROR", Message: "for two hours no worker could run this execution", Err: errors.New(why),
		}, local)
	}
	r.log.WarnContext(ctx, "this worker cannot run the execution", "reason", why)
	again, err = r.pause(ctx, row, pause{
		delay: delay, continuing: true, restart: !waited(row), state: row.WaitState, unrunnable: true, local: local,
		outcomeKnown: row.OutcomeKnown, // nothing was sent in this turn
	})
	return again, outcomeWaiting, err
}

// interrupted settles an execution that this process stopped in the middle of
// an attempt, because it shuts down.
func (r *Runner) interrupted(ctx context.Context, row db.ExecutionStartManyRow, rule component.Repeat, local bool) (time.Duration, error) {
	if rule == component.RepeatUnsafe {
		return 0, r.fail(ctx, row, errWorkerLost, local)
	}
	// A wait goes on where it was, within the time that it has left.
	return r.pause(ctx, row, pause{
		delay: time.Millisecond, continuing: true, restart: row.WaitState == nil, state: row.WaitState, local: local,
	})
}

// open is what the module gets, and whether its output is sealed whatever the module says.
// UNAVAILABLE where another process can open what it left for its next look.
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

func asError(err error) *component.Error {
	if e, ok := errors.AsType[*component.Error](err); ok {
		return e
	}
	return &component.Error{Code: "INTERNAL_ERROR", Message: "the component failed", Err: err}
}

// wait gives the execution back until its module looks again.
func (r *Runner) wait(ctx context.Context, row db.ExecutionStartManyRow, wait *component.Wait, secret, local bool) (time.Duration, error) {
	state, err := r.kept(ctx, stateAt(row), wait.State, secret)
	if err != nil {
		return 0, fmt.Errorf("pause execution: %w", err)
	}
	return r.pause(ctx, row, pause{
		delay: wait.After, continuing: true, state: state, outcomeKnown: row.OutcomeKnown, local: local,
	})
}

// pause is how an execution is given back for a while.
type pause struct {
	delay      time.Duration
	continuing bool            // go on with the same attempt afterwards
	restart    bool            // and give it its whole time again
	unrunnable bool            // this worker cannot run it
	state      json.RawMessage // as it is stored
	local      bool

	// outcomeKnown says that each attempt so far was answered, apart from one that waits.
	outcomeKnown bool
}

// pause gives the execution back. A job that the queue fetched is snoozed by
// its worker, with the delay returned; one that it did not fetch is made due.
// The moment is the database's: the delay makes up for this node's clock.
func (r *Runner) pause(ctx context.Context, row db.ExecutionStartManyRow, p pause) (time.Duration, error) {
	q := db.New()
	var paused db.ExecutionPauseRow
	unsure, takenOver := false, false // unsure: a write without an answer may have been done
	err := r.persist(ctx, maxResultRefusals, func(ctx context.Context) error {
		err := pgx.BeginFunc(ctx, r.DB, func(tx pgx.Tx) (err error) {
			paused, err = q.ExecutionPause(ctx, tx, db.ExecutionPauseParams{
				WorkspaceID: row.WorkspaceID, ID: row.ID, Epoch: row.Epoch,
				Continuing: p.continuing, Restart: p.restart, WaitState: p.state, OutcomeKnown: p.outcomeKnown, Unrunnable: p.unrunnable, Delay: p.delay,
			})
			if err != nil || !p.local {
				return err
			}
			return q.RiverJobRearm(ctx, tx, db.RiverJobRearmParams{ID: paused.JobID, Delay: p.delay})
		})
		if takenOver = postgres.NotFound(err); takenOver {
			return nil // the epoch is another's
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

func (r *Runner) now() time.Time {
	if r.Now != nil {
		return r.Now()
	}
	return time.Now()
}
