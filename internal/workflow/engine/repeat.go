package engine

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/kit/strictjson"
)

// A REPEAT is a loop of which each iteration starts with the state that the one before it left. The loop
// stores the first state as its only item. Every other one is the output of the CONTINUE that the iteration
// before it reached, so a rerun finds the states of the iterations that it reuses.

// continued is the output of a CONTINUE.
type continued struct {
	State json.RawMessage `json:"state"`
	Done  bool            `json:"done"`
}

// repeat starts a REPEAT.
func (a *Advance) repeat(t *Stage) error {
	var in struct {
		State json.RawMessage `json:"state"`
	}
	config := struct {
		MaxIterations int32 `json:"maxIterations"`
	}{1}
	_ = json.Unmarshal(t.input, &in) // both were validated
	_ = json.Unmarshal(t.Component.Config, &config)
	if in.State == nil {
		in.State = json.RawMessage("null")
	}
	list := []json.RawMessage{in.State}
	stored, err := strictjson.Encode(list)
	if err != nil {
		return fmt.Errorf("encode the state of a loop: %w", err)
	}
	a.startLoop(t, config.MaxIterations, stored, list)
	return nil
}

// continueLoop ends an iteration of a REPEAT. Without a state in its input, the state stays the same.
func (a *Advance) continueLoop(t *Stage) error {
	var next continued
	_ = json.Unmarshal(t.input, &next) // it was validated
	if l := a.loopOf(t.scope); next.State == nil && l != nil {
		state := a.stateAt(l, t.Iteration[len(l.Iteration)])
		next.State, t.Secret = state.Output, t.Secret || state.Secret
	}
	output, err := strictjson.Encode(next)
	if err != nil {
		return fmt.Errorf("encode the state of a loop: %w", err)
	}
	a.addStage(t.completed(output, graph.PortNext))
	return nil
}

// continues returns the places of the components CONTINUE of an iteration.
func (a *Advance) continues(l *loop, index int32) (places []Place) {
	for _, id := range a.Plan.Members(l.ComponentID) {
		if _, module := a.Plan.Component(id); module.Continues {
			places = append(places, PlaceOf(id, append(slices.Clone(l.Iteration), index)))
		}
	}
	return places
}

// knowsState reports whether the state with which an iteration starts is known. If not, it is added to the
// need. The index may be that of the iteration after the last one.
func (a *Advance) knowsState(l *loop, index int32) bool {
	if index == 0 {
		return a.knowsItems(l)
	}
	known := true
	before := a.scopes[PlaceOf(l.ComponentID, append(slices.Clone(l.Iteration), index-1))]
	for _, p := range a.continues(l, index-1) {
		if before != nil && before.states != nil && before.states[p.Component].Status != status.StageCompleted {
			continue // it has no output to read
		}
		known = a.knowsOutput(p) && known
	}
	return known
}

// last returns the index of the iteration that starts with the state that the loop has now.
func (l *loop) last() int32 {
	if l.unchanged {
		return l.NextItem - 1
	}
	return l.NextItem
}

// knowsLast reports whether the state that a loop has now is known.
func (a *Advance) knowsLast(l *loop) bool { return a.knowsState(l, l.last()) }

// stateAt returns the state with which an iteration starts. It must be known.
func (a *Advance) stateAt(l *loop, index int32) Value {
	if index == 0 {
		of := a.lists[l.ID]
		return Value{of.List[0], of.Secret}
	}
	for _, p := range a.continues(l, index-1) {
		var next continued
		if value := a.values[p]; json.Unmarshal(value.Output, &next) == nil && next.State != nil {
			return Value{next.State, value.Secret}
		}
	}
	return Value{Output: json.RawMessage("null")}
}

// knowsEnd reports whether everything is known that follows from the end of an iteration.
func (a *Advance) knowsEnd(sc *scope) bool {
	l := a.loopOf(sc)
	if l == nil || !l.repeats {
		return true
	}
	index := sc.iteration[len(l.Iteration)]
	return a.knowsState(l, index) && a.knowsState(l, index+1)
}

// finishRepeated decides what follows an iteration that did not fail: the next one, which may have to wait,
// or the end of the loop.
func (a *Advance) finishRepeated(l *loop, sc *scope) {
	var reached []string
	for _, p := range a.continues(l, sc.iteration[len(l.Iteration)]) {
		if sc.states[p.Component].Status == status.StageCompleted {
			var next continued
			_ = json.Unmarshal(a.values[p].Output, &next)
			reached, l.done = append(reached, p.Component), next.Done
		}
	}
	switch {
	case len(reached) == 0:
		l.done, l.unchanged = true, true
	case len(reached) > 1:
		l.done, l.twice = false, reached
		l.FailedItems++
	case !l.done && l.delay > 0 && a.worked(sc):
		a.paced[l.pace()] = l.delay
	}
}

// worked reports whether a stage of an iteration ended in this advance. If not, a rerun has reused all of
// them, and the next iteration need not wait.
func (a *Advance) worked(sc *scope) bool {
	return slices.ContainsFunc(a.finals, func(e End) bool { return isBelow(e.Iteration, sc.iteration) })
}

// outlasts reports whether the next iteration of a REPEAT would start after its maximum duration.
func (a *Advance) outlasts(l *loop) bool {
	start, started := a.At, l.StartedAt
	if wait, waits := a.paced[l.pace()]; waits {
		start = start.Add(wait)
	}
	if l.stage != nil { // it starts in this advance
		started = a.At
	}
	return l.most > 0 && l.NextItem > 0 && later(start, a.Run.Paces[l.pace()]).After(started.Add(l.most))
}

// endRepeat sets the end of a REPEAT that is done or exhausted.
func (a *Advance) endRepeat(l *loop, end *End) {
	c, _ := a.Plan.Component(l.ComponentID)
	end.Port = graph.PortDone
	if !l.done {
		if !a.Plan.Leads(c.ID, graph.PortExhausted) {
			end.Status, end.Failure = status.StageFailed, encodeFailure(loopExhausted(l))
			return
		}
		end.Port = graph.PortExhausted
	}
	state := a.stateAt(l, l.last())
	end.Status, end.Secret = status.StageCompleted, state.Secret
	end.Output, _ = strictjson.Encode(map[string]any{"state": state.Output, "count": l.NextItem}) // it was decoded before
	end.Bytes = int64(len(end.Output))
}

// loopExhausted returns the error of a REPEAT whose limits leave no further iteration.
func loopExhausted(l *loop) error {
	limit := fmt.Sprintf("maxIterations of %d", l.ItemCount)
	if l.NextItem < l.ItemCount {
		limit = fmt.Sprintf("maxDurationMs of %d", l.most.Milliseconds())
	}
	return component.Permanent("LOOP_EXHAUSTED", "the loop was not done within its %s", limit).With(map[string]any{"iterations": l.NextItem})
}

// continuedTwice returns the error of a REPEAT of which an iteration reached several components CONTINUE.
func continuedTwice(l *loop) error {
	return component.Permanent("ITEM_FAILED", "the iteration at index %d failed: it reached %s; one iteration can reach only one CONTINUE",
		l.NextItem-1, strings.Join(l.twice, " and ")).With(map[string]any{"failedItems": 1, "continued": l.twice})
}
