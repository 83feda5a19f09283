package orchestrator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/execution"
	"github.com/weft-automation/weft/internal/kit/failpoint"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/workflow"
	"github.com/weft-automation/weft/internal/workflow/engine"
)

// Time limits of an advance, after which it starts no more stages, and of a call in it. Deps.TimeLimit
// replaces them.
const (
	maxTime       = 2 * time.Second
	maxFirstTime  = 250 * time.Millisecond // a request waits for it
	maxJoinedTime = time.Second            // of an advance that is committed together with the completion of an execution
	maxCallTime   = 50 * time.Millisecond  // a call takes microseconds, but a busy machine may suspend it
)

// advance is one step of a run: the decisions of package engine, with what is read and written for
// them. All changes are written in the transaction that holds the lock of the run's row.
type advance struct {
	*engine.Advance
	o        *Orchestrator
	ctx      context.Context
	tx       *postgres.Tx
	row      db.RunLockRow // as it was locked, except EventSeq and UncountedBytes
	locked   time.Time     // when the run was locked, by the clock of this process
	until    time.Time     // when no more stages start
	previous runSummary    // the run after its last event

	reuse    *engine.Reuse                    // what a rerun reuses; nil: not read yet
	children map[uuid.UUID]db.RunInsertParams // child runs that may start, by ID
	budget   billing.Budget                   // if the budget is exact
	limits   []uuid.UUID                      // runs above that have a maxCredits
	live     []api.NonTerminalStage           // stages that are unfinished after it
	events   int64                            // bytes of events
	counted  bool                             // the totals of the tree include the advance
	wake     time.Time
}

// advanceRun advances a run, publishes the result, and reports whether another advance must follow
// immediately. It counts failures and gives up the run if the failures persist.
func (o *Orchestrator) advanceRun(ctx context.Context, key notify.Key, w wakeup) (more bool, err error) {
	a, err := o.advance(ctx, key, w)
	for treeGrew(err) || billing.Uncovered(err) && !w.exact {
		w.exact = w.exact || billing.Uncovered(err)
		a, err = o.advance(ctx, key, w)
	}
	if err != nil {
		return false, o.handleFailure(ctx, key, err)
	}
	o.failures.clear(key)
	if a == nil {
		return false, nil
	}
	o.afterCommit(ctx, a)
	return a.More, nil
}

// errBusy means that nothing was advanced: the run is final, unknown, held, or advanced by others.
var errBusy = errors.New("the run is busy")

// FinishStage enqueues an advance of the run of executions that are final. If the execution is not stored yet,
// FinishStage commits its completion and the advance in one transaction. It does so only if the run waits for
// no other execution and is not being advanced. Otherwise, or if the transaction fails, FinishStage returns an
// error, and the caller commits the completion separately. FinishStage is meant for execution.Runner.Finish.
func (o *Orchestrator) FinishStage(ctx context.Context, out execution.Outcome) error {
	w, d := wakeup{executions: out.Executions}, o.dispatcher
	if out.Stored() {
		d.enqueue(out.Run, w)
		return nil
	}
	quota := d.tryStart(out.Run)
	if quota == nil {
		return errBusy
	}
	more := false
	defer func() { d.done(out.Run, quota, more) }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(d.ctx, cancel)()
	l := o.queueLock(out.Run, w, &out)
	a, err := o.commit(ctx, l, w) // the completion does not wait for a second try
	if err != nil {
		_ = l.ends.Failed(err)
		_, over := errors.AsType[*billing.PeriodOver](err)
		if !over && !billing.Uncovered(err) && !treeGrew(err) && !postgres.Unavailable(err) && !errors.Is(err, errBusy) && ctx.Err() == nil {
			o.Log.WarnContext(ctx, "could not finish execution together with its run; finishing it on its own", "execution_id", out.Executions[0].String(), "error", err)
		}
		return err
	}
	more = a.More
	o.failures.clear(out.Run)
	o.afterCommit(ctx, a)
	l.ends.Done(ctx)
	return nil
}

