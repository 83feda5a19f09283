package execution

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/riverqueue/river"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/billing"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/crashpoint"
	"github.com/weft-automation/weft/internal/credit"
	"github.com/weft-automation/weft/internal/notify"
	"github.com/weft-automation/weft/internal/postgres"
	"github.com/weft-automation/weft/internal/record"
)

// Stage is an execution that a run wants. It has no callback, is in no list, and its
// run pays for it.
type Stage struct {
	WorkspaceID, RunID, ExecutionID uuid.UUID

	Module        string
	Input, Config json.RawMessage // that CheckStage has let pass
	Attempts      int             // 1..3; 0: 1
	Timeout       time.Duration   // of each attempt; 0, or more than the module's: the module's
	Traceparent   string          // W3C; may be empty
	Reserve       credit.Amount   // what the run keeps back more for it
	Secrets       []string        // values that no error shows, beside those that the module marks
	Secret        bool            // the output is sealed, whatever the module says of it
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
		id: t.ExecutionID, run: t.RunID, reserve: t.Reserve, secrets: t.Secrets, secret: t.Secret,
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
	crashpoint.Reached(crashpoint.AfterAccept)
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

// errCanceled ends a stage whose run is canceled.
var errCanceled = &component.Error{Code: component.CodeCanceled, Message: "the run was canceled"}

// cancelBatch is how many executions are canceled in one transaction.
const cancelBatch = 500

// Cancel ends the executions of a run that have not been started: they are FAILED with
// code CANCELED at once. Immediate also ends those that pause, and the attempts under
// way, in whatever process: within two seconds, or where the component does not heed it
// shortly after. What somebody has just locked is left alone, so call it again until
// nothing of the run lives.
func (s *Service) Cancel(ctx context.Context, workspaceID, runID uuid.UUID, immediate bool) error {
	if err := s.quarantined(); err != nil {
		return err
	}
	r, run := s.local, notify.Key{WorkspaceID: workspaceID, ID: runID}
	page := db.RunListExecutionsParams{WorkspaceID: workspaceID, RunID: runID, MaxRows: cancelBatch}
	for {
		stages, err := db.New().RunListExecutions(ctx, r.DB, page)
		if err != nil {
			return fmt.Errorf("list executions of a run: %w", err)
		}
		p := db.ExecutionListOfRunParams{RunID: runID}
		for _, stage := range stages {
			p.WorkspaceIds, p.Ids = append(p.WorkspaceIds, workspaceID), append(p.Ids, stage.ExecutionID)
			page.After = stage.ID
		}
		if err := r.cancel(ctx, run, p, immediate); err != nil {
			return err
		}
		if len(stages) < cancelBatch {
			return nil
		}
	}
}

func (r *Runner) cancel(ctx context.Context, run notify.Key, p db.ExecutionListOfRunParams, immediate bool) error {
	rows, err := db.New().ExecutionListOfRun(ctx, r.DB, p)
	if err != nil {
		return fmt.Errorf("look at executions of a run: %w", err)
	}
	var free db.ExecutionCancelManyParams
	var held db.ExecutionCancelHeldParams
	for _, row := range rows {
		switch {
		case row.Held && immediate && !row.Canceling:
			held.WorkspaceIds = append(held.WorkspaceIds, run.WorkspaceID)
			held.Ids, held.Epochs = append(held.Ids, row.ID), append(held.Epochs, row.Epoch)
		case !row.Held && (immediate || row.Created):
			why, err := record.ExecutionError(errCanceled.Code, errCanceled.Message, errCanceled.Retryable, int(row.Attempt), nil)
			if err != nil {
				return err
			}
			free.WorkspaceIds = append(free.WorkspaceIds, run.WorkspaceID)
			free.Ids, free.Epochs, free.Errors = append(free.Ids, row.ID), append(free.Epochs, row.Epoch), append(free.Errors, string(why))
		}
	}
	if err := r.cancelFree(ctx, run.WorkspaceID, free); err != nil || len(held.Ids) == 0 {
		return err
	}
	told, err := db.New().ExecutionCancelHeld(ctx, r.DB, held)
	if err != nil {
		return fmt.Errorf("cancel attempts under way: %w", err)
	}
	changes := make([]notify.Change, len(told))
	for i, id := range told {
		changes[i].Key = notify.Key{WorkspaceID: run.WorkspaceID, ID: id}
	}
	r.Hub.Publish(changes...)
	return nil
}

// cancelFree ends executions that nobody works on.
func (r *Runner) cancelFree(ctx context.Context, workspaceID uuid.UUID, p db.ExecutionCancelManyParams) error {
	if len(p.Ids) == 0 {
		return nil
	}
	made, err := r.commit(ctx, func(tx *postgres.Tx) (ends, error) { return r.cancelTx(ctx, tx, workspaceID, p) })
	if err != nil {
		return fmt.Errorf("cancel executions: %w", err)
	}
	keys := make([]notify.Key, len(made.done))
	for i, f := range made.done {
		keys[i] = f.key()
	}
	r.tell(ctx, keys, made)
	return nil
}

// cancelTx is finishTx for what was not started, or pauses. The account is locked first,
// as whoever releases parked executions does.
func (r *Runner) cancelTx(ctx context.Context, tx *postgres.Tx, workspaceID uuid.UUID, p db.ExecutionCancelManyParams) (made ends, err error) {
	made.next = &successors{}
	if _, err := db.New().AccountLock(ctx, tx, workspaceID); err != nil {
		return made, fmt.Errorf("lock account: %w", err)
	}
	rows, err := db.New().ExecutionCancelMany(ctx, tx, p)
	if err != nil || len(rows) == 0 {
		return made, err
	}
	charges := make([]billing.Charge, len(rows))
	jobs := make([]int64, len(rows))
	made.done = make([]finished, len(rows))
	var parked int32
	for i, row := range rows {
		charges[i] = billing.Charge{WorkspaceID: row.WorkspaceID, ExecutionID: row.ID, Stage: true}
		jobs[i] = row.JobID
		made.done[i] = finished{run: row.RunID, row: db.ExecutionGetRow{
			WorkspaceID: row.WorkspaceID, ID: row.ID, Module: row.Module, Status: row.Status,
			Error: row.Error, Usage: row.Usage, CreatedAt: row.CreatedAt, UpdatedAt: row.UpdatedAt,
		}}
		if row.WasParked {
			parked++
		}
	}
	if parked > 0 {
		if err := db.New().AccountPark(ctx, tx, db.AccountParkParams{WorkspaceID: workspaceID, Count: -parked}); err != nil {
			return made, fmt.Errorf("count parked executions: %w", err)
		}
	}
	tx.Last(dequeue(ctx, jobs))
	made.next, err = r.chargeTx(ctx, tx, charges, 0)
	return made, err
}

// bounded is ctx for what is left of an attempt's time. Of a stage it also ends, with
// errCanceled for its cause, when the run is canceled at once.
func (r *Runner) bounded(ctx context.Context, row db.ExecutionStartManyRow, limit time.Duration) (context.Context, context.CancelFunc) {
	if row.TimeoutMs != nil {
		limit = min(limit, time.Duration(*row.TimeoutMs)*time.Millisecond)
	}
	limit -= row.Elapsed
	if r.CallTimeout > 0 {
		limit = min(limit, r.CallTimeout)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	if row.RunID == nil {
		return ctx, cancel
	}
	ctx, cancelFor := context.WithCancelCause(ctx)
	go r.heed(ctx, r.Hub.Subscribe(notify.Key{WorkspaceID: row.WorkspaceID, ID: row.ID}), cancelFor)
	return ctx, cancel
}

// heed cancels an attempt under way whose row says so, until ctx ends.
func (r *Runner) heed(ctx context.Context, changed *notify.Subscription, cancelFor context.CancelCauseFunc) {
	defer changed.Close()
	key := changed.Key()
	var retry <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed.C():
		case <-retry:
		}
		retry = nil
		if ctx.Err() != nil {
			return
		}
		canceling, err := r.canceling(ctx, key)
		if err != nil {
			retry = time.After(rereadAfter)
		}
		if canceling {
			cancelFor(errCanceled)
			return
		}
	}
}

// canceling asks on although the attempt ends: a question that is cut off costs the
// connection, and with it all plans that it had made.
func (r *Runner) canceling(ctx context.Context, key notify.Key) (canceling bool, err error) {
	err = within(context.WithoutCancel(ctx), writeTimeout, func(ctx context.Context) (err error) {
		canceling, err = db.New().ExecutionCanceling(ctx, r.DB, db.ExecutionCancelingParams{WorkspaceID: key.WorkspaceID, ID: key.ID})
		return err
	})
	return canceling, err
}
