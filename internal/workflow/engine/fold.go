package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
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
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/workflow"
)

// Limits of one fold. The next fold does the rest, so that other transactions can lock the run and
// other runs can use the slot. The limits are checked between stages, so a fold may exceed them
// slightly.
const (
	maxFoldStages = 500
	maxFoldBytes  = 4 << 20 // in memory a fold needs several times as much, and several folds run at once
	maxFoldTime   = 2 * time.Second
	maxChildren   = 16 // child runs that start
	maxHalved     = 6  // how often both are halved after failed folds
	// The first fold has lower limits, because a request waits for it. maxFirstSteps limits the
	// components in the iterations that the first fold starts.
	maxFirstSteps = 50
	maxFirstTime  = 250 * time.Millisecond
	// maxJoinedTime limits a fold that is committed together with the completion of an execution.
	maxJoinedTime = time.Second
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

// place identifies a component in an iteration, or an iteration of a loop. In the second case, the
// index in that loop comes last.
type place struct {
	component string
	iteration string // in PostgreSQL's array syntax
}

// scope is a set of components that run once: the components in no loop, or the components of a
// loop in one iteration.
type scope struct {
	place     // of the loop; zero for the root
	iteration []int32
	states    map[string]graph.State // nil: not read yet
	queued    bool
	over      bool
}

// indexes returns the iteration of a place.
func (p place) indexes() []int32 {
	indexes := []int32{} // never nil, which is NULL to PostgreSQL
	for _, text := range strings.Split(strings.Trim(p.iteration, "{}"), ",") {
		if index, err := strconv.ParseInt(text, 10, 32); err == nil {
			indexes = append(indexes, int32(index))
		}
	}
	return indexes
}

func placeOf(component string, iteration []int32) place {
	return place{component, pgArray(iteration)}
}

// pgArray returns an iteration in PostgreSQL's array syntax.
func pgArray(iteration []int32) string {
	text := []byte{'{'}
	for i, index := range iteration {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendInt(text, int64(index), 10)
	}
	return string(append(text, '}'))
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

// scanUnfinished checks all stages that are still unfinished. It continues loops, resumes what the last
// fold left unfinished, and cancels the waiting stages and child runs of a run that is ending.
func (f *fold) scanUnfinished() error {
	f.cleared = f.ending()
	f.unfinished = slices.DeleteFunc(f.waiting, func(w waiting) bool { return f.finished[w.ID] })
	var loops []*loop
	for _, w := range f.unfinished {
		if w.ItemCount == nil {
			continue
		}
		l := &loop{id: w.ID, componentID: w.ComponentID, iteration: w.Iteration, count: *w.ItemCount, next: w.NextItem, live: w.LiveItems, failed: w.FailedItems}
		if err := f.addLoop(l, w.StartedAt); err != nil {
			return err
		}
		loops = append(loops, l)
	}
	left := f.leftOver()
	for _, w := range f.unfinished {
		sc := f.scopeOf(w.ComponentID, w.Iteration)
		late := f.late(w.ComponentID, w.StartedAt)
		switch {
		case w.ChildRunID != nil && (f.ending() || late || f.lateAround(sc)):
			f.orphans = append(f.orphans, *w.ChildRunID)
		case w.ItemCount == nil && w.ExecutionID == nil && w.ChildRunID == nil && f.stopped(sc):
			f.finish(end{id: w.ID, componentID: w.ComponentID, iteration: w.Iteration, status: status.StageCanceled})
		case left:
			f.enqueue(sc)
		}
	}
	for _, l := range loops {
		f.fill(l)
	}
	return nil
}

// leftOver reports whether the previous fold left work. Such a fold sets the run's wake time to
// its own time, which nothing postpones.
func (f *fold) leftOver() bool { return f.run.WakeAt != nil && !f.run.WakeAt.After(f.run.UpdatedAt) }

// ending reports whether no more stages may start, because the run has failed or is being canceled.
func (f *fold) ending() bool { return len(f.run.Error) > 0 || f.run.CancelRequestedAt != nil }

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
