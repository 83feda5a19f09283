package graph

import (
	"fmt"
	"slices"
	"strings"
)

// cutCycles tells the cycles of the sequence edges and takes out the edges that
// close them, so that everything after it looks at a graph without any.
func (c *compiler) cutCycles() {
	_, kept := sorted(len(c.nodes), c.arrows, func(cycle []arrow) {
		closing := cycle[len(cycle)-1]
		hint := "a component starts once"
		if slices.ContainsFunc(cycle, func(a arrow) bool { return c.nodes[a.from].module.Loop && a.port == PortEach }) {
			hint = "the body of a FOR_EACH is repeated by itself, no edge leads back to it"
		}
		c.fault(closing.pointer, CodeCycle, "the sequence edges make a cycle, %s: %s", c.names(cycle), hint)
	})
	c.arrows = kept
}

// cutDeadlocks tells where data would come from what starts only after its own
// receiver, and returns the nodes in an order in which none does.
func (c *compiler) cutDeadlocks() []int {
	for _, a := range c.arrows {
		if from, to := c.level(a.from, a.to); from != to {
			c.flows = append(c.flows, arrow{from: from, to: to, port: a.port, pointer: a.pointer})
		}
	}
	order, kept := sorted(len(c.nodes), c.flows, func(cycle []arrow) {
		// There is one: edges alone make no cycle any more, lifted or not, because
		// none leads into a body but those of its FOR_EACH.
		at := slices.IndexFunc(cycle, func(a arrow) bool { return a.data != "" })
		c.fault(cycle[at].pointer, CodeCycle, "%s, which is there only afterwards: %s", cycle[at].data, c.names(cycle))
	})
	c.flows = kept
	return order
}

// level lifts two nodes to where they are in the same scope: to themselves, or to
// the outermost FOR_EACH that is around the one and not around the other.
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

// shared counts the FOR_EACH that are around both.
func (c *compiler) shared(a, b int) int {
	first, second := c.nodes[a].around, c.nodes[b].around
	count := 0
	for count < min(len(first), len(second)) && first[count] == second[count] {
		count++
	}
	return count
}

// names writes a cycle as the components that it goes through.
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

// walk goes through a graph depth first.
type walk struct {
	out  [][]arrow
	mark []mark
	told []bool
	path []arrow // to the node where the walk is
	kept []arrow
	post []int
	tell func(cycle []arrow)
}

type mark byte

const (
	fresh mark = iota
	onPath
	left
)

// sorted gives the nodes in an order in which every arrow that it keeps leads
// forward. It leaves out the arrows that close a cycle, and tells cycles until
// each component that is in one was named.
func sorted(count int, arrows []arrow, tell func(cycle []arrow)) (order []int, kept []arrow) {
	w := walk{out: outgoing(count, arrows), mark: make([]mark, count), told: make([]bool, count), tell: tell}
	entered := make([]bool, count)
	for _, a := range arrows {
		entered[a.to] = true
	}
	for _, isEntered := range []bool{false, true} {
		for n := range count {
			if entered[n] == isEntered && w.mark[n] == fresh {
				w.visit(n)
			}
		}
	}
	slices.Reverse(w.post)
	return w.post, w.kept
}

// visit goes on from a node. It calls itself as deep as there are components.
func (w *walk) visit(n int) {
	w.mark[n] = onPath
	for _, a := range w.out[n] {
		if w.mark[a.to] == onPath {
			w.close(a)
			continue
		}
		w.kept = append(w.kept, a)
		if w.mark[a.to] == fresh {
			w.path = append(w.path, a)
			w.visit(a.to)
			w.path = w.path[:len(w.path)-1]
		}
	}
	w.mark[n] = left
	w.post = append(w.post, n)
}

func (w *walk) close(last arrow) {
	begin := slices.IndexFunc(w.path, func(a arrow) bool { return a.from == last.to })
	cycle := append(slices.Clone(w.path[begin:]), last)
	for _, a := range cycle {
		if !w.told[a.from] {
			w.tell(cycle)
			break
		}
	}
	for _, a := range cycle {
		w.told[a.from] = true
	}
}
