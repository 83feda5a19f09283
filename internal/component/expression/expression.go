// Package expression evaluates the expression language of workflows: the conditions of IF and
// SWITCH, and the results of TRANSFORM (decisions 8.16).
//
// The language is that of github.com/expr-lang/expr, and the package uses expr's parser. The
// package has its own evaluator, because expr's virtual machine limits neither the bytes of strings
// nor the iterations of nested loops, overflows integers silently, visits objects in random order
// and puts values into its errors. Functions for times and time zones (now, date, duration,
// timezone), $env, methods and bytes are not part of the language. language_test.go compares the
// rest with expr.
//
// Numbers: integers are exact up to 64 bits, and whole results stay integers: 4/2 is the integer 2.
// Overflow is an error. Fractions are IEEE doubles. Larger integers must be strings; a larger JSON
// number passes through unchanged, but arithmetic with it is an error.
//
// For any expression and any values, Run finishes within its budget of steps and memory, is
// deterministic, and modifies nothing.
package expression

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/expr-lang/expr/ast"
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
	lenient  map[*ast.IdentifierNode]bool // names that evaluate to nil if missing: left of ??, before ?., compared with nil
	patterns map[*ast.BinaryNode]*pattern // regular expressions that are literals
}

// pattern is a compiled regular expression and its cost per character.
type pattern struct {
	text   string
	size   int
	regexp *regexp.Regexp
}

// Compile parses an expression. Its error is an *Error: SYNTAX with the position and what was
// expected there, UNKNOWN_NAME, or TOO_EXPENSIVE.
func Compile(text string) (*Program, error) {
	switch {
	case len(text) > MaxText:
		return nil, &Error{Code: TooExpensive, Line: 1, Column: 1, Message: fmt.Sprintf("the expression has %d bytes; at most %d are allowed", len(text), MaxText)}
	case !utf8.ValidString(text):
		return nil, &Error{Code: Syntax, Line: 1, Column: 1, Message: "the expression is not UTF-8"}
	case strings.TrimSpace(text) == "":
		return nil, &Error{Code: Syntax, Line: 1, Column: 1, Message: "the expression is empty"}
	}
	root, err := parse(text)
	if err != nil {
		return nil, err
	}
	return check(text, root)
}

// Run evaluates the expression. The values are decoded JSON, with numbers as json.Number, float64,
// int or int64. Run doesn't modify them. The result has the same types, can be encoded as JSON, and
// may share parts with the values. Every error is an *Error that contains none of the values.
func (p *Program) Run(values map[string]any) (result any, err error) {
	r := &run{program: p, values: values}
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
	if err, ok := cause.(*Error); ok {
		return err
	}
	return fmt.Errorf("evaluate expression: %v", cause)
}
