package execution

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/failpoint"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// refusedFor is how long Accepts reports a refused write. It is limited because after a refusal
// there may be no further submission that shows that the database works again.
const refusedFor = 5 * time.Second

// noteAcceptance records whether the database refused the last acceptance.
func (s *Service) noteAcceptance(err error) {
	switch {
	case postgres.Unavailable(err):
		s.refused.Store(time.Now().UnixNano())
	case err == nil:
		s.refused.Store(0)
	}
}

// Accepts returns an error if the database answers but recently refused to store an execution,
// for example because its disk is full.
func (s *Service) Accepts() error {
	if time.Since(time.Unix(0, s.refused.Load())) < refusedFor {
		return errors.New("the database refused the last execution")
	}
	return nil
}

// submission is an execution to be accepted.
type submission struct {
	SubmitParams
	id              uuid.UUID
	call            []byte
	repeat          component.Repeat
	callbackSealed  []byte
	callbackHeaders []string
	worker          int32 // worker that reserved a slot for it; 0: it goes through the queue
	price           credit.Amount

	// Only for a stage of a run, which has no callback and no API key.
	run       uuid.UUID
	effectKey uuid.UUID     // zero: use the execution's ID
	reserve   credit.Amount // credits that the run reserves in addition
	timeout   int32         // milliseconds; 0: use the module's timeout
	secrets   []string      // must not appear in errors
	secret    bool          // seal the output
	nested    bool          // its run has a parent run
	at        *time.Time    // Stage.At
}

// want returns the credits to reserve. The price of a stage is reserved by its run.
func (a submission) want() billing.Want {
	amount := a.price
	if a.run != uuid.Nil {
		amount = a.reserve
	}
	return billing.Want{WorkspaceID: a.WorkspaceID, Amount: amount}
}

func (a submission) owner() uuid.UUID { return a.WorkspaceID }

// weight returns the number of bytes that a submission adds to its batch.
func (a submission) weight() int { return len(a.call) + len(a.callbackSealed) }

// flushAccepts accepts submissions that share a commit. If shared is set, it fails with an error for
// billing.Held instead of waiting for an account.
func (s *Service) flushAccepts(ctx context.Context, items []submission, shared bool) ([]db.ExecutionAcceptManyRow, error) {
	ctx = postgres.Scope(ctx, ownersOf(items, submission.owner)...)
	var batch postgres.Batch
	if shared {
		billing.QueueLockShared(ctx, &batch, ownersOf(items, submission.owner))
	}
	rows := postgres.Returning[db.ExecutionAcceptManyRow](&batch, db.ExecutionAcceptMany, acceptParams(items, 0))
	err := postgres.Commit(ctx, s.DB, &batch)
	s.noteAcceptance(err)
	if err != nil {
		return nil, fmt.Errorf("accept executions: %w", err)
	}
	for i, m := range rows.All() {
		if m.JobID != 0 && !m.Parked && items[i].worker == 0 {
			s.local.slots.running.Go(func() { s.local.wakeQueue(context.WithoutCancel(ctx)) }) // the answers must not wait for it
			break
		}
	}
	return rows.All(), nil
}

// acceptMany accepts submissions in tx. finishing is the number of executions that finish later in
// tx.
func (s *Service) acceptMany(ctx context.Context, tx pgx.Tx, items []submission, finishing int) ([]db.ExecutionAcceptManyRow, error) {
	rows, err := db.New().ExecutionAcceptMany(ctx, tx, acceptParams(items, finishing))
	if err != nil {
		return nil, fmt.Errorf("accept executions: %w", err)
	}
	return rows, nil
}

