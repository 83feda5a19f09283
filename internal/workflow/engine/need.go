package engine

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/status"
)

// Need lists the facts that an advance lacks. They are read in one round trip.
type Need struct {
	States   map[Place]bool // states of the components of scopes: of the root, or of an iteration of a loop
	Loops    map[Place]bool // unfinished loops
	Outputs  map[Place]bool // outputs of components
	Below    map[Place]bool // outputs of a component in all iterations that start with the place's iteration
	Failed   map[Place]bool // iterations in which a component failed, of those that start with the place's iteration
	Failures map[Place]bool // errors of a component in all iterations that start with the place's iteration
	Items    map[Loop]bool  // items of loops
	First    map[Loop]bool  // first failed items of loops

	Children []*Stage      // what the child runs of these stages need
	Above    bool          // the runs above this one
	Limits   bool          // the runs above this one that have a maxCredits; locks them
	Calls    []*Stage      // results of the modules of these stages
	Refusal  credit.Amount // price of a stage that the account does not cover, if positive: the error to fail the run with
	Bytes    int64         // of the results of calls, after which the next advance does the rest
}

// Loop identifies a loop.
type Loop struct {
	ID uuid.UUID
	Place
}

// add adds a key to a set.
func add[K comparable](set *map[K]bool, key K) {
	if *set == nil {
		*set = map[K]bool{}
	}
	(*set)[key] = true
}

func (n Need) empty() bool {
	return len(n.States)+len(n.Loops)+len(n.Outputs)+len(n.Below)+len(n.Failed)+len(n.Failures)+len(n.Items)+len(n.First)+len(n.Children)+len(n.Calls) == 0 &&
		n.Refusal == 0 && !n.Above && !n.Limits
}

// knows reports whether the states of a scope and the loops around it are known. If not, they are
// added to the need.
func (a *Advance) knows(sc *scope) bool {
	if a.inMemory(sc); sc.states == nil {
		add(&a.need.States, sc.Place)
	}
	known := sc.states != nil
	for _, p := range a.loopsAround(sc) {
		if _, read := a.loops[p]; !read {
			add(&a.need.Loops, p)
			known = false
		}
	}
	return known
}

// inMemory sets the states of a scope if they are known without reading them.
func (a *Advance) inMemory(sc *scope) {
	switch {
	case sc.states != nil:
	case sc.Component == "" && a.Root != nil:
		a.setStates(sc, a.Root)
	case a.unstored() || len(a.Plan.Members(sc.Component)) == 0:
		a.setStates(sc, nil)
	}
}

// setStates sets the states of the components of a scope: those that were stored before this advance,
// and those of this advance.
func (a *Advance) setStates(sc *scope, stored map[string]graph.State) {
	sc.states = map[string]graph.State{}
	for _, id := range a.Plan.Members(sc.Component) {
		if state, ok := stored[id]; ok {
			sc.states[id] = state
		}
		if state, ok := a.states[PlaceOf(id, sc.iteration)]; ok {
			sc.states[id] = state
		}
	}
}

// knowsSources reports whether the values that the connections and references of a component carry are
// known. If not, they are added to the need.
func (a *Advance) knowsSources(sc *scope, componentID string) bool {
	known := true
	if _, module := a.Plan.Component(componentID); module.Continues { // its state may stay the same
		known = a.knowsItem(sc, a.loopOf(sc))
	}
	for _, source := range slices.Concat(a.Plan.Sources(componentID), a.Plan.References(componentID)) {
		shared := sc.iteration[:min(source.Depth, len(sc.iteration))]
		switch {
		case source.Failure:
			known = a.knowsFailures(source, shared) && known
		case source.Item:
			known = a.knowsItem(sc, a.loops[PlaceOf(source.From, shared)]) && known
		case source.Collected > 0:
			known = a.knowsCollected(source, shared) && known
		default:
			known = a.knowsOutput(PlaceOf(source.From, shared)) && known
		}
	}
	return known
}

func (a *Advance) knowsOutput(p Place) bool {
	_, known := a.values[p]
	if !known {
		add(&a.need.Outputs, p)
	}
	return known
}

