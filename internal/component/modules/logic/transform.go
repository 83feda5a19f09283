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
	flow: component.Flow{Review: reviewExpression},
	Descriptor: alone(inWorkflows("TRANSFORM", "Transform",
		"Computes a value from the values of its input by an expression.",
		anything+`"examples": [{"prices": [3, 4.5], "rate": 2}]`,
		`"description": "What to compute.", "required": ["expression"], "properties": {"expression": `+fmt.Sprintf(expressionField, "map(prices, # * rate) | sum()")+`}, "examples": [{"expression": "{total: sum(prices) * rate, count: len(prices)}"}]`,
		`"description": "What was computed.", "required": ["result"], "properties": {
			"result": {"title": "Result", "description": "The expression's value. Whole numbers stay whole up to 64 bits; larger ones travel as texts.", "examples": [15]}
		}`)),
	check: checkExpression,
	evaluate: func(input, config json.RawMessage) (Outcome, error) {
		c, err := component.Decode[expressionConfig](config)
		if err != nil {
			return Outcome{}, err
		}
		value, err := evaluate("expression", c.Expression, input)
		if err != nil {
			return Outcome{}, err
		}
		return result(graph.PortNext, map[string]any{"result": value})
	},
}

// alone describes a module that can also be executed on its own.
func alone(d component.Descriptor) component.Descriptor {
	d.Modes = []component.Mode{component.ModeComponent, component.ModeWorkflow}
	return d
}

type expressionConfig struct {
	Expression string `json:"expression"`
}

func checkExpression(config json.RawMessage) []fault.Detail {
	var c expressionConfig
	if err := json.Unmarshal(config, &c); err != nil {
		return problem("/expression", "must be a text")
	}
	return compiles("/expression", c.Expression)
}

// compiles tells what is wrong with an expression before it is evaluated. One
// with a variable of the environment is whole only when it is.
func compiles(pointer, text string) []fault.Detail {
	if envref.In(text) {
		return nil
	}
	if _, err := expression.Compile(text); err != nil {
		return problem(pointer, err.Error())
	}
	return nil
}

// evaluate is the value of an expression over the members of the input.
func evaluate(field, text string, input json.RawMessage) (any, error) {
	values, err := members(input)
	if err != nil {
		return nil, err
	}
	program, err := expression.Compile(text)
	if err != nil {
		return nil, refused(field, err)
	}
	value, err := program.Run(values)
	if err != nil {
		return nil, refused(field, err)
	}
	return value, nil
}

// boolean is the value of an expression that says whether something holds.
func boolean(field, text string, input json.RawMessage) (bool, error) {
	value, err := evaluate(field, text, input)
	if err != nil {
		return false, err
	}
	holds, ok := value.(bool)
	if !ok {
		return false, component.Permanent(component.CodeInvalidInput, "%s must give true or false", field)
	}
	return holds, nil
}

// refused is an expression's error as that of a stage.
func refused(field string, err error) error {
	at, ok := errors.AsType[*expression.Error](err)
	if !ok {
		return &component.Error{Code: component.CodeInternal, Message: "the expression could not be evaluated", Err: err}
	}
	return component.Permanent(component.CodeInvalidInput, "%s: %v", field, at).
		With(map[string]any{"reason": at.Code, "field": field, "line": at.Line, "column": at.Column})
}
