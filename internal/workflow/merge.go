package workflow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

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
	all, _, err := objectOf(config)
	if err != nil {
		return nil, err
	}
	changed := false
	for _, field := range []string{"workflow", "workflowId"} {
		var written string
		if json.Unmarshal(all.fields[field], &written) != nil {
			continue // the ID is missing, or the schema rejects it
		}
		if id, isID := asID(written); isID && written != id.String() {
			all.set(field, json.RawMessage(`"`+id.String()+`"`))
			changed = true
		}
	}
	if !changed {
		return config, nil
	}
	return all.encode()
}

// merge applies a JSON merge patch (RFC 7396): null removes a field, objects are merged
// recursively, and any other value replaces the old one. It keeps the encoding of values, such as
// numbers, and the order of fields. New fields follow in the order of the patch.
func merge(target, patch json.RawMessage) (json.RawMessage, error) {
	changes, isObject, err := objectOf(patch)
	if err != nil || !isObject {
		return patch, err
	}
	merged, _, err := objectOf(target)
	if err != nil {
		return nil, err
	}
	for _, name := range changes.names {
		if string(changes.fields[name]) == "null" {
			delete(merged.fields, name)
			continue
		}
		value, err := merge(merged.fields[name], changes.fields[name])
		if err != nil {
			return nil, err
		}
		merged.set(name, value)
	}
	return merged.encode()
}

// object is a JSON object that keeps the order of its fields. Names of deleted fields may remain.
type object struct {
	names  []string
	fields map[string]json.RawMessage
}

// objectOf returns the fields of a JSON object, and no fields for any other value.
func objectOf(raw json.RawMessage) (o object, isObject bool, err error) {
	if len(raw) == 0 || raw[0] != '{' {
		return o, false, nil
	}
	if err = json.Unmarshal(raw, &o.fields); err == nil {
		o.names, err = strictjson.Names(raw)
	}
	if err != nil {
		return o, false, fmt.Errorf("decode a config: %w", err)
	}
	return o, true, nil
}

func (o *object) set(name string, value json.RawMessage) {
	if o.fields == nil {
		o.fields = map[string]json.RawMessage{}
	}
	if _, known := o.fields[name]; !known {
		o.names = append(o.names, name)
	}
	o.fields[name] = value
}

func (o *object) encode() (json.RawMessage, error) {
	var out bytes.Buffer
	for _, name := range o.names {
		value, there := o.fields[name]
		if !there {
			continue
		}
		field, err := strictjson.Encode(map[string]json.RawMessage{name: value})
		if err != nil {
			return nil, err
		}
		out.WriteByte(',')
		out.Write(field[1 : len(field)-1])
	}
	return slices.Concat([]byte("{"), bytes.TrimPrefix(out.Bytes(), []byte(",")), []byte("}")), nil
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
		Attempts: c.Attempts, Retry: c.Retry, TimeoutMs: c.TimeoutMs, OnFailure: c.OnFailure, WorkflowVersion: number,
	}
}
