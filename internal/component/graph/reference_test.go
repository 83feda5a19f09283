package graph_test

import (
	"slices"

	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/kit/status"
)

// reference computes the ready components of a scope from the definition alone, following
// decisions 8.3 to 8.6 literally. It is slow and shares no code with the plan.
type reference struct {
	d      graph.Definition
	loops  map[string]bool
	around map[string][]string // FOR_EACH components around a component, outermost first
}

func newReference(d graph.Definition) *reference {
	r := &reference{d: d, loops: map[string]bool{}, around: map[string][]string{}}
	for _, component := range d.Components {
		r.loops[component.ID] = component.Module == "FOR_EACH"
	}
	for _, component := range d.Components {
		for loop, is := range r.loops {
			if is && r.leads(loop, graph.PortEach, component.ID, map[string]bool{}) {
				r.around[component.ID] = append(r.around[component.ID], loop)
			}
		}
	}
	for _, around := range r.around {
		slices.SortFunc(around, func(a, b string) int { return len(r.around[a]) - len(r.around[b]) })
	}
	return r
}

// leads reports whether a path leads from a port of a component to another component.
func (r *reference) leads(from, port, to string, seen map[string]bool) bool {
	for _, edge := range r.d.SequenceEdges {
		if edge.From != from || port != "" && edge.Port != port || seen[edge.ID] {
			continue
		}
		seen[edge.ID] = true
		if edge.To == to || r.leads(edge.To, "", to, seen) {
			return true
		}
	}
	return false
}

func (r *reference) scope(id string) string {
	around := r.around[id]
	if len(around) == 0 {
		return ""
	}
	return around[len(around)-1]
}

func (r *reference) component(id string) graph.Component {
	return r.d.Components[slices.IndexFunc(r.d.Components, func(c graph.Component) bool { return c.ID == id })]
}

func (r *reference) hasErrorEdge(id string) bool {
	return slices.ContainsFunc(r.d.SequenceEdges, func(e graph.Edge) bool { return e.From == id && e.Port == graph.PortError })
}

func (r *reference) unhandled(id string, state graph.State) bool {
	return state.Status == status.StageFailed && !r.hasErrorEdge(id) && r.component(id).OnFailure != graph.OnFailureContinue
}

// fired reports whether an edge from a component with a final stage fired.
func (r *reference) fired(edge graph.Edge, state graph.State) bool {
	plain := map[string]string{"IF": graph.PortElse, "SWITCH": graph.PortDefault}[r.component(edge.From).Module]
	if plain == "" {
		plain = graph.PortNext
	}
	port := edge.Port
	if r.loops[edge.From] && port == graph.PortDone {
		port = graph.PortNext
	}
	switch {
	case state.Status == status.StageCompleted && state.Port != "" && !r.loops[edge.From]:
		return port == state.Port
	case state.Status == status.StageCompleted:
		return port == plain
	case state.Status == status.StageFailed && r.hasErrorEdge(edge.From):
		return port == graph.PortError
	case state.Status == status.StageFailed && r.component(edge.From).OnFailure == graph.OnFailureContinue:
		return port == plain
	}
	return false
}

// settled reports whether a component is final, or will never start.
func (r *reference) settled(id string, states map[string]graph.State) bool {
	if state, ok := states[id]; ok {
		return state.Status.Terminal()
	}
	settled, fired := r.entered(id, states)
	return settled && !fired
}

// entered reports whether all edges into a component are settled, and whether any of them fired.
// Runs and iterations start at components without incoming edges.
func (r *reference) entered(id string, states map[string]graph.State) (settled, fired bool) {
	settled = true
	edges := 0
	for _, edge := range r.d.SequenceEdges {
		switch {
		case edge.To != id:
			continue
		case r.loops[edge.From] && edge.Port == graph.PortEach:
			fired = true
		case !r.settled(edge.From, states):
			settled = false
		default:
			state, ran := states[edge.From]
			fired = fired || ran && r.fired(edge, state)
		}
		edges++
	}
	return settled, fired || edges == 0
}

// giver returns the component that a component of a scope waits for because of a connection, or ""
// if it waits for no component.
func (r *reference) giver(connection graph.Connection, id string) string {
	to := append(slices.Clone(r.around[connection.To.ComponentID]), connection.To.ComponentID)
	from := append(slices.Clone(r.around[connection.From.ComponentID]), connection.From.ComponentID)
	for level := range to {
		if level >= len(from) || from[level] == to[level] {
			continue // a connection from the FOR_EACH around the component
		}
		if to[level] == id {
			return from[level]
		}
		return ""
	}
	return ""
}

// step returns the expected result of Next.
func (r *reference) step(scope string, states map[string]graph.State) graph.Step {
	var step graph.Step
	for _, component := range r.d.Components {
		id := component.ID
		if r.scope(id) != scope {
			continue
		}
		if state, ran := states[id]; ran {
			if !state.Status.Terminal() {
				step.Live++
			}
			if step.Failed == "" && r.unhandled(id, state) {
				step.Failed = id
			}
			continue
		}
		settled, fired := r.entered(id, states)
		ready := settled && fired
		for _, connection := range r.d.DataConnections {
			giver := r.giver(connection, id)
			ready = ready && (giver == "" || r.settled(giver, states))
		}
		if ready {
			step.Ready = append(step.Ready, id)
		}
	}
	if step.Failed != "" {
		step.Ready = nil
	}
	step.Done = step.Live == 0 && len(step.Ready) == 0
	return step
}
