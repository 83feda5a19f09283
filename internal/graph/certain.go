package graph

import "slices"

// Certain are the components of the root that every run which completes goes through:
// nothing on the way to them is decided. They are in the order of the definition.
func (p *Plan) Certain() []string {
	var certain []int
	for _, at := range p.scopes[""] {
		n := &p.nodes[at]
		if n.entry && (!n.module.Trigger || len(p.triggers) == 1) || slices.ContainsFunc(n.in, func(a arrow) bool {
			return slices.Contains(certain, a.from) && p.nodes[a.from].always(a.port)
		}) {
			certain = append(certain, at)
		}
	}
	return p.ids(certain)
}

// always reports whether a component fires a port whatever it decides, in a run that completes:
// its failure ends the run, or fires the port too, but where an edge leads away from `error`.
func (n *node) always(port string) bool {
	if n.wired[PortError] {
		return false
	}
	if n.module.Loop {
		return port == PortDone || port == PortNext
	}
	return len(n.ports) == 1 && n.ports[0] == port
}

// After returns the components of a scope that come after one of these of the same scope, by
// edges or by data, in the order of the definition. The scope is that of a FOR_EACH; "": the
// root.
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

// Around returns the FOR_EACH around a component, the outermost first.
func (p *Plan) Around(id string) (loops []string) {
	for _, at := range p.node(id).around {
		loops = append(loops, p.nodes[at].component.ID)
	}
	return loops
}
