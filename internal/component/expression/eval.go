package expression

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/expr-lang/expr/ast"

	"github.com/weft-automation/weft/internal/kit/envref"
)

// run is an evaluation and its used budget.
type run struct {
	program *Program
	values  map[string]any
	steps   int
	memory  int
	counted int            // items and fields of the result
	pattern *pattern       // the last pattern compiled at run time
	zone    *time.Location // the last time zone that was loaded

	context   Context
	completed map[ast.Node]completion
}

// scope has the variables and the predicate that are visible to a node, in addition to the values.
// It is passed by value, so changes of it end with the node.
type scope struct {
	variables *variable
	turn      *turn
}

type variable struct {
	outer *variable
	name  string
	value any
}

// turn is one iteration of a predicate.
type turn struct {
	item, acc any
	index     int
}

// chainEnd is the value of the remaining links of a chain such as a.b?.c after a nil.
type chainEnd struct{}

// eval returns the value of a node. It panics with an *Error.
func (r *run) eval(node ast.Node, s scope) any {
	r.spend(node, 1)
	switch node := node.(type) {
	case *ast.NilNode:
		return nil
	case *ast.BoolNode:
		return node.Value
	case *ast.StringNode:
		if r.program.refers(node.Value) {
			return r.complete(node, node.Value).text
		}
		return node.Value
	case *ast.IntegerNode:
		return int64(node.Value)
	case *ast.FloatNode:
		return whole(node.Value)
	case *ast.IdentifierNode:
		return r.name(node, s)
	case *ast.PointerNode:
		return pointed(node.Name, s.turn)
	case *ast.UnaryNode:
		return r.unary(node, s)
	case *ast.BinaryNode:
		return r.binary(node, s)
	case *ast.ChainNode:
		if value := r.eval(node.Node, s); value != (chainEnd{}) {
			return value
		}
		return nil
	case *ast.MemberNode:
		return r.member(node, s)
	case *ast.SliceNode:
		return r.slice(node, s)
	case *ast.ConditionalNode:
		if r.boolean(node.Cond, r.eval(node.Cond, s)) {
			return r.eval(node.Exp1, s)
		}
		return r.eval(node.Exp2, s)
	case *ast.VariableDeclaratorNode:
		s.variables = &variable{s.variables, node.Name, r.eval(node.Value, s)}
		return r.eval(node.Expr, s)
	case *ast.SequenceNode:
		var last any
		for _, part := range node.Nodes {
			last = r.eval(part, s)
		}
		return last
	case *ast.ArrayNode:
		return r.array(node, s)
	case *ast.MapNode:
		return r.object(node, s)
	case *ast.BuiltinNode:
		return r.call(node, node.Name, node.Arguments, s)
	case *ast.CallNode:
		return r.call(node, node.Callee.(*ast.IdentifierNode).Value, node.Arguments, s)
	}
	r.fail(node, Syntax, "this is not part of the language")
	return nil
}

func (r *run) name(node *ast.IdentifierNode, s scope) any {
	name := node.Value
	if r.program.refers(name) {
		whole := r.complete(node, name)
		if whole.isValue {
			return whole.value
		}
		name = whole.text
	}
	v, passed := s.variables, 0
	for ; v != nil && v.name != name; v = v.outer {
		passed++
	}
	r.spend(node, passed/16)
	if v != nil {
		return v.value
	}
	if path, isPath := r.program.paths[name]; isPath {
		return r.valueAt(node, path)
	}
	value, ok := r.values[name]
	if !ok {
		r.miss(node, UnknownName, "unknown value %s; %s", short(node.Value), r.present())
	}
	return value
}

// valueAt returns the value of a path.
func (r *run) valueAt(node ast.Node, p path) any {
	if r.context.Value != nil {
		if value, exists := r.context.Value(p.Path); exists {
			return value
		}
	}
	r.miss(node, MissingValue, "%s has no value", short(p.text))
	return nil
}

// tolerate returns the value of a node, or nil if a value that it needs is missing.
func (r *run) tolerate(node ast.Node, s scope) (value any) {
	defer func() {
		if cause := recover(); cause != nil {
			if _, missing := cause.(absent); !missing {
				panic(cause)
			}
			value = nil
		}
	}()
	return r.eval(node, s)
}

// completion is a name or a string of the expression with the values of its references.
type completion struct {
	text    string
	value   any  // the text with its type, if the name consists of references
	isValue bool // whether it does
}

// complete returns the completion of a node with this text, which contains references.
func (r *run) complete(node ast.Node, text string) completion {
	if whole, done := r.completed[node]; done {
		return whole
	}
	pairs := []string{}
	for word, name := range r.program.references {
		value, known := r.context.Variables[name]
		if !known && strings.Contains(text, word) {
			r.fail(node, UnknownName, "%v", &envref.Unknown{Name: name})
		}
		pairs = append(pairs, word, value)
	}
	whole := completion{text: strings.NewReplacer(pairs...).Replace(text)}
	r.read(node, len(whole.text))
	r.hold(node, len(whole.text), 1)
	if _, named := node.(*ast.IdentifierNode); named && r.program.onlyRefers(text) {
		whole.value, whole.isValue = typed(whole.text), true
	}
	if r.completed == nil {
		r.completed = map[ast.Node]completion{}
	}
	r.completed[node] = whole
	return whole
}

