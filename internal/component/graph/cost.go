package graph

import (
	"math"
	"math/big"
)

// Cost is what stages cost: what is charged for them, in any unit, and how many they are.
type Cost struct{ Charge, Stages int64 }

// Range is the least and the most that something costs.
type Range struct{ Least, Most Cost }

// Price is what a component costs, by how its stage ends.
type Price struct{ Completed, Failed Range }

// With returns the price of a component that also causes what is inside: the iterations of a
// FOR_EACH, or a child run. Where the component fails, that may have been cut short.
func (p Price) With(inside Range) Price {
	p.Completed.Least = p.Completed.Least.Plus(inside.Least)
	p.Completed.Most = p.Completed.Most.Plus(inside.Most)
	p.Failed.Most = p.Failed.Most.Plus(inside.Most)
	return p
}

// Plus returns the sum of both costs. Costs don't overflow: they stop at math.MaxInt64.
func (c Cost) Plus(other Cost) Cost {
	return Cost{add(c.Charge, other.Charge), add(c.Stages, other.Stages)}
}

// Times returns n times the cost.
func (c Cost) Times(n int64) Cost { return Cost{times(c.Charge, n), times(c.Stages, n)} }

func (c Cost) min(other Cost) Cost {
	return Cost{min(c.Charge, other.Charge), min(c.Stages, other.Stages)}
}

func (c Cost) max(other Cost) Cost {
	return Cost{max(c.Charge, other.Charge), max(c.Stages, other.Stages)}
}

