package expression

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"

	"github.com/weft-automation/weft/internal/kit/fault"
)

// checker validates a syntax tree and precomputes what every run needs.
type checker struct {
	program *Program
	visits  int
	lenient map[*ast.IdentifierNode]bool // names that may be missing: left of ??, before ?., compared with nil
}

// surroundings are the variables and the predicate that a node can refer to.
type surroundings struct {
	variables *binding
	predicate string
	sometimes bool // some evaluations don't reach the node
}

// maybe returns the surroundings of a node that only some evaluations reach.
func (s surroundings) maybe() surroundings {
	s.sometimes = true
	return s
}

type binding struct {
	outer *binding
	name  string
}

func (b *binding) has(name string) bool {
	for ; b != nil; b = b.outer {
		if b.name == name {
			return true
		}
	}
	return false
}

func check(p *Program) (program *Program, err error) {
	p.names, p.patterns = map[string]bool{}, map[*ast.BinaryNode]*pattern{}
	c := &checker{program: p, lenient: map[*ast.IdentifierNode]bool{}}
	defer func() {
		if cause := recover(); cause != nil {
			refusal, ok := cause.(*Error)
			if !ok {
				refusal = at(p.text, 0, Syntax, "this is not a valid expression")
			}
			program, err = nil, refusal
		}
	}()
	c.walk(p.root, surroundings{})
	return c.program, nil
}

func (c *checker) refuse(node ast.Node, code Code, format string, args ...any) {
	panic(at(c.program.text, node.Location().From, code, format, args...))
}

// walk visits a node and its descendants. The parser shares nodes between several parents (a < b <
// c, a ?: b), so nesting can cause an exponential number of visits. The number of visits is
// limited.
func (c *checker) walk(node ast.Node, s surroundings) {
	if c.visits++; c.visits > maxVisits {
		c.refuse(node, TooExpensive, "comparisons or ?: are nested too deep")
	}
	switch node := node.(type) {
	case nil:
	case *ast.NilNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.StringNode:
	case *ast.IdentifierNode:
		if node.Value == "$env" {
			c.refuse(node, UnknownName, "$env is not part of the language: use the names of the values")
		}
		if name := node.Value; !s.variables.has(name) && !c.program.refers(name) && !c.program.isPath(name) {
			c.program.names[name] = c.program.names[name] || !s.sometimes && !c.lenient[node]
		}
		if path, isPath := c.program.paths[node.Value]; isPath && !s.sometimes && !c.lenient[node] {
			path.Tolerated = false
			c.program.paths[node.Value] = path
		}
	case *ast.PointerNode:
		c.pointer(node, s)
	case *ast.UnaryNode:
		c.walk(node.Node, s)
	case *ast.BinaryNode:
		c.binary(node, s)
	case *ast.ChainNode:
		c.walk(node.Node, s)
	case *ast.MemberNode:
		c.member(node, s)
	case *ast.SliceNode:
		c.all(s, node.Node, node.From, node.To)
	case *ast.ConditionalNode:
		c.walk(node.Cond, s)
		c.all(s.maybe(), node.Exp1, node.Exp2)
	case *ast.VariableDeclaratorNode:
		c.variable(node, s)
	case *ast.SequenceNode:
		c.all(s, node.Nodes...)
	case *ast.ArrayNode:
		c.all(s, node.Nodes...)
	case *ast.MapNode:
		c.all(s, node.Pairs...)
	case *ast.PairNode:
		c.all(s, node.Key, node.Value)
	case *ast.PredicateNode:
		c.walk(node.Node, s.maybe()) // the array can be empty
	case *ast.BuiltinNode:
		c.call(node, node.Name, node.Arguments, s)
	case *ast.CallNode:
		c.call(node, c.callee(node), node.Arguments, s)
	case *ast.BytesNode:
		c.refuse(node, Syntax, "bytes cannot be encoded as JSON: expected a string")
	default:
		c.refuse(node, Syntax, "this is not part of the language")
	}
}

func (c *checker) all(s surroundings, nodes ...ast.Node) {
	for _, node := range nodes {
		c.walk(node, s)
	}
}

// allowAbsent notes that the name at the start of a node may be missing.
func (c *checker) allowAbsent(node ast.Node) {
	for {
		switch part := node.(type) {
		case *ast.IdentifierNode:
			c.lenient[part] = true
			return
		case *ast.ChainNode:
			node = part.Node
		case *ast.MemberNode:
			node = part.Node
		case *ast.BinaryNode:
			if part.Operator != "??" {
				return
			}
			node = part.Right // the left side may be missing anyway
		default:
			return
		}
	}
}

