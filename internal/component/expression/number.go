package expression

import (
	"cmp"
	"encoding/json"
	"math"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/expr-lang/expr/ast"
)

// exact is the limit up to which a double represents every integer.
const exact = 1 << 53

// whole returns the internal form of a double: an int64 if it is an integer that a double
// represents exactly, otherwise the double.
func whole(f float64) any {
	if f == math.Trunc(f) && math.Abs(f) <= exact {
		return int64(f)
	}
	return f
}

// perDigits is how many characters of a number cost one step. It is smaller than for strings,
// because parsing reads the characters of a fraction more than once.
const perDigits = 16

// numeral matches the texts that may be a single number of the language.
var numeral = regexp.MustCompile(`^[-+]?\.?[0-9][0-9A-Za-z_.+-]*$`)

// typed returns the value of a variable outside of quotes: a number, a boolean or nil if the text is
// one, and otherwise the text.
func typed(text string) any {
	switch word := strings.TrimSpace(text); {
	case word == "true", word == "false":
		return word == "true"
	case word == "null", word == "nil":
		return nil
	case len(word) > MaxText || !numeral.MatchString(word):
		return text
	default:
		program, err := Compile(word)
		if err == nil && isLiteral(program.root) {
			if n, err := program.Run(nil); err == nil {
				return n
			}
		}
		if json.Valid([]byte(word)) { // too large for the language, as numbers of inputs can be
			return json.Number(word)
		}
		return text
	}
}

// isLiteral reports whether a node is a number, with or without a sign.
func isLiteral(node ast.Node) bool {
	if sign, ok := node.(*ast.UnaryNode); ok && (sign.Operator == "-" || sign.Operator == "+") {
		node = sign.Node
	}
	switch node.(type) {
	case *ast.IntegerNode, *ast.FloatNode:
		return true
	}
	return false
}

func isNumber(value any) bool {
	switch value.(type) {
	case int64, float64, int, json.Number:
		return true
	}
	return false
}

// number returns a number as an int64 if it is an integer, otherwise as a float64. For values that
// aren't numbers, ok is false.
func (r *run) number(node ast.Node, value any) (n any, ok bool) {
	switch value := value.(type) {
	case int64:
		return value, true
	case float64:
		return whole(value), true
	case int:
		return int64(value), true
	case json.Number:
		r.spend(node, len(value)/perDigits)
		return r.decimal(node, value.String()), true
	}
	return nil, false
}

// decimal parses a JSON number.
func (r *run) decimal(node ast.Node, text string) any {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	if !strings.ContainsAny(text, ".eE") {
		r.fail(node, OutOfRange, "arithmetic with an integer of more than 64 bits is not supported: use BIGINT_CALCULATE, with strings")
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		r.fail(node, OutOfRange, "a number is beyond the range of doubles")
	}
	return whole(f)
}

// numeric returns a number as an operand or an argument. It fails for values that aren't
// numbers.
func (r *run) numeric(node ast.Node, value any, what string) any {
	n, ok := r.number(node, value)
	if !ok {
		r.fail(node, WrongType, "%s must be a number, got %s", what, kind(value))
	}
	return n
}

// integer returns an integer as an operand or an argument. It fails for values that aren't
// integers.
func (r *run) integer(node ast.Node, value any, what string) int64 {
	n, ok := r.numeric(node, value, what).(int64)
	if !ok {
		r.fail(node, WrongType, "%s must be a whole number", what)
	}
	return n
}

func double(n any) float64 {
	if n, ok := n.(int64); ok {
		return float64(n)
	}
	return n.(float64)
}

// finite returns the result of an operation on doubles. It fails on overflow.
func (r *run) finite(node ast.Node, f float64) any {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		r.fail(node, OutOfRange, "the result is beyond the range of doubles")
	}
	return whole(f)
}

// fits returns the result of an operation on integers. It fails on overflow.
func (r *run) fits(node ast.Node, n int64, ok bool) any {
	if !ok {
		r.fail(node, OutOfRange, "the result is an integer of more than 64 bits: use BIGINT_CALCULATE, which calculates with decimal strings")
	}
	return n
}

// calculate returns the result of an arithmetic operator on two numbers.
func (r *run) calculate(node ast.Node, operator string, left, right any) any {
	a, wholeA := left.(int64)
	b, wholeB := right.(int64)
	if wholeA && wholeB {
		if n, done := r.calculateWhole(node, operator, a, b); done {
			return n
		}
	}
	x, y := double(left), double(right)
	switch operator {
	case "+":
		return r.finite(node, x+y)
	case "-":
		return r.finite(node, x-y)
	case "*":
		return r.finite(node, x*y)
	case "/":
		r.divisor(node, y == 0)
		return r.finite(node, x/y)
	case "%":
		r.fail(node, WrongType, "%% accepts only integers")
	}
	return r.finite(node, math.Pow(x, y))
}

