package engine_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/account/storage"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/workflow/engine"
	"github.com/weft-automation/weft/internal/workflow/workflowtest"
)

// memory stores a run and what it waits for, as package orchestrator does in PostgreSQL. It answers the
// needs of advances and applies their changes.
type memory struct {
	*world
	drawing *workflowtest.Drawing
	plan    *graph.Plan
	input   json.RawMessage
	parent  *memory
	run     engine.Run
	root    map[string]graph.State
	stages  []*stored
	at      map[engine.Place]*stored
	signals map[string]json.RawMessage
	news    []uuid.UUID          // executions that finished and that the next advance may read
	tried   bool                 // the first advance was made
	paces   map[string]time.Time // when the last item of each loop with perSecond started
	reuse   reuse
}

// world is what the runs of a tree share. The random generator chooses what happens, and when.
type world struct {
	*rand.Rand
	t          testing.TB
	blame      func(format string, args ...any)
	modules    *component.Registry
	now        time.Time
	runs       []*memory
	prepared   map[uuid.UUID]*memory // child runs, which count once their stages are stored
	generation int                   // of WORK
	odds       odds
	quiet      bool                  // check that advances without news change nothing
	executed   []workflowtest.Effect // calls of WORK and PURE
	tally      tally
}

// tally counts what happened.
type tally struct{ advances, steps, lost, quiet, ending, paced int }

// odds are the chances of faults and cancels, in percent of advances.
type odds struct{ stop, lost, cancel int }

// reuse is what a rerun reuses.
type reuse struct {
	engine.Reuse
	from *memory
}

// stored is a stage with its execution.
type stored struct {
	engine.Waiting
	state    graph.State
	output   json.RawMessage
	failure  json.RawMessage
	usage    credit.Amount
	items    json.RawMessage
	finished time.Time
	call     *engine.Execution
	result   json.RawMessage // output of the execution
}

// bytes returns what counts as output: of the states of a REPEAT, only the last.
func (s *stored) bytes() int64 {
	if s.Module == component.Continue {
		return int64(len(s.items))
	}
	return int64(len(s.output) + len(s.items))
}

func (s *stored) live() bool { return !s.state.Status.Terminal() }

func percent(r *rand.Rand, of int) bool { return r.IntN(100) < of }

// newMemory returns a run that is not part of the world yet.
func newMemory(w *world, drawing *workflowtest.Drawing, plan *graph.Plan, input json.RawMessage) *memory {
	id := uuid.Must(uuid.NewV7())
	m := &memory{world: w, drawing: drawing, plan: plan, input: input, at: map[engine.Place]*stored{}, signals: map[string]json.RawMessage{}}
	m.run = engine.Run{ID: id, EffectRoot: id, Status: status.RunCreated, Trigger: "API"}
	m.run.Times = engine.Times{CreatedAt: w.now, UpdatedAt: w.now, Deadline: w.now.Add(24 * time.Hour), WakeAt: new(w.now)}
	w.prepared[id] = m
	return m
}

// load returns the state from which an advance starts. Unless the advance scans, it reads only stages
// whose executions are known to have finished.
func (m *memory) load(scanned, first bool) engine.State {
	state := engine.State{Run: m.run, Plan: m.plan, Input: engine.Input{JSON: m.input}, Scanned: scanned, First: first, Signals: map[string]engine.Value{}}
	state.Run.Now, state.Run.Solvent = m.now, true
	state.Own = m.run.Made()
	for _, other := range m.runs {
		if other != m {
			state.Others = state.Others.Plus(other.run.Made())
		}
		if other.parent != nil && !other.run.Status.Terminal() {
			state.Live++
		}
	}
	if percent(m.Rand, 50) {
		state.Root = m.root
	}
	if percent(m.Rand, m.odds.stop) {
		state.Halved, state.ExecuteAll = m.IntN(7), percent(m.Rand, 20)
	}
	known := m.news
	if !scanned { // some of them, in any order
		m.Shuffle(len(known), func(i, j int) { known[i], known[j] = known[j], known[i] })
		known = known[:1+m.IntN(len(known))]
	}
	m.news = m.news[len(known):]
	for _, s := range m.stages {
		if s.live() && (scanned || s.ExecutionID != nil && slices.Contains(known, *s.ExecutionID)) {
			state.Waiting = append(state.Waiting, m.waiting(s))
		}
	}
	for name, payload := range m.signals {
		state.Signals[name] = engine.Value{Output: json.RawMessage(`{"payload":` + string(payload) + `}`)}
	}
	return state
}

// waiting returns an unfinished stage with the state of what it waits for.
func (m *memory) waiting(s *stored) engine.Waiting {
	w := s.Waiting
	w.Status = string(s.state.Status)
	if w.Signal != nil {
		_, w.Signaled = m.signals[*w.Signal]
	}
	if w.ChildRunID != nil {
		if child := m.prepared[*w.ChildRunID].run; child.Status.Terminal() {
			w.Ended, w.Error, w.UsedBelow = string(child.Status), child.Error, int64(child.Usage+child.UsageBelow)
			w.Bytes, w.Responded, w.EndedAt = int64(len(child.Output)), child.Output != nil, child.UpdatedAt
		}
	}
	return w
}

