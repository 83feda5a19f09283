package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/kit/envref"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/jsonschema"
)

// resolve returns a component with its variables replaced by their values. It returns a
// *fault.Error if a variable is missing or its value does not fit.
func (a *Advance) resolve(c graph.Component) (graph.Component, error) {
	if len(envref.Names(c.Input, c.Config)) == 0 {
		return c, nil
	}
	env := a.Variables
	if env.Err != nil {
		return c, env.Err
	}
	for _, name := range a.Fixed[c.ID] {
		if slices.Contains(env.Changed, name) {
			return c, fault.New(fault.InvalidInput, "The environment variable %s is part of an address and has changed since the secrets next to that address were stored. Stored secrets stay with the old address. Save the workflow with these secrets again.", name)
		}
	}
	entry, known := a.modules.Lookup(c.Module)
	if !known {
		return c, nil // starting its execution reports the error
	}
	for _, part := range []struct {
		pointer string
		value   *json.RawMessage
		schema  json.RawMessage
	}{{"/input", &c.Input, entry.Input}, {"/config", &c.Config, entry.Config}} {
		schema, err := jsonschema.Parse(part.schema)
		if err != nil {
			return c, err
		}
		value, err := env.Values.Resolve(part.pointer, *part.value)
		if err == nil && entry.Flow().Expressions && part.value == &c.Config {
			continue // the module binds the values
		}
		if err == nil {
			value, err = schema.Convert(value)
		}
		if err != nil {
			return c, unresolved(part.pointer, err)
		}
		*part.value = value
	}
	return c, nil
}

// unresolved returns the error of a stage whose variables cannot be resolved.
func unresolved(pointer string, err error) error {
	message := err.Error()
	if unknown, ok := errors.AsType[*envref.Unknown](err); ok {
		pointer, message = unknown.Pointer, fmt.Sprintf("The environment variable %s was missing when the run started.", unknown.Name)
	}
	return &fault.Error{
		Code: fault.InvalidInput, Message: message,
		Details: []fault.Detail{{Code: string(fault.InvalidInput), Message: message, Pointer: pointer}},
	}
}
