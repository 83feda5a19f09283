package execution

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/callback"
	"github.com/weft-automation/weft/internal/crashpoint"
	"github.com/weft-automation/weft/internal/fault"
	"github.com/weft-automation/weft/internal/idempotency"
	"github.com/weft-automation/weft/internal/notify"
	"github.com/weft-automation/weft/internal/record"
	"github.com/weft-automation/weft/internal/status"
)

// SubmitParams is a request to execute a component (contract 4.1).
type SubmitParams struct {
	WorkspaceID uuid.UUID
	Module      string
	Input       json.RawMessage
	Config      json.RawMessage
	Attempts    int // 1..3
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
// returns without error, the row and its job are committed. Errors: INVALID_INPUT for an unknown module (400) or an
// input that breaks the module's schema (422), IDEMPOTENCY_MISMATCH,
// IDEMPOTENCY_IN_FLIGHT.
func (s *Service) Submit(ctx context.Context, p SubmitParams) (Submitted, error) {
	a := accept{SubmitParams: p}
	var err error
	if a.id, err = uuid.NewV7(); err != nil {
		return Submitted{}, fmt.Errorf("make execution id: %w", err)
	}
	// With a key the repeat comes first: what was accepted once is answered
	// again even if its module has gone since.
	if p.Idempotency != nil {
		return s.submitOnce(ctx, a)
	}
	if err := s.prepare(&a); err != nil {
		return Submitted{}, err
	}
	if s.local != nil {
		a.worker = s.local.reserve()
	}
	made, err := s.accepts.Do(ctx, a)
	if err != nil {
		s.local.release(a.worker)
		return Submitted{}, fmt.Errorf("accept execution: %w", err)
	}
	return s.accepted(ctx, a, made), nil
}

// submitOnce is Submit under an Idempotency-Key: the key, the row and the job
// commit together.
func (s *Service) submitOnce(ctx context.Context, a accept) (Submitted, error) {
	var made []accepted
	var earlier uuid.UUID
	var found bool
	err := pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		var err error
		if earlier, found, err = a.Idempotency.ClaimTx(ctx, tx); err != nil || found {
			return err
		}
		if err := s.prepare(&a); err != nil {
			return err
		}
		if s.local != nil {
			a.worker = s.local.reserve()
		}
		if made, err = s.acceptTx(ctx, tx, []accept{a}); err != nil {
			return err
		}
		return a.Idempotency.KeepTx(ctx, tx, a.id)
	})
	if err != nil {
		s.local.release(a.worker)
		if fault.CodeOf(err) != fault.Internal {
			return Submitted{}, err
		}
		return Submitted{}, fmt.Errorf("accept execution once: %w", err)
	}
	if found {
		s.metrics.Replayed()
		rec, err := s.Await(ctx, a.WorkspaceID, earlier, a.WaitFor)
		return Submitted{Record: rec, Replayed: true}, err
	}
	return s.accepted(ctx, a, made[0]), nil
}

// CheckRepeat refuses a request whose Idempotency-Key was used for another body
// (IDEMPOTENCY_MISMATCH). It is for requests that are refused anyway: that
// refusal comes first (decisions 1.8).
func (s *Service) CheckRepeat(ctx context.Context, key idempotency.Key) error {
	_, _, err := key.Find(ctx, s.db)
	return err
}

// prepare checks the call and seals what is secret.
func (s *Service) prepare(a *accept) error {
	if err := s.modules.Check(a.Module, a.Input, a.Config); err != nil {
		return err
	}
	plain, err := json.Marshal(call{Input: a.Input, Config: a.Config})
	if err != nil {
		return fmt.Errorf("encode call: %w", err)
	}
	if a.call, err = s.keyring.Seal(plain, place(a.WorkspaceID, a.id)); err != nil {
		return fmt.Errorf("seal call: %w", err)
	}
	if a.Callback == nil {
		return nil
	}
	return s.prepareCallback(a)
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
		CreatedAt: made.createdAt, UpdatedAt: made.createdAt,
	}
	if a.Callback != nil {
		row.CallbackURL = &a.Callback.URL
		row.CallbackSigned = new(a.Callback.Secret != nil)
		row.CallbackHeaderNames = a.callbackHeaders
		row.CallbackAttemptCount = new(int32(0))
	}
	crashpoint.Reached(crashpoint.AfterAccept)
	s.metrics.Submitted(a.Module)
	var ended *notify.Subscription
	if a.WaitFor > 0 {
		ended = s.hub.Subscribe(notify.Key{WorkspaceID: a.WorkspaceID, ID: a.id})
		defer ended.Close()
	}
	if a.worker != 0 {
		s.metrics.Started(a.Module, 0)
		s.local.start(context.WithoutCancel(ctx), db.ExecutionStartManyRow{
			WorkspaceID: a.WorkspaceID, ID: a.id, Module: a.Module, Call: a.call,
			Attempts: int16(a.Attempts), Attempt: 1, Epoch: 1, JobID: made.jobID,
			Traceparent: traceparent(a.Traceparent),
		})
	}
	submitted := Submitted{Record: record.Execution(row)}
	if ended == nil {
		return submitted
	}
	var final api.ComponentExecution
	var err error
	if a.worker == 0 { // another process may have run it before the subscription
		final, err = s.Await(ctx, a.WorkspaceID, a.id, a.WaitFor)
	} else {
		final, err = s.await(ctx, ended, a.WaitFor)
	}
	if err == nil { // else the caller went away or the database did: accepted it is all the same
		submitted.Record = final
	}
	return submitted
}

