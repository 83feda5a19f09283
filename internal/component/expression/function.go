package expression

import (
	"maps"
	"slices"

	"github.com/expr-lang/expr/ast"
)

// call is a call of a function with evaluated arguments.
type call struct {
	*run
	node      ast.Node
	name      string
	arguments []any
}

type function struct {
	least, most int // arguments
	run         func(c call) any
}

const unlimited = 1 << 10 // any number of arguments

// functions are the pure functions of expr whose results can be encoded as JSON, except the
// predicates.
var functions = map[string]function{
	"len": {1, 1, call.len}, "type": {1, 1, call.typeOf},
	"int": {1, 1, call.int}, "float": {1, 1, call.float}, "string": {1, 1, call.string},
	"abs": {1, 1, call.abs}, "ceil": {1, 1, call.round}, "floor": {1, 1, call.round}, "round": {1, 1, call.round},
	"max": {1, unlimited, call.extreme}, "min": {1, unlimited, call.extreme}, "mean": {1, unlimited, call.mean}, "median": {1, unlimited, call.median},

	"trim": {1, 2, call.trim}, "trimPrefix": {1, 2, call.trim}, "trimSuffix": {1, 2, call.trim},
	"upper": {1, 1, call.letters}, "lower": {1, 1, call.letters},
	"split": {2, 3, call.split}, "splitAfter": {2, 3, call.split}, "join": {1, 2, call.join},
	"replace": {3, 4, call.replace}, "repeat": {2, 2, call.repeat},
	"indexOf": {2, 2, call.indexOf}, "lastIndexOf": {2, 2, call.indexOf},
	"hasPrefix": {2, 2, call.has}, "hasSuffix": {2, 2, call.has},
	"toJSON": {1, 1, call.toJSON}, "fromJSON": {1, 1, call.fromJSON},
	"toBase64": {1, 1, call.toBase64}, "fromBase64": {1, 1, call.fromBase64},

	"first": {1, 1, call.end}, "last": {1, 1, call.end}, "get": {2, 2, call.get}, "take": {2, 2, call.take},
	"keys": {1, 1, call.members}, "values": {1, 1, call.members}, "toPairs": {1, 1, call.members}, "fromPairs": {1, 1, call.fromPairs},
	"reverse": {1, 1, call.reverse}, "uniq": {1, 1, call.uniq}, "concat": {1, unlimited, call.concat}, "flatten": {1, 1, call.flatten},
	"sort": {1, 2, call.sort},

	"bitand": {2, 2, call.bits}, "bitor": {2, 2, call.bits}, "bitxor": {2, 2, call.bits}, "bitnand": {2, 2, call.bits},
	"bitshl": {2, 2, call.bits}, "bitshr": {2, 2, call.bits}, "bitushr": {2, 2, call.bits}, "bitnot": {1, 1, call.bits},
}

// clockFunctions are the functions of expr that are not supported.
var clockFunctions = map[string]bool{"now": true, "date": true, "duration": true, "timezone": true}

func isFunction(name string) bool {
	_, plain := functions[name]
	return plain || clockFunctions[name] || slices.Contains(predicates, name)
}

// FunctionNames returns the names of all functions, sorted.
func FunctionNames() []string {
	names := slices.AppendSeq(slices.Clone(predicates), maps.Keys(functions))
	slices.Sort(names)
	return names
}

func (r *run) call(node ast.Node, name string, arguments []ast.Node, s scope) any {
	if slices.Contains(predicates, name) {
		return r.iterate(node, name, arguments, s)
	}
	c := call{run: r, node: node, name: name}
	for _, argument := range arguments {
		c.arguments = append(c.arguments, r.eval(argument, s))
	}
	return functions[name].run(c)
}

func (c call) textAt(i int) string   { return c.text(c.node, c.arguments[i], c.what(i)) }
func (c call) listAt(i int) []any    { return c.list(c.node, c.arguments[i], c.what(i)) }
func (c call) integerAt(i int) int64 { return c.integer(c.node, c.arguments[i], c.what(i)) }
func (c call) numberAt(i int) any    { return c.numeric(c.node, c.arguments[i], c.what(i)) }

func (c call) what(i int) string {
	if len(c.arguments) == 1 {
		return "the argument of " + c.name + "()"
	}
	return "argument " + string(rune('1'+min(i, 8))) + " of " + c.name + "()"
}

func (c call) len() any {
	switch value := c.arguments[0].(type) {
	case string:
		c.read(c.node, len(value))
		return int64(len([]rune(value)))
	case []any:
		return int64(len(value))
	case map[string]any:
		return int64(len(value))
	}
	c.fail(c.node, WrongType, "len() accepts a string, an array or an object, got %s", kind(c.arguments[0]))
	return nil
}

func (c call) typeOf() any {
	switch value := c.arguments[0].(type) {
	case nil:
		return "nil"
	case bool:
		return "bool"
	case string:
		return "string"
	case []any:
		return "array"
	case map[string]any:
		return "map"
	default:
		if _, ok := c.numeric(c.node, value, "the argument of type()").(int64); ok {
			return "int"
		}
		return "float"
	}
}

func (c call) bits() any {
	x := c.integerAt(0)
	if c.name == "bitnot" {
		return ^x
	}
	y := c.integerAt(1)
	switch c.name {
	case "bitand":
		return x & y
	case "bitor":
		return x | y
	case "bitxor":
		return x ^ y
	case "bitnand":
		return x &^ y
	}
	if y < 0 {
		c.fail(c.node, OutOfRange, "%s() doesn't accept a negative number of bits", c.name)
	}
	switch c.name {
	case "bitshl":
		return x << uint64(y)
	case "bitshr":
		return x >> uint64(y)
	}
	return int64(uint64(x) >> uint64(y))
}
