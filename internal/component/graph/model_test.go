package graph_test

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/kit/status"
)

// drawing generates random definitions that are valid by construction.
type drawing struct {
	*rand.Rand
	d     graph.Definition
	limit int
}

func draw(seed uint64, limit int) graph.Definition {
	w := &drawing{Rand: rand.New(rand.NewPCG(seed, 1)), limit: limit}
	w.scope("", 0, nil)
	return w.d
}

func (w *drawing) id(kind string, count int) string { return fmt.Sprintf("%s%d", kind, count) }

// scope generates the components of one scope, with edges and connections only from earlier
// components. All givers come before the whole scope.
func (w *drawing) scope(loop string, depth int, givers []string) []string {
	var here []string
	count := 2 + w.IntN(6)
	if loop == "" {
		count = 3 + w.IntN(12)
	}
	for range count {
		if len(w.d.Components) >= w.limit {
			break
		}
		id := w.component(depth)
		w.enter(id, loop, here)
		before := append(slices.Clone(givers), here...)
		w.connect(id, before)
		if w.module(id) == "FOR_EACH" && w.IntN(8) > 0 {
			inner := w.scope(id, depth+1, append(before, id))
			// Later components may collect outputs of the body.
			givers = append(givers, inner...)
		}
		here = append(here, id)
	}
	w.Shuffle(len(w.d.SequenceEdges), func(i, j int) {
		w.d.SequenceEdges[i], w.d.SequenceEdges[j] = w.d.SequenceEdges[j], w.d.SequenceEdges[i]
	})
	return here
}

func (w *drawing) module(id string) string {
	return w.d.Components[slices.IndexFunc(w.d.Components, func(c graph.Component) bool { return c.ID == id })].Module
}

func (w *drawing) component(depth int) string {
	c := graph.Component{ID: w.id("c", len(w.d.Components)), Module: []string{"WORK", "WORK", "IF", "SWITCH", "WAIT", "FOR_EACH"}[w.IntN(6)]}
	switch {
	case c.Module == "FOR_EACH" && depth >= 3:
		c.Module = "WORK"
	case c.Module == "FOR_EACH":
		c.Input = json.RawMessage(`{"items":[]}`)
	case c.Module == "SWITCH":
		c.Config = json.RawMessage(`{"cases":[{"name":"red"},{"name":"green"}]}`)
	}
	if w.IntN(4) == 0 {
		c.OnFailure = graph.OnFailureContinue
	}
	at := w.IntN(len(w.d.Components) + 1)
	w.d.Components = slices.Insert(w.d.Components, at, c)
	return c.ID
}

// ports are the ports of the modules from which edges may start, without `each`.
var ports = map[string][]string{
	"WORK": {"next", "next", "error"}, "IF": {"then", "else", "error"}, "SWITCH": {"red", "green", "default", "error"},
	"WAIT": {"next", "timeout", "error"}, "FAIL": {"next", "error"}, "FOR_EACH": {"done", "next", "error"},
}

// enter draws the edges into a component.
func (w *drawing) enter(id, loop string, here []string) {
	edge := func(from, port string) {
		w.d.SequenceEdges = append(w.d.SequenceEdges, graph.Edge{ID: w.id("e", len(w.d.SequenceEdges)), From: from, To: id, Port: port})
	}
	drawn := w.IntN(4)
	if len(here) == 0 {
		drawn = 0
	}
	for range drawn {
		from := here[w.IntN(len(here))]
		of := ports[w.module(from)]
		edge(from, of[w.IntN(len(of))])
	}
	if loop != "" && (drawn == 0 || w.IntN(6) == 0) {
		edge(loop, graph.PortEach)
	}
}

func (w *drawing) connect(id string, before []string) {
	for range w.IntN(3) {
		if len(before) == 0 || w.module(id) == "FOR_EACH" {
			return
		}
		count := len(w.d.DataConnections)
		c := graph.Connection{ID: w.id("d", count), To: graph.Input{ComponentID: id, Input: w.id("in", count)}}
		c.From = graph.Output{ComponentID: before[w.IntN(len(before))], Output: "value"}
		switch w.module(c.From.ComponentID) {
		case "IF":
			c.From.Output = "result"
		case "WAIT":
			c.From.Output = "payload.deep"
		case "FOR_EACH":
			continue // no stage waits for item and index
		}
		w.d.DataConnections = append(w.d.DataConnections, c)
	}
}

