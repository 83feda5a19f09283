package engine

import (
	"slices"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/status"
)

// need is what a fold must know before it can go on. All of it is read in one round trip.
type need struct {
	scopes  map[*scope]bool // states of their components
	loops   map[place]bool  // unfinished loops
	outputs map[place]bool  // outputs of components
	below   map[place]bool  // outputs of a component in all iterations that start with the place's iteration
	failed  map[place]bool  // iterations in which a component failed, of those that start with the place's iteration
	items   map[*loop]bool  // items of loops
	first   map[*loop]bool  // first failed items of loops

	children []*stage // what the child runs of these stages need
	above    bool     // the runs above this one
	limits   bool     // the runs above this one that have a maxCredits; locks them
	calls    []*stage // results of the modules of these stages
}

// add adds a key to a set.
func add[K comparable](set *map[K]bool, key K) {
	if *set == nil {
		*set = map[K]bool{}
	}
	(*set)[key] = true
}

func (n need) empty() bool {
	return len(n.scopes)+len(n.loops)+len(n.outputs)+len(n.below)+len(n.failed)+len(n.items)+len(n.first)+len(n.children)+len(n.calls) == 0 &&
		!n.above && !n.limits
}

// knows reports whether the states of a scope and the loops around it are known. If not, they are
// added to the need.
func (f *fold) knows(sc *scope) bool {
	if f.inMemory(sc); sc.states == nil {
		add(&f.need.scopes, sc)
	}
	known := sc.states != nil
	for sc.component != "" {
		outer := sc.iteration[:len(sc.iteration)-1]
		p := placeOf(sc.component, outer)
		if _, read := f.loops[p]; !read {
			add(&f.need.loops, p)
			known = false
		}
		sc = f.scopeOf(sc.component, outer)
	}
	return known
}

// inMemory sets the states of a scope if they are known without reading them.
func (f *fold) inMemory(sc *scope) {
	switch {
	case sc.states != nil:
	case sc.component == "" && f.previous.root != nil:
		f.setStates(sc, f.previous.root)
	case f.unstored() || len(f.plan.Members(sc.component)) == 0:
		f.setStates(sc, nil)
	}
}

// setStates sets the states of the components of a scope: those that were stored before this fold,
// and those of this fold.
func (f *fold) setStates(sc *scope, stored map[string]graph.State) {
	sc.states = map[string]graph.State{}
	for _, id := range f.plan.Members(sc.component) {
		if state, ok := stored[id]; ok {
			sc.states[id] = state
		}
		if state, ok := f.states[placeOf(id, sc.iteration)]; ok {
			sc.states[id] = state
		}
	}
}

// knowsSources reports whether the values that the connections into a component carry are known. If
// not, they are added to the need.
func (f *fold) knowsSources(sc *scope, componentID string) bool {
	known := true
	for _, source := range f.plan.Sources(componentID) {
		shared := sc.iteration[:min(source.Depth, len(sc.iteration))]
		switch {
		case source.Item:
			known = f.knowsItems(f.loops[placeOf(source.From, shared)]) && known
		case source.Collected > 0:
			known = f.knowsCollected(source, shared) && known
		default:
			known = f.knowsOutput(placeOf(source.From, shared)) && known
		}
	}
	return known
}

func (f *fold) knowsOutput(p place) bool {
	_, known := f.values[p]
	if !known {
		add(&f.need.outputs, p)
	}
	return known
}

func (f *fold) knowsItems(l *loop) bool {
	if l == nil {
		return true
	}
	_, known := f.items[l.id]
	if !known {
		add(&f.need.items, l)
	}
	return known
}

// knowsCollected reports whether everything that collected reads is known.
func (f *fold) knowsCollected(source graph.Source, shared []int32) bool {
	known := f.knowsBelow(source.From, shared)
	loop := f.plan.Loop(source.From)
	for range source.Collected {
		known = f.knowsBelow(loop, shared) && known
		loop = f.plan.Loop(loop)
	}
	if !known {
		return false
	}
	_, failing := f.itemCounts(source, shared)
	for _, id := range failing {
		if _, read := f.failedBelow[placeOf(id, shared)]; !read && !f.unstored() {
			add(&f.need.failed, placeOf(id, shared))
			known = false
		}
	}
	return known
}

// knowsBelow reports whether the outputs of a component in all iterations that start with prefix are
// known.
func (f *fold) knowsBelow(componentID string, prefix []int32) bool {
	p, known := placeOf(componentID, prefix), true
	if _, read := f.below[p]; !read && !f.unstored() {
		add(&f.need.below, p)
		known = false
	}
	for _, e := range f.ends {
		if e.status == status.StageCompleted && isBelow(e.componentID, e.iteration, componentID, prefix) {
			known = f.knowsOutput(placeOf(e.componentID, e.iteration)) && known
		}
	}
	return known
}

// knowsLimits reports whether the maxCredits that apply to the run are known. If not, they are added to
// the need.
func (f *fold) knowsLimits() bool {
	if f.run.MaxCredits == nil || f.run.ParentRunID == nil || f.limited != nil {
		return true
	}
	f.need.limits = true
	return false
}

// knowsAnswers reports whether everything is known that the start of a bound stage depends on. If not,
// it is added to the need.
func (f *fold) knowsAnswers(t *stage) bool {
	switch _, control := controls[t.component.Module]; {
	case t.component.Module == component.RunWorkflow:
		return f.knowsChild(t)
	case control || t.refusal != nil:
		return true
	default:
		return f.knowsResult(t)
	}
}

// knowsChild reports whether everything that starting a child run depends on is known.
func (f *fold) knowsChild(t *stage) bool {
	if t.starts != nil || t.refusal != nil {
		return true
	}
	f.need.children = append(f.need.children, t)
	f.need.above = f.need.above || f.run.ParentRunID != nil && f.above == nil
	return false
}

// knowsResult reports whether the result of a stage is known, or the stage needs an execution, or must
// not start.
func (f *fold) knowsResult(t *stage) bool {
	entry, _ := f.engine.Modules.Lookup(t.component.Module)
	if entry.Price > 0 && !f.knowsLimits() {
		return false
	}
	if t.result != nil || f.exceeded(entry.Price) != nil {
		return true
	}
	asked := credit.Amount(0)
	for _, other := range f.need.calls {
		asked += other.price
	}
	if asked > 0 && f.exceeded(asked+entry.Price) != nil {
		return false // the other stages come first
	}
	if f.computeTime(t, entry) <= 0 || f.run.Committed+asked+entry.Price > f.run.Reserved && !f.run.Solvent {
		return true
	}
	t.price = entry.Price
	f.need.calls = append(f.need.calls, t)
	return false
}

// unstored reports whether no stage of the run was stored before this fold.
func (f *fold) unstored() bool { return f.run.Status == status.RunCreated && !f.copied }

// isBelow reports whether a component in an iteration is the wanted component in an iteration that
// starts with prefix.
func isBelow(componentID string, iteration []int32, wanted string, prefix []int32) bool {
	return componentID == wanted && len(iteration) >= len(prefix) && slices.Equal(iteration[:len(prefix)], prefix)
}
