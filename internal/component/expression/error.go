package expression

import (
	"fmt"

	"github.com/expr-lang/expr/ast"
)

// Code is the stable name of a kind of error.
type Code string

// The codes of an Error.
const (
	Syntax       Code = "SYNTAX"        // the expression is invalid
	UnknownName  Code = "UNKNOWN_NAME"  // unknown value or function
	WrongType    Code = "WRONG_TYPE"    // wrong type of value for an operator or a function
	OutOfRange   Code = "OUT_OF_RANGE"  // a number or an index is out of range
	TooExpensive Code = "TOO_EXPENSIVE" // the budget of steps or memory is exceeded
	NotJSON      Code = "NOT_JSON"      // the result can't be encoded as JSON
	MissingValue Code = "MISSING_VALUE" // a path has no value
)

// Error explains why an expression can't be compiled or evaluated. Messages can contain names of
// values, but not values.
type Error struct {
	Code         Code
	Message      string
	Line, Column int // position in the expression, from 1
}

func (e *Error) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Message)
}

// at returns an error for a position in the text, counted in characters.
func at(text string, from int, code Code, format string, args ...any) *Error {
	e := &Error{Code: code, Message: fmt.Sprintf(format, args...), Line: 1, Column: 1}
	for _, char := range text {
		if from--; from < 0 {
			break
		}
		e.Column++
		if char == '\n' {
			e.Line, e.Column = e.Line+1, 1
		}
	}
	return e
}

// fail aborts the run with an error at a node.
func (r *run) fail(node ast.Node, code Code, format string, args ...any) {
	panic(at(r.program.text, node.Location().From, code, format, args...))
}

// absent aborts an evaluation because a value is missing. Only tolerate recovers from it.
type absent struct{ *Error }

// miss is fail for a missing value, which some operators tolerate.
func (r *run) miss(node ast.Node, code Code, format string, args ...any) {
	panic(absent{at(r.program.text, node.Location().From, code, format, args...)})
}

// spend uses steps of the budget. It fails if the budget is exhausted.
func (r *run) spend(node ast.Node, steps int) {
	if r.steps += steps; r.steps > maxSteps || steps < 0 {
		r.fail(node, TooExpensive, "the expression needs more than %d steps", maxSteps)
	}
}

// read uses the steps for reading size bytes of text.
func (r *run) read(node ast.Node, size int) { r.spend(node, 1+size/64) }

// hold uses memory of the budget, before the memory is allocated.
func (r *run) hold(node ast.Node, count, size int) {
	if count < 0 || count > maxMemory/size || r.memory+count*size > maxMemory {
		r.fail(node, TooExpensive, "the expression allocates more than %d MiB", maxMemory>>20)
	}
	r.memory += count * size
}

// kind returns the type of a value for error messages.
func kind(value any) string {
	switch value.(type) {
	case nil:
		return "nil"
	case bool:
		return "a boolean"
	case string:
		return "a string"
	case []any:
		return "an array"
	case map[string]any:
		return "an object"
	}
	if isNumber(value) {
		return "a number"
	}
	return "a value of an unknown type"
}
