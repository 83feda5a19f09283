package graph

import (
	"fmt"
	"slices"
	"strings"
)

// cutCycles reports the cycles of the sequence edges and removes the edges that close them, so that
// later checks see a graph without cycles.
func (c *compiler) cutCycles() {
	_, kept := topological(len(c.nodes), c.arrows, func(cycle []arrow) {
		closing := cycle[len(cycle)-1]
		hint := "each component starts only once"
		if slices.ContainsFunc(cycle, func(a arrow) bool { return c.nodes[a.from].module.Loop && a.port == PortEach }) {
			hint = "the body of a loop repeats automatically, so no edge may lead back to it"
		}
		c.fault(closing.pointer, CodeCycle, "the sequence edges form a cycle, %s: %s", c.names(cycle), hint)
	})
	c.arrows = kept
}

// cutDeadlocks reports data connections from a component that starts only after their receiver. It
// returns the nodes in topological order.
func (c *compiler) cutDeadlocks() []int {
	for _, a := range c.arrows {
		if from, to := c.level(a.from, a.to); from != to {
			c.flows = append(c.flows, arrow{from: from, to: to, port: a.port, pointer: a.pointer})
		}
	}
	order, kept := topological(len(c.nodes), c.flows, func(cycle []arrow) {
		// At least one connection is part of the cycle: cutCycles removed the cycles that consist
		// only of edges, and lifting edges to one scope adds no cycle, since only the edges of
		// its loop lead into a body.
		at := slices.IndexFunc(cycle, func(a arrow) bool { return a.data != "" })
		c.fault(cycle[at].pointer, CodeCycle, "%s, which is produced only later: %s", cycle[at].data, c.names(cycle))
	})
	c.flows = kept
	return order
}

// level returns two nodes lifted into the same scope: each node is replaced by the outermost
// loop that contains it but not the other node, or stays unchanged.
func (c *compiler) level(a, b int) (int, int) {
	first, second := c.nodes[a].around, c.nodes[b].around
	shared := c.shared(a, b)
	if shared < len(first) {
		a = first[shared]
	}
	if shared < len(second) {
		b = second[shared]
	}
	return a, b
}

// shared returns the number of loops around both nodes.
func (c *compiler) shared(a, b int) int {
	first, second := c.nodes[a].around, c.nodes[b].around
	count := 0
	for count < min(len(first), len(second)) && first[count] == second[count] {
		count++
	}
	return count
}

// names returns the components in a cycle as a string.
func (c *compiler) names(cycle []arrow) string {
	var words []string
	for _, a := range cycle {
		words = append(words, quote(c.nodes[a.from].component.ID))
	}
	if len(words) > maxListing {
		words = append(words[:maxListing-1], fmt.Sprintf("%d more", len(words)-maxListing+1))
	}
	return strings.Join(append(words, words[0]), " -> ")
}

// walk is a depth-first search.
type walk struct {
	out      [][]arrow
	mark     []mark
	reported []bool
	path     []arrow // arrows to the current node
	kept     []arrow
	post     []int
	report   func(cycle []arrow)
}

type mark byte

const (
	unvisited mark = iota
	onPath
	done
)

// topological returns the nodes in topological order, and the arrows, except the arrows that close
// a cycle. It reports cycles until each node in a cycle was reported.
func topological(count int, arrows []arrow, report func(cycle []arrow)) (order []int, kept []arrow) {
	w := walk{out: outgoing(count, arrows), mark: make([]mark, count), reported: make([]bool, count), report: report}
	entered := make([]bool, count)
	for _, a := range arrows {
		entered[a.to] = true
	}
	for _, isEntered := range []bool{false, true} {
		for n := range count {
			if entered[n] == isEntered && w.mark[n] == unvisited {
				w.visit(n)
			}
		}
	}
	slices.Reverse(w.post)
	return w.post, w.kept
}

// visit visits a node and everything after it. The recursion is at most as deep as the number of
// components.
func (w *walk) visit(n int) {
	w.mark[n] = onPath
	for _, a := range w.out[n] {
		if w.mark[a.to] == onPath {
			w.closeCycle(a)
			continue
		}
		w.kept = append(w.kept, a)
		if w.mark[a.to] == unvisited {
			w.path = append(w.path, a)
			w.visit(a.to)
			w.path = w.path[:len(w.path)-1]
		}
	}
	w.mark[n] = done
	w.post = append(w.post, n)
}

// closeCycle reports the cycle that an arrow closes, unless all its nodes were reported before.
func (w *walk) closeCycle(last arrow) {
	start := slices.IndexFunc(w.path, func(a arrow) bool { return a.from == last.to })
	cycle := append(slices.Clone(w.path[start:]), last)
	for _, a := range cycle {
		if !w.reported[a.from] {
			w.report(cycle)
			break
		}
	}
	for _, a := range cycle {
		w.reported[a.from] = true
	}
}
