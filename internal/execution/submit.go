package execution

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/execution/callback"
	"github.com/weft-automation/weft/internal/execution/present"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/failpoint"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/retry"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/kit/strictjson"
	"github.com/weft-automation/weft/internal/kit/uuid7"
	"github.com/weft-automation/weft/internal/platform/groupcommit"
	"github.com/weft-automation/weft/internal/platform/idempotency"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// SubmitParams is a request to execute a component (contract 4.1).
type SubmitParams struct {
	WorkspaceID uuid.UUID
	KeyID       uuid.UUID   // the submitting API key; zero for other submitters
	KeyRootID   uuid.UUID   // the first key in KeyID's chain of rotations; may be zero
	Sees        []uuid.UUID // a replay may return only executions submitted by these keys; nil: any execution
	Module      string
	Input       json.RawMessage
	Config      json.RawMessage
	Strict      bool            // reject fields of Input and Config that the module does not know
	Attempts    int             // 1..3
	Retry       json.RawMessage // a policy, instead of Attempts; nil: none
	MaxCredits  *credit.Amount  // reject a higher price; nil: accept any
	Callback    *callback.Params
	Idempotency *idempotency.Key
	Traceparent string        // W3C trace context, passed on to the callback; may be empty
	WaitFor     time.Duration // how long to wait for the final state
	Deadline    time.Duration // from acceptance; zero: none
}

// Submitted is an accepted execution.
type Submitted struct {
	Record   api.ComponentExecution
	Replayed bool // an earlier request with the same Idempotency-Key created it
}

// Submit accepts an execution, waits up to WaitFor for its final state, and returns its record.
// When Submit returns without an error, the row is committed: with its job, or in its final state.
//
// Errors: INVALID_INPUT for a module that is unknown or can only run in workflows (400), or for an
// input that violates the module's schema (422); IDEMPOTENCY_MISMATCH; IDEMPOTENCY_IN_FLIGHT;
// INSUFFICIENT_CREDITS; FORBIDDEN for a suspended workspace; UNAVAILABLE if the queue of
// submissions is full or the database is in quarantine, or with reason outcome_unknown if the commit
// is in doubt.
func (s *Service) Submit(ctx context.Context, p SubmitParams) (Submitted, error) {
	// Look up the Idempotency-Key first: a replay must succeed even if the module was removed after
	// the first request.
	if p.Idempotency != nil {
		earlier, found, err := p.Idempotency.Find(ctx, s.DB)
		if err != nil {
			return Submitted{}, err
		}
		if found {
			return s.replay(ctx, p, earlier)
		}
	}
	if err := s.quarantined(); err != nil {
		return Submitted{}, err
	}
	a := submission{SubmitParams: p}
	var err error
	if a.id, err = uuid7.New(); err != nil {
		return Submitted{}, fmt.Errorf("generate execution ID: %w", err)
	}
	entry, err := s.prepare(&a)
	if err != nil {
		return Submitted{}, err
	}
	var made Submitted
	row, err := s.runDirectly(ctx, a, entry)
	switch {
	case err != nil:
		err = postgres.OutcomeUnknown(submitError(err), "executionId", a.id)
	case row != nil:
		return s.directRecord(ctx, a, *row)
	default:
		made, err = s.acceptAndRun(ctx, a)
	}
	if used, repeated := errors.AsType[*idempotency.Used](err); repeated {
		return s.replay(ctx, p, used.ResourceID)
	}
	return made, err
}

// acceptAndRun accepts an execution, starts it if this process has a slot, and waits for it.
func (s *Service) acceptAndRun(ctx context.Context, a submission) (Submitted, error) {
	if err := s.sealCall(&a); err != nil {
		return Submitted{}, err
	}
	s.local.hold(&a, s.local.reserve(a.WorkspaceID, false))
	made, err := s.accept(ctx, a)
	if err != nil || made.Parked {
		s.local.unreserve(&a, err)
	}
	if made.Reason != "" {
		s.local.slots.refuse(a.WorkspaceID)
	}
	if err != nil {
		return s.afterDoubt(ctx, a, submitError(err))
	}
	return s.startAndWait(ctx, a, made), nil
}

