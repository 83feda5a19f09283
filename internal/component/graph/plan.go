package graph

import (
	"slices"

	"github.com/weft-automation/weft/internal/kit/status"
)

// Plan is a definition without errors. It is immutable and safe for concurrent use.
type Plan struct {
	nodes    []node
	index    map[string]int
	scopes   map[string][]int // nodes by loop, "" for the root, in topological order
	triggers []string
	edges    []Edge
}

// plan makes the plan of the compiled definition.
func (c *compiler) plan(order []int) *Plan {
	p := &Plan{nodes: c.nodes, index: c.index, scopes: map[string][]int{}, edges: c.definition.SequenceEdges}
	for _, at := range order {
		n := &c.nodes[at]
		loop := p.Loop(n.component.ID)
		n.at = len(p.scopes[loop])
		p.scopes[loop] = append(p.scopes[loop], at)
	}
	loopEntry := make([]bool, len(c.nodes))
	for _, a := range c.arrows {
		loopEntry[a.to] = loopEntry[a.to] || a.port == PortEach && c.nodes[a.from].module.Loop
	}
	for _, a := range c.flows {
		n := &c.nodes[a.to]
		switch {
		case a.data == "":
			n.in = append(n.in, a)
		case !slices.Contains(n.needs, a.from):
			n.needs = append(n.needs, a.from)
		}
	}
	for at := range c.nodes {
		n := &c.nodes[at]
		n.entry = len(n.in) == 0 || loopEntry[at]
		if n.module.Trigger {
			p.triggers = append(p.triggers, n.component.ID)
		}
	}
	return p
}

// Component returns a component and its module. Both are zero if the ID is unknown.
func (p *Plan) Component(id string) (Component, Module) {
	n := p.node(id)
	return n.component, n.module
}

func (p *Plan) node(id string) node {
	if at, ok := p.index[id]; ok {
		return p.nodes[at]
	}
	return node{}
}

// Loop returns the innermost loop around a component, or "" if there is no loop around it.
func (p *Plan) Loop(id string) string {
	around := p.node(id).around
	if len(around) == 0 {
		return ""
	}
	return p.nodes[around[len(around)-1]].component.ID
}

// Sources returns the data connections into a component, in the order of the definition.
func (p *Plan) Sources(id string) []Source { return slices.Clone(p.node(id).sources) }

// Members returns the components of a scope, excluding those in the bodies of nested loops, in the
// order of the definition.
func (p *Plan) Members(loop string) []string { return p.ids(p.scopes[loop]) }

// Components returns all components, in the order of the definition.
func (p *Plan) Components() []Component {
	all := make([]Component, len(p.nodes))
	for at, n := range p.nodes {
		all[at] = n.component
	}
	return all
}

// Edges returns the sequence edges, in the order of the definition.
func (p *Plan) Edges() []Edge { return slices.Clone(p.edges) }

// Triggers returns the trigger components, in the order of the definition.
func (p *Plan) Triggers() []string { return slices.Clone(p.triggers) }

// ids returns the IDs of nodes in the order of the definition.
func (p *Plan) ids(nodes []int) []string {
	var ids []string
	for _, at := range slices.Sorted(slices.Values(nodes)) {
		ids = append(ids, p.nodes[at].component.ID)
	}
	return ids
}

// State is the state of a stage, as far as its scope depends on it.
type State struct {
	Status status.Stage
	Port   string // the port that fired if it completed; "": the default port of the module
}

// Step is the result of Next for a scope.
type Step struct {
	Ready  []string // components to start, in the order of the definition
	Live   int      // stages that are not final
	Failed string   // first component in the order of the definition with an unhandled failure; Ready is then empty
	Done   bool     // the scope has finished: nothing is ready or live
}

// verdict is the conclusion about a component in a scope.
type verdict struct {
	settled bool // final, or it will never start
	state   State
}

// Next returns the next step of a scope, which is the root or one iteration of a loop
// (decisions 8.3, 8.6), for the given states of its stages. A component without a state has no
// stage.
//
// A component is ready when all edges into it are settled, at least one of these edges fired,
// and all its data sources are settled. An edge is settled when its source is final or dead. A
// component is dead, and never starts, when all edges into it are settled and none fired. If a
// scope has several triggers, all triggers are ready at first. Once one trigger has a stage, the
// others are dead: a run starts at one trigger only.
func (p *Plan) Next(loop string, states map[string]State) Step {
	members := p.scopes[loop]
	verdicts := make([]verdict, len(members))
	started := loop == "" && slices.ContainsFunc(p.triggers, func(id string) bool { _, ok := states[id]; return ok })
	var step Step
	var ready []int
	failed := -1
	for i, at := range members {
		n, v := &p.nodes[at], &verdicts[i]
		state, ran := states[n.component.ID]
		v.state = state
		switch {
		case ran:
			v.settled = state.Status.Terminal()
			if !v.settled {
				step.Live++
			} else if state.Status == status.StageFailed && !n.handled() && (failed < 0 || at < failed) {
				failed = at
			}
		case n.module.Trigger && started:
			v.settled = true
		default:
			var start bool
			start, v.settled = p.starts(n, verdicts)
			if start {
				ready = append(ready, at)
			}
		}
	}
	if failed >= 0 {
		step.Failed, ready = p.nodes[failed].component.ID, nil
	}
	step.Ready = p.ids(ready)
	step.Done = step.Live == 0 && len(ready) == 0
	return step
}

// Leads reports whether an edge starts at a port of a component.
func (p *Plan) Leads(id, port string) bool { return p.node(id).wired[port] }

// Handles reports whether the run continues if the component fails.
func (p *Plan) Handles(id string) bool {
	n := p.node(id)
	return n.handled()
}

// starts reports whether a component without a stage is ready, or dead.
func (p *Plan) starts(n *node, verdicts []verdict) (ready, dead bool) {
	fired := n.entry
	for _, a := range n.in {
		from := verdicts[p.nodes[a.from].at]
		if !from.settled {
			return false, false
		}
		fired = fired || p.nodes[a.from].fires(from.state, a.port)
	}
	if !fired {
		return false, true
	}
	for _, from := range n.needs {
		if !verdicts[p.nodes[from].at].settled {
			return false, false
		}
	}
	return true, false
}

// handled reports whether the run continues if the component fails.
func (n *node) handled() bool {
	return n.wired[PortError] || n.component.OnFailure == OnFailureContinue
}

// fires reports whether a final stage fired a port of its component. A canceled stage fires no
// port, and a component without a stage fires no port either. A failed stage fires `error` if an
// edge starts at that port. Otherwise it fires its default port if OnFailure is continue.
func (n *node) fires(state State, port string) bool {
	switch state.Status {
	case status.StageCompleted:
		if state.Port == "" || n.module.Loop && state.Port != PortExhausted {
			return slices.Contains(n.defaultPorts(), port)
		}
		return port == state.Port
	case status.StageFailed:
		if n.wired[PortError] {
			return port == PortError
		}
		return n.component.OnFailure == OnFailureContinue && slices.Contains(n.defaultPorts(), port)
	}
	return false
}

// defaultPorts returns the ports that fire if the stage selected no port: done and next, the
// default of a switch, the else of a condition, or the first port of any other module.
func (n *node) defaultPorts() []string {
	for _, port := range []string{PortDone, PortNext, PortDefault, PortElse} {
		if slices.Contains(n.ports, port) {
			return []string{port}
		}
	}
	return n.ports[:min(1, len(n.ports))]
}
