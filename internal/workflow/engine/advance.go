package engine

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/kit/credit"
)

// Limits of one advance. The next advance does the rest, so that other transactions can lock the run and
// other runs can use the slot. The limits are checked between stages, so an advance may exceed them
// slightly.
const (
	maxAdvanceStages = 500
	maxAdvanceBytes  = 4 << 20 // in memory an advance needs several times as much, and several advances run at once
	maxChildren      = 16      // child runs that start
	maxHalved        = 6       // how often the first two are halved after failed advances
	maxTogether      = 16      // stages that start before Step returns
	// The first advance has lower limits, because a request waits for it. maxFirstSteps limits the
	// components in the iterations that the first advance starts.
	maxFirstSteps = 50
)

// Advance is one step of a run: it computes everything that follows from what has finished.
type Advance struct {
	State
	Changes
	walk
	known
	modules *component.Registry
	bytes   int64 // of inputs and outputs of new stages
	items   int   // iterations that finished in this advance
	slow    int   // calls that exceeded their time
	stop    bool  // the time is up
	over    bool  // the root scope has finished
	begun   bool
	locked  bool // the account is locked, or about to be: the run must not finish in this advance, if it has a parent
}

// Changes are the changes that an advance makes, apart from those of the run.
type Changes struct {
	At       time.Time // of the changes: never before the finish of a stage that the advance applies or computes
	Stages   []*Stage  // new
	Ends     []End     // stages of earlier advances that finish
	Spent    credit.Amount
	Reserve  []credit.Amount // credits of computed stages that the account must reserve, unless the run has reserved them
	Children []uuid.UUID     // child runs that start
	// CancelChildren are child runs to cancel, because the run is ending or their stage timed out.
	CancelChildren []uuid.UUID
	StateBytes     int64              // of the states of loops, which are stored and not part of Run.OutputBytes
	CancelSelf     bool               // an ancestor is ending, so the run is canceled
	Unfinished     []Waiting          // stages of State.Waiting that are still unfinished; set if all were read
	Finished       map[uuid.UUID]bool // stages of earlier advances that finish
	Changed        bool
	Halted         bool // the run starts ending
	More           bool // another advance must follow immediately
}

// walk is the position of an advance in the graph.
type walk struct {
	scopes   map[Place]*scope
	queue    []*scope         // scopes to step
	blocked  []*scope         // scopes that cannot be stepped before the need is answered
	fresh    []*scope         // iterations to start
	unfilled []*loop          // loops that cannot be filled before the need is answered
	bound    map[Place]*Stage // stages whose input is bound and that cannot start before the need is answered
	started  int              // stages since Step was called
	need     Need
	deadline *time.Time // the earliest timeout of a stage; set if all stages were read
	cleared  bool       // the run is ending, and its waiting stages were canceled
}

// known holds the answers to the needs of an advance, and the results of its stages.
type known struct {
	states      map[Place]graph.State    // of components, set by this advance
	loops       map[Place]*loop          // unfinished loops; nil: no such loop
	paced       map[string]time.Duration // loops of which the next item must wait, by loop.pace, and how long
	values      map[Place]Value          // outputs that were read or computed
	finals      []End                    // stages that finish in this advance, including new ones
	below       map[Place][]IterationValue
	failedBelow map[Place][][]int32
	failures    map[Place][]FailedStage
	lists       map[uuid.UUID]Items // items of loops
	above       *Above              // nil: unknown
	refusal     error               // of a stage that the account does not cover; nil: unknown
	limits      []Limit             // nil: unknown
}

// Begin returns an advance of a run. modules are the modules that the run may use.
func Begin(modules *component.Registry, state State) *Advance {
	return &Advance{
		State: state, modules: modules, Changes: Changes{At: later(state.Run.Now, state.Run.UpdatedAt), Finished: map[uuid.UUID]bool{}},
		walk: walk{scopes: map[Place]*scope{}, bound: map[Place]*Stage{}},
		known: known{
			states: map[Place]graph.State{}, loops: map[Place]*loop{}, paced: map[string]time.Duration{}, values: map[Place]Value{}, below: map[Place][]IterationValue{},
			failedBelow: map[Place][][]int32{}, failures: map[Place][]FailedStage{}, lists: map[uuid.UUID]Items{},
		},
	}
}

