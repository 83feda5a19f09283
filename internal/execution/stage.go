package execution

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/failpoint"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// Stage is an execution requested by a run. It has no callback, does not appear in lists, and its
// run pays for it.
type Stage struct {
	WorkspaceID, RunID, ExecutionID uuid.UUID
	EffectKey                       uuid.UUID // component.Call.EffectKey of its calls; zero: use ExecutionID

	Module        string
	Input, Config json.RawMessage // checked by CheckStage
	Attempts      int             // 1..3; 0 means 1
	Timeout       time.Duration   // for each attempt, if shorter than the module's timeout; 0: use the module's timeout
	Traceparent   string          // W3C trace context; may be empty
	Reserve       credit.Amount   // credits that the run reserves in addition
	Secrets       []string        // values that must not appear in errors, in addition to those that the module marks
	Secret        bool            // seal the output even if the module does not mark it
	Nested        bool            // its run has a parent run, which may be canceled while the stage is accepted
	At            *time.Time      // creation time; nil: the start of the transaction
}

// CheckStage returns an error if a stage cannot be accepted. It returns INVALID_INPUT for a module
// that is unknown or cannot run in workflows. For an input or config that violates the module's
// schema, it returns INVALID_INPUT with all violations. The error does not show any of the
// secrets.
func (s *Service) CheckStage(module string, input, config json.RawMessage, secrets ...string) error {
	_, err := s.check(component.ModeWorkflow, module, input, config, secrets...)
	return err
}

// Acceptance accepts stages in the caller's transaction.
type Acceptance struct {
	service *Service
	called  bool
	inPlace int          // executions that finish in the same transaction and that the stages replace: 0 or 1
	freed   bool         // the commit frees a slot of this process, which a stage may take over
	items   []submission // submissions with a slot are in flight
	made    []accepted
}

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

var (
	errPanicked      = errors.New("accepting stages panicked")
	errAcceptedTwice = errors.New("AcceptTx was already called in this transaction")
)

// InPlaceOf declares that e finishes in the same transaction, which frees a slot.
func (a *Acceptance) InPlaceOf(e *End) {
	a.inPlace = 1
	if e.finish.local && e.runner == a.service.local {
		a.freed = true
	}
}

// AcceptTx inserts stages in tx, counts them as live, and reserves their prices for the run. It
// returns one refusal for each stage, nil if the stage was accepted: INSUFFICIENT_CREDITS,
// UNAVAILABLE if the workspace's billing is stopped, or INVALID_INPUT if the module was removed.
// Its error is *billing.PeriodOver if the account's period is over.
//
// The account is locked from this call to the end of tx, so AcceptTx must be the last call, except
// for the batch of tx.AtCommit.
func (a *Acceptance) AcceptTx(ctx context.Context, tx *postgres.Tx, stages []Stage) (refusals []error, err error) {
	if a.called {
		return nil, errAcceptedTwice
	}
	a.called = true
	s := a.service
	if err := s.quarantined(); err != nil {
		return nil, err
	}
	refusals = make([]error, len(stages))
	var places []int // of the items in stages
	for i, stage := range stages {
		if refusals[i], err = a.add(stage); err != nil {
			return nil, err
		}
		if refusals[i] == nil {
			places = append(places, i)
		}
	}
	if a.made, err = s.acceptMany(ctx, tx, a.items, a.inPlace); err != nil {
		return nil, err
	}
	for n, m := range a.made {
		item := &a.items[n]
		if m.parked && a.inPlace > 0 {
			return nil, ErrApart // there is room once the other execution has finished
		}
		if m.reason != "" {
			refusal := billing.Refusal(ctx, tx, item.want(), m.reason)
			if _, refused := errors.AsType[*fault.Error](refusal); !refused {
				return nil, refusal
			}
			refusals[places[n]] = refusal
		}
		if m.reason != "" || m.parked {
			s.local.unreserve(item.worker, item.WorkspaceID, item.id, nil)
			item.worker = 0
		}
	}
	return refusals, nil
}

// add adds a stage to the items, with a slot of this process if one is free. It returns
// INVALID_INPUT as refusal if the module was removed.
func (a *Acceptance) add(stage Stage) (refusal, err error) {
	s := a.service
	entry, known := s.modules.Lookup(stage.Module)
	if !known {
		return s.modules.Check(stage.Module, stage.Input, stage.Config), nil
	}
	item := stage.item(entry)
	item.setTerms(entry)
	if err := s.sealCall(&item); err != nil {
		return nil, err
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
	return nil, nil
}

// CountComputed counts, in the metrics, a stage that its run computed without an execution. It
// counts as an execution with one attempt.
func (s *Service) CountComputed(module string, completed bool, elapsed time.Duration) {
	outcome, state := outcomeCompleted, status.ExecutionCompleted
	if !completed {
		outcome, state = outcomeFailed, status.ExecutionFailed
	}
	s.metrics.Submitted(module)
	s.metrics.Attempted(module, outcome, elapsed)
	s.metrics.Finished(module, state)
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
	if a.made == nil {
		a.drop(nil)
		return
	}
	failpoint.Reached(failpoint.AfterAccept)
	queued := false
	for n, item := range a.items {
		if a.made[n].reason != "" {
			continue
		}
		a.service.metrics.Submitted(item.Module)
		if item.worker != 0 {
			a.service.startReserved(ctx, item, a.made[n].jobID)
		}
		queued = queued || item.worker == 0 && !a.made[n].parked
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
	a.items = nil
}

// undone reports whether err means that the transaction was rolled back and will be tried again.
func undone(err error) bool {
	_, over := errors.AsType[*billing.PeriodOver](err)
	return over || billing.Uncovered(err)
}
