package run_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/workflow/engine"
	"github.com/weft-automation/weft/internal/workflow/orchestrator"
	"github.com/weft-automation/weft/internal/workflow/run"
)

// lineages maps the name in the config of WORK to the lineage of a run and its reruns.
var lineages sync.Map

// lineage records the calls of WORK in a run and its reruns. In each rerun, fewer calls fail.
type lineage struct {
	mu         sync.Mutex
	generation int
	calls      []effect
}

// effect is one call of WORK.
type effect struct {
	at, given string
	key       uuid.UUID
}

func (c *lineage) note(call component.Call) (generation int) {
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
	c.calls = append(c.calls, effect{place(config.Me, iteration), canonical(call.Input) + canonical(call.Config), call.EffectKey})
	return c.generation
}

// next returns the calls of the current generation and starts the next one.
func (c *lineage) next() []effect {
	c.mu.Lock()
	defer c.mu.Unlock()
	calls := c.calls
	c.calls, c.generation = nil, c.generation+1
	return calls
}

// mark adds the name of the lineage and the component's position to the config of each WORK.
func (w *drawing) mark(lineage string) {
	for i := range w.parts {
		p := &w.parts[i]
		if p.Module != "WORK" {
			continue
		}
		p.Config["lineage"], p.Config["me"] = lineage, p.ID
		if w.IntN(3) == 0 {
			p.Config["ms"] = 10 + w.IntN(20) // leaves time for a cancel
		}
		for level, loop := range w.around(p.ID) {
			c := wire{ID: fmt.Sprint("at", len(w.wires))}
			c.From.ComponentID, c.From.Output, c.To.ComponentID, c.To.Input = loop, "index", p.ID, fmt.Sprint("at", level)
			w.wires = append(w.wires, c)
		}
	}
}

