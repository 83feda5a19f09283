package hook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/platform/throttle"
	"github.com/weft-automation/weft/internal/workflow/run"
)

// Delivery is a request to a hook.
type Delivery struct {
	HookID      uuid.UUID
	Client      netip.Addr
	Header      http.Header
	Query       url.Values
	Body        []byte
	Traceparent string // W3C; may be empty
	// Admit is called after the signature is verified. An error rejects the delivery.
	Admit func(ctx context.Context, workspaceID uuid.UUID) error
	// Wait reserves one of the inline waits of a workspace, and returns how long the delivery may wait:
	// zero if all are in use. done releases it.
	Wait func(ctx context.Context, workspaceID uuid.UUID, wanted time.Duration) (granted time.Duration, done func())
}

// Received is an accepted delivery.
type Received struct {
	run.Triggered
	Challenge *string         // the answer to a handshake, which starts no run; nil: not a handshake
	Output    json.RawMessage // of RESPOND, for a hook that responds; nil: none
	Finished  *bool           // whether the run has finished, for a hook that responds; nil with an Output
}

// Receive accepts a delivery. When it returns without an error, a run is committed, started by
// this delivery or by an earlier identical one, or the delivery is a handshake. If the hook responds,
// Receive waits for the response of the run.
//
// Errors: RATE_LIMITED for an address with too many failures, NOT_FOUND, UNAUTHORIZED for an
// invalid signature, the error of Admit, INVALID_INPUT for an invalid body, CONFLICT for a paused
// hook, RUN_FAILED for a hook that responds, and the errors of run.Service.Trigger.
func (s *Service) Receive(ctx context.Context, d Delivery) (Received, error) {
	source, row, err := s.find(ctx, d)
	if err != nil {
		return Received{}, err
	}
	key := notify.Key{WorkspaceID: row.WorkspaceID, ID: d.HookID}
	var v api.Verification
	if err := json.Unmarshal(row.Verification, &v); err != nil {
		return Received{}, fmt.Errorf("decode the hook's verification settings: %w", err)
	}
	if len(d.Body) == 0 && d.Query.Has(validationToken) && answers(v, validationToken) {
		token, err := s.echo(ctx, source, key, d)
		return Received{Challenge: &token}, err
	}
	known, err := s.secrets(key, row.Sealed, row.SealedPrevious)
	if err != nil {
		return Received{}, err
	}
	ctx = postgres.Scope(ctx, row.WorkspaceID)
	if reason := verify(v, known, d.Header, d.Body, row.Now); reason != "" {
		s.failures.Count(source)
		s.recordRefusal(ctx, key, reason)
		return Received{}, errInvalidSignature
	}
	if err := d.Admit(ctx, row.WorkspaceID); err != nil {
		if fault.CodeOf(err) == fault.RateLimited {
			s.recordRefusal(ctx, key, "rate_limited")
		}
		return Received{}, err
	}
	r := reading{verification: v, headers: row.Headers, secrets: known.all()}
	if row.SealedToken != nil {
		token, err := s.Keyring.Open(row.SealedToken, TokenAt(key.WorkspaceID, key.ID))
		if err != nil {
			return Received{}, fmt.Errorf("decrypt the verify token of a hook: %w", err)
		}
		r.secrets = append(r.secrets, string(token))
	}
	received, err := s.accept(ctx, key, row, r, d)
	if err != nil || received.Challenge == nil {
		s.recordOutcome(ctx, key, received.Triggered, err)
	}
	if err == nil && row.Respond && received.Challenge == nil {
		return answered(received.Triggered)
	}
	return received, err
}

// find returns the hook of a request, and the client address that failures count against. It returns
// RATE_LIMITED for an address with too many failures, and NOT_FOUND.
func (s *Service) find(ctx context.Context, d Delivery) (netip.Addr, db.HookGetByIDRow, error) {
	source := throttle.Subscriber(d.Client)
	if wait := s.failures.Wait(source); wait > 0 {
		return source, db.HookGetByIDRow{}, &fault.Error{
			Code: fault.RateLimited, Reason: "failed_authentications", RetryAfter: wait,
			Message: "Too many failed authentications from this address.",
		}
	}
	row, err := db.New().HookGetByID(ctx, s.System, d.HookID)
	if postgres.NotFound(err) {
		s.failures.Count(source)
		return source, row, errNotFound
	}
	if err != nil {
		return source, row, fmt.Errorf("find hook: %w", err)
	}
	return source, row, nil
}

