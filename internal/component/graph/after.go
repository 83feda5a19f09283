package graph

import "slices"

// After returns the components of a scope that come after any of the given components of the same
// scope, through edges or data connections, in the order of the definition. loop is the FOR_EACH of
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

// Around returns the FOR_EACH components around a component, the outermost first.
func (p *Plan) Around(id string) (loops []string) {
	for _, at := range p.node(id).around {
		loops = append(loops, p.nodes[at].component.ID)
	}
	return loops
}
