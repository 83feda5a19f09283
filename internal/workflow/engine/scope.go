package engine

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/status"
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
	for round, items := f.nextRound(); len(round) > 0; round, items = f.nextRound() {
		if err := f.readStates(round); err != nil {
			return err
		}
		if err := f.readLoopsAround(round); err != nil {
			return err
		}
		if err := f.readSources(round); err != nil {
			return err
		}
		for i, sc := range round {
			if items && i > 0 && f.full() {
				f.fresh = slices.Concat(round[i:], f.fresh) // for the next fold
				break
			}
			sc.queued = false
			if err := f.step(sc); err != nil {
				return err
			}
		}
	}
	return nil
}

// maxNewItems limits the iterations that one round starts. Each iteration goes as far as it can
// before others start, so that a full fold leaves few iterations unfinished.
const maxNewItems = 16

// nextRound returns the scopes to step next: the queued scopes or, if the queue is empty, new
// iterations. items reports whether they are new iterations.
func (f *fold) nextRound() (round []*scope, items bool) {
	if len(f.queue) > 0 {
		round, f.queue = f.queue, nil
		return round, false
	}
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
	round, f.fresh = f.fresh[:n], f.fresh[n:]
	if n == 0 { // the next iteration, if any, is too large for a first fold
		f.postponeItems()
	}
	return round, true
}

// full reports whether the fold has reached its limits. In a rerun, finished iterations count too,
// because a fold may pass many reused items without creating a stage. Each failed fold, such as one
// that took too long, halves the limits of the next.
func (f *fold) full() bool {
	done := len(f.made)
	if len(f.run.RerunOf) > 0 {
		done += f.items
	}
	halved := min(f.failedBefore, maxHalved)
	return done >= maxFoldStages>>halved || f.bytes >= maxFoldBytes>>halved || done > 0 && time.Now().After(f.until)
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
		ready := f.withoutComputable(f.withoutOtherTriggers(sc, next.Ready))
		for _, id := range ready {
			if f.stopped(sc) {
				break
			}
			if f.full() && sc.resumable() {
				f.more = true
				return nil
			}
			if err := f.start(sc, id); err != nil {
				return err
			}
		}
		if len(ready) > 0 {
			f.enqueue(sc)
		}
		return nil
	}
	if next.Live > 0 {
		return nil
	}
	sc.over = true
	if sc.component == "" {
		f.over, f.changed = true, true
		return nil
	}
	return f.finishIteration(sc, next.Failed)
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

// readStates reads the states of scopes that were not read yet.
func (f *fold) readStates(round []*scope) error {
	var missing []place
	for _, sc := range round {
		if sc.states == nil && sc.component == "" && f.previous.root != nil {
			sc.states = maps.Clone(f.previous.root)
			for _, id := range f.plan.Members("") {
				if state, ok := f.states[placeOf(id, nil)]; ok {
					sc.states[id] = state
				}
			}
		}
		if sc.states == nil {
			for _, id := range f.plan.Members(sc.component) {
				missing = append(missing, placeOf(id, sc.iteration))
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	read := map[place]graph.State{}
	if f.run.Status != status.RunCreated || f.copied { // else the run has no stages yet
		components, iterations := sortedPlaces(missing)
		rows, err := db.New().StageListStates(f.ctx, f.tx, db.StageListStatesParams{
			WorkspaceID: f.run.WorkspaceID, RunID: f.run.ID, ComponentIds: components, Iterations: iterations,
		})
		if err != nil {
			return fmt.Errorf("read stages: %w", err)
		}
		for _, row := range rows {
			state := graph.State{Status: row.Status}
			if row.Port != nil {
				state.Port = *row.Port
			}
			read[placeOf(row.ComponentID, row.Iteration)] = state
		}
	}
	for _, sc := range round {
		if sc.states != nil {
			continue
		}
		sc.states = map[string]graph.State{}
		for _, id := range f.plan.Members(sc.component) {
			p := placeOf(id, sc.iteration)
			if state, ok := read[p]; ok {
				sc.states[id] = state
			}
			if state, ok := f.states[p]; ok {
				sc.states[id] = state
			}
		}
	}
	return nil
}