// acceptParams returns the parameters of the statement that accepts submissions. finishing is as in
// acceptMany.
func acceptParams(items []submission, finishing int) db.ExecutionAcceptManyParams {
	p := db.ExecutionAcceptManyParams{Finishing: int64(finishing), Queue: Queue, SafetyNet: safetyNet}
	for _, a := range items {
		p.Ids, p.WorkspaceIds = append(p.Ids, a.id), append(p.WorkspaceIds, a.WorkspaceID)
		p.Amounts, p.WorkerIds = append(p.Amounts, int64(a.want().Amount)), append(p.WorkerIds, a.worker)
		p.Modules, p.Repeats = append(p.Modules, a.Module), append(p.Repeats, string(a.repeat))
		p.Calls, p.Prices = append(p.Calls, a.call), append(p.Prices, int64(a.price))
		p.Attempts, p.Timeouts = append(p.Attempts, int16(a.Attempts)), append(p.Timeouts, a.timeout)
		p.Traceparents = append(p.Traceparents, a.Traceparent)
		p.RunIds, p.KeyIds, p.KeyRootIds = append(p.RunIds, a.run), append(p.KeyIds, a.KeyID), append(p.KeyRootIds, a.KeyRootID)
		callback := CallbackParams{}
		if a.Callback != nil {
			callback = *a.Callback
		}
		p.CallbackUrls, p.CallbackSealed = append(p.CallbackUrls, callback.URL), append(p.CallbackSealed, a.callbackSealed)
		p.CallbackSigned = append(p.CallbackSigned, callback.Secret != nil)
		p.CallbackHeaders = append(p.CallbackHeaders, strings.Join(a.callbackHeaders, ","))
		if a.at != nil {
			p.At = a.at // the same for all stages of a batch
		}
	}
	return p
}

// Stage is an execution requested by a run. It has no callback, does not appear in lists, and its
// run pays for it.
type Stage struct {
	WorkspaceID, RunID, ExecutionID uuid.UUID
	EffectKey                       uuid.UUID // component.Call.EffectKey of its calls; zero: use ExecutionID

	Module        string
	Input, Config json.RawMessage // checked by the engine
	Attempts      int             // 1..3; 0 means 1
	Timeout       time.Duration   // for each attempt, if shorter than the module's timeout; 0: use the module's timeout
	Traceparent   string          // W3C trace context; may be empty
	Reserve       credit.Amount   // credits that the run reserves in addition
	Secrets       []string        // values that must not appear in errors, in addition to those that the module marks
	Secret        bool            // seal the output even if the module does not mark it
	Nested        bool            // its run has a parent run, which may be canceled while the stage is accepted
	At            *time.Time      // creation time; nil: the start of the transaction
}

// Acceptance accepts stages in the caller's transaction.
type Acceptance struct {
	service *Service
	inPlace int          // executions that finish in the same transaction and that the stages replace: 0 or 1
	freed   bool         // the commit frees a slot of this process, which a stage may take over
	items   []submission // submissions with a slot are in flight
	made    []db.ExecutionAcceptManyRow
}

// ErrRefused means that the account does not cover the stages of a run.
var ErrRefused = errors.New("the account does not cover the stages")

// Accepting calls fn, which runs a transaction and calls AcceptTx in it at most once. If that call
// fails, fn must roll back and return the error, possibly wrapped. Once fn has returned nil, the
// accepted stages start: in this process if a slot is free, otherwise through the queue.
func (s *Service) Accepting(ctx context.Context, fn func(how *Acceptance) error) (err error) {
	how := &Acceptance{service: s}
	err = errPanicked
	defer func() {
		if err != nil {
			how.drop(err)
		}
	}()
	if err = fn(how); err == nil {
		how.start(ctx)
	}
	s.noteAcceptance(err)
	return err
}

var errPanicked = errors.New("accepting stages panicked")

