package engine_test

import (
	"time"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/workflow/engine"
	"github.com/weft-automation/weft/internal/workflow/workflowtest"
)

// maxTurns is more than any run of a drawing needs.
const maxTurns = 2_000

// play lets things happen and advances the runs until all of them have finished.
func (w *world) play() {
	for turns := 0; ; turns++ {
		if turns == maxTurns {
			w.blame("the run does not end")
			w.t.FailNow()
		}
		live, happened := false, false
		for _, m := range w.runs {
			if !m.run.Status.Terminal() {
				live = true
				happened = m.happen() || happened
			}
		}
		if !live {
			return
		}
		for _, m := range w.runs[:len(w.runs):len(w.runs)] {
			happened = m.turn() || happened
		}
		if !happened {
			w.skip()
		}
	}
}

// happen chooses what happens to a run before its next advance, and reports whether anything did.
func (m *memory) happen() (happened bool) {
	var running []*stored
	for _, s := range m.stages {
		if s.live() && s.call != nil && s.Ended == "" {
			running = append(running, s)
		}
	}
	m.Shuffle(len(running), func(i, j int) { running[i], running[j] = running[j], running[i] })
	for _, s := range running[:m.IntN(len(running)+1)] {
		m.execute(s)
		happened = true
	}
	if m.signals["given"] == nil && percent(m.Rand, 20) {
		m.signal()
		happened = true
	}
	if m.parent == nil && percent(m.Rand, m.odds.cancel) {
		m.cancel([]string{engine.CancelGraceful, engine.CancelImmediate}[m.IntN(2)])
		happened = true
	}
	if percent(m.Rand, m.odds.lost) {
		m.news = nil // notifications may be lost
	}
	m.now = m.now.Add(time.Duration(m.IntN(3)) * time.Millisecond)
	return happened || len(running) > 0
}

func (m *memory) signal() {
	m.signals["given"] = []byte(workflowtest.Payload)
	m.wake()
}

func (m *memory) wake() {
	if m.run.WakeAt != nil && m.run.WakeAt.After(m.now) {
		m.run.WakeAt = new(m.now)
	}
}

// cancel requests that a run and those below it are canceled.
func (m *memory) cancel(mode string) {
	if m.run.Status.Terminal() {
		return
	}
	if m.run.CancelRequestedAt == nil {
		m.run.CancelRequestedAt = new(m.now)
	}
	if m.run.CancelMode == nil || *m.run.CancelMode != engine.CancelImmediate {
		m.run.CancelMode = &mode
	}
	m.wake()
	for _, below := range m.runs {
		if below.parent == m {
			below.cancel(mode)
		}
	}
}

// skip sends the signals and wakes runs whose notifications were lost. Otherwise it waits for the next timer.
func (w *world) skip() {
	next, waits := time.Time{}, false
	for _, m := range w.runs {
		if m.run.Status.Terminal() {
			continue
		}
		if m.odds.lost > 0 && m.hasNews() || m.signals["given"] == nil {
			m.signal()
			waits = true
		}
		if next.IsZero() || m.run.WakeAt.Before(next) {
			next = *m.run.WakeAt
		}
	}
	if !waits && next.After(w.now) {
		w.now = next
	}
}

// hasNews reports whether a stage has finished waiting, or the run must be advanced for another reason.
func (m *memory) hasNews() bool {
	if m.run.Status == status.RunCreated || !m.run.WakeAt.After(m.now) || m.run.CancelRequestedAt != nil && !m.run.CancelShown {
		return true
	}
	for _, s := range m.stages {
		if w := m.waiting(s); s.live() && (w.Ended != "" || w.Signaled || w.WakeAt != nil && !w.WakeAt.After(m.now)) {
			return true
		}
	}
	return false
}

// ending reports whether no more stages may start.
func (m *memory) ending() bool { return len(m.run.Error) > 0 || m.run.CancelRequestedAt != nil }

// turn advances a run if it has a reason, and reports whether it did.
func (m *memory) turn() bool {
	if m.run.Status.Terminal() {
		return false
	}
	due := m.run.Status == status.RunCreated || !m.run.WakeAt.After(m.now)
	if !due && len(m.news) == 0 {
		return false
	}
	m.advance(due || percent(m.Rand, 20))
	if m.quiet && !m.run.Status.Terminal() && !m.hasNews() {
		m.checkQuiet()
	}
	return true
}

// decide makes an advance, without storing its changes.
func (m *memory) decide(scanned, first bool) *engine.Advance {
	a := engine.Begin(m.modules, m.load(scanned, first))
	m.copyReused(a)
	stop := maxTurns
	if percent(m.Rand, m.odds.stop) {
		stop = m.IntN(6)
	}
	need, done, err := a.Step(engine.Facts{})
	for round := 0; err == nil && !done; round++ {
		m.tally.steps++
		facts := m.answer(a, need)
		facts.Stop = round >= stop
		need, done, err = a.Step(facts)
	}
	if err != nil {
		m.blame("an advance failed: %v", err)
	}
	if fee := a.Fee(); fee > 0 && !a.ExceededBy(fee) {
		a.Charge(fee, max(0, a.Run.Committed+fee-a.Run.Reserved))
	}
	return a
}

