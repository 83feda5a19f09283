// Package logic implements the modules of the category LOGIC, which control a run: triggers,
// branches, loops, waits, computations and ends.
//
// A module in this package computes its result from the input and the config (Evaluate), or only
// describes work that needs a run: the engine recognizes triggers, loops, waits, child runs and
// ends by the module's name and does their work. Due returns the time when a wait is over. When a
// workflow is saved, CheckConfig and CheckWhole check rules that schemas can't express.
//
// The package doesn't read a clock and has no side effects, so the same call always returns the
// same result.
package logic

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/expression"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/strictjson"
)

const category = "LOGIC"

// Modules returns the modules of the category LOGIC.
func Modules() []component.Module {
	return []component.Module{
		onAPICalled, onSchedule, onWebhook,
		condition, selection, forEach, repeat, continueLoop,
		transform, arrayBuilder, stringConstant, numberConstant, booleanConstant, jsonConstant,
		delay, waitUntil, waitForSignal,
		runWorkflow, respond, fail,
	}
}

// module is a module of this category.
type module struct {
	component.Descriptor
	flow     component.Flow
	check    func(config json.RawMessage) []fault.Detail
	either   string // field that is required in the config or as an input
	whole    func(input, config json.RawMessage, bound []string) []fault.Detail
	evaluate func(input, config json.RawMessage, s Scope) (Outcome, error)
}

// Scope has what expressions in a config refer to, besides the input. The zero Scope is that of a
// component outside of a workflow, which can refer to nothing else.
type Scope struct {
	expression.Context
	Known func(name string) bool // reports whether a name starts a path; nil: outside of a workflow
}

// Outcome is the output of a component and the port at which the run continues.
type Outcome struct {
	Output json.RawMessage
	Port   string
}

// Describe returns the descriptor for the catalogue.
func (m *module) Describe() component.Descriptor { return m.Descriptor }

// Flow returns how the module behaves in a graph.
func (m *module) Flow() component.Flow {
	flow := m.flow
	flow.Inline = true
	return flow
}

// CheckConfig reports faults of a config that the schema can't detect, each with a pointer into the
// config.
func (m *module) CheckConfig(config json.RawMessage) []fault.Detail {
	if m.check == nil {
		return nil
	}
	return m.check(config)
}

// CheckWhole reports a value that is missing from both the config and the inputs, and inputs that
// contradict the config. bound are the inputs with connections.
func (m *module) CheckWhole(input, config json.RawMessage, bound []string) []fault.Detail {
	if m.whole != nil {
		return m.whole(input, config, bound)
	}
	if m.either == "" || slices.Contains(bound, m.either) {
		return nil
	}
	for _, part := range []json.RawMessage{input, config} {
		if all, err := members(part); err != nil || all[m.either] != nil {
			return nil
		}
	}
	return problem("/config/"+m.either, "is required here or as an input")
}

// Run executes a module outside a workflow. It returns INVALID_INPUT if the module can run only in
// workflows.
func (m *module) Run(_ context.Context, call component.Call) (component.Result, error) {
	if !slices.Contains(m.Modes, component.ModeComponent) {
		return component.Result{}, component.Permanent(component.CodeInvalidInput, "%s can only be executed in a workflow", m.Module)
	}
	outcome, err := m.evaluate(call.Input, call.Config, Scope{})
	return component.Result{Output: outcome.Output}, err
}

func lookup(name string) *module {
	for _, one := range Modules() {
		if m := one.(*module); m.Module == name {
			return m
		}
	}
	return nil
}

// Evaluate returns the outcome of an IF, SWITCH, TRANSFORM, ARRAY_BUILDER or constant. Every error is a
// *component.Error.
func Evaluate(name string, input, config json.RawMessage, s Scope) (Outcome, error) {
	m := lookup(name)
	if m == nil || m.evaluate == nil {
		return Outcome{}, component.Permanent(component.CodeInternal, "%s cannot be evaluated without a run", component.Cut(name, 64))
	}
	return m.evaluate(input, config, s)
}

// CheckConfig reports faults of a config of the module with this name, like the method of the same
// name.
func CheckConfig(name string, config json.RawMessage) []fault.Detail {
	if m := lookup(name); m != nil {
		return m.CheckConfig(config)
	}
	return nil
}

// quick is the timeout of modules that don't wait.
const quick = 5 * time.Second

// inWorkflows describes a module that can only be executed in a workflow.
func inWorkflows(name, title, description string, input, config, output string) component.Descriptor {
	return component.Descriptor{
		Module: name, Title: title, Description: description, Category: category,
		Input: component.Object(input), Config: component.Object(config), Output: component.Object(output),
		Timeout: quick, Effect: component.EffectNone, Repeat: component.RepeatPure,
		Modes: []component.Mode{component.ModeWorkflow},
	}
}

// lasting sets a longer timeout for a module that waits.
func lasting(d component.Descriptor, timeout time.Duration) component.Descriptor {
	d.Timeout = timeout
	return d
}

// anything has the keywords of an object with any fields.
const anything = `"description": "Any named values.", "properties": {}, "additionalProperties": true, `

// result encodes an output and returns the outcome. It returns OUTPUT_TOO_LARGE if the output
// exceeds the limit.
func result(port string, output any) (Outcome, error) {
	data, err := strictjson.Encode(output)
	if err != nil {
		return Outcome{}, &component.Error{Code: component.CodeInternal, Message: "the output cannot be encoded", Err: err}
	}
	if len(data) > component.MaxOutput {
		return Outcome{}, component.Permanent(component.CodeOutputTooLarge, "the output has %d bytes; at most %d are allowed", len(data), component.MaxOutput)
	}
	return Outcome{Output: data, Port: port}, nil
}

// members decodes an object. Numbers keep their notation.
func members(data json.RawMessage) (map[string]any, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return map[string]any{}, nil
	}
	value, err := strictjson.Decode(data)
	all, isObject := value.(map[string]any)
	if err != nil || !isObject && value != nil {
		return nil, &component.Error{Code: component.CodeInvalidInput, Message: "the input is not an object", Err: err}
	}
	return all, nil
}

// problem returns a single fault.
func problem(pointer, message string) []fault.Detail {
	return []fault.Detail{fault.NewDetail(pointer, message)}
}