// accept commits a submission, or returns *idempotency.Used. If the credit period of the workspace is
// over, accept starts the next period.
func (s *Service) accept(ctx context.Context, a submission) (made db.ExecutionAcceptManyRow, err error) {
	err = billing.Books{Turns: s.Turns}.InPeriod(ctx, s.DB, func() (err error) {
		if a.Idempotency == nil {
			made, err = s.accepts.Do(ctx, a)
		} else {
			err = s.alone(ctx, a, func(ctx context.Context) error {
				rows, err := s.flushAccepts(ctx, []submission{a}, false)
				if err == nil {
					made = rows[0]
				}
				return err
			})
		}
		if err == nil && made.Reason != "" {
			err = billing.Refusal(ctx, s.DB, a.want(), made.Reason)
		}
		return err
	})
	return made, err
}

// alone calls commit, which stores a submission with an Idempotency-Key, with a permit of the workspace.
// Canceling ctx interrupts the wait for the permit, but not the commit.
func (d *Deps) alone(ctx context.Context, a submission, commit func(context.Context) error) error {
	return d.Turns.Do(ctx, a.WorkspaceID, func() error {
		return withTimeout(context.WithoutCancel(ctx), writeTimeout, commit)
	})
}

// submitError returns the error of a submission that was refused, or that may not have been accepted.
func submitError(err error) error {
	if _, refused := errors.AsType[*fault.Error](err); refused {
		return err
	}
	if errors.Is(err, groupcommit.ErrFull) || errors.Is(err, groupcommit.ErrClosed) {
		return &fault.Error{
			Code: fault.Unavailable, Message: "Too many submissions are waiting to be accepted. Try again in a second.",
			RetryAfter: time.Second, Err: err,
		}
	}
	return fmt.Errorf("accept execution: %w", err)
}

// replay returns the execution that an earlier request created with the same Idempotency-Key. It
// returns IDEMPOTENCY_MISMATCH if the caller may not see that execution.
func (s *Service) replay(ctx context.Context, p SubmitParams, earlier uuid.UUID) (Submitted, error) {
	if p.Sees != nil {
		by, err := s.submitter(ctx, p.WorkspaceID, earlier)
		if err != nil {
			return Submitted{}, err
		}
		// An execution accepted by an older version records no key. Rejecting its replay would
		// make the caller submit the work again.
		if by != nil && !slices.Contains(p.Sees, *by) {
			return Submitted{}, errKeyOfOthers
		}
	}
	s.Metrics.Replayed()
	rec, err := s.Await(ctx, p.WorkspaceID, earlier, p.WaitFor)
	return Submitted{Record: rec, Replayed: true}, err
}

var errKeyOfOthers = fault.New(fault.IdempotencyMismatch, "This Idempotency-Key was used with another API key within the last 24 hours. Use a new Idempotency-Key for a new request.")

// CheckRepeat returns IDEMPOTENCY_MISMATCH if the key was used with a different body. It is called
// before a request is rejected for any other reason, because a mismatch takes precedence
// (decisions 1.8).
func (s *Service) CheckRepeat(ctx context.Context, key idempotency.Key) error {
	_, _, err := key.Find(ctx, s.DB)
	return err
}

// Check returns INVALID_INPUT with all faults of the module, its input and its config.
func (s *Service) Check(p SubmitParams) error {
	err := s.Modules.CheckMode(p.Module, component.ModeComponent)
	if err == nil {
		err = s.Modules.Check(p.Module, p.Input, p.Config)
	}
	if p.Strict {
		err = strictly(err, s.Modules.UnknownFields("", p.Module, p.Input, p.Config))
	}
	return err
}

// prepare checks the call and its price, seals the callback's secrets, and returns the component.
func (s *Service) prepare(a *submission) (*component.Entry, error) {
	if err := s.Check(a.SubmitParams); err != nil {
		return nil, err
	}
	entry, _ := s.Modules.Lookup(a.Module)
	if err := a.setRetry(entry); err != nil {
		return nil, err
	}
	if err := billing.Within(a.Module+" costs", entry.Price, a.MaxCredits); err != nil {
		return nil, err
	}
	a.setTerms(entry)
	if a.Callback == nil {
		return entry, nil
	}
	var err error
	a.callbackSealed, a.callbackHeaders, err = a.Callback.Stored(s.Keyring, a.WorkspaceID, a.id)
	return entry, err
}

