package execution

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/failpoint"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/retry"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/platform/egress"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/platform/telemetry"
	"github.com/weft-automation/weft/internal/secret/vault"
)

// runAttempt runs a started attempt, writes its outcome, and removes the execution from those in
// flight. It returns the delay after which the execution must continue; see attempt.write.
func (r *Runner) runAttempt(ctx context.Context, a attempt) (retryIn time.Duration, err error) {
	row := &a.row
	if a.unsure {
		if row.Canceling, err = r.refused(ctx, *row); err != nil {
			r.inflight.remove(row.ID, 0, err)
			r.log.ErrorContext(ctx, "could not start execution", "execution_id", row.ID, "error", err)
			return 0, err
		}
	}
	ctx = telemetry.WithExecution(ctx, row.WorkspaceID, row.ID, row.Module, int(row.Attempt))
	if row.Traceparent != nil {
		ctx = telemetry.FromTraceparent(ctx, *row.Traceparent)
	}
	ctx, span := telemetry.StartSpan(ctx, "execute "+row.Module)
	start := time.Now()
	a.Runner = r
	a.entry, _ = r.Modules.Lookup(row.Module)
	out, err := a.run(ctx)
	if err == nil {
		retryIn, err = a.write(ctx, out)
	}
	failure := ""
	if out.result == outcomeFailed || out.result == outcomeRetry {
		failure = out.result
	}
	telemetry.EndSpan(span, failure)
	r.Metrics.Attempted(row.Module, out.result, time.Since(start))
	if err != nil {
		r.log.ErrorContext(ctx, "could not write the result of an attempt", "error", err)
	}
	r.inflight.remove(row.ID, row.Epoch, err)
	return retryIn, err
}

// attempt is a started attempt of an execution.
type attempt struct {
	*Runner
	row    db.ExecutionStartManyRow
	entry  *component.Entry  // nil: this worker does not know the component
	policy *retry.Policy     // nil: fixed delays
	tokens map[string]string // marks in the call that stand for access tokens, by variable
	local  bool              // the queue did not fetch the execution's job
	unsure bool              // its run, or a run above, may have been canceled before the start was committed
}

// Outcome is the outcome of an attempt: the execution is final, or paused.
type Outcome struct {
	// Only for Runner.Finish: executions that are final, and their run.
	Run        notify.Key
	Executions []uuid.UUID

	result string  // for the metrics
	final  *finish // nil: the execution is paused, or final already
	pause  *pause
	runner *Runner // only for QueueFinish
}

// pause describes how an execution is paused.
type pause struct {
	delay      time.Duration
	continuing bool            // continue the same attempt afterwards
	restart    bool            // with its full timeout
	unrunnable bool            // this worker cannot run the execution
	state      json.RawMessage // in stored form: sealed if secret

	// outcomeKnown means that each attempt so far got a response, except for an attempt that still
	// waits.
	outcomeKnown bool
}

// Results of an attempt, for the metrics.
const (
	outcomeCompleted   = "completed"
	outcomeFailed      = "failed"
	outcomeRetry       = "retry"
	outcomeWaiting     = "waiting"
	outcomeInterrupted = "interrupted"
)