// errInvalidSignature does not say which check failed, so that the error does not help an
// attacker.
var errInvalidSignature = &fault.Error{
	Code: fault.Unauthorized, Reason: "invalid_signature", Message: "The signature of the delivery is missing, wrong, or too old.",
	Header: map[string]string{"WWW-Authenticate": "Signature"},
}

// accept answers the handshake in a verified delivery, or starts its run.
func (s *Service) accept(ctx context.Context, key notify.Key, row db.HookGetByIDRow, r reading, d Delivery) (received Received, err error) {
	p := run.TriggerParams{
		WorkspaceID: key.WorkspaceID, WorkflowID: row.WorkflowID, By: run.Cause{Trigger: trigger, ID: key.ID}, Traceparent: d.Traceparent,
		Deadline: run.Deadline(row.DeadlineMs),
	}
	input, unreadable := r.runInput(d)
	if unreadable == nil && answers(r.verification, urlVerification) {
		if challenge, is, err := challengeIn(input); is {
			return Received{Challenge: &challenge}, err
		}
	}
	if row.Status != active {
		return Received{}, &fault.Error{Code: fault.Conflict, Reason: "hook_paused", Message: "This hook is paused."}
	}
	if unreadable != nil {
		return Received{}, unreadable
	}
	p.Input = input
	marks, err := deliveryMarks(r.verification, d, input)
	if err != nil {
		return Received{}, err
	}
	if len(marks) > 0 {
		p.Once = delivery{key: key, marks: marks}
	}
	if row.Respond {
		granted, done := d.Wait(ctx, key.WorkspaceID, respondWithin)
		defer done()
		if granted > 0 {
			p.WaitFor = &granted
		}
	}
	if p.Callback, err = s.Runs.OpenCallback(ctx, callbackPlace(key), run.StoredCallback{Shown: row.Callback, Sealed: row.SealedCallback}); err != nil {
		return received, err
	}
	received.Triggered, err = s.Runs.Trigger(ctx, p)
	return received, err
}

// outcomeTimeout limits how long a delivery waits for its outcome to be stored.
const outcomeTimeout = 2 * time.Second

// recordRefusal stores in the hook why a delivery was rejected before it was admitted. Anybody who
// knows the hook's address can cause such rejections, at any rate. So each process records each
// reason of a hook at most once per 10 seconds, and a rejection overwrites the previous one: a
// flood causes a fixed number of writes and uses no space. Nothing that the sender sent is stored. A
// reason that came within a second after another one is not written, and the next delivery with it
// tries again.
func (s *Service) recordRefusal(ctx context.Context, key notify.Key, reason string) {
	source := refusal{key.ID, reason}
	if s.refusals.Take(source) == 0 && !s.store(ctx, db.HookRecordDeliveryParams{WorkspaceID: key.WorkspaceID, ID: key.ID, Refusal: &reason}) {
		s.refusals.Return(source)
	}
}

// recordOutcome stores the result of the latest delivery in the hook, at most once per second.
func (s *Service) recordOutcome(ctx context.Context, key notify.Key, triggered run.Triggered, err error) {
	p := db.HookRecordDeliveryParams{WorkspaceID: key.WorkspaceID, ID: key.ID}
	failure, refused := errors.AsType[*fault.Error](err)
	switch {
	case refused && failure.Reason == fault.ReasonOutcomeUnknown:
		return // the run may have started
	case refused:
		p.Refusal = new(strings.ToLower(string(failure.Code)))
		if failure.Code == fault.Conflict || failure.Code == fault.Forbidden {
			p.Refusal = &failure.Reason
		}
	case err != nil || triggered.Replayed:
		return
	default:
		p.RunID = &triggered.RunID
	}
	s.store(ctx, p)
}

// store stores the outcome of a delivery in its hook, and reports whether it did. A failure is
// logged: the outcome itself stands.
func (s *Service) store(ctx context.Context, p db.HookRecordDeliveryParams) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), outcomeTimeout)
	defer cancel()
	stored, err := db.New().HookRecordDelivery(ctx, s.API, p)
	if err != nil && !postgres.Unavailable(err) {
		s.Log.WarnContext(ctx, "failed to store the outcome of a delivery", "hook_id", p.ID.String(), "error", err)
	}
	return stored > 0
}
