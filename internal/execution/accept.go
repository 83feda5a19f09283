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

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/execution/callback"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/failpoint"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/platform/idempotency"
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

	stage   Stage // of a run, which has no callback and no API key; zero: none
	timeout int32 // of the stage, in milliseconds; 0: use the module's timeout
}

// want returns the credits to reserve. The price of a stage is reserved by its run.
func (a submission) want() billing.Want {
	amount := a.price
	if a.stage.RunID != uuid.Nil {
		amount = a.stage.Reserve
	}
	return billing.Want{WorkspaceID: a.WorkspaceID, Amount: amount}
}

func (a submission) owner() uuid.UUID { return a.WorkspaceID }

// weight returns the number of bytes that a submission adds to its batch.
func (a submission) weight() int { return len(a.call) + len(a.callbackSealed) }

// errRefused rolls back the acceptance of a submission that is refused, so that its key isn't stored.
var errRefused = errors.New("the submission is refused")

// flushAccepts accepts submissions that share a commit. If shared is set, it fails with an error for
// billing.Held instead of waiting for an account. A submission with an Idempotency-Key is accepted alone,
// together with the key, unless flushAccepts returns *idempotency.Used.
func (s *Service) flushAccepts(ctx context.Context, items []submission, shared bool) ([]db.ExecutionAcceptManyRow, error) {
	ctx = postgres.Scope(ctx, ownersOf(items, submission.owner)...)
	var batch postgres.Batch
	if shared {
		billing.QueueLockShared(ctx, &batch, ownersOf(items, submission.owner))
	}
	claim := items[0].Idempotency.QueueClaim(ctx, &batch)
	rows := postgres.Returning[db.ExecutionAcceptManyRow](&batch, db.ExecutionAcceptMany, acceptParams(items))
	var err error
	if items[0].Idempotency == nil {
		err = postgres.Commit(ctx, s.DB, &batch)
	} else {
		err = postgres.InTx(ctx, s.DB, &batch, func(tx *postgres.Tx) error {
			if err := claim.Keep(ctx, tx.AtCommit(), items[0].id); err != nil || rows.All()[0].Reason == "" {
				return err
			}
			return errRefused
		})
		err = idempotency.InFlight(resolve(ctx, s.DB, err, items[0]))
	}
	s.noteAcceptance(err)
	if err != nil && !errors.Is(err, errRefused) {
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

// acceptParams returns the parameters of the statement that accepts submissions.
func acceptParams(items []submission) db.ExecutionAcceptManyParams {
	p := db.ExecutionAcceptManyParams{Queue: Queue, SafetyNet: safetyNet}
	for _, a := range items {
		p.Ids, p.WorkspaceIds = append(p.Ids, a.id), append(p.WorkspaceIds, a.WorkspaceID)
		p.Amounts, p.WorkerIds = append(p.Amounts, int64(a.want().Amount)), append(p.WorkerIds, a.worker)
		p.Modules, p.Repeats = append(p.Modules, a.Module), append(p.Repeats, string(a.repeat))
		p.Calls, p.Prices = append(p.Calls, a.call), append(p.Prices, int64(a.price))
		p.Attempts, p.Timeouts = append(p.Attempts, int16(a.Attempts)), append(p.Timeouts, a.timeout)
		p.Deadlines = append(p.Deadlines, a.Deadline.Milliseconds())
		p.Traceparents = append(p.Traceparents, a.Traceparent)
		p.RunIds, p.KeyIds, p.KeyRootIds = append(p.RunIds, a.stage.RunID), append(p.KeyIds, a.KeyID), append(p.KeyRootIds, a.KeyRootID)
		var c callback.Params
		if a.Callback != nil {
			c = *a.Callback
		}
		p.CallbackUrls, p.CallbackSealed = append(p.CallbackUrls, c.URL), append(p.CallbackSealed, a.callbackSealed)
		p.CallbackSigned = append(p.CallbackSigned, c.Secret != nil)
		p.CallbackHeaders = append(p.CallbackHeaders, strings.Join(a.callbackHeaders, ","))
		if a.stage.At != nil {
			p.At = a.stage.At // the same for all stages of a batch
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
	Input, Config json.RawMessage   // checked by the engine
	Attempts      int               // 1..3; 0 means 1
	Retry         json.RawMessage   // a valid policy, instead of Attempts; nil: none
	Timeout       time.Duration     // for each attempt, if shorter than the module's timeout; 0: use the module's timeout
	Traceparent   string            // W3C trace context; may be empty
	Reserve       credit.Amount     // credits that the run reserves in addition
	Secrets       []string          // values that must not appear in errors, in addition to those that the module marks
	Tokens        map[string]string // marks in the input and the config that stand for access tokens, by variable
	Secret        bool              // seal the output even if the module does not mark it
	Nested        bool              // its run has a parent run, which may be canceled while the stage is accepted
	At            *time.Time        // creation time; nil: the start of the transaction
}

// Items are stages that are accepted in one transaction. They hold free slots of this process. Call Done after
// the transaction.
type Items struct {
	service *Service
	all     []submission // those with a slot are in flight
	rows    *postgres.Rows[db.ExecutionAcceptManyRow]
}

// NewItems returns no items.
func (s *Service) NewItems() *Items { return &Items{service: s} }

// Queue queues the statement that inserts stages, counts them as live, and reserves their prices for the run.
// The modules of the stages must be known. The statement fails with an error for billing.Uncovered if the
// account does not cover all stages, or for billing.PeriodError. Queue returns UNAVAILABLE during a quarantine.
// It is called at most once.
//
// If ends is not nil, it is closed later in the transaction, and the stages use its room and its slot. Then the
// statement also fails if there is no room before ends has finished.
func (t *Items) Queue(batch *postgres.Batch, stages []Stage, ends *Finishing) error {
	s, r := t.service, t.service.local
	if err := s.quarantined(); err != nil {
		return err
	}
	passes := ends.replace(r)
	for _, stage := range stages {
		item, err := s.item(stage)
		if err != nil {
			return err
		}
		if passes {
			r.hold(&item, r.takeOver(item.WorkspaceID))
		} else {
			r.hold(&item, r.reserve(item.WorkspaceID, true))
		}
		passes, t.all = false, append(t.all, item)
	}
	p := acceptParams(t.all)
	if p.Whole = true; ends != nil {
		p.Finishing = 1
	}
	t.rows = postgres.Returning[db.ExecutionAcceptManyRow](batch, db.ExecutionAcceptMany, p)
	return nil
}

// Done starts the stages if err, the error of the transaction, is nil: in this process if they hold a slot, and
// otherwise through the queue. If the transaction failed, or may have failed, Done releases the slots.
func (t *Items) Done(ctx context.Context, err error) {
	s, queued := t.service, false
	s.noteAcceptance(err)
	if err == nil && len(t.all) > 0 {
		failpoint.Reached(failpoint.AfterAccept)
	}
	for n := range t.all {
		item := &t.all[n]
		if err != nil {
			s.local.unreserve(item, err)
			continue
		}
		s.Metrics.Submitted(item.Module)
		switch m := t.rows.All()[n]; {
		case m.Parked:
			s.local.unreserve(item, nil)
		case item.worker != 0:
			s.startReserved(ctx, *item, m.JobID)
		default:
			queued = true
		}
	}
	if queued {
		s.local.wakeQueue(ctx)
	}
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

// item returns the submission of a stage.
func (s *Service) item(t Stage) (submission, error) {
	entry, _ := s.Modules.Lookup(t.Module)
	item := submission{
		SubmitParams: SubmitParams{
			WorkspaceID: t.WorkspaceID, Module: t.Module, Input: t.Input, Config: t.Config,
			Attempts: cmp.Or(t.Attempts, 1), Retry: t.Retry, Traceparent: t.Traceparent,
		},
		id: t.ExecutionID, stage: t,
	}
	if t.Timeout > 0 && t.Timeout < entry.Timeout {
		item.timeout = int32(max(1, t.Timeout.Milliseconds()))
	}
	item.setTerms(entry)
	if err := item.setRetry(entry); err != nil {
		return item, err
	}
	return item, s.sealCall(&item)
}
