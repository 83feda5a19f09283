package expression

import (
	"encoding/base64"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"

	"github.com/weft-automation/weft/internal/kit/digest"
	"github.com/weft-automation/weft/internal/kit/encoding"
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
// predicates, and those that workflows need besides.
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

	"date": {1, 2, call.date}, "duration": {1, 1, call.duration}, "plus": {3, 4, call.plus}, "startOf": {2, 3, call.startOf}, "format": {2, 3, call.format},
	"chunk": {2, 2, call.chunk}, "merge": {1, unlimited, call.merge}, "fixed": {2, 2, call.fixed}, "match": {2, 2, call.match},
	"escapeHTML": {1, 1, call.escape}, "urlEncode": {1, 1, call.escape}, "basicAuth": {2, 2, call.basicAuth},
	"hash": {1, 3, call.hash}, "hmac": {2, 5, call.hmac},
	"parseCSV": {1, 1, call.parseCSV}, "formatCSV": {1, 1, call.formatCSV}, "decodeForm": {1, 1, call.decodeForm},

	"bitand": {2, 2, call.bits}, "bitor": {2, 2, call.bits}, "bitxor": {2, 2, call.bits}, "bitnand": {2, 2, call.bits},
	"bitshl": {2, 2, call.bits}, "bitshr": {2, 2, call.bits}, "bitushr": {2, 2, call.bits}, "bitnot": {1, 1, call.bits},
}

// unsupported are the functions of expr that the language has in another form.
var unsupported = map[string]string{
	"now":      "there is no clock here: now(), without arguments, is a value of workflows",
	"timezone": `zones are named by text, as in date("2026-12-24", "Europe/Berlin")`,
}

// later are functions that variables may be named after, because expressions are older than them.
var later = []string{"basicAuth", "chunk", "decodeForm", "escapeHTML", "fixed", "format", "formatCSV", "hash", "hmac", "match", "merge", "parseCSV", "plus", "startOf", "urlEncode"}

// isReserved reports whether no variable can have the name.
func isReserved(name string) bool {
	_, plain := functions[name]
	return plain && !slices.Contains(later, name) || unsupported[name] != "" || slices.Contains(predicates, name)
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
	case duration:
		return "duration"
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

// basicAuth returns a value of the header Authorization (RFC 7617).
func (c call) basicAuth() any {
	user, password := c.textAt(0), c.textAt(1)
	if strings.Contains(user, ":") {
		c.fail(c.node, WrongType, "the user of basicAuth() cannot contain a colon")
	}
	c.made(2 * (len(user) + len(password) + 8))
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

// optional returns the text of argument i, or another one if there is no such argument.
func (c call) optional(i int, otherwise string) string {
	if len(c.arguments) <= i {
		return otherwise
	}
	return c.textAt(i)
}

// hash returns the hash of a string.
func (c call) hash() any {
	text, algorithm := c.textAt(0), c.optional(1, "sha256")
	c.made(len(text))
	sum, known := digest.Hash(algorithm, []byte(text))
	if !known {
		c.fail(c.node, WrongType, "%s must be %s", c.what(1), digest.HashAlgorithms)
	}
	return c.encoded(sum, 2)
}

// hmac returns the keyed message authentication code of a string.
func (c call) hmac() any {
	encoded, text, algorithm := c.textAt(0), c.textAt(1), c.optional(2, "sha256")
	form := c.optional(3, "utf8")
	c.made(len(encoded) + len(text))
	if form == "base58" { // in quadratic time
		c.spend(c.node, min(len(encoded), 2*encoding.MaxBase58)*len(encoded)/256)
	}
	key, err := encoding.Decode(encoded, form)
	if errors.Is(err, encoding.ErrUnknown) {
		c.fail(c.node, WrongType, "%s must be utf8, hex, base64, base64url or base58", c.what(3))
	}
	if err != nil {
		c.fail(c.node, WrongType, "%s %v, because its encoding is %s", c.what(0), err, form)
	}
	if len(key) == 0 {
		c.fail(c.node, WrongType, "%s is an empty key", c.what(0))
	}
	code, known := digest.MAC(algorithm, key, []byte(text))
	if !known {
		c.fail(c.node, WrongType, "%s must be %s", c.what(2), digest.MACAlgorithms)
	}
	return c.encoded(code, 4)
}

// encoded returns a digest in the encoding that argument i names.
func (c call) encoded(sum []byte, i int) any {
	c.made(3 * len(sum))
	form := c.optional(i, "hex")
	if form == "utf8" {
		form = "" // a digest is not text
	}
	text, err := encoding.Encode(sum, form)
	if err != nil {
		c.fail(c.node, WrongType, "%s must be hex, plainHex, base64, base64url or base58", c.what(i))
	}
	return text
}
