package execution

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/execution/callback"
	"github.com/weft-automation/weft/internal/execution/present"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/failpoint"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/kit/strictjson"
	"github.com/weft-automation/weft/internal/platform/groupcommit"
	"github.com/weft-automation/weft/internal/platform/idempotency"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// SubmitParams is a request to execute a component (contract 4.1).
type SubmitParams struct {
	WorkspaceID uuid.UUID
	KeyID       uuid.UUID   // the key that submits; zero: not by a key
	KeyRootID   uuid.UUID   // the first key of the rotations that led to it; zero: not by a key
	Sees        []uuid.UUID // only executions that these keys submitted may be repeated; nil: all
	Module      string
	Input       json.RawMessage
	Config      json.RawMessage
	Strict      bool           // refuse members of the two that the module does not know
	Attempts    int            // 1..3
	MaxCredits  *credit.Amount // the highest price that is accepted; nil: any
	Callback    *CallbackParams
	Idempotency *idempotency.Key
	Traceparent string        // W3C, passed on to the callback; may be empty
	WaitFor     time.Duration // how long to wait for the end before answering
}

// CallbackParams is where and how the result is to be delivered.
type CallbackParams struct {
	URL     string
	Secret  *string
	Headers map[string]string
}

// Submitted is an accepted execution.
type Submitted struct {
	Record   api.ComponentExecution
	Replayed bool // the Idempotency-Key had made this execution before
}

// Submit accepts an execution and waits up to WaitFor for its end: when it
// returns without error, the row and its job are committed. Errors: INVALID_INPUT for a
// module that is unknown or for workflows only (400) or an input that breaks the module's
// schema (422), IDEMPOTENCY_MISMATCH, IDEMPOTENCY_IN_FLIGHT, INSUFFICIENT_CREDITS,
// UNAVAILABLE when too much waits to be accepted, or the database is in quarantine.
func (s *Service) Submit(ctx context.Context, p SubmitParams) (Submitted, error) {
	// With a key the repeat comes first: what was accepted once is answered
	// again even if its module has gone since.
	if p.Idempotency != nil {
		earlier, found, err := p.Idempotency.Find(ctx, s.db)
		if err != nil {
			return Submitted{}, err
		}
		if found {
			return s.repeat(ctx, p, earlier)
		}
	}
	if err := s.quarantined(); err != nil {
		return Submitted{}, err
	}
	a := accept{SubmitParams: p}
	var err error
	if a.id, err = uuid.NewV7(); err != nil {
		return Submitted{}, fmt.Errorf("make execution id: %w", err)
	}
	if err := s.prepare(&a); err != nil {
		return Submitted{}, err
	}
	if s.local != nil {
		if a.worker = s.local.reserve(0); a.worker != 0 {
			s.local.hand.take(a.id)
		}
	}
	var made accepted
	var earlier uuid.UUID
	if p.Idempotency != nil {
		made, earlier, err = s.acceptOnce(ctx, a)
	} else {
		made, err = s.accepts.Do(ctx, a)
	}
	if err != nil || earlier != uuid.Nil || made.refusal != nil {
		s.local.giveUp(a.worker, a.id, err)
	}
	switch {
	case err == nil && made.refusal != nil:
		return Submitted{}, made.refusal
	case errors.Is(err, groupcommit.ErrFull), errors.Is(err, groupcommit.ErrClosed):
		return Submitted{}, &fault.Error{
			Code: fault.Unavailable, Message: "Too much waits to be accepted just now; try again in a second.",
			RetryAfter: time.Second, Err: err,
		}
	case err != nil:
		return Submitted{}, fmt.Errorf("accept execution: %w", err)
	case earlier != uuid.Nil:
		return s.repeat(ctx, p, earlier)
	}
	if made.parked {
		s.local.giveUp(a.worker, a.id, nil)
		a.worker = 0
	}
	return s.accepted(ctx, a, made), nil
}