// setRetry checks the retry policy and sets the number of attempts that it permits. It returns INVALID_INPUT
// (422) for an invalid policy.
func (a *submission) setRetry(entry *component.Entry) error {
	if a.Retry == nil {
		return nil
	}
	policy, details := retry.Parse("/retry", a.Retry)
	if entry.Flow().Inline {
		details = append(details, fault.NewDetail("/retry", a.Module+" is computed in a single attempt: leave retry out"))
	}
	a.Attempts = policy.Most()
	return fault.Unprocessable(details)
}

// strictly returns an error (400) that contains the unknown fields and the details of err. If
// there are no unknown fields, it returns err.
func strictly(err error, unknown []fault.Detail) error {
	failure, ok := err.(*fault.Error)
	switch {
	case len(unknown) == 0, err != nil && !ok:
		return err
	case ok:
		unknown = append(unknown, failure.Details...)
	}
	return fault.Malformed(unknown)
}

// setTerms sets the price and the repeat rule of the call.
func (a *submission) setTerms(entry *component.Entry) {
	a.price = entry.Price
	a.repeat = entry.RepeatFor(component.Call{Input: a.Input, Config: a.Config})
}

// sealCall seals the call.
func (s *Service) sealCall(a *submission) error {
	plain, err := strictjson.Encode(call{Input: a.Input, Config: a.Config, Secrets: a.stage.Secrets, Tokens: a.stage.Tokens, Secret: a.stage.Secret, EffectKey: a.stage.EffectKey, Retry: a.Retry})
	if err != nil {
		return fmt.Errorf("encode call: %w", err)
	}
	if a.call, err = s.Keyring.Seal(plain, SealedAt(a.WorkspaceID, a.id)); err != nil {
		return fmt.Errorf("seal call: %w", err)
	}
	return nil
}

// startAndWait starts the execution if it has a slot, waits up to WaitFor, and returns the record.
func (s *Service) startAndWait(ctx context.Context, a submission, made db.ExecutionAcceptManyRow) Submitted {
	row := db.ExecutionGetRow{
		WorkspaceID: a.WorkspaceID, ID: a.id, Module: a.Module, Status: status.ExecutionCreated,
		CreatedAt: made.CreatedAt, UpdatedAt: made.CreatedAt,
	}
	a.showCallback(&row)
	failpoint.Reached(failpoint.AfterAccept)
	s.Metrics.Submitted(a.Module)
	submitted := Submitted{Record: present.Execution(row)}
	if a.worker == 0 {
		if a.WaitFor > 0 {
			if final, err := s.Await(ctx, a.WorkspaceID, a.id, a.WaitFor); err == nil {
				submitted.Record = final
			}
		}
		return submitted
	}
	// The execution cannot finish before it starts, so subscribing first avoids a read.
	ended := s.Hub.Subscribe(notify.Key{WorkspaceID: a.WorkspaceID, ID: a.id})
	defer ended.Close()
	s.startReserved(ctx, a, made.JobID)
	if a.WaitFor == 0 {
		return submitted
	}
	// On an error, the caller has disconnected or the database is unavailable. The execution stays
	// accepted.
	if final, err := s.await(ctx, ended, a.WaitFor); err == nil {
		submitted.Record = final
	}
	return submitted
}

// showCallback adds the callback, without attempts, to the row of a new execution.
func (a submission) showCallback(row *db.ExecutionGetRow) {
	if a.Callback != nil {
		row.CallbackURL = &a.Callback.URL
		row.CallbackSigned = new(a.Callback.Secret != nil)
		row.CallbackHeaderNames = a.callbackHeaders
		row.CallbackAttemptCount = new(int32(0))
	}
}

// startReserved runs an accepted execution in its reserved slot.
func (s *Service) startReserved(ctx context.Context, a submission, jobID int64) {
	row := db.ExecutionStartManyRow{
		WorkspaceID: a.WorkspaceID, ID: a.id, Module: a.Module, Call: a.call,
		Attempts: int16(a.Attempts), Attempt: 1, Epoch: 1, JobID: jobID,
		RepeatRule: string(a.repeat), OutcomeKnown: true, Remaining: cmp.Or(a.Deadline, unlimited),
	}
	if a.Traceparent != "" {
		row.Traceparent = &a.Traceparent
	}
	if a.stage.RunID != uuid.Nil {
		row.RunID = &a.stage.RunID
	}
	if a.timeout > 0 {
		row.TimeoutMs = &a.timeout
	}
	s.Metrics.Started(a.Module, 0)
	s.local.start(context.WithoutCancel(ctx), row, a.stage.Nested)
}
