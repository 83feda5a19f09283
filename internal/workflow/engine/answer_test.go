package engine_test

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/workflow/engine"
	"github.com/weft-automation/weft/internal/workflow/workflowtest"
)

// answer answers what an advance needs.
func (m *memory) answer(a *engine.Advance, need engine.Need) engine.Facts {
	facts := engine.Facts{
		States: map[engine.Place]map[string]graph.State{}, Outputs: map[engine.Place]engine.Value{}, Below: map[engine.Place][]engine.IterationValue{},
		Failed: map[engine.Place][][]int32{}, Items: map[uuid.UUID]engine.Items{}, First: map[uuid.UUID][]engine.FailedStage{},
		Children: map[uuid.UUID]engine.Child{}, Results: map[uuid.UUID]engine.Result{},
	}
	for p := range need.States {
		facts.States[p] = map[string]graph.State{}
		for _, id := range m.plan.Members(p.Component) {
			if s := m.at[engine.Place{Component: id, Iteration: p.Iteration}]; s != nil {
				facts.States[p][id] = s.state
			}
		}
	}
	for p := range need.Loops {
		if s := m.at[p]; s != nil && s.ItemCount != nil && s.live() {
			facts.Loops = append(facts.Loops, engine.StoredLoop{
				ID: s.ID, ComponentID: s.ComponentID, Iteration: s.Iteration, ItemCount: *s.ItemCount, NextItem: s.NextItem, LiveItems: s.LiveItems, FailedItems: s.FailedItems, StartedAt: *s.StartedAt,
			})
		}
	}
	m.answerOutputs(a, need, &facts)
	for l := range need.Items {
		var items engine.Items
		if json.Unmarshal(m.byID(l.ID).items, &items.List) != nil {
			m.blame("the items of %v are %s", l, m.byID(l.ID).items)
		}
		facts.Items[l.ID] = items
	}
	for l := range need.First {
		facts.First[l.ID] = m.firstFailed(l)
	}
	m.answerAbove(need, &facts)
	for _, t := range need.Children {
		facts.Children[t.ID] = engine.Child{ID: m.newChild(a, t)}
	}
	m.call(need, facts.Results)
	return facts
}

// answerOutputs answers which outputs components have, and in which iterations they failed.
func (m *memory) answerOutputs(a *engine.Advance, need engine.Need, facts *engine.Facts) {
	for p := range need.Outputs {
		if s := m.at[p]; s != nil && s.state.Status == status.StageCompleted {
			facts.Outputs[p] = engine.Value{Output: s.output}
		}
	}
	for _, e := range a.Ends {
		p := engine.PlaceOf(e.ComponentID, e.Iteration)
		switch {
		case !need.Outputs[p] || e.Status != status.StageCompleted:
		case e.Execution != uuid.Nil:
			facts.Outputs[p] = engine.Value{Output: m.at[p].result}
		case e.Child != uuid.Nil && m.prepared[e.Child].run.Output == nil:
			facts.Outputs[p] = engine.Value{Output: json.RawMessage(`{}`)}
		case e.Child != uuid.Nil:
			facts.Outputs[p] = engine.Value{Output: m.prepared[e.Child].run.Output}
		}
	}
	for p := range need.Below {
		for _, s := range m.below([]string{p.Component}, p.Indexes(), status.StageCompleted) {
			facts.Below[p] = append(facts.Below[p], engine.IterationValue{Iteration: s.Iteration, Value: engine.Value{Output: s.output}})
		}
	}
	for p := range need.Failed {
		for _, s := range m.below([]string{p.Component}, p.Indexes(), status.StageFailed) {
			facts.Failed[p] = append(facts.Failed[p], s.Iteration)
		}
	}
}

// below returns the stages of components with a status, in all iterations that start with prefix.
func (m *memory) below(components []string, prefix []int32, of status.Stage) (found []*stored) {
	for _, s := range m.stages {
		if s.state.Status == of && slices.Contains(components, s.ComponentID) && len(s.Iteration) >= len(prefix) && slices.Equal(s.Iteration[:len(prefix)], prefix) {
			found = append(found, s)
		}
	}
	return found
}

