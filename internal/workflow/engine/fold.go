package engine

import (
	"cmp"
	"context"
	"encoding/json"
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
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/workflow"
)

// stagesAtOnce and bytesAtOnce are about how many stages one fold makes, and how much these
// carry, and advancesFor is for how long it does so, once it has made one: what there is more
// is for the next one. Others wait for the lock of the run and for its slot.
const (
	stagesAtOnce = 500
	bytesAtOnce  = 16 << 20
	advancesFor  = 2 * time.Second
	// beginsAtOnce and beginsFor are that of the first fold, for which a request waits:
	// components in iterations, which are gone through to where they can be left, and time.
	beginsAtOnce = 50
	beginsFor    = 250 * time.Millisecond
	// endsFor is that of a fold which an end is written with, and waits for.
	endsFor = time.Second
)

// cancelAgain is how long a run that is to end waits before it asks again for the end of
// what still runs.
const cancelAgain = 2 * time.Second

// fold is one fold of a run: what was read under its lock, and what follows from it,
// which is written at the end.
type fold struct {
	engine    *Engine
	ctx       context.Context
	tx        *postgres.Tx
	run       db.RunLockRow // its Now is the clock, by which timers and deadlines are due
	stamp     time.Time     // written as the time of what the fold changes: never before what it takes over
	plan      *graph.Plan
	fixed     map[string][]string // as workflow.Loaded has it
	variables variables
	stood     stand // how the run stood at its last event

	scopes   map[place]*scope
	queue    []*scope              // to be looked at
	fresh    []*scope              // iterations that are to begin
	states   map[place]graph.State // as this fold has made them
	loops    map[place]*loop       // under way
	values   map[place]given       // outputs that were read or made
	failures map[place]failed      // why stages failed, of those that became final here

	before   []api.NonTerminalStage   // live before this fold
	live     []api.NonTerminalStage   // after it
	gone     map[uuid.UUID]bool       // stages that have become final
	made     []*stage                 // new stages
	bytes    int64                    // that they carry
	items    int                      // of loops that came to their end
	until    time.Time                // when it has made them for long enough
	binding  binding                  // of the component that was bound last
	accepts  []*stage                 // of them those with an execution
	ended    []*loop                  // loops of earlier folds that are over
	cut      []uuid.UUID              // stages of earlier folds that are canceled
	children []uuid.UUID              // runs that this fold begins
	orphans  []uuid.UUID              // child runs that are to end with this one, or with a stage that is late
	above    *db.RunGetAncestorsRow   // the runs above; nil: not read yet
	below    int64                    // unfinished child runs of the workspace, read with above
	payers   []db.RunLockAncestorsRow // runs above with a maxCredits; nil: not read yet
	own      storage.Usage            // what this run had made when it was locked
	others   storage.Usage            // and the other runs of its tree
	reuse    *Reuse                   // what is taken over from an earlier run; nil: not read yet
	taken    storage.Usage            // stages taken over from an earlier run, which are free
	events   int64                    // bytes of events that this fold wrote
	charged  bool                     // a fee was reserved, so the account is locked
	counted  bool                     // the tree contains what this fold made
	spent    credit.Amount            // what this fold commits
	looked   bool                     // all that is live was looked at
	cleared  bool                     // and what an end must not wait for was cut off
	changed  bool
	over     bool       // the root scope is
	first    bool       // the run is being accepted
	copied   bool       // stages were taken over from an earlier run
	halted   bool       // the run begins to be ended by this fold
	dropped  bool       // a stage was not made after all
	more     bool       // there is more to do at once
	timer    *time.Time // the earliest, where all was looked at
	deadline *time.Time // the earliest of a stage that has one, where all was looked at
	wake     time.Time
}

// place is a component in an iteration, or an iteration of a loop, whose index comes
// last.
type place struct {
	component string
	iteration string // as PostgreSQL writes an array
}

// scope is the root, or one iteration of a loop.
type scope struct {
	place     // of the loop; of the root: nothing
	iteration []int32
	states    map[string]graph.State // nil: not read yet
	queued    bool
	over      bool
}

func at(component string, iteration []int32) place {
	return place{component, written(iteration)}
}