// stage is one stage of a run: a component in an iteration.
type stage struct{ component, iteration string }

// fate returns the outcome of a stage, which depends only on the stage.
func fate(seed uint64, d graph.Component, at stage) graph.State {
	hash := fnv.New64a()
	fmt.Fprint(hash, seed, at)
	n := hash.Sum64() >> 3
	switch {
	case n%100 < 6:
		return graph.State{Status: status.StageFailed}
	case n%100 < 8:
		return graph.State{Status: status.StageCanceled}
	}
	fires := append(slices.DeleteFunc(slices.Clone(ports[d.Module]), func(port string) bool { return port == graph.PortError }), "")
	return graph.State{Status: status.StageCompleted, Port: fires[n/100%uint64(len(fires))]}
}

func items(seed uint64, at stage) int {
	hash := fnv.New64a()
	fmt.Fprint(hash, "items", seed, at)
	return int(hash.Sum64() >> 5 % 4)
}

// run is a run of a plan in random order.
type run struct {
	*testing.T
	*rand.Rand
	seed      uint64
	d         graph.Definition
	plan      *graph.Plan
	reference *reference
	stop      bool // an unhandled failure stops its scope
	ends      func(d graph.Component, at stage) graph.State
	items     func(at stage) int

	states  map[string]map[string]graph.State // by scope
	stages  map[stage]graph.State
	live    []stage
	log     []string       // "+component@iteration" when a stage starts, "-component@iteration" when it finishes
	waiting map[string]int // unfinished iterations of loops, by stage
	failed  bool
	done    bool
}

func (r *run) play() {
	r.states, r.stages, r.waiting = map[string]map[string]graph.State{}, map[stage]graph.State{}, map[string]int{}
	r.open("", "")
	for turns := 0; len(r.live) > 0; turns++ {
		if turns > 100_000 {
			r.Fatalf("seed %d: the run does not end", r.seed)
		}
		pick := r.IntN(len(r.live))
		at := r.live[pick]
		r.live = slices.Delete(r.live, pick, pick+1)
		r.end(at, r.ends(r.reference.component(at.component), at))
	}
	if !r.done {
		r.Errorf("seed %d: nothing is alive, and the run has not ended", r.seed)
	}
}

func scopeName(loop, iteration string) string { return loop + "@" + iteration }

// open starts a scope.
func (r *run) open(loop, iteration string) {
	r.states[scopeName(loop, iteration)] = map[string]graph.State{}
	r.advance(loop, iteration)
}

// advance starts the stages that Next returns for a scope.
func (r *run) advance(loop, iteration string) {
	states := r.states[scopeName(loop, iteration)]
	step := r.plan.Next(loop, states)
	if want := r.reference.step(loop, states); !reflect.DeepEqual(step, want) {
		text, _ := json.Marshal(r.d)
		r.Fatalf("seed %d, scope %s@%s, %v: %+v, want %+v\n%s", r.seed, loop, iteration, states, step, want, text)
	}
	if step.Failed != "" && !r.stop {
		masked := maps.Clone(states)
		for id, state := range masked {
			if state.Status == status.StageFailed {
				masked[id] = graph.State{Status: status.StageCanceled} // fires no port, and does not count as a failure
				if !r.reference.unhandled(id, state) {
					masked[id] = state
				}
			}
		}
		failed := step.Failed
		step = r.plan.Next(loop, masked)
		step.Failed = failed
	}
	for _, id := range step.Ready {
		at := stage{id, iteration}
		if _, twice := r.stages[at]; twice {
			r.Fatalf("seed %d: %v starts twice", r.seed, at)
		}
		states[id] = graph.State{Status: status.StageCreated}
		r.stages[at] = states[id]
		r.log = append(r.log, "+"+scopeName(id, iteration))
	}
	for _, id := range step.Ready {
		at := stage{id, iteration}
		if r.reference.component(id).Module != "FOR_EACH" {
			r.live = append(r.live, at)
			continue
		}
		r.repeat(at)
	}
	if step.Done {
		r.close(loop, iteration, step.Failed != "")
	}
}