// apply stores the changes of an advance.
func (m *memory) apply(a *engine.Advance) {
	if a.Changed {
		a.Decide()
	} else if !a.Scanned {
		return
	}
	before := m.begun()
	for _, t := range a.Stages {
		m.insert(a, t)
	}
	for _, e := range a.Ends {
		m.finish(a, e)
	}
	for _, p := range a.Moved() {
		s := m.byID(p.ID)
		s.NextItem, s.LiveItems, s.FailedItems = p.NextItem, p.LiveItems, p.FailedItems
	}
	m.checkPaces(before)
	for above := m.parent; above != nil; above = above.parent {
		above.run.Below += a.Spent
	}
	below := m.run.Below
	m.run, m.root = a.Run, a.RootStates()
	m.run.Below, m.run.WakeAt, m.run.Paces = below, a.NextWake(), a.Paces()
	if a.At.After(m.run.UpdatedAt) {
		m.run.UpdatedAt = a.At
	}
	m.run.CancelShown = a.Changed && m.run.CancelRequestedAt != nil || m.run.CancelShown
	if m.run.Status.Terminal() && m.parent != nil {
		m.parent.wake()
	}
}

func (m *memory) byID(id uuid.UUID) *stored {
	return m.stages[slices.IndexFunc(m.stages, func(s *stored) bool { return s.ID == id })]
}

// add stores a stage.
func (m *memory) add(s *stored) {
	p := engine.PlaceOf(s.ComponentID, s.Iteration)
	if m.at[p] != nil {
		m.blame("%v starts twice", p)
	}
	m.stages, m.at[p] = append(m.stages, s), s
}

// insert stores a new stage.
func (m *memory) insert(a *engine.Advance, t *engine.Stage) {
	s := &stored{
		Waiting: engine.Waiting{ID: t.ID, ComponentID: t.Component.ID, Module: t.Component.Module, Iteration: t.Iteration},
		state:   graph.State{Status: t.Status, Port: t.Port}, output: t.Output, failure: t.Failure, usage: t.Usage, items: t.Items, call: t.Execution,
	}
	if t.Status != status.StageCreated {
		s.StartedAt = new(a.At)
	}
	if t.Status.Terminal() {
		s.finished = a.At
	}
	if t.Execution != nil {
		s.ExecutionID = &t.Execution.ID
	}
	if t.Child != uuid.Nil {
		s.ChildRunID = &t.Child
		m.runs = append(m.runs, m.prepared[t.Child])
	}
	if t.Loop != nil {
		s.ItemCount, s.NextItem, s.LiveItems, s.FailedItems = &t.Loop.ItemCount, t.Loop.NextItem, t.Loop.LiveItems, t.Loop.FailedItems
	}
	if t.Wake > 0 {
		s.WakeAt = new(a.Run.Now.Add(t.Wake))
	}
	if t.Signal != "" {
		s.Signal = &t.Signal
	}
	m.add(s)
}

// begun counts the items that each loop with perSecond has started, by component.
func (m *memory) begun() map[string]int {
	items := map[string]int{}
	for _, s := range m.stages {
		if c, _ := m.plan.Component(s.ComponentID); s.ItemCount != nil && bytes.Contains(c.Config, []byte("perSecond")) {
			items[s.ComponentID] += int(s.NextItem)
		}
	}
	return items
}

// checkPaces checks that the items of an advance started no faster than perSecond says, in all loops of a
// component together.
func (m *memory) checkPaces(before map[string]int) {
	for component, items := range m.begun() {
		switch started := items - before[component]; {
		case started == 0:
			continue
		case started > 1:
			m.blame("%d items of %s start together", started, component)
		case m.now.Sub(m.paces[component]) < time.Second/workflowtest.PerSecond:
			m.blame("an item of %s starts %v after the one before", component, m.now.Sub(m.paces[component]))
		}
		if m.paces == nil {
			m.paces = map[string]time.Time{}
		}
		m.paces[component] = m.now
		m.tally.paced++
	}
}

// finish stores the end of a stage. The output of an execution or a child run is copied.
func (m *memory) finish(a *engine.Advance, e engine.End) {
	s := m.byID(e.ID)
	if !s.live() {
		m.blame("%s@%v ends twice", s.ComponentID, s.Iteration)
	}
	s.state, s.output, s.failure, s.usage, s.finished = graph.State{Status: e.Status, Port: e.Port}, e.Output, e.Failure, credit.Amount(s.Usage), a.At
	switch {
	case e.Output != nil:
	case e.Execution != uuid.Nil:
		s.output = s.result
	case e.Child != uuid.Nil && e.Status == status.StageCompleted:
		s.output = m.prepared[e.Child].run.Output
	}
	if s.ItemCount != nil {
		s.NextItem, s.LiveItems, s.FailedItems = e.Next, 0, e.Failed
	}
}

// copyReused stores the stages that a rerun reuses, in its first advance.
func (m *memory) copyReused(a *engine.Advance) {
	if m.reuse.from == nil || m.run.Status != status.RunCreated || len(m.reuse.Stages) == 0 {
		return
	}
	var made storage.Usage
	var failed int32
	var last time.Time
	var response engine.Value
	for _, s := range m.reuse.from.stages {
		if !slices.Contains(m.reuse.Stages, s.ID) {
			continue
		}
		reused := *s
		reused.usage = 0
		m.add(&reused)
		made = made.Plus(storage.Usage{Stages: 1, Bytes: s.bytes()})
		if s.finished.After(last) {
			last = s.finished
		}
		switch {
		case s.state.Status == status.StageFailed:
			failed++
		case s.Module == "RESPOND":
			response.Output = s.output
		}
	}
	a.Copied(made, failed, last, response)
}