// reused returns the stages of a run that a rerun reuses, computed from the drawing, the reference
// of that run and its record, by the rules in the guide.
func (r *reference) reused(before map[string]api.RunStage, from *api.RunStage) map[string]api.RunStage {
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
func (r *reference) isReused(before map[string]api.RunStage, from *api.RunStage, stage api.RunStage) bool {
	path, iteration, loop := append(slices.Clone(r.loops[stage.ComponentID]), stage.ComponentID), indexes(stage), ""
	for level, id := range path {
		again := func(id string) bool {
			here, ran := before[place(id, iteration[:level])]
			return ran && (here.Status != status.StageCompleted || r.within(from, here))
		}
		here, ran := before[place(id, iteration[:level])]
		switch {
		case r.comesAfter(id, loop, again, map[string]bool{}):
			return false
		case ran && !again(id):
			return true
		case level == len(path)-1, from != nil && from.ID == here.ID:
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
func (r *reference) within(stage *api.RunStage, container api.RunStage) bool {
	if stage == nil || stage.ID == container.ID {
		return stage != nil
	}
	level := len(container.Iteration)
	return slices.Index(r.loops[stage.ComponentID], container.ComponentID) == level && slices.Equal(stage.Iteration[:level], container.Iteration)
}

// comesAfter reports whether a component of a scope comes after a component that is repeated.
func (r *reference) comesAfter(id, loop string, again func(id string) bool, seen map[string]bool) bool {
	var sources []string
	for _, a := range r.arrows {
		if a.To == id && a.From != loop {
			sources = append(sources, a.From)
		}
	}
	for _, c := range r.wires {
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

// isFinished reports whether every stage that was to run in an item finished, and none of them
// failed.
func (r *reference) isFinished(before map[string]api.RunStage, from *api.RunStage, loop string, iteration []int) bool {
	if r.failed[place(loop, iteration)] {
		return false
	}
	for _, p := range r.parts {
		at := place(p.ID, iteration)
		if !slices.Equal(r.loops[p.ID], r.enclosing(loop)) {
			continue
		}
		stage, ran := before[at]
		if _, should := r.fates[at]; should && !ran || ran && (stage.Status == status.StageCanceled || r.within(from, stage)) {
			return false
		}
	}
	return true
}

// Random workflows run, fail or are canceled, and are repeated twice, from a stage or from what
// did not complete. The stages that the model predicts are reused, and do not run and are not
// charged again. All other stages match the reference. An effect has the same key as before if and
// only if it has the same input and config.
func TestRandomRerunsRepeatNothingFinished(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.start(t, options{slots: 16, sweep: time.Second})
	var mu sync.Mutex
	var all tally
	var running sync.WaitGroup
	slots := make(chan struct{}, 8)
	for i, seed := range seeds(t, size(4, 2_000)) {
		if i%200 == 50 {
			b.analyze(t)
		}
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			one := n.repeat(t, seed)
			mu.Lock()
			defer mu.Unlock()
			all.taken, all.inLoops, all.repeated = all.taken+one.taken, all.inLoops+one.inLoops, all.repeated+one.repeated
		})
	}
	running.Wait()
	t.Logf("%+v", all)
	if size(1, 2) == 2 && (all.taken == 0 || all.inLoops == 0 || all.repeated == 0) {
		t.Error("the drawings lack some cases")
	}
	b.balanced(t)
}

// tally counts the results of reruns.
type tally struct {
	taken    int // reused stages
	inLoops  int // reused stages in loops that were not reused as a whole
	repeated int // effects with the same input
}

// repeat runs one drawing and reruns it.
func (n *node) repeat(t *testing.T, seed uint64) (all tally) {
	w := newDrawing(seed, []int{12, 25}[seed%2])
	c, name := &lineage{}, fmt.Sprint(n.workspace, seed)
	lineages.Store(name, c)
	defer lineages.Delete(name)
	w.compute(int(seed % 2))
	w.mark(name)
	chance := rand.New(rand.NewPCG(seed, 11))
	input := fmt.Appendf(nil, `{"n":%d}`, seed%7)
	p := run.TriggerParams{WorkflowID: n.save(t, w.draft()), Input: input}
	known := map[string][]effect{}
	var taken, before map[string]api.RunStage
	for generation := range 4 {
		blame := func(format string, args ...any) {
			t.Errorf("seed %d, run %d: %s", seed, generation, fmt.Sprintf(format, args...))
		}
		want := interpretAgain(w, input, generation, taken)
		after := n.once(t, seed, p, chance)
		want.compare(t, seed, after, true)
		n.inOrder(t, w, after, taken, blame)
		for at, stage := range after.stages {
			if _, should := taken[at]; should != (before[at].ID == stage.ID) {
				blame("%s is taken over: %v, want %v", at, !should, should)
			}
		}
		for at := range taken {
			if _, there := after.stages[at]; !there {
				blame("%s is not taken over", at)
			}
			all.taken++
			if around := w.around(after.stages[at].ComponentID); len(around) > 0 && before[place(around[0], []int{})].ID != after.stages[place(around[0], []int{})].ID {
				all.inLoops++
			}
		}
		for _, made := range c.next() {
			if _, over := taken[made.at]; over {
				blame("%s is reused and runs again", made.at)
			}
			for at, earlier := range known {
				for _, other := range earlier {
					same := at == made.at && other.given == made.given
					if same != (other.key == made.key) {
						blame("%s with %s has the key %s, %s with %s has %s", made.at, made.given, made.key, at, other.given, other.key)
					}
					if same {
						all.repeated++
					}
				}
			}
			known[made.at] = append(known[made.at], made)
		}
		var from *api.RunStage
		origin := &orchestrator.Origin{RunID: after.run.ID}
		if places := slices.Sorted(maps.Keys(after.stages)); len(places) > 0 && chance.IntN(2) == 0 {
			from = new(after.stages[places[chance.IntN(len(places))]])
			origin.FromStageID = &from.ID
		}
		p = run.TriggerParams{WorkflowID: p.WorkflowID, RerunOf: origin}
		before, taken = after.stages, want.reused(after.stages, from)
	}
	return all
}

// once starts a run, cancels every third run, and waits until the run has finished.
func (n *node) once(t *testing.T, seed uint64, p run.TriggerParams, chance *rand.Rand) (over played) {
	key := n.trigger(t, p)
	if _, err := n.runs.Signal(n.ctx, key, anyone{}, "given", json.RawMessage(payload)); err != nil && fault.CodeOf(err) != fault.Conflict { // the run may have finished
		t.Errorf("seed %d: signal: %v", seed, err)
	}
	if chance.IntN(3) == 0 {
		n.awaitEvents(key, 1+chance.Int64N(12))
		if _, err := n.runs.Cancel(n.ctx, key, anyone{}, []string{engine.CancelGraceful, engine.CancelImmediate}[chance.IntN(2)], nil); err != nil {
			t.Errorf("seed %d: cancel: %v", seed, err)
		}
	}
	over.run, over.stages = n.end(t, key)
	return over
}