// repeat starts the iterations of a FOR_EACH.
func (r *run) repeat(at stage) {
	count := r.items(at)
	r.waiting[scopeName(at.component, at.iteration)] = count
	if count == 0 || len(r.plan.Members(at.component)) == 0 {
		r.live = append(r.live, at)
		return
	}
	for _, i := range r.Perm(count) {
		r.open(at.component, fmt.Sprintf("%s.%d", at.iteration, i))
	}
}

// close finishes a scope. Finishing the last iteration of a FOR_EACH finishes the loop; the loop
// fails if an iteration failed.
func (r *run) close(loop, iteration string, failed bool) {
	if loop == "" {
		if r.done {
			r.Errorf("seed %d: the run ends twice", r.seed)
		}
		r.failed, r.done = failed, true
		return
	}
	at := stage{loop, iteration[:strings.LastIndex(iteration, ".")]}
	name := scopeName(at.component, at.iteration)
	r.waiting[name]--
	if failed {
		r.stages[at] = graph.State{Status: status.StageRunning, Port: graph.PortError}
	}
	if r.waiting[name] == 0 {
		state := graph.State{Status: status.StageCompleted}
		if r.stages[at].Port == graph.PortError {
			state = graph.State{Status: status.StageFailed}
		}
		r.end(at, state)
	}
}

func (r *run) end(at stage, state graph.State) {
	loop := r.plan.Loop(at.component)
	r.stages[at] = state
	r.states[scopeName(loop, at.iteration)][at.component] = state
	r.log = append(r.log, "-"+scopeName(at.component, at.iteration))
	r.advance(loop, at.iteration)
}

// ordered checks that the target of each edge started after its source finished.
func (r *run) ordered() {
	place := map[string]int{}
	for i, line := range r.log {
		place[line] = i
	}
	for _, edge := range r.d.SequenceEdges {
		if r.reference.loops[edge.From] && edge.Port == graph.PortEach {
			continue
		}
		for at := range r.stages {
			ended, ran := place["-"+scopeName(edge.From, at.iteration)]
			if at.component == edge.To && ran && ended > place["+"+scopeName(at.component, at.iteration)] {
				r.Errorf("seed %d: %v started before %s ended", r.seed, at, edge.From)
			}
		}
	}
}

// TestModel plays random definitions in random orders. It compares each step with the reference,
// and each run with a run of the same definition in which failures stop nothing.
func TestModel(t *testing.T) {
	t.Parallel()
	stages := 0
	for seed := range uint64(300) {
		d := draw(seed, []int{12, 25, 60}[seed%3])
		plan, problems := graph.Compile(d, modules)
		if plan == nil {
			text, _ := json.Marshal(d)
			t.Fatalf("seed %d: %s\n%s", seed, told(problems), text)
		}
		reference := newReference(d)
		begin := func(order uint64, stop bool) *run {
			r := &run{T: t, Rand: rand.New(rand.NewPCG(seed, order)), seed: seed, d: d, plan: plan, reference: reference, stop: stop}
			r.ends = func(d graph.Component, at stage) graph.State { return fate(seed, d, at) }
			r.items = func(at stage) int { return items(seed, at) }
			r.play()
			r.ordered()
			stages += len(r.stages)
			return r
		}
		whole := begin(0, false)
		for order := range uint64(3) {
			if again := begin(order+1, false); !reflect.DeepEqual(again.stages, whole.stages) || again.failed != whole.failed {
				t.Errorf("seed %d: the result depends on the order: %v, and %v", seed, whole.stages, again.stages)
			}
			stopped := begin(order+1, true)
			if stopped.failed != whole.failed {
				t.Errorf("seed %d: failed is %v, and %v where nothing stops", seed, stopped.failed, whole.failed)
			}
			for at, state := range stopped.stages {
				if whole.stages[at] != state {
					t.Errorf("seed %d: %v is %v, and %v where nothing stops", seed, at, state, whole.stages[at])
				}
			}
		}
	}
	t.Logf("%d stages", stages)
}
