package workflow

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/strictjson"
)

// index returns the index of a component, or -1 if it is missing.
func (d definition) index(componentID string) int {
	return slices.IndexFunc(d.Components, func(c api.WorkflowComponent) bool { return c.ID == componentID })
}

// apply changes a component.
func (p UpdateParams) apply(c *api.WorkflowComponent) (err error) {
	if p.Name != nil {
		c.Name = *p.Name
	}
	if p.Position != nil {
		c.Position = p.Position
	}
	if p.Config == nil {
		return nil
	}
	patch, err := lowerID(c.Module, p.Config)
	if err != nil {
		return err
	}
	c.Config, err = merge(c.Config, patch)
	return err
}

// lowerID returns the config of a module, or a patch of the config, with the workflow ID of a
// RUN_WORKFLOW in lower case (decisions 1.2). It changes nothing else.
func lowerID(module string, config json.RawMessage) (json.RawMessage, error) {
	if module != component.RunWorkflow {
		return config, nil
	}
	all, _, err := fieldsOf(config)
	if err != nil {
		return nil, err
	}
	var written string
	if json.Unmarshal(all["workflowId"], &written) != nil {
		return config, nil // the ID is missing, or the schema rejects it
	}
	id, err := uuid.Parse(written)
	if err != nil || written == id.String() || !strings.EqualFold(written, id.String()) {
		return config, nil
	}
	if all["workflowId"], err = json.Marshal(id); err != nil {
		return nil, fmt.Errorf("encode a workflow ID: %w", err)
	}
	return strictjson.Encode(all)
}

// merge applies a JSON merge patch (RFC 7396): null removes a field, objects are merged
// recursively, and any other value replaces the old one. It keeps the encoding of values, such as
// numbers.
func merge(target, patch json.RawMessage) (json.RawMessage, error) {
	changes, isObject, err := fieldsOf(patch)
	if err != nil || !isObject {
		return patch, err
	}
	merged, isObject, err := fieldsOf(target)
	if err != nil {
		return nil, err
	}
	if !isObject {
		merged = map[string]json.RawMessage{}
	}
	for name, change := range changes {
		if string(change) == "null" {
			delete(merged, name)
			continue
		}
		if merged[name], err = merge(merged[name], change); err != nil {
			return nil, err
		}
	}
	return strictjson.Encode(merged)
}

// fieldsOf returns the fields of a JSON object. It returns nil for any other value.
func fieldsOf(raw json.RawMessage) (all map[string]json.RawMessage, isObject bool, err error) {
	if len(raw) == 0 || raw[0] != '{' {
		return nil, false, nil
	}
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, false, fmt.Errorf("decode a config: %w", err)
	}
	return all, true, nil
}

// relativeTo changes the pointers of errors in the component that the caller changed, so that they
// are relative to that component.
func relativeTo(err error, pointer string) error {
	failure, ok := err.(*fault.Error)
	if !ok || len(failure.Details) == 0 {
		return err
	}
	details := slices.Clone(failure.Details)
	for i := range details {
		if inside, ok := strings.CutPrefix(details[i].Pointer, pointer+"/"); ok {
			details[i].Pointer = "/" + inside
		}
	}
	return fault.Unprocessable(details)
}

// updatedComponent returns a component in the form of the API's response to an update.
func updatedComponent(c api.WorkflowComponent, number int32) api.UpdatedWorkflowComponent {
	return api.UpdatedWorkflowComponent{
		ID: c.ID, Module: c.Module, Name: c.Name, Input: c.Input, Config: c.Config, Position: c.Position,
		Attempts: c.Attempts, TimeoutMs: c.TimeoutMs, OnFailure: c.OnFailure, WorkflowVersion: number,
	}
}
