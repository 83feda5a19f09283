// Package expression evaluates the expression language of workflows: the conditions of IF and
// SWITCH, and the results of TRANSFORM (decisions 8.16).
//
// The language is that of github.com/expr-lang/expr, and the package uses expr's parser. The
// package has its own evaluator, because expr's virtual machine limits neither the bytes of strings
// nor the iterations of nested loops, overflows integers silently, visits objects in random order
// and puts values into its errors. $env, methods, bytes and expr's functions for times are not part of the
// language, which has its own (time.go): times are RFC 3339 text, so that they are the same inside and
// outside of an expression. language_test.go compares the rest with expr.
//
// Numbers: integers are exact up to 64 bits, and whole results stay integers: 4/2 is the integer 2.
// Overflow is an error. Fractions are IEEE doubles. Larger integers must be strings; a larger JSON
// number passes through unchanged, but arithmetic with it is an error.
//
// For any expression and any values, Run finishes within its budget of steps and memory, is
// deterministic, and modifies nothing.
package expression

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/expr-lang/expr/ast"

	"github.com/weft-automation/weft/internal/kit/envref"
	"github.com/weft-automation/weft/internal/kit/reference"
)

// Limits on an expression and on the resources of one Run.
const (
	MaxText   = 4 << 10 // bytes of an expression
	MaxResult = 1 << 20 // bytes of a result, as JSON
	MaxDepth  = 60      // nesting of a result
	MaxValues = 99_000  // items and fields in a result
	MaxName   = 1 << 10 // bytes of a field name

	maxNodes  = 1_000    // nodes of an expression
	maxVisits = 4_000    // visits of the expression's nodes; some nodes have several parents
	maxSteps  = 500_000  // nodes evaluated, items visited, and blocks of 64 bytes read
	maxMemory = 16 << 20 // bytes of all intermediate values
)

// Program is a compiled expression. It is immutable and safe for concurrent use.
type Program struct {
	text     string
	root     ast.Node
	names    map[string]bool              // of the values it uses; true if every evaluation needs the value
	patterns map[*ast.BinaryNode]*pattern // regular expressions that are literals

	references map[string]string // variables by the word that stands for a reference in names and strings
	mark       string            // a letter that only those words contain; empty without references
	paths      map[string]path   // by the word that stands for the path
	length     bool              // reads a field named length
}

// path is a path in the expression.
type path struct {
	reference.Path
	text string // as the author wrote it
}

// Context has the values outside of the expression's own that it can refer to. Its zero value has none.
type Context struct {
	Variables envref.Values                                   // of {{env.NAME}} in an expression
	Value     func(p reference.Path) (value any, exists bool) // of paths, as decoded JSON
	Budget    *Budget                                         // shared by several expressions; nil: its own
}

// Budget is what the expressions of one component have used of their steps and their memory.
type Budget struct{ steps, memory int }

// pattern is a compiled regular expression and its cost per character.
type pattern struct {
	text   string
	size   int
	regexp *regexp.Regexp
}

// Compile parses an expression. Its error is an *Error: SYNTAX with the position and what was
// expected there, UNKNOWN_NAME, or TOO_EXPENSIVE.
func Compile(text string) (*Program, error) { return compile(text, text, &Program{}) }

// CompileReferring is Compile for an expression that refers to values that are not its inputs, which
// RunWith gets. A value is never parsed as a part of the expression.
//
// {{env.NAME}} stands for an environment variable. In a string or a name, it completes the string or
// the name. Elsewhere, it has the variable's value, and values that look like numbers, booleans or null
// have these types.
//
// A path that starts with a known name stands for the value at the path. If there is no such value, the
// evaluation fails with MISSING_VALUE, except on the left of ??, before ?., and compared with nil. known
// may be nil.
func CompileReferring(text string, known func(name string) bool) (*Program, error) {
	p := &Program{}
	if known == nil {
		known = func(string) bool { return false }
	}
	if len(text) > MaxText {
		return compile(text, text, p)
	}
	// Each reference and each path becomes a word of the same length, so that positions stay the same.
	// The word contains a letter that occurs nowhere else in the text.
	letter := '\u4e00' - 1
	next := func() rune {
		for letter++; strings.ContainsRune(text, letter); letter++ {
		}
		return letter
	}
	parsed := text
	if envref.In(text) {
		p.references, p.mark = map[string]string{}, string(next())
		parsed = envref.Replace(text, func(name string) string {
			p.references[p.word(name)] = name
			return p.word(name)
		})
	}
	paths, err := reference.Paths(parsed, known)
	if err != nil {
		return nil, &Error{Code: Syntax, Line: 1, Column: 1, Message: p.readable(err.Error())}
	}
	p.paths = make(map[string]path, len(paths))
	for _, found := range slices.Backward(paths) {
		original := parsed[found.From:found.To]
		word := strings.Repeat(string(next()), utf8.RuneCountInString(original))
		found.Tolerated = true
		p.paths[word] = path{found, original}
		parsed = parsed[:found.From] + word + parsed[found.To:]
	}
	program, err := compile(text, parsed, p)
	if refusal, ok := errors.AsType[*Error](err); ok {
		refusal.Message = p.readable(refusal.Message)
	}
	return program, err
}