func add(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

func times(a, n int64) int64 {
	if n > 0 && a > math.MaxInt64/n {
		return math.MaxInt64
	}
	return a * n
}

// Costs returns a lower bound of what a scope costs whenever it completes, and an upper bound of
// what it ever costs. The scope is the root, or one iteration of a FOR_EACH. price is called
// once for each component of the scope.
//
// The exact bounds would need every combination of outcomes, so Costs computes simpler ones.
// It counts each component once: at the last decision that every way to it passes. Of the
// components that a single port leads to, only those of the cheapest port count in Least, and
// only those of the dearest in Most. A component behind several ports counts in Least if it
// starts whichever of them fires, and in Most with every outcome that leads to it. Both are
// exact where branches don't cross. An outcome after which the scope can't complete, because a
// failure follows that nothing handles, does not count in Least.
func (p *Plan) Costs(loop string, price func(Component) Price) Range {
	d := p.decisions(loop, price)
	for at := len(d) - 1; at >= 0; at-- {
		d.judge(at)
	}
	if !d[0].completes {
		return Range{Most: d[0].cost.Most}
	}
	return d[0].cost
}

// decisions are the points of a scope at which it is decided what starts. Each comes after those
// that lead to it. The first is the start of the scope, the last one leads to nothing.
type decisions []decision

// decision is a component, a port, or the start of a scope.
type decision struct {
	all []int     // what follows together: from a port, and from the start
	one []outcome // of which exactly one comes true: of a component

	last  int   // the last decision that every way to this one passes
	below []int // those whose last it is

	completes bool    // the scope can complete from here
	may, must big.Int // what can follow, and what follows in every scope that completes; itself is in both
	cost      Range   // of itself and everything below it
}

// outcome is how a stage ends, and what follows.
type outcome struct {
	cost  Range
	to    int
	fatal bool // the scope fails
}

// from says that a way leads from one decision to another.
func (d decisions) from(from, to int) {
	last := d[to].last
	if last < 0 {
		last = from
	}
	for last != from {
		if last > from {
			last = d[last].last
		} else {
			from = d[from].last
		}
	}
	d[to].last = last
}

func (p *Plan) decisions(loop string, price func(Component) Price) decisions {
	type port struct {
		node int
		name string
	}
	ports := map[port]int{}
	d := make(decisions, 1, 3*len(p.scopes[loop])+3)
	next := func() int {
		d = append(d, decision{last: -1})
		return len(d) - 1
	}
	begin := 0 // of triggers
	if loop == "" && len(p.triggers) > 1 {
		begin = next()
		d.from(0, begin)
		d[0].all = append(d[0].all, begin)
	}
	for _, node := range p.scopes[loop] {
		n, at := &p.nodes[node], next()
		switch {
		case n.module.Trigger && begin > 0:
			d.from(begin, at)
			d[begin].one = append(d[begin].one, outcome{to: at})
		case n.entry:
			d.from(0, at)
			d[0].all = append(d[0].all, at)
		}
		for _, a := range n.in {
			from := ports[port{a.from, a.port}]
			d.from(from, at)
			d[from].all = append(d[from].all, at)
		}
		for name := range n.wired {
			leads := next()
			d.from(at, leads)
			ports[port{node, name}] = leads
		}
		for _, ended := range n.outcomes(price(n.component)) {
			to := -1
			if leads, wired := ports[port{node, ended.port}]; wired {
				to = leads
			}
			d[at].one = append(d[at].one, outcome{ended.cost, to, ended.fatal})
		}
	}
	nothing := next()
	d.from(0, nothing)
	for at := range d {
		for i := range d[at].one {
			if one := &d[at].one[i]; one.to < 0 {
				one.to = nothing
			}
		}
		if at > 0 {
			d[d[at].last].below = append(d[d[at].last].below, at)
		}
	}
	return d
}

// ended is one way in which a stage can end.
type ended struct {
	cost  Range
	port  string
	fatal bool
}

// outcomes returns the ways in which a stage of the component can end.
func (n *node) outcomes(price Price) (all []ended) {
	ports := n.ports
	if n.module.Loop || len(ports) == 0 {
		ports = append(n.usual(), "")[:1]
	}
	unwired := false // one port that nothing follows stands for all of them
	for _, port := range ports {
		if n.module.Fails || unwired && !n.wired[port] {
			continue
		}
		unwired = unwired || !n.wired[port]
		all = append(all, ended{cost: price.Completed, port: port})
	}
	failed := ended{cost: price.Failed}
	switch {
	case n.wired[PortError]:
		failed.port = PortError
	case n.handled():
		failed.port = append(n.usual(), "")[0]
	default:
		failed.fatal = true
	}
	return append(all, failed)
}

// judge computes what follows from a decision and what it costs, by what comes after it.
func (d decisions) judge(at int) {
	x := &d[at]
	x.may.SetBit(&x.may, at, 1)
	x.must.SetBit(&x.must, at, 1)
	if x.one == nil {
		x.completes = true
		for _, to := range x.all {
			x.completes = x.completes && d[to].completes
			x.may.Or(&x.may, &d[to].may)
			x.must.Or(&x.must, &d[to].must)
		}
		x.cost = d.follows(x, x)
		return
	}
	var must *big.Int
	for _, o := range x.one {
		to := &d[o.to]
		x.may.Or(&x.may, &to.may)
		cost := d.follows(x, to)
		cost = Range{o.cost.Least.Plus(cost.Least), o.cost.Most.Plus(cost.Most)}
		x.cost.Most = x.cost.Most.max(cost.Most)
		switch {
		case o.fatal || !to.completes:
		case must == nil:
			must, x.completes, x.cost.Least = new(big.Int).Set(&to.must), true, cost.Least
		default:
			must.And(must, &to.must)
			x.cost.Least = x.cost.Least.min(cost.Least)
		}
	}
	if must != nil {
		x.must.Or(&x.must, must)
	}
}

// follows sums what is below a decision and follows from another one.
func (d decisions) follows(x, from *decision) (sum Range) {
	for _, at := range x.below {
		if from.may.Bit(at) > 0 {
			sum.Most = sum.Most.Plus(d[at].cost.Most)
		}
		if from.must.Bit(at) > 0 {
			sum.Least = sum.Least.Plus(d[at].cost.Least)
		}
	}
	return sum
}
