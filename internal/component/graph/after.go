package graph

import (
	"slices"

	"github.com/weft-automation/weft/internal/kit/status"
)

// After returns the components of a scope that come after any of the given components of the same
// scope, through edges or data connections, in the order of the definition. loop is the loop of
// the scope, or "" for the root.
func (p *Plan) After(loop string, ids ...string) []string {
	var after []int
	comes := make([]bool, len(p.nodes))
	for _, id := range ids {
		if at, known := p.index[id]; known {
			comes[at] = true
		}
	}
	for _, at := range p.scopes[loop] {
		n := &p.nodes[at]
		if slices.ContainsFunc(n.in, func(a arrow) bool { return comes[a.from] }) ||
			slices.ContainsFunc(n.needs, func(from int) bool { return comes[from] }) {
			after = append(after, at)
			comes[at] = true
		}
	}
	return p.ids(after)
}

// Around returns the loops around a component, the outermost first.
func (p *Plan) Around(id string) (loops []string) {
	for _, at := range p.node(id).around {
		loops = append(loops, p.nodes[at].component.ID)
	}
	return loops
}

// Ahead returns the components of a scope without a stage that may still start, for the given states
// of its stages (see Next). A component whose edges can no longer fire is not ahead, and nothing is
// ahead after a failure that is not handled.
func (p *Plan) Ahead(loop string, states map[string]State) []string {
	members := p.scopes[loop]
	started := loop == "" && slices.ContainsFunc(p.triggers, func(id string) bool { _, ok := states[id]; return ok })
	open := make([]bool, len(members)) // may still start, or is not final
	var ahead []int
	for i, at := range members {
		n := &p.nodes[at]
		state, ran := states[n.component.ID]
		switch {
		case ran && state.Status == status.StageFailed && !n.handled():
			return nil
		case ran:
			open[i] = !state.Status.Terminal()
		case n.module.Trigger && started:
		default:
			open[i] = n.entry || slices.ContainsFunc(n.in, func(a arrow) bool {
				from := &p.nodes[a.from]
				return open[from.at] || from.fires(states[from.component.ID], a.port)
			})
			if open[i] {
				ahead = append(ahead, at)
			}
		}
	}
	return p.ids(ahead)
}
