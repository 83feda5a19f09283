package graph_test

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/kit/waittest"
)

// sketch returns a definition written as words such as "go:START", "a:WORK!" (onFailure: continue)
// and "a.then>b".
func sketch(t *testing.T, text string) (d graph.Definition) {
	t.Helper()
	for i, word := range strings.Fields(text) {
		if id, module, ok := strings.Cut(word, ":"); ok {
			c := graph.Component{ID: id}
			var on bool
			if c.Module, on = strings.CutSuffix(module, "!"); on {
				c.OnFailure = graph.OnFailureContinue
			}
			switch c.Module {
			case "FOR_EACH":
				c.Input = json.RawMessage(`{"items":[]}`)
			case "SWITCH":
				c.Config = json.RawMessage(`{"cases":[{"name":"red"},{"name":"green"}]}`)
			}
			d.Components = append(d.Components, c)
			continue
		}
		from, to, ok := strings.Cut(word, ">")
		if !ok {
			t.Fatalf("%q is neither a component nor an edge", word)
		}
		from, port, _ := strings.Cut(from, ".")
		d.SequenceEdges = append(d.SequenceEdges, graph.Edge{ID: fmt.Sprint("e", i), From: from, To: to, Port: port})
	}
	return d
}

// pricing sets the costs of a test: a completed WORK costs the given charge, a FOR_EACH runs its
// body for the given number of items, and all other components are free.
type pricing struct {
	plan   *graph.Plan
	charge func(id string) int64
	items  func(id string) int64
}

func (p pricing) price(c graph.Component) graph.Price {
	one := graph.Cost{Stages: 1}
	price := graph.Price{Completed: graph.Range{Least: one, Most: one}, Failed: graph.Range{Least: one, Most: one}}
	switch c.Module {
	case "WORK":
		paid := graph.Cost{Charge: p.charge(c.ID), Stages: 1}
		price.Completed = graph.Range{Least: paid, Most: paid}
	case "FOR_EACH":
		body, count := p.plan.Costs(c.ID, p.price), p.items(c.ID)
		price = price.With(graph.Range{Least: body.Least.Times(count), Most: body.Most.Times(count)})
	}
	return price
}

// numbered returns the number at the end of the ID of a WORK.
func numbered(id string) (charge int64) {
	_, _ = fmt.Sscanf(id, "w%d", &charge)
	return charge
}

func TestCostsOfKnownGraphs(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		definition  string
		least, most int64
	}{
		"a chain":    {"w1:WORK w2:WORK w1>w2", 3, 3},
		"concurrent": {"w1:WORK w2:WORK", 3, 3},
		"a failure that is handled costs nothing":  {"w5:WORK! w1:WORK w5>w1", 1, 6},
		"alternatives by an error port":            {"w5:WORK w3:WORK w2:WORK w5>w3 w5.error>w2", 2, 8},
		"a join after alternatives by error":       {"w5:WORK w3:WORK w2:WORK w7:WORK w5>w3 w5.error>w2 w3>w7 w2>w7", 9, 15},
		"the same component by both ports":         {"w5:WORK w3:WORK w5>w3 w5.error>w3", 3, 8},
		"exclusive branches":                       {"i:IF w3:WORK w2:WORK i.then>w3 i.else>w2", 2, 3},
		"a branch without components":              {"i:IF w3:WORK i.then>w3", 0, 3},
		"a join after branches":                    {"i:IF w3:WORK w2:WORK w7:WORK i.then>w3 i.else>w2 w3>w7 w2>w7", 9, 10},
		"a join that one branch does not reach":    {"s:SWITCH w3:WORK w2:WORK w7:WORK s.red>w3 s.green>w2 w3>w7 w2>w7", 0, 10},
		"a switch with all of its cases":           {"s:SWITCH w3:WORK w2:WORK w4:WORK s.red>w3 s.green>w2 s.default>w4", 2, 4},
		"branches in a branch":                     {"i:IF j:IF w3:WORK w2:WORK w9:WORK i.then>j j.then>w3 j.else>w2 i.else>w9", 2, 9},
		"a branch that fails the run":              {"i:IF w3:WORK f:FAIL i.then>w3 i.else>f", 3, 3},
		"a failure on purpose that is passed over": {"i:IF w3:WORK f:FAIL! w2:WORK i.then>w3 i.else>f f>w2", 2, 3},
		"a run that never completes":               {"w3:WORK f:FAIL", 0, 3},
		"what comes after a failure on purpose":    {"f:FAIL w3:WORK f>w3", 0, 0},
		"one of two triggers":                      {"a:START b:CLOCK w3:WORK w2:WORK w1:WORK a>w3 b>w2 w3>w1 w2>w1", 3, 4},
		"branches that cross":                      {"i:IF j:IF w3:WORK i.then>w3 j.then>w3", 0, 3},
		"a way around a component":                 {"i:IF w3:WORK w2:WORK i.then>w3 i.else>w2 w3>w2", 2, 5},
		"a loop":                                   {"l:FOR_EACH w2:WORK w1:WORK l.each>w2 l.done>w1", 7, 7},
		"a loop whose failure is handled":          {"l:FOR_EACH! w2:WORK w1:WORK l.each>w2 l.done>w1", 1, 7},
		"branches in a loop":                       {"l:FOR_EACH i:IF w2:WORK w1:WORK l.each>i i.then>w2 i.else>w1", 3, 6},
		"a loop in a loop":                         {"l:FOR_EACH m:FOR_EACH w1:WORK w2:WORK l.each>m l.each>w2 m.each>w1", 15, 15},
		"two ways into an iteration":               {"l:FOR_EACH w1:WORK w2:WORK l.each>w1 l.each>w2 w1>w2", 9, 9},
		"nothing":                                  {"", 0, 0},
	} {
		plan, problems := graph.Compile(sketch(t, c.definition), modules)
		if plan == nil {
			t.Errorf("%s: %s", what, told(problems))
			continue
		}
		got := plan.Costs("", pricing{plan, numbered, func(string) int64 { return 3 }}.price)
		if got.Least.Charge != c.least || got.Most.Charge != c.most {
			t.Errorf("%s: from %d to %d, want %d to %d", what, got.Least.Charge, got.Most.Charge, c.least, c.most)
		}
	}
}

