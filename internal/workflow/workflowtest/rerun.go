package workflowtest

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/status"
)

// lineages maps the name in the config of WORK to the lineage of a run and its reruns.
var lineages sync.Map

// NewLineage returns a lineage whose calls are recorded until the test ends. Mark adds its name to a
// drawing.
func NewLineage(t testing.TB, name string) *Lineage {
	c := &Lineage{}
	lineages.Store(name, c)
	t.Cleanup(func() { lineages.Delete(name) })
	return c
}

// Lineage records the calls of WORK in a run and its reruns. In each rerun, fewer calls fail.
type Lineage struct {
	mu         sync.Mutex
	generation int
	calls      []Effect
}

// Effect is one call of WORK.
type Effect struct {
	At, Given string // place, and input with config
	Key       uuid.UUID
}

func (c *Lineage) note(call component.Call) (generation int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var config struct{ Me string }
	var input map[string]any
	_ = json.Unmarshal(call.Config, &config)
	_ = json.Unmarshal(call.Input, &input)
	iteration := []any{}
	for index, ok := input["at0"]; ok; index, ok = input[fmt.Sprint("at", len(iteration))] {
		iteration = append(iteration, index)
	}
	c.calls = append(c.calls, Effect{Place(config.Me, iteration), Canonical(call.Input) + Canonical(call.Config), call.EffectKey})
	return c.generation
}

// Next returns the calls of the current generation and starts the next one.
func (c *Lineage) Next() []Effect {
	c.mu.Lock()
	defer c.mu.Unlock()
	calls := c.calls
	c.calls, c.generation = nil, c.generation+1
	return calls
}

// Mark adds the name of the lineage and the component's position to the config of each WORK.
func (w *Drawing) Mark(lineage string) {
	for i := range w.Parts {
		p := &w.Parts[i]
		if p.Module != "WORK" {
			continue
		}
		p.Config["lineage"], p.Config["me"] = lineage, p.ID
		if w.IntN(3) == 0 {
			p.Config["ms"] = 10 + w.IntN(20) // leaves time for a cancel
		}
		for level, loop := range w.Around(p.ID) {
			c := Wire{ID: fmt.Sprint("at", len(w.Wires))}
			c.From.ComponentID, c.From.Output, c.To.ComponentID, c.To.Input = loop, "index", p.ID, fmt.Sprint("at", level)
			w.Wires = append(w.Wires, c)
		}
	}
}

// Reused returns the stages of a run that a rerun reuses, computed from the drawing, the reference
// of that run and its record, by the rules in the guide.
func (r *Reference) Reused(before map[string]api.RunStage, from *api.RunStage) map[string]api.RunStage {
	reused := map[string]api.RunStage{}
	for at, stage := range before {
		if r.isReused(before, from, stage) {
			reused[at] = stage
		}
	}
	return reused
}

// isReused reports whether a stage is reused. Only a loop that ran can be reused as a whole: a loop
// without a stage, which an earlier rerun did not reach, is resumed like one that did not complete.
func (r *Reference) isReused(before map[string]api.RunStage, from *api.RunStage, stage api.RunStage) bool {
	path, iteration, loop := append(slices.Clone(r.loops[stage.ComponentID]), stage.ComponentID), indexes(stage), ""
	for level, id := range path {
		again := func(id string) bool {
			here, ran := before[Place(id, iteration[:level])]
			return ran && (here.Status != status.StageCompleted || r.within(from, here))
		}
		here, ran := before[Place(id, iteration[:level])]
		switch {
		case r.comesAfter(id, loop, again, map[string]bool{}):
			return false
		case ran && !again(id):
			return true
		case level == len(path)-1, from != nil && from.ID == here.ID:
			return false
		case r.one(id).Module == "REPEAT" && !r.precededByFinished(before, from, id, iteration[:level+1]):
			return false
		case r.isFinished(before, from, id, iteration[:level+1]):
			return true
		}
		loop = id
	}
	return false
}

func indexes(stage api.RunStage) []int {
	iteration := make([]int, len(stage.Iteration))
	for i, index := range stage.Iteration {
		iteration[i] = int(index)
	}
	return iteration
}

// within reports whether stage is container, or is inside the loop container.
func (r *Reference) within(stage *api.RunStage, container api.RunStage) bool {
	if stage == nil || stage.ID == container.ID {
		return stage != nil
	}
	level := len(container.Iteration)
	return slices.Index(r.loops[stage.ComponentID], container.ComponentID) == level && slices.Equal(stage.Iteration[:level], container.Iteration)
}

// comesAfter reports whether a component of a scope comes after a component that is repeated.
func (r *Reference) comesAfter(id, loop string, again func(id string) bool, seen map[string]bool) bool {
	var sources []string
	for _, a := range r.Arrows {
		if a.To == id && a.From != loop {
			sources = append(sources, a.From)
		}
	}
	for _, c := range r.Wires {
		if giver := r.giver(c, id); giver != "" {
			sources = append(sources, giver)
		}
	}
	return slices.ContainsFunc(sources, func(source string) bool {
		if seen[source] {
			return false
		}
		seen[source] = true
		return again(source) || r.comesAfter(source, loop, again, seen)
	})
}

// precededByFinished reports whether all iterations of a REPEAT before one are finished.
func (r *Reference) precededByFinished(before map[string]api.RunStage, from *api.RunStage, loop string, iteration []int) bool {
	level := len(iteration) - 1
	for i := range iteration[level] {
		if !r.isFinished(before, from, loop, append(slices.Clone(iteration[:level]), i)) {
			return false
		}
	}
	return true
}

// isFinished reports whether every stage that was to run in an item finished, and none of them
// failed.
func (r *Reference) isFinished(before map[string]api.RunStage, from *api.RunStage, loop string, iteration []int) bool {
	if r.failed[Place(loop, iteration)] {
		return false
	}
	for _, p := range r.Parts {
		at := Place(p.ID, iteration)
		if !slices.Equal(r.loops[p.ID], r.enclosing(loop)) {
			continue
		}
		stage, ran := before[at]
		if _, should := r.Fates[at]; should && !ran || ran && (stage.Status == status.StageCanceled || r.within(from, stage)) {
			return false
		}
	}
	return true
}