// advance advances a run. Sometimes the process dies before the commit, and the changes are lost.
func (m *memory) advance(scanned bool) {
	first := !m.tried && m.parent == nil && m.reuse.from == nil && percent(m.Rand, 50)
	news, ending := m.news, m.ending()
	a := m.decide(scanned, first)
	m.tried = true
	m.tally.advances++
	if first && (a.Run.PendingCount == 0 || a.Fee() > 0) || percent(m.Rand, m.odds.lost) {
		m.tally.lost++
		if m.news = news; m.run.Status == status.RunCreated { // no stages were stored
			m.stages, m.at = nil, map[engine.Place]*stored{}
		}
		return
	}
	m.apply(a)
	m.check(a, ending)
	if percent(m.Rand, m.odds.lost) {
		return // the process dies after the commit
	}
	for _, id := range a.CancelChildren {
		m.prepared[id].cancel(engine.CancelImmediate)
	}
	if m.ending() && m.run.PendingCount > 0 && (a.Halted || a.Scanned) {
		m.cancelRest()
	}
}

// cancelRest cancels the executions of a run that is ending. Without the mode immediate, those that have
// started may finish.
func (m *memory) cancelRest() {
	for _, s := range m.stages {
		immediate := m.run.CancelMode != nil && *m.run.CancelMode == engine.CancelImmediate
		if s.live() && s.call != nil && s.Ended == "" && (immediate || percent(m.Rand, 50)) {
			s.Ended, s.EndedAt, s.Error = string(status.ExecutionFailed), m.now, []byte(`{"code":"CANCELED","message":"the run was canceled","retryable":false,"attempt":1,"details":null}`)
			m.news = append(m.news, *s.ExecutionID)
		}
	}
}

// check compares the counts of a run with its stages.
func (m *memory) check(a *engine.Advance, ending bool) {
	var recount engine.Counts
	usage := m.run.StorageFee
	for _, s := range m.stages {
		recount.StageCount++
		recount.OutputBytes += s.bytes()
		usage += s.usage
		switch {
		case s.live():
			recount.PendingCount++
		case s.state.Status == status.StageFailed:
			recount.FailedCount++
		}
	}
	if m.run.Counts != recount || m.run.Usage != usage {
		m.blame("the counts are %+v with a usage of %s, want %+v and %s", m.run.Counts, m.run.Usage, recount, usage)
	}
	if m.run.Reserved < m.run.Committed {
		m.blame("%s are reserved, and %s committed", m.run.Reserved, m.run.Committed)
	}
	if m.run.Status.Terminal() && recount.PendingCount > 0 {
		m.blame("the run is %s with %d unfinished stages", m.run.Status, recount.PendingCount)
	}
	if !a.More && !m.ending() && m.reuse.from == nil {
		m.checkNothingReady()
	}
	if ending {
		m.tally.ending++
		if len(a.Stages)+len(a.Children) > 0 {
			m.blame("the run is ending, and starts %d stages", len(a.Stages))
		}
	}
}

// checkNothingReady checks that no component is ready once no advance must follow.
func (m *memory) checkNothingReady() {
	for _, s := range m.stages {
		around, failing := m.plan.Around(s.ComponentID), false
		for level, loop := range around {
			failing = failing || m.at[engine.PlaceOf(loop, s.Iteration[:level])].FailedItems > 0
		}
		if !s.live() || failing {
			continue
		}
		states := map[string]graph.State{}
		for _, id := range m.plan.Members(m.plan.Loop(s.ComponentID)) {
			if other := m.at[engine.PlaceOf(id, s.Iteration)]; other != nil {
				states[id] = other.state
			}
		}
		if ready := m.plan.Next(m.plan.Loop(s.ComponentID), states).Ready; len(ready) > 0 {
			m.blame("%v in %v are ready, and no advance follows", ready, s.Iteration)
		}
	}
}

// checkQuiet checks that advances without news change nothing.
func (m *memory) checkQuiet() {
	m.tally.quiet++
	a := m.decide(true, false)
	if a.Changed || a.More || len(a.Stages)+len(a.Ends)+len(a.Moved())+len(a.Children) > 0 {
		m.blame("an advance without news changes %d stages, %d ends, %d loops: Changed is %v, More %v", len(a.Stages), len(a.Ends), len(a.Moved()), a.Changed, a.More)
	}
	if before := m.run; a.Run.Counts != before.Counts || a.Run.Credits != before.Credits || a.Run.Status != before.Status {
		m.blame("an advance without news changes the run from %+v to %+v", before, a.Run)
	}
}

// played returns the run and its stages in the form of the API.
func (m *memory) played() workflowtest.Played {
	p := workflowtest.Played{Stages: map[string]api.RunStage{}}
	p.Run = api.WorkflowRun{ID: m.run.ID, Status: m.run.Status, Error: m.run.Error, Output: m.run.Output, TotalUsage: m.run.Usage - m.run.StorageFee}
	for _, s := range m.stages {
		p.Stages[workflowtest.Place(s.ComponentID, s.Iteration)] = api.RunStage{
			ID: s.ID, ComponentID: s.ComponentID, Module: s.Module, Iteration: s.Iteration, Status: s.state.Status, Output: s.output, Error: s.failure, CreditUsage: s.usage,
		}
	}
	return p
}