func TestCostsDoNotOverflow(t *testing.T) {
	t.Parallel()
	text := "w1:WORK"
	for i := range graph.MaxDepth {
		text += fmt.Sprintf(" l%d:FOR_EACH l%[1]d.each>%s", i, map[bool]string{true: "w1", false: fmt.Sprint("l", i-1)}[i == 0])
	}
	plan, problems := graph.Compile(sketch(t, text), modules)
	if plan == nil {
		t.Fatal(told(problems))
	}
	got := plan.Costs("", pricing{plan, numbered, func(string) int64 { return 10_000 }}.price)
	if got.Least.Charge < 1<<62 || got.Most.Charge < 1<<62 || got.Most.Stages < 1<<62 {
		t.Errorf("%+v", got)
	}
}

// TestCostsHoldForRandomRuns plays random definitions with random outcomes: no run costs more than
// the upper bound, and no run that completes costs less than the lower bound.
func TestCostsHoldForRandomRuns(t *testing.T) {
	t.Parallel()
	graphs := waittest.Size[uint64](200, 10_000)
	completed, bounded := 0, 0
	for seed := range graphs {
		d := draw(seed, []int{6, 12, 25, 60}[seed%4])
		for i := range d.Components {
			if c := &d.Components[i]; c.Module == "WORK" && i%7 == 6 {
				c.Module = "FAIL"
			}
		}
		plan, problems := graph.Compile(d, modules)
		if plan == nil {
			t.Fatalf("seed %d: %s", seed, told(problems))
		}
		number := func(what string, n uint64) int64 {
			hash := fnv.New64a()
			fmt.Fprint(hash, seed, what)
			return int64(hash.Sum64() >> 5 % n)
		}
		p := pricing{plan, func(id string) int64 { return number(id, 10) }, func(id string) int64 { return number("items of "+id, 4) }}
		bounds := plan.Costs("", p.price)
		if bounds.Least.Charge > 0 {
			bounded++
		}
		reference := newReference(d)
		for order := range uint64(8) {
			got := playCost(t, seed, order, reference, p)
			if got.completed {
				completed++
			}
			if got.completed && (got.cost.Charge < bounds.Least.Charge || got.cost.Stages < bounds.Least.Stages) ||
				got.cost.Charge > bounds.Most.Charge || got.cost.Stages > bounds.Most.Stages {
				text, _ := json.Marshal(d)
				t.Fatalf("seed %d, order %d: %+v, beyond %+v\n%s", seed, order, got, bounds, text)
			}
		}
	}
	t.Logf("%d of %d runs completed, %d graphs have a lower bound", completed, 8*graphs, bounded)
	if completed < int(graphs) || bounded < int(graphs)/10 {
		t.Error("the drawings lack some cases")
	}
}

// playedCost returns the cost of a run, and whether the run completed.
type playedCost struct {
	cost      graph.Cost
	completed bool
}

func playCost(t *testing.T, seed, order uint64, of *reference, p pricing) (got playedCost) {
	chance := rand.New(rand.NewPCG(seed, order))
	failing := []int{0, 5, 30, 60}[order%4]
	r := &run{T: t, Rand: chance, seed: seed, d: of.d, plan: p.plan, reference: of, stop: true}
	r.items = func(at stage) int { return int(p.items(at.component)) }
	r.ends = func(c graph.Component, _ stage) graph.State {
		if c.Module == "FAIL" || chance.IntN(100) < failing {
			return graph.State{Status: status.StageFailed}
		}
		fires := ports[c.Module][:len(ports[c.Module])-1] // without error
		return graph.State{Status: status.StageCompleted, Port: fires[chance.IntN(len(fires))]}
	}
	r.play()
	got.completed = !r.failed
	for at, state := range r.stages {
		got.cost.Stages++
		if state.Status == status.StageCompleted && of.component(at.component).Module == "WORK" {
			got.cost.Charge += p.charge(at.component)
		}
	}
	return got
}
