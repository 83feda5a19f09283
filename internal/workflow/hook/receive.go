package hook

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/strictjson"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/platform/throttle"
	"github.com/weft-automation/weft/internal/workflow/run"
)

// maxInput bounds what a run begins with, written as JSON: texts grow in it.
const maxInput = 2 << 20

// Delivery is a request to a hook.
type Delivery struct {
	HookID      uuid.UUID
	Client      netip.Addr
	Header      http.Header
	Body        []byte
	Traceparent string // W3C; may be empty
	// Admit is asked once it is known whose delivery it is, and may refuse it.
	Admit func(ctx context.Context, workspaceID uuid.UUID) error
}

// Receive takes a delivery: when it returns without error, a run of it is committed, now or
// by the same delivery before. Errors: RATE_LIMITED for an address that failed too often,
// NOT_FOUND, UNAUTHORIZED for a signature that is not right, what Admit refuses,
// INVALID_INPUT for a body that no run can take, CONFLICT for a hook that is paused, and
// those of run.Service.Trigger.
func (s *Service) Receive(ctx context.Context, d Delivery) (run.Triggered, error) {
	source := throttle.Subscriber(d.Client)
	if wait := s.failures.Wait(source); wait > 0 {
		return run.Triggered{}, &fault.Error{
			Code: fault.RateLimited, Reason: "failed_authentications", RetryAfter: wait,
			Message: "Too many failed authentications from this address.",
		}
	}
	row, err := db.New().HookGetByID(ctx, s.System, d.HookID)
	if postgres.NotFound(err) {
		s.failures.Count(source)
		return run.Triggered{}, errNone
	}
	if err != nil {
		return run.Triggered{}, fmt.Errorf("find hook: %w", err)
	}
	key := notify.Key{WorkspaceID: row.WorkspaceID, ID: d.HookID}
	var v api.Verification
	if err := json.Unmarshal(row.Verification, &v); err != nil {
		return run.Triggered{}, fmt.Errorf("read the verification of a hook: %w", err)
	}
	secret, err := s.secret(key, row.Sealed)
	if err != nil {
		return run.Triggered{}, err
	}
	if !verified(v, secret, d.Header, d.Body, row.Now) {
		s.failures.Count(source)
		return run.Triggered{}, errUnsigned
	}
	ctx = postgres.Scope(ctx, row.WorkspaceID)
	if err := d.Admit(ctx, row.WorkspaceID); err != nil {
		return run.Triggered{}, err
	}
	begun, err := s.begin(ctx, key, row, v, d)
	s.note(ctx, key, begun, err)
	return begun, err
}

// errUnsigned does not say what is wrong: who signs knows.
var errUnsigned = &fault.Error{
	Code: fault.Unauthorized, Reason: "invalid_signature", Message: "The signature of the delivery is missing, wrong, or too old.",
	Header: map[string]string{"WWW-Authenticate": "Signature"},
}

func (s *Service) begin(ctx context.Context, key notify.Key, row db.HookGetByIDRow, v api.Verification, d Delivery) (run.Triggered, error) {
	p := run.TriggerParams{
		WorkspaceID: key.WorkspaceID, WorkflowID: row.WorkflowID, By: run.Cause{Trigger: trigger, ID: key.ID}, Traceparent: d.Traceparent,
	}
	if row.Status != active {
		return run.Triggered{}, &fault.Error{Code: fault.Conflict, Reason: "hook_paused", Message: "This hook is paused."}
	}
	if v.DeliveryHeader != nil {
		ids := d.Header.Values(*v.DeliveryHeader)
		if len(ids) != 1 || ids[0] == "" {
			return run.Triggered{}, fault.InvalidAt("/header/"+*v.DeliveryHeader, "is required once: the id of the delivery")
		}
		p.Once = delivery{key: key, marks: marks(v, ids[0], d.Body)}
	}
	var err error
	if p.Input, err = input(v, d.Header, d.Body); err != nil {
		return run.Triggered{}, err
	}
	return s.Runs.Trigger(ctx, p)
}

// notePatience is how long whoever delivered waits for the note of it.
const notePatience = 2 * time.Second

// note keeps what became of the latest delivery, for those who look at the hook. Of many in
// a second it keeps one.
func (s *Service) note(ctx context.Context, key notify.Key, begun run.Triggered, err error) {
	p := db.HookRecordDeliveryParams{WorkspaceID: key.WorkspaceID, ID: key.ID}
	failure, refused := errors.AsType[*fault.Error](err)
	switch {
	case refused:
		p.Refusal = new(strings.ToLower(string(failure.Code)))
		if failure.Code == fault.Conflict {
			p.Refusal = &failure.Reason
		}
	case err != nil || begun.Replayed:
		return
	default:
		p.RunID = &begun.RunID
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), notePatience)
	defer cancel()
	if err := db.New().HookRecordDelivery(ctx, s.API, p); err != nil && !postgres.Unavailable(err) {
		s.Log.WarnContext(ctx, "what became of a delivery was not noted", "hook_id", key.ID.String(), "error", err)
	}
}

