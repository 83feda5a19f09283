package graph

import (
	"math"
	"math/big"
)

// Cost is the cost of stages: what is charged for them, in any unit, and their number.
type Cost struct{ Charge, Stages int64 }

// Range is a minimum and a maximum cost.
type Range struct{ Least, Most Cost }

// Price is the cost of a component, by the outcome of its stage.
type Price struct{ Completed, Failed Range }

// With returns the price of a component that also causes nested costs: those of the iterations of a
// loop, or of a child run. If the component fails, the iterations or the child run may have
// stopped early.
func (p Price) With(nested Range) Price {
	p.Completed.Least = p.Completed.Least.Plus(nested.Least)
	p.Completed.Most = p.Completed.Most.Plus(nested.Most)
	p.Failed.Most = p.Failed.Most.Plus(nested.Most)
	return p
}

// Plus returns the sum of two costs. It is limited to math.MaxInt64.
func (c Cost) Plus(other Cost) Cost {
	return Cost{add(c.Charge, other.Charge), add(c.Stages, other.Stages)}
}

// Times returns n times the cost. It is limited to math.MaxInt64.
func (c Cost) Times(n int64) Cost { return Cost{times(c.Charge, n), times(c.Stages, n)} }

func (c Cost) min(other Cost) Cost {
	return Cost{min(c.Charge, other.Charge), min(c.Stages, other.Stages)}
}

func (c Cost) max(other Cost) Cost {
	return Cost{max(c.Charge, other.Charge), max(c.Stages, other.Stages)}
}

// add returns a + b, at most math.MaxInt64. Neither is negative.
func add(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// times returns a * n, at most math.MaxInt64. Neither is negative.
func times(a, n int64) int64 {
	if n > 0 && a > math.MaxInt64/n {
		return math.MaxInt64
	}
	return a * n
}

// Costs returns a lower bound of the cost of a scope that completes, and an upper bound of its cost
// with any outcome. The scope is the root, or one iteration of a loop. Costs calls price once
// for each component of the scope.
//
// Exact bounds would need every combination of outcomes, so Costs computes simpler bounds. It
// counts each component once: at the last decision that every path to the component passes. Of the
// components behind a single port, Least includes only the components of the cheapest port, and
// Most only the components of the most expensive port. A component behind several ports is included
// in Least if it starts whichever of them fires, and in Most for every outcome that leads to it.
// Both bounds are exact if branches don't cross. Least ignores outcomes after which the scope
// cannot complete because of an unhandled failure.
func (p *Plan) Costs(loop string, price func(Component) Price) Range {
	d := p.decisions(loop, price)
	for at := len(d) - 1; at >= 0; at-- {
		d.evaluate(at)
	}
	if !d[0].completes {
		return Range{Most: d[0].cost.Most}
	}
	return d[0].cost
}

// decisions are the points of a scope that decide what starts, in topological order. The first is
// the start of the scope, and the last has nothing after it.
type decisions []decision

// decision is a component, a port, or the start of a scope.
type decision struct {
	together     []int     // of a port or the start: everything that follows
	alternatives []outcome // of a component: the outcomes, exactly one of which happens

	last  int   // the last decision on every path to this decision
	below []int // decisions whose last is this decision

	completes bool    // the scope can complete from here
	may, must big.Int // decisions that can follow, and that follow in every scope that completes; both include itself
	cost      Range   // of this decision and all its descendants
}

// outcome is a way in which a stage can end, and the decision that follows.
type outcome struct {
	cost  Range
	to    int
	fatal bool // the scope fails
}

// from records that a path leads from one decision to another.
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

// decisions returns the decisions of a scope.
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
	chosen := 0 // the decision between several triggers; 0: none
	if loop == "" && len(p.triggers) > 1 {
		chosen = next()
		d.from(0, chosen)
		d[0].together = append(d[0].together, chosen)
	}
	for _, node := range p.scopes[loop] {
		n, at := &p.nodes[node], next()
		switch {
		case n.module.Trigger && chosen > 0:
			d.from(chosen, at)
			d[chosen].alternatives = append(d[chosen].alternatives, outcome{to: at})
		case n.entry:
			d.from(0, at)
			d[0].together = append(d[0].together, at)
		}
		for _, a := range n.in {
			from := ports[port{a.from, a.port}]
			d.from(from, at)
			d[from].together = append(d[from].together, at)
		}
		for name := range n.wired {
			leads := next()
			d.from(at, leads)
			ports[port{node, name}] = leads
		}
		for _, result := range n.outcomes(price(n.component)) {
			to := -1
			if leads, wired := ports[port{node, result.port}]; wired {
				to = leads
			}
			d[at].alternatives = append(d[at].alternatives, outcome{result.cost, to, result.fatal})
		}
	}
	nothing := next()
	d.from(0, nothing)
	for at := range d {
		for i := range d[at].alternatives {
			if o := &d[at].alternatives[i]; o.to < 0 {
				o.to = nothing
			}
		}
		if at > 0 {
			d[d[at].last].below = append(d[d[at].last].below, at)
		}
	}
	return d
}

// result is one possible outcome of a stage, and the port that fires.
type result struct {
	cost  Range
	port  string
	fatal bool
}

// outcomes returns the ways in which a stage of the component can end.
func (n *node) outcomes(price Price) (all []result) {
	ports := n.ports
	if n.module.Loop || len(ports) == 0 {
		ports = append(n.defaultPorts(), "")[:1]
	}
	if n.module.Repeats && n.wired[PortExhausted] {
		ports = append(ports, PortExhausted)
	}
	unwired := false // all ports without edges are equivalent, so one is enough
	for _, port := range ports {
		if n.module.Fails || unwired && !n.wired[port] {
			continue
		}
		unwired = unwired || !n.wired[port]
		all = append(all, result{cost: price.Completed, port: port})
	}
	failed := result{cost: price.Failed}
	switch {
	case n.wired[PortError]:
		failed.port = PortError
	case n.handled():
		failed.port = append(n.defaultPorts(), "")[0]
	default:
		failed.fatal = true
	}
	return append(all, failed)
}

// evaluate computes the bounds of a decision from those of the decisions after it.
func (d decisions) evaluate(at int) {
	x := &d[at]
	x.may.SetBit(&x.may, at, 1)
	x.must.SetBit(&x.must, at, 1)
	if x.alternatives == nil {
		x.completes = true
		for _, to := range x.together {
			x.completes = x.completes && d[to].completes
			x.may.Or(&x.may, &d[to].may)
			x.must.Or(&x.must, &d[to].must)
		}
		x.cost = d.follows(x, x)
		return
	}
	var must *big.Int
	for _, o := range x.alternatives {
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

// follows returns the total cost of the decisions below x that follow from a different decision.
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
