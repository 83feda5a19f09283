package engine

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/status"
)

// root is the scope of what is in no loop.
func (f *fold) root() *scope { return f.scope("", nil) }

// scope is an iteration of a loop, whose index comes last.
func (f *fold) scope(loop string, iteration []int32) *scope {
	p := at(loop, iteration)
	sc := f.scopes[p]
	if sc == nil {
		sc = &scope{place: p, iteration: append([]int32{}, iteration...)} // never nil, which is NULL to PostgreSQL
		f.scopes[p] = sc
	}
	return sc
}

// scopeOf is where a component is in an iteration.
func (f *fold) scopeOf(componentID string, iteration []int32) *scope {
	return f.scope(f.plan.Loop(componentID), iteration)
}

// touch has a scope looked at.
func (f *fold) touch(sc *scope) {
	if !sc.queued && !sc.over {
		sc.queued = true
		f.queue = append(f.queue, sc)
	}
}

// set notes the state of a component in a scope and has it looked at.
func (f *fold) set(sc *scope, componentID string, state graph.State) {
	f.states[at(componentID, sc.iteration)] = state
	if sc.states != nil {
		sc.states[componentID] = state
	}
	f.touch(sc)
}

// advance goes on until no scope that was touched has anything to be begun or ended.
func (f *fold) advance() error {
	for round := f.round(); len(round) > 0; round = f.round() {
		if err := f.readStates(round); err != nil {
			return err
		}
		if err := f.readLoopsAround(round); err != nil {
			return err
		}
		if err := f.readSources(round); err != nil {
			return err
		}
		for _, sc := range round {
			sc.queued = false
			if err := f.step(sc); err != nil {
				return err
			}
		}
	}
	return nil
}

// freshAtOnce is how many iterations begin beside each other in a fold, fewer where they are
// large: one goes as far as it can before others begin, so that a fold that is full leaves few
// half begun, and has few to bring to where they can be left.
const freshAtOnce = 16

// round is what is to be looked at next: what goes on before what is new.
func (f *fold) round() (round []*scope) {
	if len(f.queue) > 0 {
		round, f.queue = f.queue, nil
		return round
	}
	if f.full() {
		f.giveBack()
	}
	n, most := 0, stagesAtOnce
	if f.first {
		most = beginsAtOnce
	}
	for ; n < min(len(f.fresh), freshAtOnce); n++ {
		most -= len(f.plan.Members(f.fresh[n].component))
		if most < 0 && (n > 0 || f.first) {
			break
		}
	}
	round, f.fresh = f.fresh[:n], f.fresh[n:]
	if n == 0 { // what there is, if anything, is too large for a first fold
		f.giveBack()
	}
	return round
}

// full reports whether the next fold is to begin what else there is. A rerun may go through
// many items that it has taken over, and make no stage.
func (f *fold) full() bool {
	done := len(f.made)
	if len(f.run.RerunOf) > 0 {
		done += f.items
	}
	return done >= stagesAtOnce || f.bytes >= bytesAtOnce || done > 0 && time.Now().After(f.until)
}

// resumable reports whether the next fold finds a scope by itself.
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

// step begins what is ready in a scope, and ends it when nothing more will be.
func (f *fold) step(sc *scope) error {
	if sc.over {
		return nil
	}
	next := f.plan.Next(sc.component, sc.states)
	if next.Failed != "" && sc.component == "" {
		f.failFor(next.Failed, f.failures[at(next.Failed, nil)])
	}
	if !f.stopped(sc) && len(next.Ready) > 0 {
		for _, id := range f.chosen(sc, next.Ready) {
			if f.stopped(sc) {
				break
			}
			if f.full() && sc.resumable() {
				f.more = true
				return nil
			}
			if err := f.begin(sc, id); err != nil {
				return err
			}
		}
		f.touch(sc)
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
	return f.iterationOver(sc, next.Failed)
}

// chosen leaves those triggers out that did not begin this run.
func (f *fold) chosen(sc *scope, ready []string) []string {
	triggers := f.plan.Triggers()
	if sc.component != "" || len(triggers) < 2 {
		return ready
	}
	mine := triggers[0]
	if entry, err := Entry(f.plan, f.run.Trigger); err == nil {
		mine = entry.ID
	}
	return slices.DeleteFunc(slices.Clone(ready), func(id string) bool {
		return id != mine && slices.Contains(triggers, id)
	})
}

// Entry is the component at which a run begins that was triggered so; one without an id
// where the workflow has no triggers: such a run begins with all that nothing leads to.
// CONFLICT where there are others only.
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
		Message: "This workflow begins with other triggers only: give it an " + triggerModules[trigger] + ".",
	}
}

// triggerModules says where a run begins, by what triggered it.
var triggerModules = map[string]string{"API": "ON_API_CALLED", "RUN": "ON_API_CALLED", "SCHEDULE": "ON_SCHEDULE", "WEBHOOK": "ON_WEBHOOK"}

// stopped reports whether nothing begins in a scope any more: the run ends, or an item of
// a loop around it has failed for good.
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

// readStates reads how far the scopes are that were not read yet.
func (f *fold) readStates(round []*scope) error {
	var missing []place
	for _, sc := range round {
		if sc.states == nil && sc.component == "" && f.stood.root != nil {
			sc.states = maps.Clone(f.stood.root)
			for _, id := range f.plan.Members("") {
				if state, ok := f.states[at(id, nil)]; ok {
					sc.states[id] = state
				}
			}
		}
		if sc.states == nil {
			for _, id := range f.plan.Members(sc.component) {
				missing = append(missing, at(id, sc.iteration))
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	read := map[place]graph.State{}
	if f.run.Status != status.RunCreated || f.copied { // else there is no stage yet
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
			read[at(row.ComponentID, row.Iteration)] = state
		}
	}
	for _, sc := range round {
		if sc.states != nil {
			continue
		}
		sc.states = map[string]graph.State{}
		for _, id := range f.plan.Members(sc.component) {
			p := at(id, sc.iteration)
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
