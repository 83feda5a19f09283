package expression

import (
	"cmp"
	"regexp"
	"regexp/syntax"
	"strings"

	"github.com/expr-lang/expr/ast"
)

func (r *run) unary(node *ast.UnaryNode, s scope) any {
	value := r.eval(node.Node, s)
	switch node.Operator {
	case "not", "!":
		return !r.boolean(node.Node, value)
	case "-":
		return r.calculate(node, "-", int64(0), r.numeric(node, value, "the operand of -"))
	}
	return r.numeric(node, value, "the operand of +")
}

func (r *run) binary(node *ast.BinaryNode, s scope) any {
	evalLeft, evalRight := r.eval, r.eval
	switch _, leftNil := node.Left.(*ast.NilNode); node.Operator {
	case "??":
		evalLeft = r.tolerate
	case "==", "!=":
		if _, rightNil := node.Right.(*ast.NilNode); rightNil {
			evalLeft = r.tolerate
		}
		if leftNil {
			evalRight = r.tolerate
		}
	}
	left := evalLeft(node.Left, s)
	switch node.Operator {
	case "and", "&&":
		return r.boolean(node.Left, left) && r.boolean(node.Right, r.eval(node.Right, s))
	case "or", "||":
		return r.boolean(node.Left, left) || r.boolean(node.Right, r.eval(node.Right, s))
	case "??":
		if left != nil {
			return left
		}
		return r.eval(node.Right, s)
	}
	right := evalRight(node.Right, s)
	switch node.Operator {
	case "==":
		return r.equal(node, left, right, 0)
	case "!=":
		return !r.equal(node, left, right, 0)
	case "<", ">", "<=", ">=":
		return r.ordered(node, left, right)
	case "in":
		return r.in(node, left, right)
	case "..":
		return r.span(node, left, right)
	case "matches":
		return r.matches(node, left, right)
	case "contains", "startsWith", "endsWith":
		return r.textual(node, left, right)
	case "+":
		if a, ok := left.(string); ok {
			if b, ok := right.(string); ok {
				r.hold(node, len(a)+len(b), 1)
				return a + b
			}
		}
	}
	if value, done := r.temporal(node, left, right); done {
		return value
	}
	return r.arithmetic(node, left, right)
}

func (r *run) arithmetic(node *ast.BinaryNode, left, right any) any {
	a, isA := r.number(node, left)
	b, isB := r.number(node, right)
	if !isA || !isB {
		want := "two numbers"
		if node.Operator == "+" {
			want = "two numbers or two strings"
		}
		r.fail(node, WrongType, "%s needs %s, got %s and %s", node.Operator, want, kind(left), kind(right))
	}
	return r.calculate(node, node.Operator, a, b)
}

func (r *run) ordered(node *ast.BinaryNode, left, right any) bool {
	by := r.compare(node, left, right)
	switch node.Operator {
	case "<":
		return by < 0
	case ">":
		return by > 0
	case "<=":
		return by <= 0
	}
	return by >= 0
}

// compare orders two numbers, two strings, two times or two durations. Two decimal strings are an
// error, because their order as strings differs from their numeric order.
func (r *run) compare(node ast.Node, left, right any) int {
	if a, ok := left.(string); ok {
		if b, ok := right.(string); ok {
			r.read(node, min(len(a), len(b)))
			if isDecimal(a) && isDecimal(b) {
				r.fail(node, WrongType, "two decimal strings cannot be ordered as strings: convert both with int() or float(), or compare larger integers with BIGINT_CALCULATE")
			}
			if first, second, times := r.times(node, a, b); times {
				return first.Compare(second)
			}
			return strings.Compare(a, b)
		}
	}
	if a, ok := left.(duration); ok {
		if b, ok := right.(duration); ok {
			return cmp.Compare(a, b)
		}
	}
	a, isA := r.number(node, left)
	b, isB := r.number(node, right)
	if !isA || !isB {
		r.fail(node, WrongType, "only two numbers or two strings can be ordered, got %s and %s", kind(left), kind(right))
	}
	return order(a, b)
}

// isDecimal reports whether a string is a number in decimal digits. The number may have a sign,
// a fraction, an exponent and surrounding white space.
func isDecimal(text string) bool {
	text = unsigned(strings.TrimSpace(text))
	if at := strings.IndexAny(text, "eE"); at >= 0 {
		if !isDigits(unsigned(text[at+1:])) {
			return false
		}
		text = text[:at]
	}
	whole, fraction, _ := strings.Cut(text, ".")
	return isDigits(whole + fraction)
}

// unsigned returns a string without its leading sign.
func unsigned(text string) string {
	if text != "" && (text[0] == '+' || text[0] == '-') {
		return text[1:]
	}
	return text
}

func isDigits(text string) bool { return text != "" && strings.Trim(text, "0123456789") == "" }

// equal compares values of any type: numbers by value, arrays and objects by content.
func (r *run) equal(node ast.Node, left, right any, depth int) bool {
	r.spend(node, 1)
	r.deep(node, depth)
	switch a := left.(type) {
	case nil:
		return right == nil
	case bool:
		b, ok := right.(bool)
		return ok && a == b
	case duration:
		return left == right
	case string:
		b, ok := right.(string)
		if !ok || len(a) != len(b) {
			return false
		}
		r.read(node, len(a))
		return a == b
	case []any:
		b, ok := right.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !r.equal(node, a[i], b[i], depth+1) {
				return false
			}
		}
		return true
	case map[string]any:
		b, ok := right.(map[string]any)
		return ok && len(a) == len(b) && r.equalMembers(node, a, b, depth)
	}
	return r.equalNumbers(node, left, right)
}

