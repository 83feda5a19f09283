package workflowtest

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/weft-automation/weft/internal/kit/status"
)

// repeat runs a body until it is done, and keeps the state of each iteration as its item.
func (r *Reference) repeat(p Part, input json.RawMessage, iteration []int) Fate {
	at, state := Place(p.ID, iteration), member(input, "state")
	r.items[at] = nil
	for i := range p.Config["maxIterations"].(int) {
		r.items[at] = append(r.items[at], state)
		inner := append(slices.Clone(iteration), i)
		if len(r.scope(p.ID, inner)) > 0 {
			r.failed[Place(p.ID, inner)] = true
			return Fate{Status: status.StageFailed}
		}
		var reached []json.RawMessage
		for _, c := range r.Parts {
			if f := r.Fates[Place(c.ID, inner)]; c.Module == "CONTINUE" && f.Status == status.StageCompleted && slices.Equal(r.loops[c.ID], r.enclosing(p.ID)) {
				reached = append(reached, f.Output)
			}
		}
		if len(reached) > 1 {
			return Fate{Status: status.StageFailed}
		}
		if len(reached) == 1 {
			state = member(reached[0], "state")
		}
		if len(reached) == 0 || string(member(reached[0], "done")) == "true" {
			return Fate{status.StageCompleted, "next", fmt.Appendf(nil, `{"count":%d,"state":%s}`, i+1, state)}
		}
	}
	if slices.ContainsFunc(r.Arrows, func(a Arrow) bool { return a.From == p.ID && a.Port == "exhausted" }) {
		return Fate{status.StageCompleted, "exhausted", fmt.Appendf(nil, `{"count":%v,"state":%s}`, p.Config["maxIterations"], state)}
	}
	return Fate{Status: status.StageFailed}
}

// proceed returns the outcome of a CONTINUE in an iteration.
func (r *Reference) proceed(p Part, input json.RawMessage, iteration []int) Fate {
	state, done := member(input, "state"), member(input, "done")
	if state == nil {
		around := r.loops[p.ID]
		depth := len(around) - 1
		state = r.items[Place(around[depth], iteration[:depth])][iteration[depth]]
	}
	return Fate{status.StageCompleted, "next", fmt.Appendf(nil, `{"state":%s,"done":%v}`, state, string(done) == "true")}
}
