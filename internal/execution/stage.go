package execution

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/riverqueue/river"

	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/failpoint"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// Stage is an execution that a run wants. It has no callback, is in no list, and its
// run pays for it.
type Stage struct {
	WorkspaceID, RunID, ExecutionID uuid.UUID
	EffectKey                       uuid.UUID // of its calls (component.Call); zero: ExecutionID

	Module        string
	Input, Config json.RawMessage // that CheckStage has let pass
	Attempts      int             // 1..3; 0: 1
	Timeout       time.Duration   // of each attempt; 0, or more than the module's: the module's
	Traceparent   string          // W3C; may be empty
	Reserve       credit.Amount   // what the run keeps back more for it
	Secrets       []string        // values that no error shows, beside those that the module marks
	Secret        bool            // the output is sealed, whatever the module says of it
	Nested        bool            // there is a run above its run, which may be canceled while the stage is accepted
	At            *time.Time      // when it is created; nil: when the transaction started
}

// CheckStage says whether a stage may be accepted. INVALID_INPUT for a module that is
// unknown or runs on its own only, and with all faults at once for an input or config that
// breaks the module's schema, none of which shows one of the secrets.
func (s *Service) CheckStage(module string, input, config json.RawMessage, secrets ...string) error {
	_, err := s.check(component.ModeWorkflow, module, input, config, secrets...)
	return err
}

// Acceptance is one try to accept stages, in a transaction of the caller.
type Acceptance struct {
	service     *Service
	workspaceID uuid.UUID
	way         acceptFunc
	called      bool
	inPlace     bool     // of an execution that ends in the same transaction
	ending      int      // local runs whose slots become free with the commit
	items       []accept // those that hold slots are in hand
	made        []accepted
}

// Accepting tries work with one way to accept after the other until one fits, three
// times at most. Work begins a transaction and commits it, and calls AcceptTx or BeginTx
// in it once or not at all; it returns the error that it got, wrapped or not, and must
// leave nothing behind when it fails. What it accepted begins when it has returned nil:
// here, where there is a free slot, else through the queue.
func (s *Service) Accepting(ctx context.Context, workspaceID uuid.UUID, work func(how *Acceptance) error) error {
	asks := []accept{{SubmitParams: SubmitParams{WorkspaceID: workspaceID}}}
	return s.decided(asks, func(way acceptFunc) (err error) {
		how := &Acceptance{service: s, workspaceID: workspaceID, way: way}
		err = errCutOff
		defer func() {
			if err != nil {
				how.drop(err)
			}
		}()
		if err = work(how); err == nil {
			how.start(ctx)
		}
		return err
	})
}

var (
	errCutOff = errors.New("the work was cut off by a panic")
	errTwice  = errors.New("stages are accepted in a transaction already")
)

// InPlaceOf says that e ends in the transaction in which stages are accepted.
func (a *Acceptance) InPlaceOf(e *End) {
	a.inPlace = true
	if e.finish.local && e.runner == a.service.local {
		a.ending = 1
	}
}

// AcceptTx writes stages into tx, counts them as live, and keeps back for their run what
// each asks for, or fails in a way that Accepting makes up for. It returns a refusal for
// each, nil for those that were accepted: INSUFFICIENT_CREDITS, UNAVAILABLE where the
// books are stopped, INVALID_INPUT for a module that is gone. The account may be locked
// from here to the end of tx: call it last, but for what is left to tx.Last.
func (a *Acceptance) AcceptTx(ctx context.Context, tx *postgres.Tx, stages []Stage) (refusals []error, err error) {
	if len(stages) == 0 {
		return nil, nil
	}
	return a.acceptTx(ctx, tx, stages, nil)
}

// Beginning is a run that begins with its first stages.
type Beginning struct {
	WorkspaceID uuid.UUID
	Reserve     credit.Amount // what is kept back for the run itself
	Bytes       int64         // that the run stores when it begins
	Job         river.InsertManyParams
	JobID       int64 // of Job, once that is written
}

// BeginTx is AcceptTx for a run that begins in tx: it writes the run's job, too, and keeps
// back first what the run itself reserves, or fails with INSUFFICIENT_CREDITS when that is
// not admitted.
func (a *Acceptance) BeginTx(ctx context.Context, tx *postgres.Tx, run *Beginning, stages []Stage) (refusals []error, err error) {
	return a.acceptTx(ctx, tx, stages, run)
}

func (a *Acceptance) acceptTx(ctx context.Context, tx *postgres.Tx, stages []Stage, begins *Beginning) (refusals []error, err error) {
	if a.called {
		return nil, errTwice
	}
	a.called = true
	s := a.service
	if err := s.quarantined(); err != nil {
		return nil, err
	}
	refusals = make([]error, len(stages))
	var places []int
	for i, stage := range stages {
		entry, known := s.modules.Lookup(stage.Module)
		if !known {
			refusals[i] = s.modules.Check(stage.Module, stage.Input, stage.Config)
			continue
		}
		item := stage.item(entry)
		if err := s.prepareCall(&item, entry); err != nil {
			return nil, err
		}
		if s.local != nil {
			if item.worker = s.local.reserveNext(a.ending); item.worker != 0 {
				s.local.hand.take(item.id)
			}
		}
		a.items, places = append(a.items, item), append(places, i)
	}
	made, err := a.way(ctx, tx, a.items, begins)
	if err != nil {
		return nil, err
	}
	for n := range made {
		if made[n].parked && a.inPlace {
			return nil, ErrApart // there is room once the other has ended
		}
		refusals[places[n]] = made[n].refusal
		if item := &a.items[n]; made[n].refusal != nil || made[n].parked {
			s.local.giveUp(item.worker, item.id, nil)
			item.worker = 0
		}
	}
	a.made = made
	return refusals, nil
}

func (t Stage) item(entry *component.Entry) accept {
	item := accept{
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

// start begins, after the commit, what holds a slot.
func (a *Acceptance) start(ctx context.Context) {
	if a.made == nil {
		a.drop(nil)
		return
	}
	failpoint.Reached(failpoint.AfterAccept)
	for n, item := range a.items {
		if a.made[n].refusal != nil {
			continue
		}
		a.service.metrics.Submitted(item.Module)
		if item.worker != 0 {
			a.service.begin(ctx, item, a.made[n].jobID)
		}
	}
}

// drop gives the slots back after a commit that failed, or may have.
func (a *Acceptance) drop(err error) {
	if undone(err) {
		err = nil
	}
	for _, item := range a.items {
		a.service.local.giveUp(item.worker, item.id, err)
	}
	a.items = nil
}

// undone reports whether err says that a transaction was rolled back, and is to be tried
// in another way.
func undone(err error) bool {
	_, over := errors.AsType[*billing.PeriodOver](err)
	return over || errors.Is(err, billing.ErrUndecided) || errors.Is(err, errUncrowded)
}
