package engine_test

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

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/component/modules/logic"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/workflow/engine"
	"github.com/weft-automation/weft/internal/workflow/workflowtest"
)

// library returns the modules of drawings.
var library = sync.OnceValues(func() (*component.Registry, error) {
	return component.NewRegistry(append(logic.Modules(), workflowtest.Work(), workflowtest.Pure())...)
})

// game is a drawing that is played, possibly several times.
type game struct {
	t       *testing.T
	seed    uint64
	drawing *workflowtest.Drawing
	modules *component.Registry
	plan    *graph.Plan
	input   json.RawMessage
	want    *workflowtest.Reference
	told    bool // the drawing was printed
}

// draw draws a workflow. Each eighth one runs a drawn workflow, unless that waits for a signal.
func draw(t *testing.T, seed uint64) *game {
	t.Helper()
	w := workflowtest.Draw(seed, []int{12, 25, 60}[seed%3])
	w.Compute(int(seed / 12 % 3))
	if seed%8 == 7 && !w.WaitsForSignal() {
		w = workflowtest.Nest(w, uuid.NewString(), seed%7)
	}
	return newGame(t, seed, w)
}

// newGame returns a game with a drawing.
func newGame(t *testing.T, seed uint64, w *workflowtest.Drawing) *game {
	t.Helper()
	modules, err := library()
	if err != nil {
		t.Fatal(err)
	}
	g := &game{t: t, seed: seed, drawing: w, modules: modules, plan: w.Plan(t, modules), input: fmt.Appendf(nil, `{"n":%d}`, seed%7)}
	g.want = workflowtest.Interpret(w, g.input)
	return g
}

// blame reports a fault with the seed and, once, the drawing.
func (g *game) blame(format string, args ...any) {
	g.t.Helper()
	g.t.Errorf("seed %d: %s", g.seed, fmt.Sprintf(format, args...))
	if !g.told {
		g.told = true
		g.t.Logf("seed %d is %s", g.seed, g.drawing)
	}
}

// start returns a run of the drawing. The order in which things happen depends on chance.
func (g *game) start(chance uint64, o odds) *memory {
	w := &world{
		Rand: rand.New(rand.NewPCG(g.seed, chance)), t: g.t, blame: g.blame, modules: g.modules, odds: o,
		now: time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC), prepared: map[uuid.UUID]*memory{},
	}
	m := newMemory(w, g.drawing, g.plan, g.input)
	if chance%2 == 0 {
		m.run.MaxCredits = new(1_000_000 * workflowtest.Price)
	}
	w.runs = append(w.runs, m)
	return m
}

// play is start until the run has finished as the reference says.
func (g *game) play(chance uint64, o odds) *memory {
	m := g.start(chance, o)
	m.world.play()
	g.want.Compare(m.played(), o.cancel > 0, g.blame)
	for _, below := range m.runs[1:] {
		workflowtest.Interpret(below.drawing, below.input).Compare(below.played(), o.cancel > 0, g.blame)
	}
	return m
}

// same compares two runs of the drawing: what no failure elsewhere stops is equal.
func (g *game) same(a, b *memory) {
	strict := g.want.Exact() && !slices.ContainsFunc(a.runs[1:], func(m *memory) bool { return !workflowtest.Interpret(m.drawing, m.input).Exact() })
	one, other := a.played(), b.played()
	for at := range g.want.Fates {
		if g.want.Loose(at) {
			continue
		}
		x, y := one.Stages[at], other.Stages[at]
		if x.Status != y.Status || x.CreditUsage != y.CreditUsage || a.port(at) != b.port(at) || x.Module != "DELAY" && workflowtest.Canonical(x.Output) != workflowtest.Canonical(y.Output) {
			g.blame("%s is %s %q %s, and then %s %q %s", at, x.Status, a.port(at), x.Output, y.Status, b.port(at), y.Output)
		}
	}
	if one.Run.Status != other.Run.Status || strict && (a.run.Usage != b.run.Usage || a.run.UsageBelow != b.run.UsageBelow || a.run.Counts.StageCount != b.run.Counts.StageCount || workflowtest.Canonical(a.run.Output) != workflowtest.Canonical(b.run.Output)) {
		g.blame("the run is %+v, and then %+v", a.run, b.run)
	}
}

// port returns the port of a stage.
func (m *memory) port(at string) string {
	for _, s := range m.stages {
		if workflowtest.Place(s.ComponentID, s.Iteration) == at {
			return s.state.Port
		}
	}
	return ""
}

func TestRandomDrawingsEndAsTheReferenceSays(t *testing.T) {
	t.Parallel()
	began, ended := time.Now(), map[status.Run]int{}
	var all tally
	stages, below := 0, 0
	for _, seed := range workflowtest.Seeds(t, waittest.Size(1_000, 10_000)) {
		o := odds{}
		if seed%16 == 3 || seed%16 == 7 || seed%16 == 12 {
			o.cancel = 4
		}
		m := draw(t, seed).play(0, o)
		ended[m.run.Status]++
		stages, below = stages+len(m.stages), below+len(m.runs)-1
		all.advances, all.steps, all.paced = all.advances+m.tally.advances, all.steps+m.tally.steps, all.paced+m.tally.paced
	}
	t.Logf("the runs are %v, with %d stages, %d child runs, %d advances, %d needs and %d items with a pace, in %.1f s", ended, stages, below, all.advances, all.steps, all.paced, time.Since(began).Seconds())
	if stages > 100 && (len(ended) < 3 || all.paced < 10) {
		t.Error("the drawings lack some cases")
	}
}