// advance makes one advance in a transaction. It returns nil if the run is final or unknown.
func (o *Orchestrator) advance(ctx context.Context, key notify.Key, w wakeup) (a *advance, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, advanceTimeout, errAdvanceTimeout)
	defer cancel()
	err = billing.Books{}.InPeriod(ctx, o.System, func() (err error) {
		a, err = o.commit(ctx, o.queueLock(key, w, nil), w)
		return err
	})
	if errors.Is(err, errBusy) {
		return nil, nil
	}
	if err != nil && a != nil && errors.Is(context.Cause(ctx), errAdvanceTimeout) {
		err = fmt.Errorf("%w: %w", errAdvanceTimeout, err)
	}
	return a, err
}

// commit makes one advance in a transaction that locks the run, and starts its executions.
func (o *Orchestrator) commit(ctx context.Context, l *locked, w wakeup) (a *advance, err error) {
	if o.Quarantined != nil && o.Quarantined() != nil {
		return nil, errBusy
	}
	defer func() { l.items.Done(ctx, err) }()
	defer RecoverPanic(&err)
	err = postgres.InTx(ctx, o.System, &l.batch, func(tx *postgres.Tx) (err error) {
		a, err = o.advanceTx(ctx, tx, l, w)
		return err
	})
	return a, billing.PeriodError(err, l.key.WorkspaceID)
}

// advanceTx makes one advance in tx. It returns nil if the run could not be loaded.
func (o *Orchestrator) advanceTx(ctx context.Context, tx *postgres.Tx, l *locked, w wakeup) (*advance, error) {
	run, err := l.run.One()
	if postgres.NotFound(err) || err == nil && (run.Status.Terminal() || l.ends != nil && l.ends.Lost()) {
		return nil, errBusy
	}
	if err != nil {
		return nil, err
	}
	version, err := o.Workflows.LoadVersion(ctx, tx, run.WorkspaceID, run.WorkflowID, run.WorkflowVersion)
	if err != nil {
		return nil, err
	}
	a := o.newAdvance(ctx, tx, run, version)
	a.Halved = o.failures.tries(notify.Key{WorkspaceID: run.WorkspaceID, ID: run.ID})
	if err := a.load(w, l.stages()); err != nil {
		return a, err
	}
	within := maxTime
	if l.ends != nil {
		within = maxJoinedTime
	}
	if err := a.decide(within); err != nil {
		return a, err
	}
	if err := a.readRemaining(); err != nil {
		return a, err
	}
	if err := a.admit(w, l); err != nil {
		return a, err
	}
	switch {
	case a.Changed:
		failpoint.Reached(failpoint.BetweenStages)
		err = a.write()
	case a.Scanned: // only the time of the next advance has changed
		a.queueRun(tx.AtCommit())
	}
	if err != nil || l.ends == nil {
		return a, err
	}
	return a, l.ends.Close(ctx, tx) // it locks the account, so it comes after the locks of other runs
}

// treeGrew reports whether an advance failed because its child runs, together with those that concurrent
// advances started, would exceed engine.MaxLive. Nothing of the advance is committed. The next advance
// reads the new count.
func treeGrew(err error) bool { return postgres.Raised(err, "WF003") }

// newAdvance returns an advance of a locked run.
func (o *Orchestrator) newAdvance(ctx context.Context, tx *postgres.Tx, row db.RunLockRow, version workflow.Loaded) *advance {
	a := &advance{o: o, ctx: ctx, tx: tx, row: row, locked: time.Now(), previous: o.cache.summary(row.ID, row.EventSeq), children: map[uuid.UUID]db.RunInsertParams{}}
	state := stateOf(row)
	state.Plan, state.Fixed, state.Root = version.Plan, version.Fixed, a.previous.root
	state.Variables, state.Input = o.openVariables(row), o.openInput(ctx, row)
	state.ExecuteAll = o.ExecuteAll
	a.Advance = engine.Begin(o.Modules, state)
	return a
}