func (c *checker) pointer(node *ast.PointerNode, s surroundings) {
	switch {
	case node.Name == "", node.Name == "index" && s.predicate != "", node.Name == "acc" && s.predicate == "reduce":
		return
	case node.Name == "acc":
		c.refuse(node, UnknownName, "#acc is only available in reduce")
	}
	c.refuse(node, UnknownName, "unknown variable #%s: expected #, #index, or #acc in reduce", short(node.Name))
}

func (c *checker) binary(node *ast.BinaryNode, s surroundings) {
	_, leftNil := node.Left.(*ast.NilNode)
	_, rightNil := node.Right.(*ast.NilNode)
	switch node.Operator {
	case "??":
		c.allowAbsent(node.Left)
	case "==", "!=":
		if rightNil {
			c.allowAbsent(node.Left)
		}
		if leftNil {
			c.allowAbsent(node.Right)
		}
	case "matches":
		if text, ok := node.Right.(*ast.StringNode); ok && c.program.patterns[node] == nil && !c.program.refers(text.Value) {
			compiled, problem := compilePattern(text.Value)
			if problem != "" {
				c.refuse(text, Syntax, "%s", problem)
			}
			c.program.patterns[node] = compiled
		}
	}
	c.walk(node.Left, s)
	if slices.Contains([]string{"and", "&&", "or", "||", "??"}, node.Operator) {
		s.sometimes = true
	}
	c.walk(node.Right, s)
}

func (c *checker) member(node *ast.MemberNode, s surroundings) {
	if node.Optional {
		c.allowAbsent(node.Node)
	}
	if name, ok := node.Property.(*ast.StringNode); ok && name.Value == "length" {
		c.program.length = true
	}
	c.walk(node.Node, s)
	c.walk(node.Property, s.maybe()) // the chain can stop earlier
}

func (c *checker) variable(node *ast.VariableDeclaratorNode, s surroundings) {
	if c.program.refers(node.Name) || c.program.isPath(node.Name) {
		c.refuse(node, Syntax, "%s is a value: use another name for the variable", node.Name)
	}
	if isReserved(node.Name) || s.variables.has(node.Name) {
		c.refuse(node, Syntax, "%s is reserved: use another name for the variable", short(node.Name))
	}
	c.walk(node.Value, s)
	s.variables = &binding{s.variables, node.Name}
	c.walk(node.Expr, s)
}

func (c *checker) call(node ast.Node, name string, arguments []ast.Node, s surroundings) {
	f, plain := functions[name]
	over := slices.Contains(predicates, name)
	switch {
	case unsupported[name] != "":
		c.refuse(node, UnknownName, "%s() is not a function of the language: %s", name, unsupported[name])
	case !plain && !over && foreignFunctions[name] != "":
		c.refuse(node, UnknownName, "unknown function %s: write %s", name, foreignFunctions[name])
	case !plain && !over:
		c.refuse(node, UnknownName, "unknown function %s; the functions are %s", short(name), strings.Join(FunctionNames(), ", "))
	case plain && (len(arguments) < f.least || len(arguments) > f.most):
		c.refuse(node, Syntax, "%s() needs %s, got %d", name, arity(f.least, f.most), len(arguments))
	}
	for i, argument := range arguments {
		inner := s
		if over && i == 1 {
			inner.predicate, inner.sometimes = name, true
		}
		c.walk(argument, inner)
	}
}

// callee returns the name of a function that is not built in.
func (c *checker) callee(node *ast.CallNode) string {
	callee, ok := node.Callee.(*ast.IdentifierNode)
	if ok {
		return callee.Value
	}
	instead := "len(value)"
	if member, is := node.Callee.(*ast.MemberNode); is {
		if name, is := member.Property.(*ast.StringNode); is && foreignMembers[name.Value] != "" {
			instead = foreignMembers[name.Value]
		}
	}
	c.refuse(node, Syntax, "values have no methods: expected a function or an operator, such as %s", instead)
	return ""
}

func arity(least, most int) string {
	switch {
	case most > 100:
		return "at least " + fault.Count(least, "argument")
	case least == most:
		return fault.Count(least, "argument")
	}
	return fmt.Sprintf("%d to %d arguments", least, most)
}

// short truncates a name for error messages.
func short(name string) string {
	if runes := []rune(name); len(runes) > 40 {
		return string(runes[:40]) + "..."
	}
	return name
}

// Names returns the names of the values that the expression uses. If a needed value is missing,
// every evaluation fails. If one of the other values is missing, an evaluation can succeed.
func (p *Program) Names() (needed, others []string) {
	for _, name := range slices.Sorted(maps.Keys(p.names)) {
		if p.names[name] {
			needed = append(needed, name)
		} else {
			others = append(others, name)
		}
	}
	return needed, others
}

// ReadsLength reports whether the expression reads a field named length. Paths don't count.
func (p *Program) ReadsLength() bool { return p.length }