// equalMembers visits the names in sorted order, so that the used budget is deterministic.
func (r *run) equalMembers(node ast.Node, a, b map[string]any, depth int) bool {
	for _, name := range r.names(node, a) {
		other, ok := b[name]
		if !ok || !r.equal(node, a[name], other, depth+1) {
			return false
		}
	}
	return true
}

func (r *run) equalNumbers(node ast.Node, left, right any) bool {
	if !isNumber(left) || !isNumber(right) {
		return false
	}
	if left == right {
		return true
	}
	a, _ := r.number(node, left)
	b, _ := r.number(node, right)
	return order(a, b) == 0
}

// deep fails if values are nested deeper than any input or result can be.
func (r *run) deep(node ast.Node, depth int) {
	if depth > 2*MaxDepth {
		r.fail(node, TooExpensive, "values are nested deeper than %d", 2*MaxDepth)
	}
}

func (r *run) in(node *ast.BinaryNode, value, among any) bool {
	switch among := among.(type) {
	case nil:
		return false
	case []any:
		for _, item := range among {
			if r.equal(node, item, value, 0) {
				return true
			}
		}
		return false
	case map[string]any:
		_, ok := among[r.memberName(node.Left, value)]
		return ok
	}
	r.fail(node, WrongType, "in needs an array or an object, got %s", kind(among))
	return false
}

// span returns the integers from low to high, inclusive.
func (r *run) span(node *ast.BinaryNode, left, right any) any {
	low := r.integer(node.Left, left, "the start of a range")
	high := r.integer(node.Right, right, "the end of a range")
	if high < low {
		return []any{}
	}
	count := high - low + 1
	if count <= 0 || count > maxMemory {
		count = maxMemory
	}
	r.hold(node, int(count), sizeOfItem)
	r.spend(node, int(count))
	items := make([]any, count)
	for i := range items {
		items[i] = low + int64(i)
	}
	return items
}

// textual evaluates contains, startsWith or endsWith. The result for nil is false.
func (r *run) textual(node *ast.BinaryNode, left, right any) bool {
	if left == nil || right == nil {
		return false
	}
	text := r.text(node.Left, left, "the left side of "+node.Operator)
	part := r.text(node.Right, right, "the right side of "+node.Operator)
	r.read(node, len(text))
	switch node.Operator {
	case "contains":
		return strings.Contains(text, part)
	case "startsWith":
		return strings.HasPrefix(text, part)
	}
	return strings.HasSuffix(text, part)
}

// sorter returns a comparison for values that are all numbers or all strings.
func (r *run) sorter(node ast.Node, descending bool) func(a, b any) int {
	return func(a, b any) int {
		r.spend(node, 1)
		by := r.compare(node, a, b)
		if descending {
			return cmp.Compare(0, by)
		}
		return by
	}
}

const (
	maxPattern     = 1 << 10 // bytes of a regular expression
	maxPatternSize = 1_000   // instructions after compilation
)

// matches evaluates the operator matches. nil matches nothing.
func (r *run) matches(node *ast.BinaryNode, left, right any) bool {
	if left == nil || right == nil {
		return false
	}
	text := r.text(node.Left, left, "the left side of matches")
	p := r.program.patterns[node]
	if p == nil {
		p = r.compiled(node.Right, r.text(node.Right, right, "the right side of matches"))
	}
	// In the worst case, the time of a match is proportional to the product of both sizes.
	r.spend(node, 1+len(text)*p.size/16)
	return p.regexp.MatchString(text)
}

// compiled returns a regular expression that is computed at run time.
func (r *run) compiled(node ast.Node, text string) *pattern {
	if r.pattern != nil && r.pattern.text == text {
		return r.pattern
	}
	r.spend(node, 100+10*len(text))
	p, problem := compilePattern(text)
	if problem != "" {
		r.fail(node, WrongType, "%s", problem)
	}
	r.spend(node, 10*p.size)
	r.pattern = p
	return p
}

// compilePattern compiles an RE2 regular expression, which matches in linear time. It returns a
// message if the expression is invalid.
func compilePattern(text string) (p *pattern, problem string) {
	if len(text) > maxPattern {
		return nil, "a regular expression can have at most 1024 bytes"
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, "invalid regular expression (RE2)"
	}
	size := patternSize(tree)
	if size > maxPatternSize {
		return nil, "the regular expression has too many repetitions"
	}
	compiled, err := regexp.Compile(text)
	if err != nil {
		return nil, "invalid regular expression (RE2)"
	}
	return &pattern{text: text, size: size, regexp: compiled}, ""
}

// patternSize estimates the number of instructions of a compiled regular expression. Repetitions
// are expanded.
func patternSize(tree *syntax.Regexp) int {
	size := 2 + len(tree.Rune)/2
	for _, sub := range tree.Sub {
		size += patternSize(sub)
	}
	if tree.Op == syntax.OpRepeat {
		size *= max(tree.Min, tree.Max, 1)
	}
	return min(size, 1<<20)
}
