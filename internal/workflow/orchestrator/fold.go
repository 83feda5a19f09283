package orchestrator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/account/storage"
	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/execution"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/failpoint"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/workflow"
)

// cancelRetry is the interval at which a run that is ending cancels its unfinished stages again.
const cancelRetry = 2 * time.Second

// fold advances a run by one step: under the lock of the run's row, it computes everything that
// follows from what has finished. It holds the rows that were read, the state of the computation,
// and the changes. All changes are written in the transaction that holds the lock.
type fold struct {
	engine    *Engine
	ctx       context.Context
	tx        *postgres.Tx
	run       db.RunLockRow // its Now decides which timers and deadlines are due
	stamp     time.Time     // the time that the fold writes, never before the finish of a stage that it applies or computes
	locked    time.Time     // when the run was locked, by the clock of this process
	plan      *graph.Plan
	fixed     map[string][]string // see workflow.Loaded
	variables variables
	given     triggerInput
	previous  runSummary // the run after its last event

	scopes      map[place]*scope
	queue       []*scope         // scopes to step
	blocked     []*scope         // scopes that cannot be stepped before the need is answered
	bound       map[place]*stage // stages whose input is bound and that cannot start before the need is answered
	unfilled    []*loop          // loops that cannot be filled before the need is answered
	need        need
	fresh       []*scope                    // iterations that start in this fold
	states      map[place]graph.State       // set by this fold
	loops       map[place]*loop             // unfinished loops
	values      map[place]outputValue       // outputs that were read or computed
	below       map[place][]iterationOutput // see need.below
	failedBelow map[place][][]int32         // see need.failed
	items       map[uuid.UUID]cachedItems   // of loops
	failures    map[place]stageFailure      // of stages that failed since the last fold

	before        []api.NonTerminalStage   // stages that were not final before this fold
	live          []api.NonTerminalStage   // stages that are not final after this fold
	finished      map[uuid.UUID]bool       // stages that became final since the last fold
	made          []*stage                 // new stages
	bytes         int64                    // of inputs and outputs of new stages
	itemsDone     int                      // iterations that finished in this fold
	until         time.Time                // when the fold stops starting stages
	accepts       []*stage                 // new stages that are executions
	finishedLoops []*loop                  // loops of earlier folds that have finished
	ends          []end                    // stages of earlier folds that end, except loops
	waiting       []waiting                // unfinished stages: all if scanned, otherwise those whose executions are known to have finished
	signals       map[string]outputValue   // outputs of stages whose signals have arrived, by name
	unfinished    []waiting                // stages that are still unfinished; set if scanned
	children      []db.RunInsertParams     // child runs that this fold starts
	canceled      bool                     // an ancestor is ending, so this fold cancels the run
	orphans       []uuid.UUID              // child runs to cancel, because the run is ending or their stage timed out
	above         *db.RunGetAncestorsRow   // the ancestors; nil: not read yet
	childRuns     int64                    // unfinished child runs of the workspace; read together with above
	limited       []db.RunLockAncestorsRow // the ancestors that have a maxCredits; nil: not read yet
	own           storage.Usage            // stages and bytes of this run when it was locked
	others        storage.Usage            // the same for the other runs in its tree
	reuse         *Reuse                   // stages reused from the earlier run; nil: not read yet
	reusedUsage   storage.Usage            // size of the reused stages, which are free
	secretOutput  bool                     // the output of the run was set by this fold, and is secret
	events        int64                    // bytes of events that this fold wrote
	toReserve     []credit.Amount          // credits of computed stages that the account must reserve, unless the run has reserved them
	executeAll    bool                     // compute no stage
	slow          int                      // calls that exceeded their time
	failedBefore  int                      // folds of the run that have failed since the last one that succeeded
	charged       bool                     // a fee was reserved, so the account is locked
	counted       bool                     // the totals of the tree include this fold
	spent         credit.Amount            // credits that this fold commits to new stages
	scanned       bool                     // all live stages were checked
	cleared       bool                     // the run is ending, and its waiting stages were canceled
	changed       bool
	over          bool       // the root scope has finished
	first         bool       // the run is being accepted
	copied        bool       // stages of an earlier run were copied
	halted        bool       // the run starts ending in this fold
	dropped       bool       // a new stage was dropped, because it was not admitted
	more          bool       // another fold must follow immediately
	deadline      *time.Time // the earliest timeout of a stage; set if scanned
	wake          time.Time
}

// foldRun folds a run, publishes the result, and reports whether another fold must follow
// immediately. It counts failures and gives up the run if the failures persist.
func (e *Engine) foldRun(ctx context.Context, key notify.Key, w wakeup) (more bool, err error) {
	f, err := e.fold(ctx, key, w)
	for errors.Is(err, errTreeGrew) || billing.Uncovered(err) { // then each stage is admitted on its own
		w.executeAll = w.executeAll || billing.Uncovered(err)
		f, err = e.fold(ctx, key, w)
	}
	if err != nil && w.end != nil {
		return false, err // the completion is committed separately and the run is folded after it
	}
	if err != nil {
		return false, e.handleFailure(ctx, key, err)
	}
	e.failures.clear(key)
	if f == nil {
		return false, nil
	}
	e.afterCommit(ctx, f)
	return f.more, nil
}