// decide computes everything that follows from what has finished. It stops after the specified time,
// unless Deps.TimeLimit replaces it.
func (a *advance) decide(within time.Duration) error {
	a.until = time.Now().Add(cmp.Or(a.o.TimeLimit, within))
	need, done, err := a.Step(engine.Facts{})
	for err == nil && !done {
		var facts engine.Facts
		if facts, err = a.answer(need); err == nil {
			need, done, err = a.Step(facts)
		}
	}
	return cmp.Or(err, a.ctx.Err())
}

// sortedPlaces returns places as parameters of a statement, sorted so that concurrent statements
// lock rows in the same order.
func sortedPlaces(places map[engine.Place]bool) (components, iterations []string) {
	sorted := slices.SortedFunc(maps.Keys(places), func(a, b engine.Place) int {
		return cmp.Or(cmp.Compare(a.Component, b.Component), cmp.Compare(a.Iteration, b.Iteration))
	})
	for _, p := range sorted {
		components, iterations = append(components, p.Component), append(iterations, p.Iteration)
	}
	return components, iterations
}

// afterCommit does the work that follows a committed advance: it notifies waiters, wakes related
// runs, cancels what must stop, and sets the timer.
func (o *Orchestrator) afterCommit(ctx context.Context, a *advance) {
	key := notify.Key{WorkspaceID: a.row.WorkspaceID, ID: a.Run.ID}
	for _, t := range a.Stages {
		if t.Elapsed > 0 {
			o.Executions.CountComputed(t.Component.Module, t.Status == status.StageCompleted, t.Elapsed)
		}
	}
	if a.Changed {
		o.dispatcher.expect(key, a)
		o.cache.putSummary(a)
		change := notify.Change{Key: key}
		if !a.Run.Status.Terminal() && a.Run.Output == nil {
			change.Value = Unanswered
		}
		o.Hub.Publish(change)
	}
	for _, id := range a.Children {
		o.dispatcher.wake(notify.Key{WorkspaceID: key.WorkspaceID, ID: id})
	}
	if a.Run.Status.Terminal() {
		o.Log.InfoContext(ctx, "run finished", "workspace_id", key.WorkspaceID.String(), "run_id", key.ID.String(), "status", string(a.Run.Status))
		o.cache.forget(key.ID)
		if a.Run.ParentRunID != nil {
			o.dispatcher.wake(notify.Key{WorkspaceID: key.WorkspaceID, ID: *a.Run.ParentRunID})
		}
		return
	}
	for _, t := range a.Stages {
		if t.Loop != nil && !t.Status.Terminal() {
			o.cache.putItems(key.ID, t.ID, a.ItemsOf(t))
		}
	}
	if a.Ending() && a.Run.PendingCount > 0 && (a.Halted || a.Scanned) {
		o.cancelRemaining(ctx, a)
	} else {
		o.stopChildren(ctx, a, engine.CancelImmediate)
	}
	if !a.wake.IsZero() && !a.More {
		o.dispatcher.wakeAt(key, a.wake.Sub(a.Run.Now))
	}
}

// cancelRemaining cancels the unfinished stages of a run that is ending. Attempts in flight may
// finish, but are not retried. If the run is canceled with mode immediate, they are interrupted.
func (o *Orchestrator) cancelRemaining(ctx context.Context, a *advance) {
	mode, stop := engine.CancelGraceful, execution.StopAttempts
	if a.Run.CancelMode != nil && *a.Run.CancelMode == engine.CancelImmediate || !a.Run.Deadline.After(a.Run.Now) {
		mode, stop = engine.CancelImmediate, execution.StopAll
	}
	o.stopChildren(ctx, a, mode)
	if err := o.Executions.Cancel(ctx, a.row.WorkspaceID, a.Run.ID, stop); err != nil && ctx.Err() == nil {
		o.Log.WarnContext(ctx, "failed to cancel the executions of a run; the next advance retries", "run_id", a.Run.ID.String(), "error", err)
	}
}
