package graph

import (
	"cmp"
	"slices"
	"strconv"
)

// body is the set of components that a loop repeats.
type body struct {
	loop    int
	members []int
}

// bodies finds the body of each loop: everything reachable from its port `each` (decisions
// 8.5). A component that can also be reached in another way is an error and belongs to no body.
// Therefore two bodies are disjoint or nested.
func (c *compiler) bodies() {
	out := c.outgoing()
	entered := make([]bool, len(c.nodes))
	for _, a := range c.arrows {
		entered[a.to] = true
	}
	var start []int
	for n := range c.nodes {
		if !entered[n] {
			start = append(start, n)
		}
	}
	var all []body
	for loop, n := range c.nodes {
		if n.module.Loop {
			all = append(all, c.body(loop, out, start))
		}
	}
	slices.SortStableFunc(all, func(a, b body) int { return cmp.Compare(len(b.members), len(a.members)) })
	for _, b := range all {
		for _, n := range b.members {
			c.nodes[n].around = append(c.nodes[n].around, b.loop)
		}
	}
	for _, b := range all {
		if len(c.nodes[b.loop].around) == MaxDepth && len(b.members) > 0 {
			c.fault("/components/"+strconv.Itoa(b.loop), CodeLoopTooDeep, "the %s is inside %d others; at most %d can be nested",
				c.nodes[b.loop].loopName(), MaxDepth, MaxDepth)
		}
	}
	c.continues()
}

// continues checks that each REPEAT has a CONTINUE, and that each CONTINUE ends an iteration of a REPEAT.
func (c *compiler) continues() {
	continued := make([]bool, len(c.nodes))
	for at, n := range c.nodes {
		if !n.module.Continues {
			continue
		}
		pointer, id := "/components/"+strconv.Itoa(at), quote(n.component.ID)
		if len(n.around) == 0 {
			c.fault(pointer, CodeContinuePlace, "component %s: %s ends an iteration of a REPEAT, so it must be in the body of one: lead to it from the port each of the REPEAT", id, n.component.Module)
			continue
		}
		if loop := n.around[len(n.around)-1]; c.nodes[loop].module.Repeats {
			continued[loop] = true
		} else {
			c.fault(pointer, CodeContinuePlace, "component %s: %s cannot be in the body of the %s, whose items all run: move it behind the port done of the FOR_EACH", id, n.component.Module, c.nodes[loop].loopName())
		}
	}
	for _, a := range c.arrows {
		if n := c.nodes[a.from]; n.module.Continues {
			c.fault(a.pointer, CodeContinuePlace, "no edge can start at %s, because %s ends the iteration", quote(n.component.ID), n.component.Module)
		}
	}
	for at, n := range c.nodes {
		if n.module.Repeats && !continued[at] {
			c.fault("/components/"+strconv.Itoa(at), CodeNoContinue, "the %s has no CONTINUE in its body, so it would run only once: add a CONTINUE that says what the next iteration starts with", n.loopName())
		}
	}
}

// loopName returns the module and the quoted ID of a loop.
func (n *node) loopName() string { return n.component.Module + " " + quote(n.component.ID) }

// body finds the body of one loop. start contains the nodes that no edge leads to.
func (c *compiler) body(loop int, out [][]arrow, start []int) body {
	var each, others []arrow
	for _, a := range out[loop] {
		if a.port == PortEach {
			each = append(each, a)
		} else {
			others = append(others, a)
		}
	}
	whole := out[loop]
	defer func() { out[loop] = whole }()
	inside := reachable(out, ends(each))
	out[loop] = others
	outside := reachable(out, start)
	after := reachable(out, ends(others))
	c.crossings(loop, inside, outside, after)
	b := body{loop: loop}
	for n := range c.nodes {
		if inside[n] && !outside[n] {
			b.members = append(b.members, n)
		}
	}
	return b
}

// ends returns the targets of arrows.
func ends(arrows []arrow) []int {
	var nodes []int
	for _, a := range arrows {
		nodes = append(nodes, a.to)
	}
	return nodes
}

// crossings reports the edges that make a component both part of the body of a loop and
// reachable from outside the body. If the component comes after the loop, crossings reports the
// edge that leaves the body, otherwise the edge that enters the body.
func (c *compiler) crossings(loop int, inside, outside, after []bool) {
	name := c.nodes[loop].loopName()
	for _, a := range c.arrows {
		if !inside[a.to] || !outside[a.to] {
			continue
		}
		from, to := quote(c.nodes[a.from].component.ID), quote(c.nodes[a.to].component.ID)
		leaves := inside[a.from] && !outside[a.from]
		enters := outside[a.from] && !inside[a.from]
		if a.from == loop {
			leaves, enters = a.port == PortEach, a.port != PortEach
		}
		switch {
		case leaves && after[a.to]:
			c.fault(a.pointer, CodeLoopEscape, "the sequence edge from %s to %s leads out of the body of the %s: lead to %s from its port done instead, and get values out of the body with data connections",
				from, to, name, to)
		case enters && !after[a.to]:
			c.fault(a.pointer, CodeLoopEntry, "the sequence edge from %s to %s leads into the body of the %s: only edges from its port each can enter the body",
				from, to, name)
		}
	}
}
