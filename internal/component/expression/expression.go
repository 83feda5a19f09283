// Package expression evaluates the one language in which workflows compute: the
// conditions of IF and SWITCH, and the results of TRANSFORM (decisions 8.16).
//
// The language is that of github.com/expr-lang/expr, whose parser reads it. It
// is evaluated here, because expr's own machine counts neither the bytes of
// texts nor the turns of nested loops, wraps integers around in silence, visits
// objects in random order and lets values into its errors. What is of the clock
// or of time zones (now, date, duration, timezone), $env, methods and bytes is
// not part of the language; language_test.go holds the rest against expr.
//
// Numbers: whole numbers are exact to 64 bits and stay whole, 4 / 2 included;
// what does not fit is an error, never another number. Fractions are IEEE
// doubles. Larger integers travel as texts; one that came as a JSON number
// passes through as it is, but cannot be reckoned with.
//
// The one invariant: whatever the text and the values, Run ends within its
// budget of steps and memory, gives the same for the same, and changes nothing.
package expression

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/expr-lang/expr/ast"
)

// Limits on an expression and on what one Run may use.
const (
	MaxText   = 4 << 10 // bytes of an expression
	MaxResult = 1 << 20 // bytes of a result, as JSON
	MaxDepth  = 60      // nesting of a result
	MaxValues = 99_000  // items and members in a result
	MaxName   = 1 << 10 // bytes of a member's name

	maxNodes  = 1_000    // parts of an expression
	maxVisits = 4_000    // of its parts, where some stand in several places
	maxSteps  = 500_000  // parts evaluated, items visited, and 64 bytes of text read
	maxMemory = 16 << 20 // bytes of all that is made on the way
)

// Program is a compiled expression. It does not change and may run in several
// goroutines at once.
type Program struct {
	text     string
	root     ast.Node
	lenient  map[*ast.IdentifierNode]bool // nil where they are absent: left of ??, before ?., compared with nil
	patterns map[*ast.BinaryNode]*pattern // those that stand in the text
}

// pattern is a compiled regular expression and what a character costs it.
type pattern struct {
	text   string
	size   int
	regexp *regexp.Regexp
}

// Compile reads an expression. Its error is an *Error: SYNTAX with the place
// and what was expected there, or TOO_EXPENSIVE.
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

// Run evaluates the expression. The values are what JSON decodes to, with
// numbers as json.Number, float64, int or int64; they are not changed. The
// result is of the same kinds and can be encoded as JSON; it may share parts
// with the values. Every error is an *Error that holds none of the values.
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

// failure is the error of a run that was broken off.
func (r *run) failure(cause any) error {
	if err, ok := cause.(*Error); ok {
		return err
	}
	return fmt.Errorf("evaluate expression: %v", cause)
}