// written is an array as PostgreSQL writes it.
func written(iteration []int32) string {
	text := []byte{'{'}
	for i, index := range iteration {
		if i > 0 {
			text = append(text, ',')
		}
		text = fmt.Appendf(text, "%d", index)
	}
	return string(append(text, '}'))
}

// taken is a stage that has become final since the last fold.
type taken db.StageFinishExecutedRow

// bringOn folds a run, and tells whether there is more to do at once.
func (e *Engine) bringOn(ctx context.Context, key notify.Key, n news) (more bool, err error) {
	f, err := e.fold(ctx, key, n)
	for errors.Is(err, errTreeGrew) {
		f, err = e.fold(ctx, key, n)
	}
	if err != nil && n.end != nil {
		return false, err // it comes again without
	}
	if err != nil {
		return false, e.troubled(ctx, key, err)
	}
	e.troubles.over(key)
	if f == nil {
		return false, nil
	}
	e.afterwards(ctx, f)
	return f.more, nil
}

// fold folds a run once. There is no fold of one that is final or unknown.
func (e *Engine) fold(ctx context.Context, key notify.Key, n news) (f *fold, err error) {
	if e.Quarantined != nil && e.Quarantined() != nil {
		return nil, n.apart()
	}
	ctx, cancel := context.WithTimeoutCause(ctx, foldTimeout, errOverran)
	defer cancel()
	defer Contained(&err)
	tried := false
	err = (billing.Books{}).InPeriod(ctx, e.System, func() error {
		return e.Executions.Accepting(ctx, key.WorkspaceID, func(how *execution.Acceptance) error {
			if f = nil; tried && n.end != nil {
				return execution.ErrApart
			}
			tried = true
			err := postgres.InTx(ctx, e.System, func(tx *postgres.Tx) (err error) {
				f, err = e.foldTx(ctx, tx, key, n, how)
				return err
			})
			if postgres.Raised(err, "WF003") {
				err = cmp.Or(n.apart(), errTreeGrew)
			}
			if err != nil && n.end != nil && ctx.Err() != nil {
				err = fmt.Errorf("%w: %v", execution.ErrApart, err) // which the database is not to blame for
			}
			return err
		})
	})
	if err != nil && f != nil && errors.Is(context.Cause(ctx), errOverran) {
		err = fmt.Errorf("%w: %v", errOverran, err) // which the database is not to blame for
	}
	return f, err
}

