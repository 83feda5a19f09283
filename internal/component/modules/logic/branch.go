package logic

import (
	"encoding/json"
	"fmt"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/kit/fault"
)

const maxCases = 50

// expressionField is the schema of an expression, with an example to fill in.
const expressionField = `{"type": "string", "minLength": 1, "maxLength": 4096, "x-literal": "expression", "title": "Expression", "description": "An expression in the expr language. The values of the input are available by name, and so are the outputs of other components, such as get.status.", "examples": ["%s"]}`

var condition = &module{
	flow: component.Flow{Ports: []string{graph.PortThen, graph.PortElse}, Review: reviewExpression, Expressions: checkExpression},
	Descriptor: inWorkflows(component.If, "If",
		"Continues at then if the condition is true, otherwise at else. If the condition can't be evaluated and onFailure is continue, the run continues at else. To handle errors separately, connect the port error.",
		anything+`"examples": [{"amount": 1200, "country": "DE"}]`,
		`"description": "The condition.", "required": ["expression"], "properties": {"expression": `+fmt.Sprintf(expressionField, `amount > 1000 and country in [\"DE\", \"AT\"]`)+`}, "examples": [{"expression": "amount > 1000"}]`,
		`"description": "The result.", "required": ["result"], "properties": {
			"result": {"type": "boolean", "title": "Result", "description": "Whether the condition is true.", "examples": [true]}
		}`),
	evaluate: func(input, config json.RawMessage, s Scope) (Outcome, error) {
		c, err := component.Decode[expressionConfig](config)
		if err != nil {
			return Outcome{}, err
		}
		holds, err := boolean("expression", c.Expression, input, s)
		if err != nil {
			return Outcome{}, err
		}
		port := graph.PortElse
		if holds {
			port = graph.PortThen
		}
		return result(port, map[string]bool{"result": holds})
	},
}

var selection = &module{
	flow: component.Flow{CasePorts: caseNames, CasesAt: "/config/cases/*/name", Review: reviewCases, Expressions: checkExpressions},
	Descriptor: inWorkflows(component.Switch, "Switch",
		"Continues at the port of the first case that is true, otherwise at default. If a case can't be evaluated and onFailure is continue, the run continues at default. To handle errors separately, connect the port error.",
		anything+`"examples": [{"amount": 1200}]`,
		`"description": "The cases, in the order of evaluation.", "required": ["cases"], "properties": {
			"cases": {"type": "array", "minItems": 1, "maxItems": 50, "title": "Cases", "description": "The cases. Each has a name, which is its port, and a condition.", "items": {
				"type": "object", "required": ["name", "expression"], "additionalProperties": false, "properties": {
					"name": {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$", "description": "The name of the case and its port. default and error are reserved."},
					"expression": `+fmt.Sprintf(expressionField, "amount > 1000")+`
				}}, "examples": [[{"name": "large", "expression": "amount > 1000"}, {"name": "none", "expression": "amount == 0"}]]}
		}, "examples": [{"cases": [{"name": "large", "expression": "amount > 1000"}, {"name": "none", "expression": "amount == 0"}]}]`,
		`"description": "The result.", "required": ["case"], "properties": {
			"case": {"type": "string", "title": "Case", "description": "The name of the first case that is true, or default.", "examples": ["large"]}
		}`),
	check: checkCases,
	evaluate: func(input, config json.RawMessage, s Scope) (Outcome, error) {
		c, err := component.Decode[switchConfig](config)
		if err != nil {
			return Outcome{}, err
		}
		for i, one := range c.Cases {
			holds, err := boolean(fmt.Sprintf("cases[%d].expression", i), one.Expression, input, s)
			if err != nil {
				return Outcome{}, err
			}
			if holds {
				return result(one.Name, map[string]string{"case": one.Name})
			}
		}
		return result(graph.PortDefault, map[string]string{"case": graph.PortDefault})
	},
}

type switchConfig struct {
	Cases []switchCase `json:"cases"`
}

type switchCase struct {
	Name       string `json:"name"`
	Expression string `json:"expression"`
}

// caseNames returns the distinct valid port names of the cases in a config.
func caseNames(config json.RawMessage) []string {
	var c switchConfig
	if err := json.Unmarshal(config, &c); err != nil {
		return nil
	}
	names, known := []string{}, map[string]bool{graph.PortDefault: true, graph.PortError: true}
	for _, one := range c.Cases {
		if graph.IsIdentifier(one.Name) && !known[one.Name] {
			known[one.Name] = true
			names = append(names, one.Name)
		}
	}
	return names
}

func checkCases(config json.RawMessage) []fault.Detail {
	var c switchConfig
	if err := json.Unmarshal(config, &c); err != nil {
		return problem("/cases", "must be an array of objects with a name and an expression")
	}
	if len(c.Cases) == 0 || len(c.Cases) > maxCases {
		return problem("/cases", fmt.Sprintf("must have 1 to %d cases", maxCases))
	}
	var all []fault.Detail
	seen := map[string]int{}
	for i, one := range c.Cases {
		pointer := fmt.Sprintf("/cases/%d", i)
		first, twice := seen[one.Name]
		switch {
		case !graph.IsIdentifier(one.Name):
			all = append(all, problem(pointer+"/name", "must have 1 to 64 letters, digits, _ or -, because it is the name of a port")...)
		case one.Name == graph.PortDefault || one.Name == graph.PortError:
			all = append(all, problem(pointer+"/name", "is reserved: every switch has the ports default and error")...)
		case twice:
			all = append(all, problem(pointer+"/name", fmt.Sprintf("is already the name of case %d", first))...)
		default:
			seen[one.Name] = i
		}
	}
	return all
}

// checkExpressions reports errors in the expressions of the cases.
func checkExpressions(config json.RawMessage, known func(string) bool) (all []fault.Detail) {
	var c switchConfig
	if err := json.Unmarshal(config, &c); err != nil {
		return nil // reported by checkCases
	}
	for i, one := range c.Cases {
		all = append(all, compiles(fmt.Sprintf("/cases/%d/expression", i), one.Expression, known)...)
	}
	return all
}
