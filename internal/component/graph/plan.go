package graph

import (
	"slices"

	"github.com/weft-automation/weft/internal/kit/status"
)

// Plan is a definition without faults. It is safe for concurrent use and does not
// change.
type Plan struct {
	nodes    []node
	index    map[string]int
	scopes   map[string][]int // members by FOR_EACH, "" the root; each comes after what it waits for
	triggers []string
}

// plan takes over what was compiled.
func (c *compiler) plan(order []int) *Plan {
	p := &Plan{nodes: c.nodes, index: c.index, scopes: map[string][]int{}}
	for _, at := range order {
		n := &c.nodes[at]
		loop := p.Loop(n.component.ID)
		n.at = len(p.scopes[loop])
		p.scopes[loop] = append(p.scopes[loop], at)
	}
	begins := make([]bool, len(c.nodes))
	for _, a := range c.arrows {
		begins[a.to] = begins[a.to] || a.port == PortEach && c.nodes[a.from].module.Loop
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
		n.entry = len(n.in) == 0 || begins[at]
		if n.module.Trigger {
			p.triggers = append(p.triggers, n.component.ID)
		}
	}
	return p
}

// Component is a component and its module; both are empty where there is none of
// the id.
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

// Loop is the innermost FOR_EACH around a component, "" at the root.
func (p *Plan) Loop(id string) string {
	around := p.node(id).around
	if len(around) == 0 {
		return ""
	}
	return p.nodes[around[len(around)-1]].component.ID
}

// Sources are the data connections into a component, in the order of the
// definition.
func (p *Plan) Sources(id string) []Source { return slices.Clone(p.node(id).sources) }

// Members are the components of a scope, without those of the FOR_EACH in it, in
// the order of the definition.
func (p *Plan) Members(loop string) []string { return p.ids(p.scopes[loop]) }

// Components are all components, in the order of the definition.
func (p *Plan) Components() []Component {
	all := make([]Component, len(p.nodes))
	for at, n := range p.nodes {
		all[at] = n.component
	}
	return all
}

// Triggers are the trigger components, in the order of the definition.
func (p *Plan) Triggers() []string { return slices.Clone(p.triggers) }

func (p *Plan) ids(nodes []int) []string {
	var ids []string
	for _, at := range slices.Sorted(slices.Values(nodes)) {
		ids = append(ids, p.nodes[at].component.ID)
	}
	return ids
}

// State is what a scope has to know of one stage.
type State struct {
	Status status.Stage
	Port   string // which port fired, of a completed one; "": what the module fires where it says nothing
}

// Step is what can be said of a scope by the states of its stages.
type Step struct {
	Ready  []string // components to be started, in the order of the definition
	Live   int      // stages that are not final
	Failed string   // the first component, in the order of the definition, that failed and whose failure nothing handles; nothing is Ready then
	Done   bool     // nothing is ready or alive, and nothing will be
}

// verdict is what is known of a component in a scope.
type verdict struct {
	settled bool // final, or it will never start
	state   State
}

// Next is what follows from the states of a scope: of the root, or of one
// iteration of a FOR_EACH (decisions 8.3, 8.6). A component without a state has no
// stage.
//
// It is ready when all edges into it are settled and one of them fired, and all
// that it takes data from is settled. An edge is settled when the component where
// it begins is final, or dead: all edges into that are settled and none fired, so
// it never starts. Of several triggers all are ready at first, and those without
// a stage are dead once one has a stage: a run begins at one of them.
func (p *Plan) Next(loop string, states map[string]State) Step {
	members := p.scopes[loop]
	verdicts := make([]verdict, len(members))
	begun := loop == "" && slices.ContainsFunc(p.triggers, func(id string) bool { _, ok := states[id]; return ok })
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
		case n.module.Trigger && begun:
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

// Handles reports whether the run goes on when a component fails.
func (p *Plan) Handles(id string) bool {
	n := p.node(id)
	return n.handled()
}

// starts tells whether a component without a stage is ready, or else dead.
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

// handled reports whether the run goes on when the component fails.
func (n *node) handled() bool {
	return n.wired[PortError] || n.component.OnFailure == OnFailureContinue
}

// fires reports whether a final stage fired a port of its component. A canceled
// one fires none, and neither does a component without a stage. One that failed
// fires `error` where an edge begins there, otherwise, if it may continue, what it
// would have fired by itself.
func (n *node) fires(state State, port string) bool {
	switch state.Status {
	case status.StageCompleted:
		if n.module.Loop || state.Port == "" {
			return slices.Contains(n.usual(), port)
		}
		return port == state.Port
	case status.StageFailed:
		if n.wired[PortError] {
			return port == PortError
		}
		return n.component.OnFailure == OnFailureContinue && slices.Contains(n.usual(), port)
	}
	return false
}

// usual are the ports that fire where nothing was decided: next and done, the
// default of a switch, the else of a condition; of other modules the first port.
func (n *node) usual() []string {
	for _, port := range []string{PortDone, PortNext, PortDefault, PortElse} {
		if slices.Contains(n.ports, port) {
			return []string{port}
		}
	}
	return n.ports[:min(1, len(n.ports))]
}
