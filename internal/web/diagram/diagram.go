// Package diagram arranges the nodes of a graph for a picture: in layers from top to bottom, with
// few crossings.
//
// It is pure: the same graph always has the same picture.
package diagram

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// The size of nodes and the space between them, in pixels.
const (
	NodeWidth  = 212
	NodeHeight = 50

	gapX   = 24
	gapY   = 46
	margin = 10
	bend   = 14 // width of the place where an edge passes a layer
)

// Edge leads from one node to another.
type Edge struct {
	From, To string
	Label    string // may be empty
	Soft     bool   // drawn less prominently
}

// Node is a node with the position of its upper left corner.
type Node struct {
	ID   string
	X, Y int
}

// Line is an edge with its path, in the syntax of SVG, and the position of its label.
type Line struct {
	Edge
	Path           string
	LabelX, LabelY int
}

// Picture is an arranged graph.
type Picture struct {
	Width, Height int
	Nodes         []Node // in the order of the IDs
	Lines         []Line // in the order of the edges
}

// place is a node, or a bend of an edge in a layer that the edge passes.
type place struct {
	node   int // index of the node; -1: a bend
	layer  int
	width  int
	x      float64 // center
	above  []int   // places in the layer above that are connected to this one
	below  []int
	chosen float64 // where the place would like to be
}

// grid is the graph while it is arranged.
type grid struct {
	places []place
	layers [][]int // places by layer, from left to right
	routes [][]int // the places of each edge, from top to bottom
}

// Arrange returns the picture of the nodes with these IDs. It leaves out edges from or to other
// nodes and from a node to itself. An edge between the same nodes as an earlier edge adds its label
// to that edge. Edges must not form a cycle; in a cycle, some edges lead upwards.
func Arrange(ids []string, edges []Edge) Picture {
	index := map[string]int{}
	for i, id := range ids {
		index[id] = i
	}
	edges = merge(index, edges)
	g := newGrid(index, len(ids), edges)
	g.order()
	g.align()
	return g.picture(ids, edges)
}

// merge returns the edges between known nodes, one for each pair.
func merge(index map[string]int, edges []Edge) (merged []Edge) {
	for _, e := range edges {
		_, from := index[e.From]
		_, to := index[e.To]
		if !from || !to || e.From == e.To {
			continue
		}
		at := slices.IndexFunc(merged, func(m Edge) bool { return m.From == e.From && m.To == e.To })
		if at < 0 {
			merged = append(merged, e)
			continue
		}
		m := &merged[at]
		m.Soft = m.Soft && e.Soft
		if e.Label != "" && !slices.Contains(strings.Split(m.Label, ", "), e.Label) {
			m.Label = strings.TrimPrefix(m.Label+", "+e.Label, ", ")
		}
	}
	return merged
}

// newGrid assigns nodes to layers, so that edges lead downwards and are short.
func newGrid(index map[string]int, nodes int, edges []Edge) *grid {
	g := &grid{places: make([]place, nodes)}
	depths := depths(index, nodes, edges)
	for i := range g.places {
		g.places[i] = place{node: i, layer: depths[i], width: NodeWidth}
	}
	for _, e := range edges {
		from, to := index[e.From], index[e.To]
		route := []int{from}
		for layer := depths[from] + 1; layer < depths[to]; layer++ {
			g.places = append(g.places, place{node: -1, layer: layer, width: bend})
			route = append(route, len(g.places)-1)
		}
		route = append(route, to)
		for i := range route[1:] {
			upper, lower := &g.places[route[i]], &g.places[route[i+1]]
			upper.below, lower.above = append(upper.below, route[i+1]), append(lower.above, route[i])
		}
		g.routes = append(g.routes, route)
	}
	for at, p := range g.places {
		for len(g.layers) <= p.layer {
			g.layers = append(g.layers, nil)
		}
		g.layers[p.layer] = append(g.layers[p.layer], at)
	}
	return g
}

// depths returns the length of the longest path to each node. It ignores the edges that close a
// cycle.
func depths(index map[string]int, nodes int, edges []Edge) []int {
	next, open := make([][]int, nodes), make([]int, nodes)
	for _, e := range edges {
		next[index[e.From]] = append(next[index[e.From]], index[e.To])
		open[index[e.To]]++
	}
	depths, done := make([]int, nodes), make([]bool, nodes)
	for range nodes {
		at := slices.IndexFunc(open, func(n int) bool { return n == 0 })
		if at < 0 { // a cycle: start anywhere in it
			at = slices.Index(done, false)
		}
		open[at], done[at] = -1, true
		for _, to := range next[at] {
			if !done[to] {
				open[to]--
				depths[to] = max(depths[to], depths[at]+1)
			}
		}
	}
	return depths
}