// run runs the component of the attempt. The outcome has a result even if run fails.
func (a attempt) run(ctx context.Context) (Outcome, error) {
	row := a.row
	switch {
	case row.Canceling:
		if !row.Continuing {
			a.row.Attempt-- // the start counted it
		}
		return a.fail(ctx, a.canceled(row.CancelReason, !row.OutcomeKnown || waited(row)))
	case row.Remaining <= 0:
		if !row.Continuing {
			a.row.Attempt-- // the start counted it
		}
		return a.fail(ctx, overdue(row.RepeatRule, !row.OutcomeKnown || waited(row)))
	case a.entry == nil: // a worker with a newer version may have the component
		return a.passOn(ctx, "the component is unknown to this worker", component.MaxWait)
	case !a.Keyring.Holds(row.Call): // a different worker may already have the key
		return a.passOn(ctx, "the input is sealed under a master key that this process does not have", keyPatience)
	}
	start := a.now()
	c, secret, err := a.open(ctx)
	switch {
	case fault.CodeOf(err) == fault.Unavailable:
		return a.passOn(ctx, "the state of the wait is sealed under a master key that this process does not have", keyPatience)
	case postgres.Unavailable(err): // and this process is stopping
		return Outcome{result: outcomeInterrupted}, err
	case err != nil:
		return a.fail(ctx, &component.Error{Code: "INTERNAL_ERROR", Message: "the stored input cannot be decrypted", Err: err})
	}
	a.inflight.setRunning(row.ID, true)
	runCtx, cancel := a.untilCanceled(ctx)
	defer cancel(nil)
	runCtx, stop := context.WithTimeoutCause(runCtx, row.Remaining, errOverdue)
	defer stop()
	result, c, stopped, err := a.callWithTokens(runCtx, c)
	a.inflight.setRunning(row.ID, false)
	failpoint.Reached(failpoint.AfterEffect)
	request, asked := errors.AsType[canceledFor](context.Cause(runCtx))
	switch {
	case asked && (err != nil || result.Wait != nil):
		return a.fail(ctx, a.canceled(request.reason, mayHaveEffect(row, err)))
	case err != nil && ctx.Err() == nil && errors.Is(context.Cause(runCtx), errOverdue):
		return a.fail(ctx, overdue(row.RepeatRule, mayHaveEffect(row, err)))
	case err == nil:
		return a.succeed(ctx, result, func(result json.RawMessage) bool { return secret || a.entry.SecretResult(c, result) })
	case ctx.Err() != nil:
		return a.interrupted(ctx, a.entry.RepeatFor(c), mayHaveEffect(row, err))
	}
	failure := cutOff(stopped, row, asError(err))
	if delay, again := a.next(c, failure, row.Since+a.now().Sub(start)); again {
		return Outcome{result: outcomeRetry, pause: &pause{
			delay:        delay,
			outcomeKnown: row.OutcomeKnown && failure.Outcome != component.OutcomeUnknown,
		}}, nil
	}
	return a.fail(ctx, failure)
}

// next returns the delay before the next attempt, and reports whether there is one. elapsed is the time
// since the first attempt started.
func (a attempt) next(c component.Call, failure *component.Error, elapsed time.Duration) (delay time.Duration, again bool) {
	if a.policy == nil {
		return nextAttempt(int(a.row.Attempt), failure.RetryAfter), failure.Retryable && a.row.Attempt < a.row.Attempts
	}
	return a.policy.Next(retry.Failure{
		Number: int(a.row.Attempt), Elapsed: elapsed, Code: failure.Code, Status: failure.Status(), Retryable: failure.Retryable, Sent: failure.Sent(),
		RetryAfter: failure.RetryAfter, Unsafe: a.entry.RepeatFor(c) == component.RepeatUnsafe, Keyed: a.entry.Keyed(c), Waits: a.row.Continuing, Random: rand.Float64(),
	})
}

// succeed returns the outcome of a call without an error: the execution is final with an output, or
// paused until its module checks again. secret reports whether a result must be sealed.
func (a attempt) succeed(ctx context.Context, result component.Result, secret func(json.RawMessage) bool) (out Outcome, err error) {
	row := a.row
	if wait := result.Wait; wait != nil {
		p := pause{delay: wait.After, continuing: true, outcomeKnown: row.OutcomeKnown}
		p.state, err = a.sealResult(ctx, stateAt(row), wait.State, secret(wait.State))
		return Outcome{result: outcomeWaiting, pause: &p}, err
	}
	f := finish{key: notify.Key{WorkspaceID: row.WorkspaceID, ID: row.ID}, epoch: row.Epoch, status: status.ExecutionCompleted, local: a.local, run: row.RunID}
	f.output, err = a.sealResult(ctx, outputAt(row.WorkspaceID, row.ID), result.Output, secret(result.Output))
	return Outcome{result: outcomeCompleted, final: &f}, err
}

