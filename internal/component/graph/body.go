package graph

import (
	"cmp"
	"slices"
	"strconv"
)

// body is what one FOR_EACH repeats.
type body struct {
	loop    int
	members []int
}

// bodies finds the body of each FOR_EACH: what can be reached over `each`
// (decisions 8.5). A body is entered there only; what can also be reached in
// another way is a fault, and belongs to no body. Two bodies therefore are apart,
// or one is inside the other.
func (c *compiler) bodies() {
	out := c.outgoing()
	entered := make([]bool, len(c.nodes))
	for _, a := range c.arrows {
		entered[a.to] = true
	}
	var begin []int
	for n := range c.nodes {
		if !entered[n] {
			begin = append(begin, n)
		}
	}
	var all []body
	for loop, n := range c.nodes {
		if n.module.Loop {
			all = append(all, c.body(loop, out, begin))
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
			c.fault("/components/"+strconv.Itoa(b.loop), CodeLoopTooDeep, "the FOR_EACH %s is inside %d others: at most %d may be nested",
				quote(c.nodes[b.loop].component.ID), MaxDepth, MaxDepth)
		}
	}
}

func (c *compiler) body(loop int, out [][]arrow, begin []int) body {
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
	inside := spread(out, ends(each))
	out[loop] = others
	outside := spread(out, begin)
	after := spread(out, ends(others))
	c.crossings(loop, inside, outside, after)
	b := body{loop: loop}
	for n := range c.nodes {
		if inside[n] && !outside[n] {
			b.members = append(b.members, n)
		}
	}
	return b
}

func ends(arrows []arrow) []int {
	var nodes []int
	for _, a := range arrows {
		nodes = append(nodes, a.to)
	}
	return nodes
}

// crossings tells the edges by which a component is both in the body of a FOR_EACH
// and outside of it. Where it comes after the loop the fault is the edge that
// leads out of the body, otherwise the one that leads into it.
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
			c.fault(a.pointer, CodeLoopEscape, "the sequence edge from %s to %s leads out of the body of the FOR_EACH %s, after which %s comes: go on from its port done, and take values out by data connections",
				from, to, name, to)
		case enters && !after[a.to]:
			c.fault(a.pointer, CodeLoopEntry, "the sequence edge from %s to %s leads into the body of the FOR_EACH %s, which begins at its port each only",
				from, to, name)
		}
	}
}