func traceparent(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// accept is one submission on its way into the database.
type accept struct {
	SubmitParams
	id              uuid.UUID
	call            []byte
	callbackSealed  []byte
	callbackHeaders []string
	worker          int32 // that holds a slot for it; 0 = the queue brings it
}

type accepted struct {
	jobID     int64
	createdAt time.Time
}

func (s *Service) flushAccepts(ctx context.Context, items []accept) ([]accepted, error) {
	var made []accepted
	err := pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) (err error) {
		made, err = s.acceptTx(ctx, tx, items)
		return err
	})
	return made, err
}

// acceptTx writes jobs, rows and callbacks of submissions. The jobs come first:
// a row names its job.
func (s *Service) acceptTx(ctx context.Context, tx pgx.Tx, items []accept) ([]accepted, error) {
	jobs := make([]river.InsertManyParams, len(items))
	now := time.Now()
	for i, a := range items {
		var due time.Time // zero: now
		if a.worker != 0 {
			due = now.Add(safetyNet)
		}
		jobs[i] = river.InsertManyParams{
			Args: Args{WorkspaceID: a.WorkspaceID, ExecutionID: a.id}, InsertOpts: insertOpts(due),
		}
	}
	inserted, err := s.jobs.InsertManyTx(ctx, tx, jobs)
	if err != nil {
		return nil, fmt.Errorf("insert jobs: %w", err)
	}
	var rows db.ExecutionInsertManyParams
	var callbacks db.CallbackInsertManyParams
	made := make([]accepted, len(items))
	for i, a := range items {
		made[i].jobID = inserted[i].Job.ID
		appendExecution(&rows, a, made[i].jobID)
		if a.Callback != nil {
			appendCallback(&callbacks, a)
		}
	}
	created, err := db.New().ExecutionInsertMany(ctx, tx, rows)
	if err != nil {
		return nil, fmt.Errorf("insert executions: %w", err)
	}
	for i := range made {
		made[i].createdAt = created[0].CreatedAt // of one transaction, so all alike
	}
	if len(callbacks.ExecutionIds) > 0 {
		if err := db.New().CallbackInsertMany(ctx, tx, callbacks); err != nil {
			return nil, fmt.Errorf("insert callbacks: %w", err)
		}
	}
	return made, nil
}

func appendExecution(p *db.ExecutionInsertManyParams, a accept, jobID int64) {
	p.WorkspaceIds = append(p.WorkspaceIds, a.WorkspaceID)
	p.Ids = append(p.Ids, a.id)
	p.Modules = append(p.Modules, a.Module)
	p.Calls = append(p.Calls, a.call)
	p.Attempts = append(p.Attempts, int16(a.Attempts))
	p.WorkerIds = append(p.WorkerIds, a.worker)
	p.JobIds = append(p.JobIds, jobID)
	p.HasCallbacks = append(p.HasCallbacks, a.Callback != nil)
	p.Traceparents = append(p.Traceparents, a.Traceparent)
}

func appendCallback(p *db.CallbackInsertManyParams, a accept) {
	p.WorkspaceIds = append(p.WorkspaceIds, a.WorkspaceID)
	p.ExecutionIds = append(p.ExecutionIds, a.id)
	p.Urls = append(p.Urls, a.Callback.URL)
	p.Sealed = append(p.Sealed, a.callbackSealed)
	p.Signed = append(p.Signed, a.Callback.Secret != nil)
	p.HeaderNames = append(p.HeaderNames, strings.Join(a.callbackHeaders, ","))
}