// fail finishes the execution with an error and logs its cause.
func (a attempt) fail(ctx context.Context, failure *component.Error) (Outcome, error) {
	if failure.Err != nil {
		a.log.WarnContext(ctx, "execution failed", "code", failure.Code, "error", failure.Err)
	}
	f, err := failed(a.row.WorkspaceID, a.row.ID, a.row.Epoch, int(a.row.Attempt), failure)
	f.local, f.run = a.local, a.row.RunID
	return Outcome{result: outcomeFailed, final: &f}, err
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
func (a attempt) passOn(ctx context.Context, why string, delay time.Duration) (Outcome, error) {
	if a.row.Unrunnable >= unrunnableFor {
		return a.fail(ctx, &component.Error{
			Code: "INTERNAL_ERROR", Message: "no worker could run this execution for two hours", Err: errors.New(why),
		})
	}
	a.log.WarnContext(ctx, "this worker cannot run the execution", "reason", why)
	return Outcome{result: outcomeWaiting, pause: &pause{
		delay: delay, continuing: true, restart: !waited(a.row), state: a.row.WaitState, unrunnable: true,
		outcomeKnown: a.row.OutcomeKnown, // this worker sent nothing
	}}, nil
}

// interrupted handles an attempt that was cut off because this process shuts down. sent reports whether it
// may have taken effect.
func (a attempt) interrupted(ctx context.Context, rule component.Repeat, sent bool) (out Outcome, err error) {
	if rule == component.RepeatUnsafe && sent {
		out, err = a.fail(ctx, errWorkerLost)
	} else { // a waiting attempt continues with its remaining time
		out.pause = &pause{delay: time.Millisecond, continuing: true, restart: a.row.WaitState == nil, state: a.row.WaitState, outcomeKnown: !sent}
	}
	out.result = outcomeInterrupted
	return out, err
}

// open decrypts the arguments for the module, and reports whether the output must be sealed even
// if the module does not mark it as secret. It returns UNAVAILABLE if only a different process can
// decrypt the state of a waiting attempt.
func (a *attempt) open(ctx context.Context) (opened component.Call, secret bool, err error) {
	row := a.row
	plain, err := a.Keyring.Open(row.Call, SealedAt(row.WorkspaceID, row.ID))
	if err != nil {
		return opened, false, err
	}
	var c call
	if err := json.Unmarshal(plain, &c); err != nil {
		return opened, false, fmt.Errorf("decode call: %w", err)
	}
	if c.Retry != nil {
		policy, _ := retry.Parse("", c.Retry) // it was checked when the execution was accepted
		a.policy = &policy
	}
	opened = component.Call{
		ExecutionID: row.ID, EffectKey: cmp.Or(c.EffectKey, row.ID), Attempt: int(row.Attempt), Input: c.Input, Config: c.Config, State: row.WaitState, Secrets: c.Secrets,
	}
	a.tokens = c.Tokens
	if !vault.Sealed(row.WaitState) {
		return opened, c.Secret, nil
	}
	err = a.persist(ctx, 0, func(ctx context.Context) (err error) {
		opened.State, err = a.Vault.OpenJSON(ctx, stateAt(row), row.WaitState)
		return err
	})
	return opened, c.Secret, err
}

// stateAt returns the place that the state of a waiting execution is sealed for.
func stateAt(row db.ExecutionStartManyRow) vault.Place {
	return vault.Place{WorkspaceID: row.WorkspaceID, Row: row.ID, Field: vault.State}
}

// waited reports whether row continues an attempt that was sent and waits.
func waited(row db.ExecutionStartManyRow) bool { return row.Elapsed > 0 }

// cutOff returns the failure of an attempt. The outcome is unknown if the request was sent and not
// answered. If the failure doesn't say what was sent, the outcome is unknown if the attempt was stopped
// or the component timed out.
func cutOff(stopped bool, row db.ExecutionStartManyRow, failure *component.Error) *component.Error {
	known := !stopped && failure.Code != component.CodeTimeout
	if sent := failure.Sent(); sent != "" {
		known = sent != egress.SentUnknown
	}
	if known {
		return failure
	}
	return failure.CutOff(component.Repeat(row.RepeatRule))
}

// mayHaveEffect reports whether an attempt that was in flight when it was canceled, or an earlier one,
// may have taken effect. err is the error of its component; nil means that it started to wait.
func mayHaveEffect(row db.ExecutionStartManyRow, err error) bool {
	if err == nil || !row.OutcomeKnown || waited(row) {
		return true
	}
	sent := asError(err).Sent()
	return sent == "" || sent == egress.SentUnknown
}

// asError returns the component error in err. If err contains none, it returns INTERNAL_ERROR,
// which hides the text of err from callers.
func asError(err error) *component.Error {
	if e, ok := errors.AsType[*component.Error](err); ok {
		return e
	}
	return &component.Error{Code: "INTERNAL_ERROR", Message: "the component failed", Err: err}
}

// untilCanceled returns a context that is canceled with a canceledFor when the run of a stage is
// canceled with mode immediate, or the execution is canceled. Call cancel in any case.
func (a attempt) untilCanceled(ctx context.Context) (run context.Context, cancel context.CancelCauseFunc) {
	row := a.row
	run, cancel = context.WithCancelCause(ctx)
	go a.watchCancel(run, a.Hub.Subscribe(notify.Key{WorkspaceID: row.WorkspaceID, ID: row.ID}), cancel)
	return run, cancel
}

// call waits for the turn of an attempt's call, which doesn't count, and calls the component within what is
// left of the attempt's time limit. stopped reports whether the time was over or ctx is done.
func (a attempt) call(ctx context.Context, call component.Call, spent time.Duration) (result component.Result, stopped bool, err error) {
	row, limit := a.row, a.entry.Timeout
	if row.TimeoutMs != nil {
		limit = min(limit, time.Duration(*row.TimeoutMs)*time.Millisecond)
	}
	limit -= row.Elapsed
	if a.CallTimeout > 0 {
		limit = min(limit, a.CallTimeout)
	}
	if call, err = a.Modules.Turn(ctx, row.WorkspaceID, row.Module, call); err != nil {
		return result, true, err
	}
	ctx, stop := context.WithTimeout(ctx, limit-spent)
	defer stop()
	result, err = a.Modules.Run(egress.WithTenant(ctx, row.WorkspaceID.String()), row.Module, call)
	return result, ctx.Err() != nil, err
}

// watchCancel cancels an attempt once its row is marked as canceling. It returns when ctx is
// done.
func (r *Runner) watchCancel(ctx context.Context, changed *notify.Subscription, cancelFor context.CancelCauseFunc) {
	defer changed.Close()
	key := changed.Key()
	var retry <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed.C():
		case <-retry:
		}
		retry = nil
		if ctx.Err() != nil {
			return
		}
		var request db.ExecutionIsCancelingRow
		// Interrupting the query when ctx is done would close the connection and lose its prepared plans.
		err := withTimeout(context.WithoutCancel(ctx), writeTimeout, func(ctx context.Context) (err error) {
			request, err = db.New().ExecutionIsCanceling(ctx, r.DB, db.ExecutionIsCancelingParams{WorkspaceID: key.WorkspaceID, ID: key.ID})
			return err
		})
		if err != nil {
			retry = time.After(rereadAfter)
		}
		if request.Canceling {
			cancelFor(canceledFor{request.CancelReason})
			return
		}
	}
}
