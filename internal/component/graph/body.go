package graph

import (
	"cmp"
	"slices"
	"strconv"
)

// body is the set of components that a FOR_EACH repeats.
type body struct {
	loop    int
	members []int
}

// bodies finds the body of each FOR_EACH: everything reachable from its port `each` (decisions
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
			c.fault("/components/"+strconv.Itoa(b.loop), CodeLoopTooDeep, "the FOR_EACH %s is inside %d others; at most %d can be nested",
				quote(c.nodes[b.loop].component.ID), MaxDepth, MaxDepth)
		}
	}
}

// body finds the body of one FOR_EACH. start contains the nodes that no edge leads to.
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

// crossings reports the edges that make a component both part of the body of a FOR_EACH and
// reachable from outside the body. If the component comes after the loop, crossings reports the
// edge that leaves the body, otherwise the edge that enters the body.
func (c *compiler) crossings(loop int, inside, outside, after []bool) {
	name := quote(c.nodes[loop].component.ID)
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
			c.fault(a.pointer, CodeLoopEscape, "the sequence edge from %s to %s leads out of the body of the FOR_EACH %s: lead to %s from its port done instead, and get values out of the body with data connections",
				from, to, name, to)
		case enters && !after[a.to]:
			c.fault(a.pointer, CodeLoopEntry, "the sequence edge from %s to %s leads into the body of the FOR_EACH %s: only edges from its port each can enter the body",
				from, to, name)
		}
	}
}
