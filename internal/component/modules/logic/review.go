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
	"github.com/weft-automation/weft/internal/kit/reference"
	"github.com/weft-automation/weft/internal/kit/strictjson"
)

// reviewExpression reports names in an expression that no input provides.
func reviewExpression(input, config json.RawMessage, bound []string, known func(string) bool) (faults, warnings []fault.Detail) {
	var c expressionConfig
	if json.Unmarshal(config, &c) != nil {
		return nil, nil
	}
	names := provided(input, bound)
	faults, warnings = reviewNames("/config/expression", c.Expression, names, known)
	return faults, append(reviewInputs(names), warnings...)
}

// reviewCases is like reviewExpression for the cases of a SWITCH.
func reviewCases(input, config json.RawMessage, bound []string, known func(string) bool) (faults, warnings []fault.Detail) {
	var c switchConfig
	if json.Unmarshal(config, &c) != nil {
		return nil, nil
	}
	names := provided(input, bound)
	warnings = reviewInputs(names)
	for i, one := range c.Cases {
		never, maybe := reviewNames(fmt.Sprintf("/config/cases/%d/expression", i), one.Expression, names, known)
		faults, warnings = append(faults, never...), append(warnings, maybe...)
	}
	return faults, warnings
}

// provided returns the names of the inputs that have a literal value or a connection.
func provided(input json.RawMessage, bound []string) map[string]bool {
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

func reviewNames(pointer, text string, provided map[string]bool, known func(string) bool) (faults, warnings []fault.Detail) {
	if _, only := envref.Only(text); only {
		return nil, nil // the variable has the whole expression, which is known only at run time
	}
	program, err := expression.CompileReferring(text, known)
	switch {
	case err != nil && envref.In(text):
		return nil, []fault.Detail{{Code: graph.WarnExpression, Pointer: pointer, Message: fmt.Sprintf("always fails: a reference in an expression is a value, and not a part of its code; %v", err)}}
	case err != nil:
		return nil, nil // compiles reports the error
	}
	missing := func(names []string) []string {
		return slices.DeleteFunc(names, func(name string) bool { return provided[name] })
	}
	there := "there are no inputs"
	if len(provided) > 0 {
		names := slices.Sorted(maps.Keys(provided))
		there = "the inputs are " + strings.Join(names[:min(len(names), 20)], ", ")
	}
	needed, others := program.Names()
	if names := missing(needed); len(names) > 0 {
		faults = problem(pointer, absent(names, ", so the expression always fails; set or connect the input; "+there))
	}
	if envref.In(text) { // older versions accepted the definition
		for i := range faults {
			faults[i].Code = graph.WarnName
		}
		faults, warnings = nil, faults
	}
	if names := missing(others); len(names) > 0 {
		warnings = append(warnings, fault.Detail{Code: graph.WarnName, Pointer: pointer, Message: absent(names, "; "+there)})
	}
	if program.ReadsLength() {
		warnings = append(warnings, fault.Detail{Code: graph.WarnLength, Pointer: pointer, Message: graph.LengthHint})
	}
	return faults, warnings
}

// absent returns a message about names that no input provides. For names of other languages, it says
// what to write instead; otherwise follows the rest.
func absent(names []string, rest string) string {
	var advice, others []string
	for _, name := range names {
		if instead := expression.Foreign(name); instead != "" {
			advice = append(advice, fmt.Sprintf("write %s instead of %s", instead, name))
		} else {
			others = append(others, name)
		}
	}
	if len(others) > 0 {
		advice = append(advice, "no input provides "+strings.Join(others, ", ")+rest)
	}
	return strings.Join(advice, "; ")
}

// reviewInputs warns about inputs that no expression can read, because a word of the language has their
// name.
func reviewInputs(provided map[string]bool) (warnings []fault.Detail) {
	for _, name := range slices.Sorted(maps.Keys(provided)) {
		if expression.IsWord(name) {
			warnings = append(warnings, fault.Detail{Code: graph.WarnWord, Pointer: fault.Pointer("/input", name), Message: fmt.Sprintf("%s is a word of the language, so expressions cannot read this input; rename it", name)})
		}
	}
	return warnings
}

// givesValue describes the output of a constant.
func givesValue(_, config, _ json.RawMessage, _ []string) []graph.Given {
	c, err := members(config)
	if err != nil {
		return nil
	}
	return given(map[string]any{"value": c["value"]}, nil)
}

// givesInput describes the output of RESPOND, which equals the input.
func givesInput(input, _, _ json.RawMessage, bound []string) []graph.Given {
	written, err := members(input)
	if err != nil {
		return nil
	}
	return given(written, bound)
}

// given describes an output that consists of the given values and of the values from
// connections.
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

// literalSchema returns a JSON Schema that describes the structure of a value.
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
		if _, whole := reference.Whole(value); whole {
			return true // a reference keeps the type of its value
		}
		return map[string]any{"type": "string"}
	}
	return map[string]any{"type": "number"}
}

// givesTrigger describes the output of ON_API_CALLED: the fields of the run's input, according to
// the schema in the config and the schema of the workflow.
func givesTrigger(_, config, runInput json.RawMessage, _ []string) []graph.Given {
	return givesInputOf(nil, inputSchemaOf(config), runInput)
}

// givesInputOf describes the output of a trigger: the fields of the run's input, according to its
// schemas, the whole input, and the fields that the trigger adds.
func givesInputOf(added map[string]any, schemas ...json.RawMessage) (all []graph.Given) {
	for _, raw := range schemas {
		schema, err := members(raw)
		if err != nil || schema["properties"] == nil || bytes.Contains(raw, []byte(`"$ref"`)) {
			continue // the fields are unknown or defined by reference
		}
		open := schema["additionalProperties"] == nil
		if open {
			schema["additionalProperties"] = true
		}
		one := graph.Given{Possible: withWhole(schema, added)}
		if open {
			schema["additionalProperties"] = false
			one.Declared = withWhole(schema, added)
		}
		if one.Possible != nil {
			all = append(all, one)
		}
	}
	return all
}

// withWhole converts the schema of the input to the schema of the trigger's output, which has
// additional fields, one with the whole input.
func withWhole(schema, added map[string]any) json.RawMessage {
	declared, ok := schema["properties"].(map[string]any)
	if !ok {
		return nil
	}
	output, properties := maps.Clone(schema), maps.Clone(declared)
	properties["input"], properties["triggeredAt"] = schema, map[string]any{"type": "string"}
	maps.Copy(properties, added)
	output["properties"] = properties
	encoded, err := strictjson.Encode(output)
	if err != nil {
		return nil
	}
	return encoded
}