// foldTx is nil without an error where there is nothing to fold, and with one where the run was
// not even locked.
func (e *Engine) foldTx(ctx context.Context, tx *postgres.Tx, key notify.Key, n news, how *execution.Acceptance) (*fold, error) {
	run, ended, err := lockRun(ctx, tx, key, n)
	if postgres.NotFound(err) {
		return nil, n.apart()
	}
	if err != nil {
		return nil, err
	}
	if run.Status.Terminal() {
		return nil, n.apart()
	}
	version, err := e.Workflows.LoadVersion(ctx, tx, key.WorkspaceID, run.WorkflowID, run.WorkflowVersion)
	if err != nil {
		return nil, err
	}
	f := e.newFold(ctx, tx, run, version)
	if err := f.follow(n, ended); err != nil {
		return f, err
	}
	if err := f.chargeFee(); err != nil {
		return f, err
	}
	if len(f.accepts) > 0 {
		// What is accepted has the place and the credits of what ends.
		if err := f.countInTree(); err != nil {
			return f, err
		}
		if err := n.settleTx(ctx, tx, how); err != nil {
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
		err = f.rest()
	}
	if err != nil || len(f.accepts) > 0 {
		return f, err
	}
	return f, n.settleTx(ctx, tx, how) // after what locks other runs
}

func (e *Engine) newFold(ctx context.Context, tx *postgres.Tx, run db.RunLockRow, version workflow.Loaded) *fold {
	return &fold{
		engine: e, ctx: ctx, tx: tx, run: run, stamp: later(run.Now, run.UpdatedAt), plan: version.Plan, fixed: version.Fixed, stood: e.memory.get(run.ID, run.EventSeq),
		scopes: map[place]*scope{}, states: map[place]graph.State{}, loops: map[place]*loop{},
		values: map[place]given{}, failures: map[place]failed{}, gone: map[uuid.UUID]bool{},
		own: made(run), others: madeByOthers(run),
	}
}

// follow finds all that follows from what has finished, and reads what else the end of the
// fold needs.
func (f *fold) follow(n news, ended []db.StageFinishExecutedRow) error {
	if err := f.takeOver(n, ended); err != nil {
		return err
	}
	f.until = time.Now().Add(advancesFor)
	if f.first {
		f.until = time.Now().Add(beginsFor)
	}
	if n.end != nil {
		f.until = time.Now().Add(endsFor)
	}
	if err := f.advance(); err != nil {
		return err
	}
	return f.recall()
}

// tellOfCancel has the log tell that the end was asked for, once.
func (f *fold) tellOfCancel() error {
	if f.run.CancelRequestedAt == nil || f.changed {
		return nil
	}
	rows, err := db.New().RunEventList(f.ctx, f.tx, db.RunEventListParams{
		WorkspaceID: f.run.WorkspaceID, RunID: f.run.ID, After: f.run.EventSeq - 1, MaxRows: 1,
	})
	if err != nil {
		return fmt.Errorf("read the last event: %w", err)
	}
	var told api.RunEventOutput
	if len(rows) == 0 || json.Unmarshal(rows[0].Output, &told) != nil || told.CancelRequestedAt == nil {
		f.changed, f.halted = true, true
	}
	return nil
}

// lookAtLive finds the loops that go on, what nothing may wait for any more, and what the
// last fold left half begun.
func (f *fold) lookAtLive() error {
	f.cleared = f.ending()
	rows, err := db.New().StageListLive(f.ctx, f.tx, db.StageListLiveParams{WorkspaceID: f.run.WorkspaceID, RunID: f.run.ID, MaxRows: MaxStages})
	if err != nil {
		return fmt.Errorf("list live stages: %w", err)
	}
	var loops []place
	for _, row := range rows {
		if row.ItemCount != nil {
			loops = append(loops, at(row.ComponentID, row.Iteration))
		}
	}
	if err := f.readLoops(loops); err != nil {
		return err
	}
	left := f.leftOver()
	for _, row := range rows {
		sc := f.scopeOf(row.ComponentID, row.Iteration)
		late := f.late(row.ComponentID, row.StartedAt)
		switch {
		case row.ChildRunID != nil && (f.ending() || late || f.lateAround(sc)):
			f.orphans = append(f.orphans, *row.ChildRunID)
		case row.ItemCount == nil && row.ExecutionID == nil && row.ChildRunID == nil && f.stopped(sc):
			f.cutOff(row.ID, row.ComponentID, row.Iteration)
		case left:
			f.touch(sc)
		}
	}
	for _, p := range loops {
		if l := f.loops[p]; l != nil {
			if err := f.fill(l); err != nil {
				return err
			}
		}
	}
	return nil
}

// leftOver reports whether the fold before had more to do at once: it then wrote that the
// run is to be woken at the time of the fold itself. Whoever wakes a run never makes that
// later.
func (f *fold) leftOver() bool { return f.run.WakeAt != nil && !f.run.WakeAt.After(f.run.UpdatedAt) }

// cutOff cancels a stage that waits for nothing but a timer or a signal.
func (f *fold) cutOff(id uuid.UUID, componentID string, iteration []int32) {
	f.cut = append(f.cut, id)
	f.take(taken{ID: id, ComponentID: componentID, Iteration: iteration, Status: status.StageCanceled})
}

// ending reports whether nothing may begin any more, whatever is ready.
func (f *fold) ending() bool { return len(f.run.Error) > 0 || f.run.CancelRequestedAt != nil }

// sortedPlaces is for statements: the same order always, so that nobody waits in a circle.
func sortedPlaces(places []place) (components, iterations []string) {
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.component, b.component), cmp.Compare(a.iteration, b.iteration))
	})
	for _, p := range places {
		components, iterations = append(components, p.component), append(iterations, p.iteration)
	}
	return components, iterations
}