// fold makes one fold in a transaction. It returns nil if the run is final or unknown.
func (e *Engine) fold(ctx context.Context, key notify.Key, w wakeup) (f *fold, err error) {
	if e.Quarantined != nil && e.Quarantined() != nil {
		return nil, w.separately()
	}
	ctx, cancel := context.WithTimeoutCause(ctx, foldTimeout, errFoldTimeout)
	defer cancel()
	defer RecoverPanic(&err)
	tried := false
	err = (billing.Books{}).InPeriod(ctx, e.System, func() error {
		return e.Executions.Accepting(ctx, func(how *execution.Acceptance) error {
			if f = nil; tried && w.end != nil {
				return execution.ErrApart
			}
			tried = true
			var first postgres.Batch
			locked := queueLock(&first, key, w)
			err := postgres.InTx(ctx, e.System, &first, func(tx *postgres.Tx) (err error) {
				f, err = e.foldTx(ctx, tx, locked, w, how)
				return err
			})
			err = billing.PeriodError(err, key.WorkspaceID)
			switch { // the completion does not wait for a second fold
			case postgres.Raised(err, "WF003"):
				err = cmp.Or(w.separately(), errTreeGrew)
			case billing.Uncovered(err):
				err = cmp.Or(w.separately(), err)
			}
			if err != nil && w.end != nil && ctx.Err() != nil {
				err = fmt.Errorf("%w: %v", execution.ErrApart, err) // %v hides the cause: the database is not unavailable
			}
			return err
		})
	})
	if err != nil && f != nil && errors.Is(context.Cause(ctx), errFoldTimeout) {
		err = fmt.Errorf("%w: %v", errFoldTimeout, err) // %v hides the cause: the database is not unavailable
	}
	return f, err
}

// foldTx makes one fold in tx. It returns nil without an error if the run is final or unknown, and
// nil with an error if the run could not be loaded.
func (e *Engine) foldTx(ctx context.Context, tx *postgres.Tx, locked locked, w wakeup, how *execution.Acceptance) (*fold, error) {
	run, err := locked.run.One()
	if postgres.NotFound(err) {
		return nil, w.separately()
	}
	if err != nil {
		return nil, err
	}
	if run.Status.Terminal() {
		return nil, w.separately()
	}
	version, err := e.Workflows.LoadVersion(ctx, tx, run.WorkspaceID, run.WorkflowID, run.WorkflowVersion)
	if err != nil {
		return nil, err
	}
	f := e.newFold(ctx, tx, run, version)
	f.executeAll, f.failedBefore = w.executeAll, e.failures.tries(notify.Key{WorkspaceID: run.WorkspaceID, ID: run.ID})
	if err := f.load(w, locked.stages()); err != nil {
		return f, err
	}
	if err := f.derive(w); err != nil {
		return f, err
	}
	if err := f.chargeFee(); err != nil {
		return f, err
	}
	if len(f.accepts) > 0 {
		// The new stages use the capacity and the credits that the finished execution releases.
		if err := f.countInTree(); err != nil {
			return f, err
		}
		if err := w.settleTx(ctx, tx, how, true); err != nil {
			return f, err
		}
		if err := f.accept(how.AcceptTx); err != nil {
			return f, err
		}
	}
	if f.changed {
		failpoint.Reached(failpoint.BetweenStages)
		err = f.write()
	} else {
		f.writeUnchanged()
	}
	if err != nil || len(f.accepts) > 0 {
		return f, err
	}
	return f, w.settleTx(ctx, tx, how, false) // settleTx locks the account, so it comes after the locks of other runs
}

// newFold returns an empty fold of a locked run.
func (e *Engine) newFold(ctx context.Context, tx *postgres.Tx, run db.RunLockRow, version workflow.Loaded) *fold {
	return &fold{
		engine: e, ctx: ctx, tx: tx, run: run, variables: e.openVariables(run), given: e.openInput(ctx, run), stamp: later(run.Now, run.UpdatedAt), locked: time.Now(), plan: version.Plan, fixed: version.Fixed, previous: e.summaries.get(run.ID, run.EventSeq),
		scopes: map[place]*scope{}, states: map[place]graph.State{}, loops: map[place]*loop{},
		values: map[place]outputValue{}, below: map[place][]iterationOutput{}, failedBelow: map[place][][]int32{}, items: map[uuid.UUID]cachedItems{}, bound: map[place]*stage{}, signals: map[string]outputValue{}, failures: map[place]stageFailure{}, finished: map[uuid.UUID]bool{},
		own: made(run), others: madeByOthers(run),
	}
}

// derive applies what has finished, computes everything that follows, and reads what else the
// writes need.
func (f *fold) derive(w wakeup) error {
	if err := f.applyFinished(); err != nil {
		return err
	}
	f.until = time.Now().Add(maxFoldTime)
	if f.first {
		f.until = time.Now().Add(maxFirstTime)
	}
	if w.end != nil {
		f.until = time.Now().Add(maxJoinedTime)
	}
	if err := f.advance(); err != nil {
		return err
	}
	f.notBefore(f.run.Now.Add(time.Since(f.locked))) // computing took time
	if err := f.insertChildren(); err != nil {
		return err
	}
	return f.readRemaining()
}

// sortedPlaces returns places as parameters of a statement, sorted so that concurrent statements
// lock rows in the same order.
func sortedPlaces(places []place) (components, iterations []string) {
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.component, b.component), cmp.Compare(a.iteration, b.iteration))
	})
	for _, p := range places {
		components, iterations = append(components, p.component), append(iterations, p.iteration)
	}
	return components, iterations
}