func TestOrderOfEndsChangesNothing(t *testing.T) {
	t.Parallel()
	for _, seed := range workflowtest.Seeds(t, waittest.Size(100, 1_000)) {
		g := draw(t, seed)
		first := g.play(0, odds{})
		for chance := range uint64(3) {
			g.same(first, g.play(1+chance, odds{}))
		}
	}
}

func TestAStopOrLostChangesGiveTheSameEnd(t *testing.T) {
	t.Parallel()
	var lost int
	for _, seed := range workflowtest.Seeds(t, waittest.Size(100, 1_000)) {
		g := draw(t, seed)
		first := g.play(0, odds{})
		for _, o := range []odds{{stop: 100}, {lost: 30}, {stop: 50, lost: 20}} {
			again := g.play(1, o)
			g.same(first, again)
			lost += again.tally.lost
		}
	}
	t.Logf("%d advances were lost", lost)
}

func TestAnAdvanceWithoutNewsChangesNothing(t *testing.T) {
	t.Parallel()
	checked := 0
	for _, seed := range workflowtest.Seeds(t, waittest.Size(200, 2_000)) {
		g := draw(t, seed)
		m := g.start(0, odds{stop: 10, cancel: int(seed % 3)})
		m.quiet = true
		m.world.play()
		checked += m.tally.quiet
	}
	if t.Logf("%d advances", checked); checked == 0 {
		t.Error("no advance was without news")
	}
}

func TestCountersEqualARecount(t *testing.T) {
	t.Parallel()
	var all tally
	for _, seed := range workflowtest.Seeds(t, waittest.Size(200, 2_000)) {
		m := draw(t, seed).start(0, odds{stop: 20, lost: 10, cancel: int(seed%4) * 2})
		m.world.play() // each advance is checked
		all.advances, all.ending = all.advances+m.tally.advances, all.ending+m.tally.ending
	}
	if t.Logf("%d advances, %d of them of runs that are ending", all.advances, all.ending); all.ending == 0 {
		t.Error("no run was ending")
	}
}

func TestARerunRepeatsNothingThatFinished(t *testing.T) {
	t.Parallel()
	taken := 0
	for _, seed := range workflowtest.Seeds(t, waittest.Size(100, 1_000)) {
		g := draw(t, seed)
		if g.drawing.Below == nil { // child runs of reruns have tests with a database
			taken += g.repeat()
		}
	}
	if t.Logf("%d stages were reused", taken); taken == 0 {
		t.Error("no stage was reused")
	}
}

// repeat plays a run and three reruns, and returns the number of reused stages.
func (g *game) repeat() (count int) {
	var before *memory
	from, known := (*uuid.UUID)(nil), map[string][]workflowtest.Effect{}
	want := g.want
	for generation := range 4 {
		m := g.start(uint64(generation), odds{stop: 10, lost: 10, cancel: 3})
		m.generation = generation
		taken := map[string]uuid.UUID{}
		if before != nil {
			m.rerun(before, from)
			stages := before.played().Stages
			if from == nil {
				stages = want.Reused(stages, nil)
			} else {
				s := before.byID(*from)
				stages = want.Reused(stages, new(stages[workflowtest.Place(s.ComponentID, s.Iteration)]))
			}
			for at, stage := range stages {
				taken[at] = stage.ID
			}
			want = workflowtest.InterpretRerun(g.drawing, g.input, generation, stages)
		}
		m.world.play()
		after := m.played()
		want.Compare(after, true, g.blame)
		g.checkReused(m, before, taken)
		for _, made := range m.executed {
			if _, over := taken[made.At]; over {
				g.blame("run %d: %s is reused and runs again", generation, made.At)
			}
			if made.Given == "" {
				continue
			}
			for _, earlier := range known[made.At] {
				if (earlier.Given == made.Given) != (earlier.Key == made.Key) {
					g.blame("run %d: %s with %s has the key %s, and with %s %s", generation, made.At, made.Given, made.Key, earlier.Given, earlier.Key)
				}
			}
			known[made.At] = append(known[made.At], made)
		}
		before, from, count = m, nil, count+len(taken)
		if len(m.stages) > 0 && m.IntN(2) == 0 {
			from = &m.stages[m.IntN(len(m.stages))].ID
		}
	}
	return count
}

// checkReused checks that a rerun has reused the stages that the reference says, and no others.
func (g *game) checkReused(m, before *memory, taken map[string]uuid.UUID) {
	if before == nil {
		return
	}
	old := map[string]uuid.UUID{}
	for _, s := range m.stages {
		if slices.ContainsFunc(before.stages, func(b *stored) bool { return b.ID == s.ID }) {
			old[workflowtest.Place(s.ComponentID, s.Iteration)] = s.ID
		}
	}
	if !maps.Equal(old, taken) {
		g.blame("the rerun reuses %v, want %v", slices.Sorted(maps.Keys(old)), slices.Sorted(maps.Keys(taken)))
	}
}

// rerun makes the run a rerun of an earlier run.
func (m *memory) rerun(earlier *memory, from *uuid.UUID) {
	stages := make([]engine.EarlierStage, len(earlier.stages))
	for i, s := range earlier.stages {
		stages[i] = engine.EarlierStage{ID: s.ID, ComponentID: s.ComponentID, Iteration: s.Iteration, Status: s.state.Status, Port: new(s.state.Port), ItemCount: s.ItemCount, ChildRunID: s.ChildRunID}
	}
	reuse, err := engine.Repeat(m.plan, stages, nil, from, nil)
	if err != nil {
		m.blame("what a rerun reuses: %v", err)
	}
	m.reuse.Reuse, m.reuse.from = reuse, earlier
	m.run.Rerun, m.run.EffectRoot = true, earlier.run.EffectRoot
}