// AcceptTx inserts stages in tx, counts them as live, and reserves their prices for the run. The
// modules of the stages must be known. AcceptTx returns ErrRefused if the account does not cover all
// stages, UNAVAILABLE during a quarantine, and *billing.PeriodOver if the account's period is over.
//
// The account is locked from this call to the end of tx, so AcceptTx must be the last call, except
// for the batch of tx.AtCommit.
func (a *Acceptance) AcceptTx(ctx context.Context, tx *postgres.Tx, stages []Stage) (err error) {
	s := a.service
	if err := s.quarantined(); err != nil {
		return err
	}
	for _, stage := range stages {
		if err := a.add(stage); err != nil {
			return err
		}
	}
	if a.made, err = s.acceptMany(ctx, tx, a.items, a.inPlace); err != nil {
		return err
	}
	for n, m := range a.made {
		item := &a.items[n]
		switch {
		case m.Reason != "":
			err := billing.Refusal(ctx, tx, item.want(), m.Reason)
			if _, refused := errors.AsType[*fault.Error](err); refused {
				err = fmt.Errorf("%w: %w", ErrRefused, err)
			}
			return err
		case m.Parked && a.inPlace > 0:
			return fmt.Errorf("%w: there is room once the other execution has finished", ErrRefused)
		case m.Parked:
			s.local.unreserve(item.worker, item.WorkspaceID, item.id, nil)
			item.worker = 0
		}
	}
	return nil
}

// Replace says that an execution finishes in the same transaction: the stages use its room and its slot, and no
// parked executions are released. Call it before f.Close.
func (a *Acceptance) Replace(f *Finishing) {
	f.replaced, a.inPlace = true, 1
	for _, item := range f.items {
		a.freed = item.local && f.runner == a.service.local
	}
}

// add adds a stage to the items, with a slot of this process if one is free.
func (a *Acceptance) add(stage Stage) error {
	s := a.service
	entry, _ := s.Modules.Lookup(stage.Module)
	item := stage.item(entry)
	item.setTerms(entry)
	if err := s.sealCall(&item); err != nil {
		return err
	}
	if a.freed {
		item.worker, a.freed = s.local.takeOver(item.WorkspaceID), false
	} else {
		item.worker = s.local.reserve(item.WorkspaceID, true)
	}
	if item.worker != 0 {
		s.local.inflight.add(item.id)
	}
	a.items = append(a.items, item)
	return nil
}

// CountComputed counts, in the metrics, a stage that its run computed without an execution. It
// counts as an execution with one attempt.
func (s *Service) CountComputed(module string, completed bool, elapsed time.Duration) {
	outcome, state := outcomeCompleted, status.ExecutionCompleted
	if !completed {
		outcome, state = outcomeFailed, status.ExecutionFailed
	}
	s.Metrics.Submitted(module)
	s.Metrics.Attempted(module, outcome, elapsed)
	s.Metrics.Finished(module, state)
}

func (t Stage) item(entry *component.Entry) submission {
	item := submission{
		SubmitParams: SubmitParams{
			WorkspaceID: t.WorkspaceID, Module: t.Module, Input: t.Input, Config: t.Config,
			Attempts: cmp.Or(t.Attempts, 1), Traceparent: t.Traceparent,
		},
		id: t.ExecutionID, effectKey: t.EffectKey, run: t.RunID, reserve: t.Reserve, secrets: t.Secrets, secret: t.Secret, nested: t.Nested, at: t.At,
	}
	if t.Timeout > 0 && t.Timeout < entry.Timeout {
		item.timeout = int32(max(1, t.Timeout.Milliseconds()))
	}
	return item
}

// start runs the stages that hold a slot. Call it after the commit.
func (a *Acceptance) start(ctx context.Context) {
	if len(a.items) == 0 {
		return
	}
	failpoint.Reached(failpoint.AfterAccept)
	queued := false
	for n, item := range a.items {
		a.service.Metrics.Submitted(item.Module)
		if item.worker != 0 {
			a.service.startReserved(ctx, item, a.made[n].JobID)
		}
		queued = queued || item.worker == 0 && !a.made[n].Parked
	}
	if queued {
		a.service.local.wakeQueue(ctx)
	}
}

// drop releases the slots after a commit that failed or may have failed.
func (a *Acceptance) drop(err error) {
	if undone(err) {
		err = nil
	}
	for _, item := range a.items {
		a.service.local.unreserve(item.worker, item.WorkspaceID, item.id, err)
	}
}

// undone reports whether err means that the transaction was rolled back and will be tried again.
func undone(err error) bool {
	_, over := errors.AsType[*billing.PeriodOver](err)
	return over || billing.Uncovered(err)
}