// repeat answers with what an earlier request made under the same Idempotency-Key. It
// returns IDEMPOTENCY_MISMATCH if the caller may not see that execution.
func (s *Service) repeat(ctx context.Context, p SubmitParams, earlier uuid.UUID) (Submitted, error) {
	if p.Sees != nil {
		by, err := s.submitter(ctx, p.WorkspaceID, earlier)
		if err != nil {
			return Submitted{}, err
		}
		// A request that an older binary accepted may be repeated: it names no key, and
		// refusing it would have the caller do its work twice.
		if by != nil && !slices.Contains(p.Sees, *by) {
			return Submitted{}, errKeyOfOthers
		}
	}
	s.metrics.Replayed()
	rec, err := s.Await(ctx, p.WorkspaceID, earlier, p.WaitFor)
	return Submitted{Record: rec, Replayed: true}, err
}

var errKeyOfOthers = fault.New(fault.IdempotencyMismatch, "This Idempotency-Key was used with another API key within the last 24 hours. Use a new Idempotency-Key for a new request.")

// acceptOnce accepts under an Idempotency-Key: the key, the row and the job
// commit together, or an earlier request's execution is found. A caller that
// goes away does not cut the commit off.
func (s *Service) acceptOnce(ctx context.Context, a accept) (made accepted, earlier uuid.UUID, err error) {
	err = s.decided([]accept{a}, func(how acceptFunc) error {
		return within(context.WithoutCancel(ctx), writeTimeout, func(ctx context.Context) error {
			return postgres.InTx(ctx, s.db, func(tx *postgres.Tx) error {
				made, earlier, err = s.claimTx(ctx, tx, a, how)
				return err
			})
		})
	})
	if made.refusal != nil && errors.Is(err, made.refusal) {
		err = nil
	}
	return made, earlier, err
}

// claimTx accepts under the key of a, unless it has made something before. A
// refusal is an error here: it leaves no key.
func (s *Service) claimTx(ctx context.Context, tx *postgres.Tx, a accept, how acceptFunc) (made accepted, earlier uuid.UUID, err error) {
	earlier, found, err := a.Idempotency.ClaimTx(ctx, tx)
	if err != nil || found {
		return made, earlier, err
	}
	tx.Last(func(tx pgx.Tx) error { return a.Idempotency.KeepTx(ctx, tx, a.id) })
	all, err := how(ctx, tx, []accept{a}, nil)
	if err != nil {
		return made, uuid.Nil, err
	}
	if all[0].refusal != nil {
		return all[0], uuid.Nil, all[0].refusal
	}
	return all[0], uuid.Nil, nil
}

// CheckRepeat refuses a request whose Idempotency-Key was used for another body
// (IDEMPOTENCY_MISMATCH). It is for requests that are refused anyway: that
// refusal comes first (decisions 1.8).
func (s *Service) CheckRepeat(ctx context.Context, key idempotency.Key) error {
	_, _, err := key.Find(ctx, s.db)
	return err
}

// prepare checks the call and its price and seals what is secret.
func (s *Service) prepare(a *accept) error {
	entry, err := s.check(component.ModeComponent, a.Module, a.Input, a.Config)
	if a.Strict {
		err = strictly(err, s.modules.UnknownFields("", a.Module, a.Input, a.Config))
	}
	if err != nil {
		return err
	}
	if err := billing.Within(a.Module+" costs", entry.Price, a.MaxCredits); err != nil {
		return err
	}
	if err := s.prepareCall(a, entry); err != nil || a.Callback == nil {
		return err
	}
	return s.prepareCallback(a)
}

// strictly is the refusal of members that nobody knows (400), with all else that is wrong.
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

