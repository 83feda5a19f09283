package engine

import (
	"cmp"
	"slices"
	"time"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/kit/fault"
)

// root returns the scope of the components that are in no loop.
func (f *fold) root() *scope { return f.scope("", nil) }

// scope returns the scope of an iteration of a loop. The index in that loop is the last element of
// iteration.
func (f *fold) scope(loop string, iteration []int32) *scope {
	p := placeOf(loop, iteration)
	sc := f.scopes[p]
	if sc == nil {
		sc = &scope{place: p, iteration: append([]int32{}, iteration...)} // never nil, which is NULL to PostgreSQL
		f.scopes[p] = sc
	}
	return sc
}

// scopeOf returns the scope that contains a component in an iteration.
func (f *fold) scopeOf(componentID string, iteration []int32) *scope {
	return f.scope(f.plan.Loop(componentID), iteration)
}

// enqueue enqueues a scope for advance.
func (f *fold) enqueue(sc *scope) {
	if !sc.queued && !sc.over {
		sc.queued = true
		f.queue = append(f.queue, sc)
	}
}

// setState sets the state of a component in a scope and enqueues the scope.
func (f *fold) setState(sc *scope, componentID string, state graph.State) {
	f.states[placeOf(componentID, sc.iteration)] = state
	if sc.states != nil {
		sc.states[componentID] = state
	}
	f.enqueue(sc)
}

// advance steps the queued scopes until no scope has anything to start or finish, or the fold is
// full.
func (f *fold) advance() error {
	for {
		if err := f.goOn(); err != nil {
			return err
		}
		if f.need.empty() && len(f.queue)+len(f.blocked)+len(f.fresh) == 0 {
			return nil
		}
		if err := cmp.Or(f.answer(), f.ctx.Err()); err != nil {
			return err
		}
	}
}

// goOn goes as far as possible with what is known, and collects what else the fold needs.
func (f *fold) goOn() error {
	f.need = need{}
	unfilled := f.unfilled
	f.queue, f.blocked, f.unfilled = append(f.queue, f.blocked...), nil, nil
	for _, l := range unfilled {
		f.fill(l)
	}
	for len(f.queue) > 0 {
		round := f.queue
		f.queue = nil
		for _, sc := range round {
			if !f.knows(sc) {
				f.blocked = append(f.blocked, sc)
				continue
			}
			sc.queued = false
			if err := f.step(sc); err != nil {
				return err
			}
		}
	}
	if !f.need.empty() {
		return nil
	}
	return f.startItems()
}

// startItems starts new iterations: one after the other, so that a fold that is full, or that needs to
// know more, has started no later iteration of the loop.
func (f *fold) startItems() error {
	items := f.nextItems()
	for _, sc := range items {
		if f.knows(sc) {
			for _, id := range f.plan.Next(sc.component, sc.states).Ready {
				f.knowsSources(sc, id)
			}
		}
	}
	for i, sc := range items {
		if !f.need.empty() || i > 0 && f.full() {
			f.fresh = slices.Concat(items[i:], f.fresh)
			return nil
		}
		sc.queued = false
		if err := f.step(sc); err != nil {
			return err
		}
	}
	return nil
}

// maxNewItems limits the iterations that start together. Each iteration goes as far as it can
// before others start, so that a full fold leaves few iterations unfinished.
const maxNewItems = 16

// nextItems returns the iterations to start next.
func (f *fold) nextItems() (items []*scope) {
	if f.full() {
		f.postponeItems()
	}
	n, most := 0, maxFoldStages
	if f.first {
		most = maxFirstSteps
	}
	for ; n < min(len(f.fresh), maxNewItems); n++ {
		most -= len(f.plan.Members(f.fresh[n].component))
		if most < 0 && (n > 0 || f.first) {
			break
		}
	}
	items, f.fresh = f.fresh[:n], f.fresh[n:]
	if n == 0 { // the next iteration, if any, is too large for a first fold
		f.postponeItems()
	}
	return items
}

// full reports whether the fold has reached its limits. In a rerun, finished iterations count too,
// because a fold may pass many reused items without creating a stage. Each failed fold, such as one
// that took too long, halves the limits of the next.
func (f *fold) full() bool {
	done, size := len(f.made), f.bytes
	for _, t := range f.bound {
		if t.result != nil {
			done, size = done+1, size+int64(len(t.result.Output))
		}
	}
	if len(f.run.RerunOf) > 0 {
		done += f.itemsDone
	}
	halved := min(f.failedBefore, maxHalved)
	return done >= maxFoldStages>>halved || len(f.children)+len(f.need.children) >= maxChildren || size >= maxFoldBytes>>halved || done > 0 && time.Now().After(f.until)
}

// resumable reports whether the next fold finds the scope through its live stages.
func (sc *scope) resumable() bool {
	if sc.component == "" {
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
func (f *fold) step(sc *scope) error {
	if sc.over {
		return nil
	}
	next := f.plan.Next(sc.component, sc.states)
	if next.Failed != "" && sc.component == "" {
		f.failFor(next.Failed, f.failures[placeOf(next.Failed, nil)])
	}
	if !f.stopped(sc) && len(next.Ready) > 0 {
		return f.startReady(sc, f.withoutComputable(f.withoutOtherTriggers(sc, next.Ready)))
	}
	if next.Live > 0 {
		return nil
	}
	sc.over = true
	if sc.component == "" {
		f.over, f.changed = true, true
		return nil
	}
	f.finishIteration(sc, next.Failed)
	return nil
}

// startReady starts ready components of a scope. If the fold is full, the next fold starts the others,
// provided that it finds the scope.
func (f *fold) startReady(sc *scope, ready []string) error {
	again, blocked := false, false
	for _, id := range ready {
		if f.stopped(sc) {
			break
		}
		if t := f.bound[placeOf(id, sc.iteration)]; (t == nil || !t.answered()) && f.full() && sc.resumable() {
			f.more = true
			continue
		}
		started, err := f.start(sc, id)
		if err != nil {
			return err
		}
		again, blocked = again || started, blocked || !started
	}
	switch {
	case blocked:
		f.block(sc)
	case again:
		f.enqueue(sc)
	}
	return nil
}

// block leaves a scope until the need is answered.
func (f *fold) block(sc *scope) {
	if !sc.queued {
		sc.queued = true
		f.blocked = append(f.blocked, sc)
	}
}

// withoutOtherTriggers removes the triggers that did not start this run from the ready components.
func (f *fold) withoutOtherTriggers(sc *scope, ready []string) []string {
	triggers := f.plan.Triggers()
	if sc.component != "" || len(triggers) < 2 {
		return ready
	}
	started := triggers[0]
	if entry, err := Entry(f.plan, f.run.Trigger); err == nil {
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
func (f *fold) stopped(sc *scope) bool {
	if f.ending() {
		return true
	}
	for sc.component != "" {
		l := f.loopOf(sc)
		if l == nil || l.failing() {
			return true
		}
		sc = f.scopeOf(sc.component, sc.iteration[:len(sc.iteration)-1])
	}
	return false
}