// Step goes as far as the facts allow. The facts answer the need that the previous call returned. It
// returns what the advance needs to know next, and reports whether the advance is done. A need may be
// empty: then Step has returned only so that the caller can look at the time.
func (a *Advance) Step(facts Facts) (need Need, done bool, err error) {
	if err := a.learn(facts); err != nil {
		return need, false, err
	}
	if !a.begun {
		a.begun = true
		a.checkDeadline()
		a.finishStages()
		if err := a.scan(); err != nil {
			return need, false, err
		}
	}
	if err := a.goOn(); err != nil {
		return need, false, err
	}
	done = a.need.empty() && len(a.queue)+len(a.blocked)+len(a.fresh) == 0
	if done && a.Fee() > 0 && !a.knowsLimits() {
		done = false
	}
	return a.need, done, nil
}

// goOn goes as far as possible with the known facts, and collects the facts that the advance lacks.
func (a *Advance) goOn() error {
	a.need, a.started = Need{}, 0
	unfilled := a.unfilled
	a.queue, a.blocked, a.unfilled = append(a.queue, a.blocked...), nil, nil
	for _, l := range unfilled {
		a.fill(l)
	}
	for len(a.queue) > 0 && a.started < maxTogether {
		round := a.queue
		a.queue = nil
		for _, sc := range round {
			if !a.knows(sc) {
				a.blocked = append(a.blocked, sc)
				continue
			}
			sc.queued = false
			if err := a.step(sc); err != nil {
				return err
			}
		}
	}
	if !a.need.empty() || len(a.queue) > 0 {
		return nil
	}
	return a.startItems()
}

// startItems starts new iterations: one after the other, so that an advance that is full, or that needs to
// know more, has started no later iteration of the loop.
func (a *Advance) startItems() error {
	items := a.nextItems()
	for _, sc := range items {
		if a.knows(sc) {
			for _, id := range a.Plan.Next(sc.Component, sc.states).Ready {
				a.knowsSources(sc, id)
			}
		}
	}
	for i, sc := range items {
		if !a.need.empty() || i > 0 && a.full() {
			a.fresh = slices.Concat(items[i:], a.fresh)
			return nil
		}
		sc.queued = false
		if err := a.step(sc); err != nil {
			return err
		}
	}
	return nil
}

// maxNewItems limits the iterations that start together. Each iteration goes as far as it can
// before others start, so that a full advance leaves few iterations unfinished.
const maxNewItems = 16

// nextItems returns the iterations to start next.
func (a *Advance) nextItems() (items []*scope) {
	if a.full() {
		a.postponeItems()
	}
	n, most := 0, maxAdvanceStages
	if a.First {
		most = maxFirstSteps
	}
	for ; n < min(len(a.fresh), maxNewItems); n++ {
		most -= len(a.Plan.Members(a.fresh[n].Component))
		if most < 0 && (n > 0 || a.First) {
			break
		}
	}
	items, a.fresh = a.fresh[:n], a.fresh[n:]
	if n == 0 { // the next iteration, if any, is too large for a first advance
		a.postponeItems()
	}
	return items
}

// full reports whether the advance has reached its limits. In a rerun, finished iterations count too,
// because an advance may pass many reused items without creating a stage. Each failed advance, such as one
// that took too long, halves the limits of the next.
func (a *Advance) full() bool {
	done, size := len(a.Stages)+len(a.need.Calls), a.bytes
	for _, t := range a.bound {
		if t.result != nil {
			done, size = done+1, size+int64(len(t.result.Output))
		}
	}
	if a.Run.Rerun {
		done += a.items
	}
	halved := min(a.Halved, maxHalved)
	return done >= maxAdvanceStages>>halved || len(a.Children)+len(a.need.Children) >= maxChildren || size >= maxAdvanceBytes>>halved || done > 0 && a.stop
}
