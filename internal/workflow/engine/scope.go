package engine

import (
	"slices"
	"strconv"
	"strings"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/kit/fault"
)

// scope is a set of components that run once: the components in no loop, or the components of a
// loop in one iteration.
type scope struct {
	Place     // of the loop; zero for the root
	iteration []int32
	states    map[string]graph.State // nil: not read yet
	queued    bool
	over      bool
}

// scope returns the scope of an iteration of a loop, or of the components in no loop if loop is empty.
// The index in that loop is the last element of iteration.
func (a *Advance) scope(loop string, iteration []int32) *scope {
	p := PlaceOf(loop, iteration)
	sc := a.scopes[p]
	if sc == nil {
		sc = &scope{Place: p, iteration: append([]int32{}, iteration...)} // never nil, which is NULL to PostgreSQL
		a.scopes[p] = sc
	}
	return sc
}

// scopeOf returns the scope that contains a component in an iteration.
func (a *Advance) scopeOf(componentID string, iteration []int32) *scope {
	return a.scope(a.Plan.Loop(componentID), iteration)
}

// enqueue enqueues a scope for advance.
func (a *Advance) enqueue(sc *scope) {
	if !sc.queued && !sc.over {
		sc.queued = true
		a.queue = append(a.queue, sc)
	}
}

// setState sets the state of a component in a scope and enqueues the scope.
func (a *Advance) setState(sc *scope, componentID string, state graph.State) {
	a.states[PlaceOf(componentID, sc.iteration)] = state
	if sc.states != nil {
		sc.states[componentID] = state
	}
	a.enqueue(sc)
}

// resumable reports whether the next advance finds the scope through its live stages.
func (sc *scope) resumable() bool {
	if sc.Component == "" {
		return true
	}
	for _, state := range sc.states {
		if !state.Status.Terminal() {
			return true
		}
	}
	return false
}

// step starts the ready components of a scope. If nothing more can become ready, it finishes the
// scope.
func (a *Advance) step(sc *scope) error {
	if sc.over {
		return nil
	}
	next := a.Plan.Next(sc.Component, sc.states)
	if next.Failed != "" && sc.Component == "" {
		var failed End // zero if an earlier advance failed the run
		if i := slices.IndexFunc(a.finals, func(e End) bool { return e.ComponentID == next.Failed }); i >= 0 {
			failed = a.finals[i]
		}
		a.failFor(next.Failed, failed.ID, failed.Failure)
	}
	if !a.stopped(sc) && len(next.Ready) > 0 {
		return a.startReady(sc, a.withoutComputable(a.withoutOtherTriggers(sc, next.Ready)))
	}
	if next.Live > 0 {
		return nil
	}
	if sc.Component != "" && !a.knowsEnd(sc) {
		a.block(sc)
		return nil
	}
	sc.over = true
	if sc.Component == "" {
		a.over, a.Changed = true, true
		return nil
	}
	a.finishIteration(sc, next.Failed)
	return nil
}

// startReady starts ready components of a scope. If the advance is full, the next advance starts the others,
// provided that it finds the scope.
func (a *Advance) startReady(sc *scope, ready []string) error {
	again, blocked := false, false
	for _, id := range ready {
		if a.stopped(sc) {
			break
		}
		if t := a.bound[PlaceOf(id, sc.iteration)]; (t == nil || !t.answered()) && a.full() && sc.resumable() {
			a.More = true
			continue
		}
		started, err := a.start(sc, id)
		if err != nil {
			return err
		}
		again, blocked = again || started, blocked || !started
	}
	switch {
	case blocked:
		a.block(sc)
	case again:
		a.enqueue(sc)
	}
	return nil
}

// block leaves a scope until the need is answered.
func (a *Advance) block(sc *scope) {
	if !sc.queued {
		sc.queued = true
		a.blocked = append(a.blocked, sc)
	}
}

// withoutOtherTriggers removes the triggers that did not start this run from the ready components.
func (a *Advance) withoutOtherTriggers(sc *scope, ready []string) []string {
	triggers := a.Plan.Triggers()
	if sc.Component != "" || len(triggers) < 2 {
		return ready
	}
	started := triggers[0]
	if entry, err := Entry(a.Plan, a.Run.Trigger); err == nil {
		started = entry.ID
	}
	return slices.DeleteFunc(slices.Clone(ready), func(id string) bool {
		return id != started && slices.Contains(triggers, id)
	})
}

// Entry returns the component at which a run with that trigger starts. If the workflow has no
// triggers, it returns a component without an ID: the run then starts with the components that no
// edge leads to. If the workflow has triggers, but not this one, Entry returns CONFLICT.
func Entry(plan *graph.Plan, trigger string) (graph.Component, error) {
	triggers := plan.Triggers()
	for _, id := range triggers {
		if c, _ := plan.Component(id); c.Module == triggerModules[trigger] {
			return c, nil
		}
	}
	if len(triggers) == 0 {
		return graph.Component{}, nil
	}
	return graph.Component{}, &fault.Error{
		Code: fault.Conflict, Reason: "no_trigger",
		Message: "This workflow has triggers, but not " + triggerModules[trigger] + ". Add that component.",
	}
}

// triggerModules maps the trigger of a run to the module at which the run starts.
var triggerModules = map[string]string{"API": component.OnAPICalled, "RUN": component.OnAPICalled, "SCHEDULE": component.OnSchedule, "WEBHOOK": component.OnWebhook}

// stopped reports whether nothing more may start in a scope, because the run is ending or a loop
// around the scope is failing.
func (a *Advance) stopped(sc *scope) bool {
	if a.Ending() {
		return true
	}
	return slices.ContainsFunc(a.loopsAround(sc), func(p Place) bool {
		l := a.loops[p]
		return l == nil || l.failing()
	})
}

// loopsAround returns the places of the loops around the components of a scope.
func (a *Advance) loopsAround(sc *scope) (places []Place) {
	if sc.Component == "" {
		return nil
	}
	for level, loop := range slices.Concat(a.Plan.Around(sc.Component), []string{sc.Component}) {
		places = append(places, PlaceOf(loop, sc.iteration[:level]))
	}
	return places
}

// Place identifies a component in an iteration, or an iteration of a loop. In the second case, the
// index in that loop comes last.
type Place struct {
	Component string
	Iteration string // in PostgreSQL's array syntax
}

// Indexes returns the iteration of the place.
func (p Place) Indexes() []int32 {
	indexes := []int32{} // never nil, which is NULL to PostgreSQL
	for _, text := range strings.Split(strings.Trim(p.Iteration, "{}"), ",") {
		if index, err := strconv.ParseInt(text, 10, 32); err == nil {
			indexes = append(indexes, int32(index))
		}
	}
	return indexes
}

// PlaceOf returns the place of a component in an iteration.
func PlaceOf(component string, iteration []int32) Place {
	return Place{component, array(iteration)}
}

// array returns an iteration in PostgreSQL's array syntax.
func array(iteration []int32) string {
	text := []byte{'{'}
	for i, index := range iteration {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendInt(text, int64(index), 10)
	}
	return string(append(text, '}'))
}