func (m *memory) firstFailed(l engine.Loop) []engine.FailedStage {
	components := engine.Failing(m.plan, l.Component)
	failed := m.below(components, l.Indexes(), status.StageFailed)
	if len(failed) == 0 {
		return nil
	}
	s := slices.MinFunc(failed, func(a, b *stored) int {
		return cmp.Or(slices.Compare(a.Iteration, b.Iteration), cmp.Compare(slices.Index(components, a.ComponentID), slices.Index(components, b.ComponentID)))
	})
	return []engine.FailedStage{{ID: s.ID, ComponentID: s.ComponentID, Iteration: s.Iteration, Error: s.failure}}
}

// answerAbove answers what the runs above a child run are.
func (m *memory) answerAbove(need engine.Need, facts *engine.Facts) {
	facts.Above = &engine.Above{}
	for above := m.parent; above != nil; above = above.parent {
		facts.Above.Depth++
		facts.Above.Ending = facts.Above.Ending || above.ending() || above.run.Status.Terminal()
		if need.Limits && above.run.MaxCredits != nil {
			facts.Limits = append(facts.Limits, engine.Limit{ID: above.run.ID, Committed: above.run.Committed, Below: above.run.Below, MaxCredits: above.run.MaxCredits})
		}
	}
}

// newChild prepares the child run of a stage. It counts once its stage is stored.
func (m *memory) newChild(a *engine.Advance, t *engine.Stage) uuid.UUID {
	var config struct{ WorkflowID string }
	_ = json.Unmarshal(t.Component.Config, &config)
	input, _ := t.Input()
	drawing := m.drawing.Below[config.WorkflowID]
	child := newMemory(m.world, drawing, drawing.Plan(m.t, m.modules), input)
	child.parent, child.run.Trigger, child.run.Deadline, child.run.CreatedAt, child.run.UpdatedAt = m, "RUN", m.run.Deadline, a.At, a.At
	child.run.ParentRunID = &m.run.ID
	if m.run.MaxCredits != nil {
		child.run.MaxCredits = new(max(0, *m.run.MaxCredits-a.Run.Committed-a.Run.Below))
	}
	return child.run.ID
}

// call computes the results of modules without effect. Some calls take too long, and calls that can wait
// may be left to the next advance.
func (m *memory) call(need engine.Need, results map[uuid.UUID]engine.Result) {
	for _, t := range need.Calls {
		if t.CanWait() && len(results) > 0 && percent(m.Rand, 5) {
			continue
		}
		c, _ := t.Call()
		r := engine.Result{InTime: !percent(m.Rand, 5), Elapsed: time.Microsecond}
		if output, failed := m.work(c.Input, c.Config, 0); failed {
			r.Err = component.Permanent("BROKEN", "it broke")
		} else {
			r.Output = output
		}
		if r.InTime {
			m.executed = append(m.executed, workflowtest.Effect{At: workflowtest.Place(t.Component.ID, t.Iteration)})
		}
		results[t.ID] = r
	}
}

// work returns the output of WORK, and whether it fails.
func (m *memory) work(input, config json.RawMessage, generation int) (json.RawMessage, bool) {
	var c struct{ Salt, Fails int }
	_ = json.Unmarshal(config, &c)
	return workflowtest.Worked(input, c.Salt, c.Fails, generation)
}

// execute finishes the execution of a stage.
func (m *memory) execute(s *stored) {
	generation := m.generation
	if s.Module == "PURE" {
		generation = 0
	}
	output, failed := m.work(s.call.Input, s.call.Config, generation)
	m.executed = append(m.executed, workflowtest.Effect{
		At: workflowtest.Place(s.ComponentID, s.Iteration), Key: s.call.EffectKey, Given: strings.Join([]string{workflowtest.Canonical(s.call.Input), workflowtest.Canonical(s.call.Config)}, " "),
	})
	s.Ended, s.EndedAt = string(status.ExecutionCompleted), m.now
	if failed {
		s.Ended, s.Error = string(status.ExecutionFailed), []byte(`{"code":"BROKEN","message":"it broke","retryable":false,"attempt":1,"details":null}`)
	} else {
		s.result, s.Bytes, s.Usage = output, int64(len(output)), int64(workflowtest.Price)
	}
	m.news = append(m.news, *s.ExecutionID)
}