// sweeps is how often layers are sorted and aligned. More change little.
const sweeps = 4

// order sorts each layer by the neighbours in the layer above, then in the layer below, so that
// few edges cross.
func (g *grid) order() {
	at := make([]int, len(g.places)) // position in its layer
	position := func(layer []int) {
		for i, one := range layer {
			at[one] = i
		}
	}
	for _, layer := range g.layers {
		position(layer)
	}
	g.sweep(func(layer []int, neighbours func(*place) []int) {
		mean := map[int]float64{}
		for _, one := range layer {
			mean[one] = average(neighbours(&g.places[one]), float64(at[one]), func(n int) float64 { return float64(at[n]) })
		}
		slices.SortStableFunc(layer, func(a, b int) int { return cmp.Compare(mean[a], mean[b]) })
		position(layer)
	})
}

// align moves the places of each layer towards the middle of their neighbours. Places of a layer
// keep their order and don't overlap.
func (g *grid) align() {
	for _, layer := range g.layers {
		g.spread(layer)
	}
	g.sweep(func(layer []int, neighbours func(*place) []int) {
		for _, one := range layer {
			p := &g.places[one]
			p.chosen = average(neighbours(p), p.x, func(n int) float64 { return g.places[n].x })
		}
		g.spread(layer)
	})
}

// sweep visits the layers downwards with their neighbours above, and upwards with those below.
func (g *grid) sweep(visit func(layer []int, neighbours func(*place) []int)) {
	for range sweeps {
		for _, layer := range g.layers {
			visit(layer, func(p *place) []int { return p.above })
		}
		for _, layer := range slices.Backward(g.layers) {
			visit(layer, func(p *place) []int { return p.below })
		}
	}
}

// spread puts each place of a layer where it would like to be, or as far to the right as the places
// before it require, and then moves the layer to where it fits best.
func (g *grid) spread(layer []int) {
	off := 0.0
	for i, one := range layer {
		p := &g.places[one]
		p.x = p.chosen
		if i > 0 {
			before := g.places[layer[i-1]]
			p.x = max(p.x, before.x+float64(before.width+p.width)/2+gapX)
		}
		off += p.x - p.chosen
	}
	for _, one := range layer {
		g.places[one].x -= off / float64(len(layer))
	}
}

// average returns the average of the values of items, or otherwise if items is empty.
func average(items []int, otherwise float64, value func(int) float64) float64 {
	if len(items) == 0 {
		return otherwise
	}
	sum := 0.0
	for _, item := range items {
		sum += value(item)
	}
	return sum / float64(len(items))
}

// picture returns the arranged graph, moved to the upper left corner.
func (g *grid) picture(ids []string, edges []Edge) Picture {
	left, right := 0.0, 0.0
	for i, p := range g.places {
		half := float64(p.width) / 2
		if i == 0 {
			left, right = p.x-half, p.x+half
		}
		left, right = min(left, p.x-half), max(right, p.x+half)
	}
	x := func(p place) int { return int(p.x-left) + margin }
	y := func(p place) int { return p.layer*(NodeHeight+gapY) + margin }
	drawn := Picture{Width: int(right-left) + 2*margin, Height: len(g.layers)*(NodeHeight+gapY) - gapY + 2*margin}
	for i, id := range ids {
		p := g.places[i]
		drawn.Nodes = append(drawn.Nodes, Node{ID: id, X: x(p) - NodeWidth/2, Y: y(p)})
	}
	for i, route := range g.routes {
		var path strings.Builder
		line := Line{Edge: edges[i]}
		for j, at := range route {
			p := g.places[at]
			switch {
			case j == 0:
				line.LabelX, line.LabelY = x(p), y(p)+NodeHeight+16
				fmt.Fprintf(&path, "M%d %d", x(p), y(p)+NodeHeight)
				continue
			case j == 1: // next to the start of the edge, a little towards its target
				line.LabelX += (x(p) - line.LabelX) / 6
			}
			from := g.places[route[j-1]]
			middle := y(p) - gapY/2
			fmt.Fprintf(&path, "C%d %d %d %d %d %d", x(from), middle, x(p), middle, x(p), y(p))
			if p.node < 0 {
				fmt.Fprintf(&path, "V%d", y(p)+NodeHeight)
			}
		}
		line.Path = path.String()
		drawn.Lines = append(drawn.Lines, line)
	}
	return drawn
}