// knowsItem reports whether what a loop outputs in its iteration around a scope is known.
func (a *Advance) knowsItem(sc *scope, l *loop) bool {
	switch {
	case l == nil:
		return true
	case l.repeats:
		return a.knowsState(l, sc.iteration[len(l.Iteration)])
	}
	return a.knowsItems(l)
}

func (a *Advance) knowsItems(l *loop) bool {
	_, known := a.lists[l.ID]
	if !known {
		add(&a.need.Items, l.key())
	}
	return known
}

// knowsCollected reports whether everything that collected reads is known.
func (a *Advance) knowsCollected(source graph.Source, shared []int32) bool {
	known := a.knowsBelow(source.From, shared)
	loop := a.Plan.Loop(source.From)
	for range source.Collected {
		known = a.knowsBelow(loop, shared) && known
		loop = a.Plan.Loop(loop)
	}
	if !known {
		return false
	}
	_, failing := a.itemCounts(source, shared)
	for _, id := range failing {
		if _, read := a.failedBelow[PlaceOf(id, shared)]; !read && !a.unstored() {
			add(&a.need.Failed, PlaceOf(id, shared))
			known = false
		}
	}
	return known
}

// knowsBelow reports whether the outputs of a component in all iterations that start with prefix are
// known.
func (a *Advance) knowsBelow(componentID string, prefix []int32) bool {
	p, known := PlaceOf(componentID, prefix), true
	if _, read := a.below[p]; !read && !a.unstored() {
		add(&a.need.Below, p)
		known = false
	}
	for _, e := range a.finals {
		if e.Status == status.StageCompleted && e.ComponentID == componentID && isBelow(e.Iteration, prefix) {
			known = a.knowsOutput(PlaceOf(e.ComponentID, e.Iteration)) && known
		}
	}
	return known
}

// knowsLimits reports whether the maxCredits that apply to the run are known. If not, they are added to
// the need.
func (a *Advance) knowsLimits() bool {
	if a.Run.MaxCredits == nil || a.Run.ParentRunID == nil || a.limits != nil {
		return true
	}
	a.need.Limits = true
	return false
}

// knowsAnswers reports whether everything is known that the start of a bound stage depends on. If not,
// it is added to the need.
func (a *Advance) knowsAnswers(t *Stage) bool {
	switch _, control := controls[t.Component.Module]; {
	case t.Component.Module == component.RunWorkflow:
		return a.knowsChild(t)
	case control || t.refusal != nil:
		return true
	default:
		return a.knowsResult(t)
	}
}

// knowsChild reports whether everything that starting a child run depends on is known.
func (a *Advance) knowsChild(t *Stage) bool {
	if t.starts != nil || t.refusal != nil {
		return true
	}
	a.need.Children = append(a.need.Children, t)
	a.need.Above = a.need.Above || a.Run.ParentRunID != nil && a.above == nil
	return false
}

// knowsResult reports whether the result of a stage is known, or the stage needs an execution, or must
// not start.
func (a *Advance) knowsResult(t *Stage) bool {
	entry, _ := a.modules.Lookup(t.Component.Module)
	if entry.Price > 0 && !a.knowsLimits() {
		return false
	}
	if a.exceeded(entry.Price) != nil {
		return true
	}
	if more := a.uncovered(entry.Price); more > 0 {
		if a.refusal == nil {
			a.need.Refusal = more
		}
		return a.refusal != nil
	}
	if t.result != nil {
		return true
	}
	asked := credit.Amount(0)
	for _, other := range a.need.Calls {
		asked += other.price
	}
	if asked > 0 && a.exceeded(asked+entry.Price) != nil {
		return false // the other stages come first
	}
	if !a.canCompute(t, entry) || a.Run.Committed+asked+entry.Price > a.Run.Reserved && !a.Run.Solvent {
		return true
	}
	t.price = entry.Price
	a.need.Calls, a.need.Bytes = append(a.need.Calls, t), maxAdvanceBytes>>min(a.Halved, maxHalved)-a.bytes
	return false
}

// uncovered returns what the account would have to reserve for a stage of that price, if it is known not
// to cover it, and 0 otherwise.
func (a *Advance) uncovered(price credit.Amount) credit.Amount {
	if !a.Budget.Exact || a.Budget.Left > 0 {
		return 0
	}
	return max(0, a.Run.Committed+price-a.Run.Reserved)
}

