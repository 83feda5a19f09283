// Package logic implements the modules of the category LOGIC, which control a run: triggers,
// branches, loops, waits, computations and ends.
//
// A module here does no work itself. Evaluate returns what is a function of input and config. The
// engine does whatever needs a run (triggers, loops, waits, child runs, ends), by the module's
// name. Due reports when a wait is over. CheckConfig and CheckWhole validate a component when a
// workflow is saved, where schemas alone cannot.
//
// The one invariant: nothing here reads a clock or has an effect, so the same call returns the
// same result.
package logic

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/strictjson"
)

const category = "LOGIC"

// Modules is the table of the family.
func Modules() []component.Module {
	return []component.Module{
		onAPICalled, onSchedule, onWebhook,
		condition, selection, forEach,
		transform, arrayBuilder, stringConstant, numberConstant, booleanConstant, jsonConstant,
		delay, waitUntil, waitForSignal,
		runWorkflow, respond, fail,
	}
}

// module is one line of the table.
type module struct {
	component.Descriptor
	flow     component.Flow
	check    func(config json.RawMessage) []fault.Detail
	either   string // what has to be there, in the config or as an input
	whole    func(input, config json.RawMessage, bound []string) []fault.Detail
	evaluate func(input, config json.RawMessage) (Outcome, error)
}

// Outcome is what a component gives and the port by which the run goes on.
type Outcome struct {
	Output json.RawMessage
	Port   string
}

// Describe is what the catalogue says.
func (m *module) Describe() component.Descriptor { return m.Descriptor }

// Flow is the module's place in a graph.
func (m *module) Flow() component.Flow {
	flow := m.flow
	flow.Inline = true
	return flow
}

// CheckConfig tells what is wrong with a config that the schema lets pass, each
// fault with its pointer into the config.
func (m *module) CheckConfig(config json.RawMessage) []fault.Detail {
	if m.check == nil {
		return nil
	}
	return m.check(config)
}

// CheckWhole tells what is neither in the config nor among the inputs, given or bound, and
// what of the inputs does not fit the config.
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
	return problem("/config/"+m.either, "is required, here or as an input")
}

// Run executes a module on its own, where it can be.
func (m *module) Run(_ context.Context, call component.Call) (component.Result, error) {
	if !slices.Contains(m.Modes, component.ModeComponent) {
		return component.Result{}, component.Permanent(component.CodeInvalidInput, "%s is executed inside a workflow only", m.Module)
	}
	outcome, err := m.evaluate(call.Input, call.Config)
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

// Evaluate is what IF, SWITCH, TRANSFORM, ARRAY_BUILDER and the constants give.
// Every error is a *component.Error.
func Evaluate(name string, input, config json.RawMessage) (Outcome, error) {
	m := lookup(name)
	if m == nil || m.evaluate == nil {
		return Outcome{}, component.Permanent(component.CodeInternal, "%s is not a function of its input", component.Cut(name, 64))
	}
	return m.evaluate(input, config)
}

// CheckConfig tells what is wrong with a config of a module of this family, as
// its method does.
func CheckConfig(name string, config json.RawMessage) []fault.Detail {
	if m := lookup(name); m != nil {
		return m.CheckConfig(config)
	}
	return nil
}

// quick is the time of what is computed at once.
const quick = 5 * time.Second

// inWorkflows describes a module that is executed inside a workflow only.
func inWorkflows(name, title, description string, input, config, output string) component.Descriptor {
	return component.Descriptor{
		Module: name, Title: title, Description: description, Category: category,
		Input: object(input), Config: object(config), Output: object(output),
		Timeout: quick, Effect: component.EffectNone, Repeat: component.RepeatPure,
		Modes: []component.Mode{component.ModeWorkflow},
	}
}

// lasting is a module of which an attempt may take longer.
func lasting(d component.Descriptor, timeout time.Duration) component.Descriptor {
	d.Timeout = timeout
	return d
}

// object is a schema of an object with the given keywords.
func object(keywords string) json.RawMessage {
	return json.RawMessage(`{"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", ` + keywords + `}`)
}

const (
	nothing  = `"description": "No fields.", "properties": {}, "examples": [{}]`
	anything = `"description": "Any named values.", "properties": {}, "additionalProperties": true, `
)

// result makes the outcome of an output that goes on by a port.
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

// members reads an object with its numbers as they are written.
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

// problem is one fault of a config.
func problem(pointer, message string) []fault.Detail {
	return []fault.Detail{fault.NewDetail(pointer, message)}
}
