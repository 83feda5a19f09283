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

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/workflow/engine"
	"github.com/weft-automation/weft/internal/workflow/orchestrator"
	"github.com/weft-automation/weft/internal/workflow/run"
	"github.com/weft-automation/weft/internal/workflow/workflowtest"
)

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
	for i, seed := range workflowtest.Seeds(t, size(4, 2_000)) {
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
	w := workflowtest.Draw(seed, []int{12, 25}[seed%2])
	name := fmt.Sprint(n.workspace, seed)
	c := workflowtest.NewLineage(t, name)
	w.Compute(int(seed % 2))
	w.Mark(name)
	chance := rand.New(rand.NewPCG(seed, 11))
	input := fmt.Appendf(nil, `{"n":%d}`, seed%7)
	p := run.TriggerParams{WorkflowID: n.save(t, w.Draft()), Input: input}
	known := map[string][]workflowtest.Effect{}
	var taken, before map[string]api.RunStage
	for generation := range 4 {
		blame := func(format string, args ...any) {
			t.Errorf("seed %d, run %d: %s", seed, generation, fmt.Sprintf(format, args...))
		}
		want := workflowtest.InterpretRerun(w, input, generation, taken)
		after := n.once(t, seed, p, chance)
		compare(t, seed, want, after, true)
		n.inOrder(t, w, after, taken, blame)
		for at, stage := range after.Stages {
			if _, should := taken[at]; should != (before[at].ID == stage.ID) {
				blame("%s is taken over: %v, want %v", at, !should, should)
			}
		}
		for at := range taken {
			if _, there := after.Stages[at]; !there {
				blame("%s is not taken over", at)
			}
			all.taken++
			if around := w.Around(after.Stages[at].ComponentID); len(around) > 0 && before[workflowtest.Place(around[0], []int{})].ID != after.Stages[workflowtest.Place(around[0], []int{})].ID {
				all.inLoops++
			}
		}
		for _, made := range c.Next() {
			if _, over := taken[made.At]; over {
				blame("%s is reused and runs again", made.At)
			}
			for at, earlier := range known {
				for _, other := range earlier {
					same := at == made.At && other.Given == made.Given
					if same != (other.Key == made.Key) {
						blame("%s with %s has the key %s, %s with %s has %s", made.At, made.Given, made.Key, at, other.Given, other.Key)
					}
					if same {
						all.repeated++
					}
				}
			}
			known[made.At] = append(known[made.At], made)
		}
		var from *api.RunStage
		origin := &orchestrator.Origin{RunID: after.Run.ID}
		if places := slices.Sorted(maps.Keys(after.Stages)); len(places) > 0 && chance.IntN(2) == 0 {
			from = new(after.Stages[places[chance.IntN(len(places))]])
			origin.FromStageID = &from.ID
		}
		p = run.TriggerParams{WorkflowID: p.WorkflowID, RerunOf: origin}
		before, taken = after.Stages, want.Reused(after.Stages, from)
	}
	return all
}

// once starts a run, cancels every third run, and waits until the run has finished.
func (n *node) once(t *testing.T, seed uint64, p run.TriggerParams, chance *rand.Rand) (over workflowtest.Played) {
	key := n.trigger(t, p)
	if _, err := n.runs.Signal(n.ctx, key, anyone{}, "given", json.RawMessage(workflowtest.Payload)); err != nil && fault.CodeOf(err) != fault.Conflict { // the run may have finished
		t.Errorf("seed %d: signal: %v", seed, err)
	}
	if chance.IntN(3) == 0 {
		n.awaitEvents(key, 1+chance.Int64N(12))
		if _, err := n.runs.Cancel(n.ctx, key, anyone{}, []string{engine.CancelGraceful, engine.CancelImmediate}[chance.IntN(2)], nil); err != nil {
			t.Errorf("seed %d: cancel: %v", seed, err)
		}
	}
	over.Run, over.Stages = n.end(t, key)
	return over
}
