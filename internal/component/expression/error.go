package expression

import (
	"fmt"

	"github.com/expr-lang/expr/ast"
)

// Code is a stable name of what went wrong.
type Code string

// The codes of an Error.
const (
	Syntax       Code = "SYNTAX"        // the text is not of the language
	UnknownName  Code = "UNKNOWN_NAME"  // no value or function has that name
	WrongType    Code = "WRONG_TYPE"    // an operator or a function met another kind of value
	OutOfRange   Code = "OUT_OF_RANGE"  // a number or an index beyond what there is
	TooExpensive Code = "TOO_EXPENSIVE" // more steps or memory than an expression may use
	NotJSON      Code = "NOT_JSON"      // the result has no form in JSON
)

// Error is why an expression cannot be compiled or evaluated. No message holds
// a value; names of values it may hold.
type Error struct {
	Code         Code
	Message      string
	Line, Column int // of the expression's text, from 1
}

func (e *Error) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Message)
}

// at makes an error of a place in the text, counted in characters.
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

// fail breaks the run off with an error at a part of the expression.
func (r *run) fail(node ast.Node, code Code, format string, args ...any) {
	panic(at(r.program.text, node.Location().From, code, format, args...))
}

// spend takes from the budget of steps.
func (r *run) spend(node ast.Node, steps int) {
	if r.steps += steps; r.steps > maxSteps || steps < 0 {
		r.fail(node, TooExpensive, "the expression takes more than %d steps", maxSteps)
	}
}

// read takes the steps that reading so much text costs.
func (r *run) read(node ast.Node, size int) { r.spend(node, 1+size/64) }

// hold takes from the budget of memory, before the memory is taken.
func (r *run) hold(node ast.Node, count, size int) {
	if count < 0 || count > maxMemory/size || r.memory+count*size > maxMemory {
		r.fail(node, TooExpensive, "the expression makes more than %d MiB of values", maxMemory>>20)
	}
	r.memory += count * size
}

// kind names the kind of a value in messages.
func kind(value any) string {
	switch value.(type) {
	case nil:
		return "nil"
	case bool:
		return "a boolean"
	case string:
		return "a text"
	case []any:
		return "an array"
	case map[string]any:
		return "an object"
	}
	if isNumber(value) {
		return "a number"
	}
	return "a value of an unknown kind"
}
