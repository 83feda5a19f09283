package expression

import (
	"math/bits"
	"slices"

	"github.com/expr-lang/expr/ast"
)

// over is a call of a function that evaluates a predicate for each item.
type over struct {
	*run
	node  ast.Node
	items []any
	body  ast.Node // nil: the item itself
	scope scope
}

// predicates are the functions that evaluate their second argument for each item of the first.
var predicates = []string{
	"all", "any", "count", "filter", "find", "findIndex", "findLast", "findLastIndex",
	"groupBy", "map", "none", "one", "reduce", "sortBy", "sum",
}

func (r *run) iterate(node ast.Node, name string, arguments []ast.Node, s scope) any {
	o := over{run: r, node: node, scope: s}
	o.items = r.list(arguments[0], r.eval(arguments[0], s), "the first argument of "+name+"()")
	if len(arguments) > 1 {
		o.body = arguments[1].(*ast.PredicateNode).Node
	}
	var extra []any
	for _, argument := range arguments[min(2, len(arguments)):] {
		extra = append(extra, r.eval(argument, s))
	}
	return o.result(name, extra)
}

func (o over) result(name string, extra []any) any {
	switch name {
	case "all":
		return o.first(false) < 0
	case "any":
		return o.first(true) >= 0
	case "none":
		return o.first(true) < 0
	case "one":
		return o.count() == 1
	case "count":
		return int64(o.count())
	case "filter":
		return o.filter()
	case "map":
		return o.each()
	case "find":
		return o.item(o.first(true))
	case "findIndex":
		return place(o.first(true))
	case "findLast":
		return o.item(o.last())
	case "findLastIndex":
		return place(o.last())
	case "sum":
		return o.sum()
	case "groupBy":
		return o.groups()
	case "sortBy":
		return o.sortedBy(o.node, o.items, o.each(), extra)
	}
	return o.reduced(extra)
}

// turn evaluates the predicate for one item.
func (o over) turn(i int, acc any) any {
	o.spend(o.node, 1)
	if o.body == nil {
		return o.items[i]
	}
	inner := o.scope
	inner.turn = &turn{item: o.items[i], index: i, acc: acc}
	return o.eval(o.body, inner)
}

func (o over) holds(i int) bool {
	body := o.body
	if body == nil {
		body = o.node
	}
	return o.boolean(body, o.turn(i, nil))
}

// first returns the index of the first item for which the predicate has the wanted value, or -1.
func (o over) first(wanted bool) int {
	for i := range o.items {
		if o.holds(i) == wanted {
			return i
		}
	}
	return -1
}

func (o over) last() int {
	for i := range slices.Backward(o.items) {
		if o.holds(i) {
			return i
		}
	}
	return -1
}

func place(i int) any {
	if i < 0 {
		return nil
	}
	return int64(i)
}

func (o over) item(i int) any {
	if i < 0 {
		return nil
	}
	return o.items[i]
}

func (o over) count() (count int) {
	for i := range o.items {
		if o.holds(i) {
			count++
		}
	}
	return count
}

func (o over) filter() []any {
	kept := []any{}
	for i, item := range o.items {
		if o.holds(i) {
			o.hold(o.node, 2, sizeOfItem)
			kept = append(kept, item)
		}
	}
	return kept
}

func (o over) each() []any {
	o.hold(o.node, len(o.items), sizeOfItem)
	made := make([]any, len(o.items))
	for i := range o.items {
		made[i] = o.turn(i, nil)
	}
	return made
}

func (o over) sum() any {
	var total any = int64(0)
	for i := range o.items {
		total = o.calculate(o.node, "+", total, o.numeric(o.node, o.turn(i, nil), "each item of sum()"))
	}
	return total
}

// groups groups the items by the string, number or boolean that the predicate returns.
func (o over) groups() any {
	groups := map[string]any{}
	for i, item := range o.items {
		name := o.label(o.turn(i, nil))
		group, _ := groups[name].([]any)
		if group == nil {
			o.hold(o.node, 1, sizeOfMember)
		}
		o.hold(o.node, 2, sizeOfItem)
		groups[name] = append(group, item)
	}
	return groups
}

// label converts a value to a field name.
func (o over) label(value any) string {
	switch value := value.(type) {
	case string:
		return o.memberName(o.node, value)
	case bool:
		return o.encode(o.node, value)
	}
	return o.encode(o.node, o.numeric(o.node, value, "the key of groupBy()"))
}

// sortedBy returns the items sorted by their keys. The sort is stable.
func (r *run) sortedBy(node ast.Node, items, keys []any, order []any) any {
	descending := false
	if len(order) > 0 {
		switch r.text(node, order[0], "the order") {
		case "asc":
		case "desc":
			descending = true
		default:
			r.fail(node, WrongType, `the order must be "asc" or "desc"`)
		}
	}
	r.hold(node, 2*len(items), sizeOfItem)
	r.spend(node, len(items)*bits.Len(uint(len(items))))
	places := make([]int, len(items))
	for i := range places {
		places[i] = i
	}
	by := r.sorter(node, descending)
	slices.SortStableFunc(places, func(a, b int) int { return by(keys[a], keys[b]) })
	sorted := make([]any, len(items))
	for i, place := range places {
		sorted[i] = items[place]
	}
	return sorted
}

func (o over) reduced(initial []any) any {
	from := 0
	var acc any
	switch {
	case len(initial) > 0:
		acc = initial[0]
	case len(o.items) == 0:
		o.fail(o.node, OutOfRange, "reduce() of an empty array needs an initial value")
	default:
		acc, from = o.items[0], 1
	}
	for i := from; i < len(o.items); i++ {
		acc = o.turn(i, acc)
	}
	return acc
}