// telling are parts of the names of headers that may hold secrets, or prove who sends.
var telling = []string{"signature", "authorization", "cookie", "token", "secret", "password", "api-key", "apikey", "hmac"}

// input is what the run of a delivery begins with: its headers by lower-case name, without
// secrets and signatures, and its body.
func input(v api.Verification, header http.Header, body []byte) (json.RawMessage, error) {
	headers := map[string]string{}
	for name, values := range header {
		lower := strings.ToLower(name)
		hidden := strings.EqualFold(name, v.Header) || slices.ContainsFunc(telling, func(part string) bool { return strings.Contains(lower, part) })
		if value := strings.Join(values, ", "); !hidden && storable(value) {
			headers[lower] = value
		}
	}
	value, err := bodyOf(header.Get("Content-Type"), body)
	if err != nil {
		return nil, err
	}
	raw, err := strictjson.Encode(map[string]any{"headers": headers, "body": value})
	if err != nil {
		return nil, fmt.Errorf("write a delivery: %w", err)
	}
	if len(raw) > maxInput {
		return nil, &fault.Error{Code: fault.PayloadTooLarge, Message: "The body is larger than a run can take."}
	}
	return raw, nil
}

// bodyOf is the JSON of a body, where its type says that it is some, or else its text; null
// for none.
func bodyOf(contentType string, body []byte) (any, error) {
	media, _, err := mime.ParseMediaType(contentType)
	switch {
	case len(body) == 0:
		return nil, nil
	case err == nil && (media == "application/json" || strings.HasSuffix(media, "+json")):
		return json.RawMessage(body), strictjson.Check(body)
	case !storable(string(body)):
		return nil, fault.Invalid("", "the body must be JSON or text in UTF-8")
	}
	return string(body), nil
}

// storable reports whether the database can hold a text.
func storable(text string) bool { return utf8.ValidString(text) && !strings.Contains(text, "\x00") }

// marks are the digests by which a delivery is recognised: of its ID, and of its
// body where the signature does not cover the ID. Otherwise a captured delivery
// could be sent again under another ID, which a hook may accept.
func marks(v api.Verification, id string, body []byte) [][]byte {
	named := sha256.Sum256([]byte(id))
	all := [][]byte{named[:]}
	if v.Scheme != api.VerificationSchemeStandardWebhooks && v.AcceptRepeatedBodies == nil {
		signed := sha256.Sum256(append([]byte("\x00body "), body...)) // no header holds a NUL
		all = append(all, signed[:])
	}
	return all
}

// delivery is the claim of a run to a delivery.
type delivery struct {
	key   notify.Key
	marks [][]byte
}

// Find returns the run of the same delivery.
func (d delivery) Find(ctx context.Context, conn postgres.DB) (uuid.UUID, bool, error) {
	made, err := db.New().HookDeliveryGet(ctx, conn, db.HookDeliveryGetParams{WorkspaceID: d.key.WorkspaceID, HookID: d.key.ID, Marks: d.marks})
	if postgres.NotFound(err) {
		return uuid.Nil, false, nil
	}
	if err != nil {
		return uuid.Nil, false, fmt.Errorf("look for a delivery: %w", err)
	}
	return made, true, nil
}

// ClaimTx waits for transactions that accept the same delivery. All lock the ID
// before the body, so they cannot deadlock.
func (d delivery) ClaimTx(ctx context.Context, tx pgx.Tx) (uuid.UUID, bool, error) {
	for _, mark := range d.marks {
		scope := fmt.Sprintf("delivery %s %x", d.key.ID, mark)
		if err := db.New().LockName(ctx, tx, scope); err != nil {
			return uuid.Nil, false, fmt.Errorf("lock a delivery: %w", err)
		}
	}
	return d.Find(ctx, tx)
}

// KeepTx remembers the run of the delivery.
func (d delivery) KeepTx(ctx context.Context, tx pgx.Tx, made uuid.UUID) error {
	err := db.New().HookDeliveryInsert(ctx, tx, db.HookDeliveryInsertParams{WorkspaceID: d.key.WorkspaceID, HookID: d.key.ID, Marks: d.marks, RunID: made})
	if err != nil {
		return fmt.Errorf("keep a delivery: %w", err)
	}
	return nil
}
