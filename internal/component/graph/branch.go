package graph

import (
	"maps"
	"slices"
)

// firing is a port of a node that fires.
type firing struct {
	node int
	port string
}

// brancher finds out which nodes have run whenever another node of their scope runs.
type brancher struct {
	*compiler
	in   map[int][]arrow // edges by the node to which they lead
	must map[int]map[firing]bool
	sure map[int]map[firing]bool
}

// branches warns about references to components that may not have run, or may have failed, when the component
// with the reference runs.
func (c *compiler) branches() {
	if len(c.problems) > 0 {
		return // the graph is incomplete
	}
	b := &brancher{compiler: c, in: map[int][]arrow{}, must: map[int]map[firing]bool{}, sure: map[int]map[firing]bool{}}
	for _, a := range c.flows {
		if a.data == "" {
			b.in[a.to] = append(b.in[a.to], a)
		}
	}
	warned := map[string]bool{}
	for _, u := range c.uses {
		from, known := c.index[u.Root]
		if u.Named || u.Tolerated || !known || len(u.Segments) == 0 || u.Segments[0] == "error" {
			continue
		}
		first, second := c.level(from, u.node)
		if place := u.pointer + " " + u.Root; first != second && !b.hasValue(first, second) && !warned[place] {
			warned[place] = true
			c.warn(u.pointer, WarnSource, "component %s: %s may not have run, or may have failed, when this component runs. Then it fails, because %s has no value: write %s? to leave the field out, or %s ?? and a default",
				quote(c.nodes[u.node].component.ID), quote(u.Root), u.String(), u.String(), u.String())
		}
	}
}

// hasValue reports whether a node has always completed when another one of its scope runs.
func (b *brancher) hasValue(from, to int) bool {
	fired := b.certain(to)
	if fired[firing{from, PortError}] {
		return false
	}
	if !b.nodes[from].wired[PortError] {
		return b.ran(fired, from)
	}
	for f := range fired {
		if f.node == from && f.port != "" {
			return true
		}
	}
	return false
}

// ran reports whether a node has run if these ports have fired. The port "" means that the node has run.
func (b *brancher) ran(fired map[firing]bool, node int) bool {
	return fired[firing{node, ""}] || b.always(node)
}

// always reports whether a node runs in every run, or in every iteration of its loop.
func (b *brancher) always(node int) bool {
	if len(b.in[node]) > 0 {
		return false
	}
	triggers := 0
	for _, n := range b.nodes {
		if n.module.Trigger {
			triggers++
		}
	}
	return !b.nodes[node].module.Trigger || triggers == 1
}

// before returns the ports that have fired whenever a node runs, because all ways to it start there.
func (b *brancher) before(node int) map[firing]bool {
	if known, done := b.must[node]; done {
		return known
	}
	var common map[firing]bool
	for _, a := range b.in[node] {
		way := maps.Clone(b.before(a.from))
		way[firing{a.from, a.port}], way[firing{a.from, ""}] = true, true
		if common == nil {
			common = way
		}
		maps.DeleteFunc(common, func(f firing, _ bool) bool { return !way[f] })
	}
	if common == nil {
		common = map[firing]bool{}
	}
	b.must[node] = common
	return common
}

// certain returns the ports that fire whenever a node runs: those before it, and what follows from them on
// other ways.
func (b *brancher) certain(node int) map[firing]bool {
	if known, done := b.sure[node]; done {
		return known
	}
	fired := maps.Clone(b.before(node))
	for changed := true; changed; {
		changed = false
		for _, a := range b.flows {
			port := firing{a.from, a.port}
			if a.data != "" || a.to == node || fired[firing{a.to, ""}] || !fired[port] && !(b.ran(fired, a.from) && b.unconditional(a.from, a.port)) {
				continue
			}
			fired[port], fired[firing{a.to, ""}], changed = true, true, true
			maps.Copy(fired, b.before(a.to))
		}
	}
	b.sure[node] = fired
	return fired
}

// unconditional reports whether a node that has run fires a port, unless the run fails.
func (b *brancher) unconditional(node int, port string) bool {
	n := &b.nodes[node]
	return !n.wired[PortError] && (len(n.ports) < 2 || n.module.Loop && !n.wired[PortExhausted]) && slices.Contains(n.ports, port)
}