// check refuses a call of a module that is not there, does not run in this mode, or whose
// schema it breaks.
func (s *Service) check(mode component.Mode, module string, input, config json.RawMessage, secrets ...string) (*component.Entry, error) {
	if err := s.modules.CheckMode(module, mode); err != nil {
		return nil, err
	}
	entry, _ := s.modules.Lookup(module)
	return entry, s.modules.Check(module, input, config, secrets...)
}

func (s *Service) prepareCall(a *accept, entry *component.Entry) error {
	plain, err := strictjson.Encode(call{Input: a.Input, Config: a.Config, Secrets: a.secrets, Secret: a.secret, EffectKey: a.effectKey})
	if err != nil {
		return fmt.Errorf("encode call: %w", err)
	}
	a.price = entry.Price
	a.repeat = entry.RepeatFor(component.Call{Input: a.Input, Config: a.Config})
	if a.call, err = s.keyring.Seal(plain, SealedAt(a.WorkspaceID, a.id)); err != nil {
		return fmt.Errorf("seal call: %w", err)
	}
	return nil
}

func (s *Service) prepareCallback(a *accept) error {
	sealed, err := callback.Seal(s.keyring, a.WorkspaceID, a.id, callback.Secrets{
		Secret: a.Callback.Secret, Headers: a.Callback.Headers,
	})
	if err != nil {
		return fmt.Errorf("seal callback: %w", err)
	}
	a.callbackSealed = sealed
	for name := range a.Callback.Headers {
		a.callbackHeaders = append(a.callbackHeaders, name)
	}
	slices.Sort(a.callbackHeaders)
	return nil
}

// accepted starts the execution when a slot was reserved for it, and renders
// its record as it stands at acceptance, or after the wait.
func (s *Service) accepted(ctx context.Context, a accept, made accepted) Submitted {
	row := db.ExecutionGetRow{
		WorkspaceID: a.WorkspaceID, ID: a.id, Module: a.Module, Status: status.ExecutionCreated,
		CreatedAt: *made.createdAt, UpdatedAt: *made.createdAt,
	}
	if a.Callback != nil {
		row.CallbackURL = &a.Callback.URL
		row.CallbackSigned = new(a.Callback.Secret != nil)
		row.CallbackHeaderNames = a.callbackHeaders
		row.CallbackAttemptCount = new(int32(0))
	}
	failpoint.Reached(failpoint.AfterAccept)
	s.metrics.Submitted(a.Module)
	submitted := Submitted{Record: present.Execution(row)}
	if a.worker == 0 {
		if a.WaitFor > 0 {
			if final, err := s.Await(ctx, a.WorkspaceID, a.id, a.WaitFor); err == nil {
				submitted.Record = final
			}
		}
		return submitted
	}
	// Nobody can finish it before start: one subscription and no read will do.
	ended := s.hub.Subscribe(notify.Key{WorkspaceID: a.WorkspaceID, ID: a.id})
	defer ended.Close()
	s.begin(ctx, a, made.jobID)
	if a.WaitFor == 0 {
		return submitted
	}
	// An error says that the caller went away or the database did: accepted it
	// is all the same.
	if final, err := s.await(ctx, ended, a.WaitFor); err == nil {
		submitted.Record = final
	}
	return submitted
}

// begin runs an execution in the slot that was reserved for it.
func (s *Service) begin(ctx context.Context, a accept, jobID int64) {
	row := db.ExecutionStartManyRow{
		WorkspaceID: a.WorkspaceID, ID: a.id, Module: a.Module, Call: a.call,
		Attempts: int16(a.Attempts), Attempt: 1, Epoch: 1, JobID: jobID,
		Traceparent: traceparent(a.Traceparent), RepeatRule: string(a.repeat), OutcomeKnown: true,
	}
	if a.run != uuid.Nil {
		row.RunID = &a.run
	}
	if a.timeout > 0 {
		row.TimeoutMs = &a.timeout
	}
	s.metrics.Started(a.Module, 0)
	s.local.start(context.WithoutCancel(ctx), row, a.nested)
}

func traceparent(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