// calculateWhole computes operations whose result is an integer. done is false for the others.
func (r *run) calculateWhole(node ast.Node, operator string, a, b int64) (n any, done bool) {
	switch operator {
	case "+":
		return r.fits(node, a+b, (a+b > a) == (b > 0)), true
	case "-":
		return r.fits(node, a-b, (a-b < a) == (b > 0)), true
	case "*":
		product, ok := multiply(a, b)
		return r.fits(node, product, ok), true
	case "/":
		r.divisor(node, b == 0)
		if b != -1 && a%b == 0 {
			return a / b, true
		}
		if b == -1 {
			return r.fits(node, -a, a != math.MinInt64), true
		}
	case "%":
		r.divisor(node, b == 0)
		if b == -1 {
			return int64(0), true
		}
		return a % b, true
	case "**", "^":
		if b >= 0 {
			return r.power(node, a, b), true
		}
	}
	return nil, false
}

func (r *run) divisor(node ast.Node, zero bool) {
	if zero {
		r.fail(node, OutOfRange, "division by zero")
	}
}

func multiply(a, b int64) (product int64, ok bool) {
	if a == 0 || b == 0 {
		return 0, true
	}
	product = a * b
	overflow := a == -1 && b == math.MinInt64 || b == -1 && a == math.MinInt64
	return product, !overflow && product/b == a
}

func (r *run) power(node ast.Node, base, exponent int64) any {
	switch base {
	case 0, 1:
		if exponent == 0 {
			return int64(1)
		}
		return base
	case -1:
		return 1 - 2*(exponent&1)
	}
	result, ok := int64(1), exponent < 64
	for range min(exponent, 64) {
		if ok {
			result, ok = multiply(result, base)
		}
	}
	return r.fits(node, result, ok)
}

// order compares two numbers, exactly.
func order(left, right any) int {
	a, wholeA := left.(int64)
	b, wholeB := right.(int64)
	switch {
	case wholeA && wholeB:
		return cmp.Compare(a, b)
	case wholeA != wholeB && (beyond(left) || beyond(right)):
		return precise(left).Cmp(precise(right))
	}
	return cmp.Compare(double(left), double(right))
}

// beyond reports whether n is an integer that a double may not represent exactly.
func beyond(n any) bool {
	i, ok := n.(int64)
	return ok && (i > exact || i < -exact)
}

func precise(n any) *big.Float {
	if i, ok := n.(int64); ok {
		return new(big.Float).SetInt64(i)
	}
	return big.NewFloat(n.(float64))
}

// int truncates a number or parses the integer in a string.
func (c call) int() any {
	if text, ok := c.arguments[0].(string); ok {
		c.read(c.node, len(text))
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			c.fail(c.node, WrongType, "int() accepts a string with an integer of at most 64 bits")
		}
		return n
	}
	n := c.numberAt(0)
	f, ok := n.(float64)
	if !ok {
		return n
	}
	if math.Abs(f) >= 1<<63 {
		c.fail(c.node, OutOfRange, "int() accepts numbers of at most 64 bits")
	}
	return int64(f)
}

// float parses the number in a string.
func (c call) float() any {
	text, ok := c.arguments[0].(string)
	if !ok {
		return c.numberAt(0)
	}
	c.spend(c.node, len(text)/perDigits)
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || strings.ContainsAny(text, "xXnNpP_") {
		c.fail(c.node, WrongType, "float() accepts a string with a decimal number")
	}
	return c.finite(c.node, f)
}

func (c call) abs() any {
	n := c.numberAt(0)
	if order(n, int64(0)) < 0 {
		return c.calculate(c.node, "-", int64(0), n)
	}
	return n
}

func (c call) round() any {
	f, ok := c.numberAt(0).(float64)
	switch {
	case !ok:
		return c.numberAt(0)
	case c.name == "ceil":
		return whole(math.Ceil(f))
	case c.name == "floor":
		return whole(math.Floor(f))
	}
	return whole(math.Round(f))
}

// numbers returns the numbers in the arguments, including those in nested arrays.
func (c call) numbers() []any {
	return c.collect(nil, c.arguments, 0)
}

func (c call) collect(into, items []any, depth int) []any {
	c.deep(c.node, depth)
	for _, item := range items {
		c.spend(c.node, 1)
		if nested, ok := item.([]any); ok {
			into = c.collect(into, nested, depth+1)
			continue
		}
		c.hold(c.node, 2, sizeOfItem)
		into = append(into, c.numeric(c.node, item, "what "+c.name+"() takes"))
	}
	return into
}

// extreme returns the largest or smallest number, or nil without numbers.
func (c call) extreme() any {
	all := c.numbers()
	if len(all) == 0 {
		return nil
	}
	if c.name == "max" {
		return slices.MaxFunc(all, order)
	}
	return slices.MinFunc(all, order)
}

func (c call) mean() any {
	all := c.numbers()
	var total any = int64(0)
	for _, n := range all {
		total = c.calculate(c.node, "+", total, n)
	}
	return c.calculate(c.node, "/", total, int64(max(1, len(all))))
}

func (c call) median() any {
	all := c.numbers()
	if len(all) == 0 {
		return int64(0)
	}
	c.spend(c.node, 16*len(all))
	slices.SortFunc(all, order)
	high := all[len(all)/2]
	if len(all)%2 == 1 {
		return high
	}
	return c.calculate(c.node, "/", c.calculate(c.node, "+", all[len(all)/2-1], high), int64(2))
}
