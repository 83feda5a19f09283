package logic

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weft-automation/weft/internal/component/expression"
	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/kit/envref"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/strictjson"
)

// reviewExpression tells which names of an expression no input brings.
func reviewExpression(input, config json.RawMessage, bound []string) (faults, warnings []fault.Detail) {
	var c expressionConfig
	if json.Unmarshal(config, &c) != nil {
		return nil, nil
	}
	return reviewNames("/config/expression", c.Expression, brought(input, bound))
}

// reviewCases is reviewExpression for the cases of a SWITCH.
func reviewCases(input, config json.RawMessage, bound []string) (faults, warnings []fault.Detail) {
	var c switchConfig
	if json.Unmarshal(config, &c) != nil {
		return nil, nil
	}
	names := brought(input, bound)
	for i, one := range c.Cases {
		never, maybe := reviewNames(fmt.Sprintf("/config/cases/%d/expression", i), one.Expression, names)
		faults, warnings = append(faults, never...), append(warnings, maybe...)
	}
	return faults, warnings
}

// brought are the names of the inputs that are written or connected.
func brought(input json.RawMessage, bound []string) map[string]bool {
	names := map[string]bool{}
	if written, err := members(input); err == nil {
		for name := range written {
			names[name] = true
		}
	}
	for _, path := range bound {
		name, _, _ := strings.Cut(path, ".")
		names[name] = true
	}
	return names
}

func reviewNames(pointer, text string, brought map[string]bool) (faults, warnings []fault.Detail) {
	program, err := expression.Compile(text)
	if err != nil || envref.In(text) {
		return nil, nil // the one is told elsewhere, the other is whole only in a run
	}
	missing := func(names []string) []string {
		return slices.DeleteFunc(names, func(name string) bool { return brought[name] })
	}
	there := "there are no inputs"
	if len(brought) > 0 {
		names := slices.Sorted(maps.Keys(brought))
		there = "the inputs are " + strings.Join(names[:min(len(names), 20)], ", ")
	}
	needed, others := program.Names()
	if names := missing(needed); len(names) > 0 {
		faults = problem(pointer, fmt.Sprintf("no input brings %s, so it always fails: write or connect that input; %s", strings.Join(names, ", "), there))
	}
	if names := missing(others); len(names) > 0 {
		warnings = []fault.Detail{{Code: graph.WarnName, Pointer: pointer, Message: fmt.Sprintf("no input brings %s; %s", strings.Join(names, ", "), there)}}
	}
	return faults, warnings
}

// givesValue is what a constant gives.
func givesValue(_, config, _ json.RawMessage, _ []string) []graph.Given {
	c, err := members(config)
	if err != nil {
		return nil
	}
	return given(map[string]any{"value": c["value"]}, nil)
}

// givesInput is what RESPOND gives: its input.
func givesInput(input, _, _ json.RawMessage, bound []string) []graph.Given {
	written, err := members(input)
	if err != nil {
		return nil
	}
	return given(written, bound)
}

// given describes an output whose members are these values, and what connections bring.
func given(values map[string]any, bound []string) []graph.Given {
	schema := literalSchema(values).(map[string]any)
	properties := schema["properties"].(map[string]any)
	for _, path := range bound {
		name, _, _ := strings.Cut(path, ".")
		properties[name] = true
	}
	possible, err := strictjson.Encode(schema)
	if err != nil {
		return nil
	}
	return []graph.Given{{Possible: possible}}
}

// literalSchema is the JSON Schema of one value, as far as paths lead into it.
func literalSchema(value any) any {
	switch value := value.(type) {
	case map[string]any:
		properties := map[string]any{}
		for name, member := range value {
			properties[name] = literalSchema(member)
		}
		return map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	case []any:
		items := make([]any, len(value))
		for i, item := range value {
			items[i] = literalSchema(item)
		}
		return map[string]any{"type": "array", "prefixItems": items}
	case nil:
		return map[string]any{"type": "null"}
	case bool:
		return map[string]any{"type": "boolean"}
	case string:
		return map[string]any{"type": "string"}
	}
	return map[string]any{"type": "number"}
}

// givesTrigger is what ON_API_CALLED gives: the members of the run's input, of which the schemas
// of its config and of the workflow say what they are.
func givesTrigger(_, config, runInput json.RawMessage, _ []string) (all []graph.Given) {
	for _, raw := range []json.RawMessage{inputSchemaOf(config), runInput} {
		schema, err := members(raw)
		if err != nil || schema["properties"] == nil || bytes.Contains(raw, []byte(`"$ref"`)) {
			continue // it names nothing, or what it names is elsewhere
		}
		open := schema["additionalProperties"] == nil
		if open {
			schema["additionalProperties"] = true
		}
		one := graph.Given{Possible: withWhole(schema)}
		if open {
			schema["additionalProperties"] = false
			one.Declared = withWhole(schema)
		}
		if one.Possible != nil {
			all = append(all, one)
		}
	}
	return all
}

// withWhole is the schema of the trigger's output for that of the input: beside each member it
// has the input whole.
func withWhole(schema map[string]any) json.RawMessage {
	declared, ok := schema["properties"].(map[string]any)
	if !ok {
		return nil
	}
	output, properties := maps.Clone(schema), maps.Clone(declared)
	properties["input"], properties["triggeredAt"] = schema, map[string]any{"type": "string"}
	output["properties"] = properties
	encoded, err := strictjson.Encode(output)
	if err != nil {
		return nil
	}
	return encoded
}