// unstored reports whether no stage of the run was stored before this advance.
func (a *Advance) unstored() bool { return a.Run.Status == status.RunCreated && !a.Stored }

// isBelow reports whether an iteration starts with prefix.
func isBelow(iteration, prefix []int32) bool {
	return len(iteration) >= len(prefix) && slices.Equal(iteration[:len(prefix)], prefix)
}

// Facts answer a need. What is missing from a map does not exist.
type Facts struct {
	States   map[Place]map[string]graph.State // by scope, then component
	Loops    []StoredLoop
	Outputs  map[Place]Value
	Below    map[Place][]IterationValue
	Failed   map[Place][][]int32
	Failures map[Place][]FailedStage
	Items    map[uuid.UUID]Items
	First    map[uuid.UUID][]FailedStage
	Above    *Above
	Limits   []Limit
	Children map[uuid.UUID]Child  // by stage
	Results  map[uuid.UUID]Result // by stage; missing: not called, because the advance is full
	Refusal  error                // why the account does not cover a stage of the price Need.Refusal
	Stop     bool                 // the time is up
}

// StoredLoop is the stage of an unfinished loop.
type StoredLoop struct {
	ID          uuid.UUID
	ComponentID string
	Iteration   []int32
	ItemCount   int32
	NextItem    int32 // index of the first item that has not started
	LiveItems   int32
	FailedItems int32
	StartedAt   time.Time
}

// Items are the items of a loop.
type Items struct {
	List   []json.RawMessage
	Secret bool
}

// FailedStage is a stage that failed in an iteration of a loop.
type FailedStage struct {
	ID          uuid.UUID
	ComponentID string
	Iteration   []int32
	Error       []byte
}

// Above describes the runs above a child run.
type Above struct {
	Depth     int // number of runs
	Ending    bool
	Immediate bool
	Children  int // unfinished child runs of the workspace
}

// Limit is a run above this one that has a maxCredits.
type Limit struct {
	ID         uuid.UUID
	Committed  credit.Amount
	Below      credit.Amount
	MaxCredits *credit.Amount
}

// Child is the run that a RUN_WORKFLOW starts.
type Child struct {
	ID      uuid.UUID
	Refusal error // why it cannot start, apart from the limits of the tree; nil: it can
}

// Result is the result of a module that was called for a stage.
type Result struct {
	component.Result
	Err     error
	InTime  bool // false: the call took too long, so there is no result
	Elapsed time.Duration
}

// learn adds the answers to the last need to the known facts.
func (a *Advance) learn(facts Facts) error {
	a.stop = a.stop || facts.Stop
	for p := range a.need.States {
		a.setStates(a.scopes[p], facts.States[p])
	}
	for p := range a.need.Loops {
		a.loops[p] = nil
	}
	for _, row := range facts.Loops {
		if _, err := a.addLoop(row); err != nil {
			return err
		}
	}
	for p := range a.need.Outputs {
		a.values[p] = facts.Outputs[p]
	}
	for p := range a.need.Below {
		a.below[p] = facts.Below[p]
	}
	for p := range a.need.Failed {
		a.failedBelow[p] = facts.Failed[p]
	}
	for p := range a.need.Failures {
		a.failures[p] = facts.Failures[p]
	}
	for key := range a.need.Items {
		a.lists[key.ID] = facts.Items[key.ID]
	}
	for key := range a.need.First {
		a.loops[key.Place].firstFailed = append([]FailedStage{}, facts.First[key.ID]...) // never nil
	}
	if a.need.Refusal > 0 {
		a.refusal = facts.Refusal
	}
	if a.need.Above {
		a.above = facts.Above
	}
	if a.need.Limits {
		a.limits = append([]Limit{}, facts.Limits...) // never nil
	}
	for _, t := range a.need.Children {
		if child, known := facts.Children[t.ID]; known {
			t.starts = &child
		}
	}
	for _, t := range a.need.Calls {
		if result, known := facts.Results[t.ID]; known {
			t.result = &result
			if !result.InTime {
				a.slow++
			}
		}
	}
	return nil
}
