package workflow

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/strictjson"
)

// find is the place of a component, -1 if it is not there.
func (d definition) find(componentID string) int {
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

// lowerID returns the config of a module, or a patch of it, with the ID of the workflow that a
// RUN_WORKFLOW names in lower case (decisions 1.2). Everything else stays as it is.
func lowerID(module string, config json.RawMessage) (json.RawMessage, error) {
	if module != runModule {
		return config, nil
	}
	all, _, err := members(config)
	if err != nil {
		return nil, err
	}
	var given string
	if json.Unmarshal(all["workflowId"], &given) != nil {
		return config, nil // it is missing, or the schema rejects it
	}
	id, err := uuid.Parse(given)
	if err != nil || given == id.String() || !strings.EqualFold(given, id.String()) {
		return config, nil
	}
	if all["workflowId"], err = json.Marshal(id); err != nil {
		return nil, fmt.Errorf("encode a workflow ID: %w", err)
	}
	return strictjson.Encode(all)
}

// merge lays a merge patch over JSON (RFC 7396): a null takes a member away, an object
// is merged in the same way, everything else takes the place of what was there. Values
// keep their text.
func merge(target, patch json.RawMessage) (json.RawMessage, error) {
	changes, isObject, err := members(patch)
	if err != nil || !isObject {
		return patch, err
	}
	merged, isObject, err := members(target)
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

// members are those of a JSON object; none of any other value, or of nothing.
func members(raw json.RawMessage) (all map[string]json.RawMessage, isObject bool, err error) {
	if len(raw) == 0 || raw[0] != '{' {
		return nil, false, nil
	}
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, false, fmt.Errorf("read a config: %w", err)
	}
	return all, true, nil
}

// within moves the faults at a place of the definition to the value itself, which is
// what the caller gave.
func within(err error, pointer string) error {
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

func updatedComponent(c api.WorkflowComponent, number int32) api.UpdatedWorkflowComponent {
	return api.UpdatedWorkflowComponent{
		ID: c.ID, Module: c.Module, Name: c.Name, Input: c.Input, Config: c.Config, Position: c.Position,
		Attempts: c.Attempts, TimeoutMs: c.TimeoutMs, OnFailure: c.OnFailure, WorkflowVersion: number,
	}
}