// present lists the names of the values.
func (r *run) present() string {
	const most = 20
	names := slices.Sorted(maps.Keys(r.values))
	if len(names) == 0 {
		return "there are no values"
	}
	for i := range names {
		names[i] = short(names[i])
	}
	if len(names) > most {
		return "the values are " + strings.Join(names[:most], ", ") + " and others"
	}
	return "the values are " + strings.Join(names, ", ")
}

func pointed(name string, t *turn) any {
	switch name {
	case "index":
		return int64(t.index)
	case "acc":
		return t.acc
	}
	return t.item
}

func (r *run) member(node *ast.MemberNode, s scope) any {
	read := r.eval
	if node.Optional {
		read = r.tolerate
	}
	from := read(node.Node, s)
	if from == (chainEnd{}) || from == nil && node.Optional {
		return chainEnd{}
	}
	key := r.eval(node.Property, s)
	switch from := from.(type) {
	case map[string]any:
		return from[r.memberName(node.Property, key)]
	case []any:
		return from[r.index(node, key, len(from))]
	case string:
		runes := r.runes(node, from)
		return string(runes[r.index(node, key, len(runes))])
	}
	refuse := r.fail
	if from == nil {
		refuse = r.miss
	}
	if name, ok := node.Property.(*ast.StringNode); ok {
		refuse(node, WrongType, "cannot read %s of %s: expected an object", short(name.Value), kind(from))
	}
	refuse(node, WrongType, "cannot read a field or an item of %s: expected an object, an array or a string", kind(from))
	return nil
}

// index returns the position of an item. Negative indexes count from the end.
func (r *run) index(node ast.Node, key any, size int) int {
	index := r.integer(node, key, "an index")
	if index < 0 {
		index += int64(size)
	}
	if index < 0 || index >= int64(size) {
		r.fail(node, OutOfRange, "index out of range: the length is %d", size)
	}
	return int(index)
}

func (r *run) slice(node *ast.SliceNode, s scope) any {
	from := r.eval(node.Node, s)
	bounds := func(size int) (int, int) {
		bound := func(part ast.Node, otherwise int) int {
			if part == nil {
				return otherwise
			}
			place := r.integer(part, r.eval(part, s), "the bound of a slice")
			if place < 0 {
				place += int64(size)
			}
			return int(max(0, min(place, int64(size))))
		}
		low, high := bound(node.From, 0), bound(node.To, size)
		return min(low, high), high
	}
	switch from := from.(type) {
	case []any:
		low, high := bounds(len(from))
		return from[low:high:high]
	case string:
		runes := r.runes(node, from)
		low, high := bounds(len(runes))
		return string(runes[low:high])
	}
	r.fail(node, WrongType, "cannot slice %s: expected an array or a string", kind(from))
	return nil
}

func (r *run) array(node *ast.ArrayNode, s scope) any {
	r.hold(node, len(node.Nodes)+1, sizeOfItem)
	items := make([]any, len(node.Nodes))
	for i, part := range node.Nodes {
		items[i] = r.eval(part, s)
	}
	return items
}

func (r *run) object(node *ast.MapNode, s scope) any {
	r.hold(node, len(node.Pairs)+1, sizeOfMember)
	members := make(map[string]any, len(node.Pairs))
	for _, part := range node.Pairs {
		pair := part.(*ast.PairNode)
		name := r.memberName(pair.Key, r.eval(pair.Key, s))
		members[name] = r.eval(pair.Value, s)
	}
	return members
}

func (r *run) boolean(node ast.Node, value any) bool {
	is, ok := value.(bool)
	if !ok {
		r.fail(node, WrongType, "expected a boolean, got %s", kind(value))
	}
	return is
}

func (r *run) text(node ast.Node, value any, what string) string {
	text, ok := value.(string)
	if !ok {
		r.fail(node, WrongType, "%s must be a string, got %s", what, kind(value))
	}
	return text
}

// memberName returns a field name. It spends the budget's steps for looking the name up.
func (r *run) memberName(node ast.Node, value any) string {
	name := r.text(node, value, "a field name")
	r.spend(node, len(name)/64)
	return name
}

func (r *run) list(node ast.Node, value any, what string) []any {
	items, ok := value.([]any)
	if !ok {
		r.fail(node, WrongType, "%s must be an array, got %s", what, kind(value))
	}
	return items
}

// runes returns the characters of a string, which len and indexes count.
func (r *run) runes(node ast.Node, text string) []rune {
	r.hold(node, len(text), 4)
	r.read(node, len(text))
	return []rune(text)
}
