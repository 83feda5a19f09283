package logic

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/expression"
	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/kit/envref"
	"github.com/weft-automation/weft/internal/kit/fault"
)

var transform = &module{
	flow: component.Flow{Review: reviewExpression, Expressions: checkExpression},
	Descriptor: standalone(inWorkflows(component.Transform, "Transform",
		"Evaluates an expression over the values of its input.",
		anything+`"examples": [{"prices": [3, 4.5], "rate": 2}]`,
		`"description": "The expression.", "required": ["expression"], "properties": {"expression": `+fmt.Sprintf(expressionField, "map(prices, # * rate) | sum()")+`}, "examples": [{"expression": "{total: sum(prices) * rate, count: len(prices)}"}]`,
		`"description": "The result.", "required": ["result"], "properties": {
			"result": {"title": "Result", "description": "The value of the expression. Integers are exact up to 64 bits; pass larger ones as strings.", "examples": [15]}
		}`)),
	evaluate: func(input, config json.RawMessage, s Scope) (Outcome, error) {
		c, err := component.Decode[expressionConfig](config)
		if err != nil {
			return Outcome{}, err
		}
		value, err := evaluate("expression", c.Expression, input, s)
		if err != nil {
			return Outcome{}, err
		}
		return result(graph.PortNext, map[string]any{"result": value})
	},
}

// standalone marks a module that can also be executed outside a workflow.
func standalone(d component.Descriptor) component.Descriptor {
	d.Modes = []component.Mode{component.ModeComponent, component.ModeWorkflow}
	return d
}

type expressionConfig struct {
	Expression string `json:"expression"`
}

func checkExpression(config json.RawMessage, known func(string) bool) []fault.Detail {
	var c expressionConfig
	if err := json.Unmarshal(config, &c); err != nil {
		return problem("/expression", "must be a string")
	}
	return compiles("/expression", c.Expression, known)
}

// compiles reports errors in an expression when the workflow is saved. In expressions with
// references, reviewNames reports them as warnings: older versions accepted such definitions.
func compiles(pointer, text string, known func(string) bool) []fault.Detail {
	if envref.In(text) {
		return nil
	}
	if _, err := expression.CompileReferring(text, known); err != nil {
		return problem(pointer, err.Error())
	}
	return nil
}

// evaluate returns the value of an expression over the fields of the input. In a workflow, an expression
// that consists of one reference to a variable is the variable's value. Other references are values of
// the expression.
func evaluate(field, text string, input json.RawMessage, s Scope) (any, error) {
	values, err := members(input)
	if err != nil {
		return nil, err
	}
	var program *expression.Program
	switch name, only := envref.Only(text); {
	case s.Known == nil:
		program, err = expression.Compile(text)
	case only:
		program, err = expression.Compile(s.Variables[name])
	default:
		program, err = expression.CompileReferring(text, s.Known)
	}
	if err != nil {
		return nil, expressionError(field, err)
	}
	value, err := program.RunWith(values, s.Context)
	if err != nil {
		return nil, expressionError(field, err)
	}
	return value, nil
}

// boolean returns the value of a condition. It returns INVALID_INPUT if the value is not a boolean.
func boolean(field, text string, input json.RawMessage, s Scope) (bool, error) {
	value, err := evaluate(field, text, input, s)
	if err != nil {
		return false, err
	}
	holds, ok := value.(bool)
	if !ok {
		return false, component.Permanent(component.CodeInvalidInput, "%s must evaluate to true or false", field)
	}
	return holds, nil
}

// expressionError converts an error of an expression to the error of a stage.
func expressionError(field string, err error) error {
	at, ok := errors.AsType[*expression.Error](err)
	if !ok {
		return &component.Error{Code: component.CodeInternal, Message: "the expression could not be evaluated", Err: err}
	}
	code := component.CodeInvalidInput
	if at.Code == expression.MissingValue {
		code = string(expression.MissingValue)
	}
	return component.Permanent(code, "%s: %v", field, at).
		With(map[string]any{"reason": at.Code, "field": field, "line": at.Line, "column": at.Column})
}
