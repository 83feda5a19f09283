package hook

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

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
}

// Receive accepts a delivery. When it returns without an error, a run is committed, started by
// this delivery or by an earlier identical one.
//
// Errors: RATE_LIMITED for an address with too many failures, NOT_FOUND, UNAUTHORIZED for an
// invalid signature, the error of Admit, INVALID_INPUT for an invalid body, CONFLICT for a paused
// hook, and the errors of run.Service.Trigger.
func (s *Service) Receive(ctx context.Context, d Delivery) (run.Triggered, error) {
	source, row, err := s.find(ctx, d)
	if err != nil {
		return run.Triggered{}, err
	}
	key := notify.Key{WorkspaceID: row.WorkspaceID, ID: d.HookID}
	var v api.Verification
	if err := json.Unmarshal(row.Verification, &v); err != nil {
		return run.Triggered{}, fmt.Errorf("decode the hook's verification settings: %w", err)
	}
	known, err := s.secrets(key, row.Sealed, row.SealedPrevious)
	if err != nil {
		return run.Triggered{}, err
	}
	ctx = postgres.Scope(ctx, row.WorkspaceID)
	if reason := verify(v, known, d.Header, d.Body, row.Now); reason != "" {
		s.failures.Count(source)
		s.recordRefusal(ctx, key, reason)
		return run.Triggered{}, errInvalidSignature
	}
	if err := d.Admit(ctx, row.WorkspaceID); err != nil {
		if fault.CodeOf(err) == fault.RateLimited {
			s.recordRefusal(ctx, key, "rate_limited")
		}
		return run.Triggered{}, err
	}
	r := reading{verification: v, headers: row.Headers, secrets: known.all()}
	if row.SealedToken != nil {
		token, err := s.Keyring.Open(row.SealedToken, TokenAt(key.WorkspaceID, key.ID))
		if err != nil {
			return run.Triggered{}, fmt.Errorf("decrypt the verify token of a hook: %w", err)
		}
		r.secrets = append(r.secrets, string(token))
	}
	triggered, err := s.startRun(ctx, key, row, r, d)
	s.recordOutcome(ctx, key, triggered, err)
	return triggered, err
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

// startRun starts the run of a verified delivery.
func (s *Service) startRun(ctx context.Context, key notify.Key, row db.HookGetByIDRow, r reading, d Delivery) (run.Triggered, error) {
	p := run.TriggerParams{
		WorkspaceID: key.WorkspaceID, WorkflowID: row.WorkflowID, By: run.Cause{Trigger: trigger, ID: key.ID}, Traceparent: d.Traceparent,
	}
	if row.Status != active {
		return run.Triggered{}, &fault.Error{Code: fault.Conflict, Reason: "hook_paused", Message: "This hook is paused."}
	}
	if v := r.verification; v.DeliveryHeader != nil {
		ids := deliveryIDs(v, d.Header)
		if len(ids) != 1 || ids[0] == "" {
			return run.Triggered{}, fault.InvalidAt("/header/"+*v.DeliveryHeader, "must be sent exactly once, with the ID of the delivery")
		}
		p.Once = delivery{key: key, marks: deliveryMarks(v, ids[0], d)}
	}
	var err error
	if p.Input, err = r.runInput(d); err != nil {
		return run.Triggered{}, err
	}
	return s.Runs.Trigger(ctx, p)
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

// deliveryMarks returns the digests by which a repeated delivery is recognized: one of its ID and,
// if the signature does not cover the ID, one of what it covers. Without the second digest, an
// attacker could replay a captured delivery with a different ID. A hook can be configured to accept
// such replays.
func deliveryMarks(v api.Verification, id string, d Delivery) [][]byte {
	named := sha256.Sum256([]byte(id))
	all := [][]byte{named[:]}
	if !signsID(v) && v.AcceptRepeatedBodies == nil {
		signed := sha256.Sum256(append([]byte("\x00body "), signedBytes(v, d.Header, d.Body)...)) // no header contains a NUL
		all = append(all, signed[:])
	}
	return all
}

// delivery is the claim of the run that a delivery starts.
type delivery struct {
	key   notify.Key
	marks [][]byte
}

// Find returns the run of an earlier identical delivery.
func (d delivery) Find(ctx context.Context, conn postgres.DB) (uuid.UUID, bool, error) {
	made, err := db.New().HookDeliveryGet(ctx, conn, db.HookDeliveryGetParams{WorkspaceID: d.key.WorkspaceID, HookID: d.key.ID, Marks: d.marks})
	if postgres.NotFound(err) {
		return uuid.Nil, false, nil
	}
	if err != nil {
		return uuid.Nil, false, fmt.Errorf("find an earlier delivery: %w", err)
	}
	return made, true, nil
}

// ClaimTx waits for transactions that accept the same delivery, then calls Find. All transactions
// lock the ID before the body, so they cannot deadlock.
func (d delivery) ClaimTx(ctx context.Context, tx pgx.Tx) (uuid.UUID, bool, error) {
	for _, mark := range d.marks {
		scope := fmt.Sprintf("delivery %s %x", d.key.ID, mark)
		if err := db.New().LockName(ctx, tx, scope); err != nil {
			return uuid.Nil, false, fmt.Errorf("lock a delivery: %w", err)
		}
	}
	return d.Find(ctx, tx)
}

// KeepTx stores which run the delivery started.
func (d delivery) KeepTx(ctx context.Context, conn db.DBTX, made uuid.UUID) error {
	err := db.New().HookDeliveryInsert(ctx, conn, db.HookDeliveryInsertParams{WorkspaceID: d.key.WorkspaceID, HookID: d.key.ID, Marks: d.marks, RunID: made})
	if err != nil {
		return fmt.Errorf("store a delivery: %w", err)
	}
	return nil
}