// Paths returns the paths in the expression, in order.
func (p *Program) Paths() (paths []reference.Path) {
	for _, one := range p.paths {
		paths = append(paths, one.Path)
	}
	slices.SortFunc(paths, func(a, b reference.Path) int { return a.From - b.From })
	return paths
}

// Path returns the path that the whole expression consists of.
func (p *Program) Path() (found reference.Path, whole bool) {
	if node, ok := p.root.(*ast.IdentifierNode); ok {
		one, isPath := p.paths[node.Value]
		return one.Path, isPath
	}
	return found, false
}

// word returns the word that stands for a reference.
func (p *Program) word(name string) string {
	return p.mark + p.mark + "env" + p.mark + name + p.mark + p.mark
}

// refers reports whether a name or a string of the expression contains a reference.
func (p *Program) refers(text string) bool { return p.mark != "" && strings.Contains(text, p.mark) }

// isPath reports whether a name stands for a path.
func (p *Program) isPath(name string) bool { _, is := p.paths[name]; return is }

// onlyRefers reports whether a name consists of references.
func (p *Program) onlyRefers(text string) bool {
	for word := range p.references {
		text = strings.ReplaceAll(text, word, "")
	}
	return text == ""
}

// readable returns a string with references as the author wrote them.
func (p *Program) readable(text string) string {
	for word, path := range p.paths {
		text = strings.ReplaceAll(text, word, path.text)
	}
	for word, name := range p.references {
		text = strings.ReplaceAll(text, word, "{{env."+name+"}}")
	}
	return text
}

// compile parses the expression: parsed is the text with words for references and paths.
func compile(text, parsed string, p *Program) (*Program, error) {
	switch {
	case len(text) > MaxText:
		return nil, &Error{Code: TooExpensive, Line: 1, Column: 1, Message: fmt.Sprintf("the expression has %d bytes; at most %d are allowed", len(text), MaxText)}
	case !utf8.ValidString(text):
		return nil, &Error{Code: Syntax, Line: 1, Column: 1, Message: "the expression is not UTF-8"}
	case strings.TrimSpace(text) == "":
		return nil, &Error{Code: Syntax, Line: 1, Column: 1, Message: "the expression is empty"}
	}
	root, err := parse(parsed)
	if err != nil {
		return nil, err
	}
	p.text, p.root = text, root
	return check(p)
}

// Run evaluates the expression. The values are decoded JSON, with numbers as json.Number, float64,
// int or int64. Run doesn't modify them. The result has the same types, can be encoded as JSON, and
// may share parts with the values. Every error is an *Error that contains none of the values.
func (p *Program) Run(values map[string]any) (result any, err error) {
	return p.RunWith(values, Context{})
}

// RunWith is Run with the values that the expression refers to.
func (p *Program) RunWith(values map[string]any, c Context) (result any, err error) {
	r := &run{program: p, values: values, context: c}
	if c.Budget != nil {
		r.steps, r.memory = c.Budget.steps, c.Budget.memory
		defer func() { *c.Budget = Budget{r.steps, r.memory} }()
	}
	defer func() {
		if cause := recover(); cause != nil {
			result, err = nil, r.failure(cause)
		}
	}()
	result = r.eval(p.root, scope{})
	r.measure(p.root, result)
	return result, nil
}

// failure returns the error of an aborted run.
func (r *run) failure(cause any) error {
	if missing, ok := cause.(absent); ok {
		cause = missing.Error
	}
	if err, ok := cause.(*Error); ok {
		err.Message = r.program.readable(err.Message)
		return err
	}
	return fmt.Errorf("evaluate expression: %v", cause)
}
