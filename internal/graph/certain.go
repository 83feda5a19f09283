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

// After are the components of the root that come after one of these, by edges or by data,
// in the order of the definition. What is in a FOR_EACH comes after what its outermost one
// does.
func (p *Plan) After(ids ...string) []string {
	var after []int
	comes := make([]bool, len(p.nodes))
	for _, id := range ids {
		if at, known := p.index[p.Outermost(id)]; known {
			comes[at] = true
		}
	}
	for _, at := range p.scopes[""] {
		n := &p.nodes[at]
		if slices.ContainsFunc(n.in, func(a arrow) bool { return comes[a.from] }) ||
			slices.ContainsFunc(n.needs, func(from int) bool { return comes[from] }) {
			after = append(after, at)
			comes[at] = true
		}
	}
	return p.ids(after)
}

// Below are all components in a FOR_EACH and in those inside of it.
func (p *Plan) Below(loop string) (ids []string) {
	for _, id := range p.Members(loop) {
		ids = append(ids, id)
		if p.node(id).module.Loop {
			ids = append(ids, p.Below(id)...)
		}
	}
	return ids
}

// Outermost is the component itself, or the outermost FOR_EACH around it.
func (p *Plan) Outermost(id string) string {
	if around := p.node(id).around; len(around) > 0 {
		return p.nodes[around[0]].component.ID
	}
	return id
}
