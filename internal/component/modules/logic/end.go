package logic

import (
	"encoding/json"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/fault"
)

// Defaults of the error of FAIL.
const (
	FailCode    = "FAILED"
	FailMessage = "the workflow failed on purpose"
)

var runWorkflow = &module{
	flow:  component.Flow{Lasts: true},
	check: checkWorkflow,
	Descriptor: lasting(inWorkflows(component.RunWorkflow, "Run workflow",
		"Runs another workflow of the workspace and returns its output. Canceling the run also cancels the run of the other workflow.",
		`"description": "The input of the other workflow.", "properties": {}, "additionalProperties": true, "examples": [{"amount": "1000"}]`,
		`"description": "The workflow: either workflow or workflowId.", "properties": {
			"workflow": {"x-literal": true, "type": "string", "pattern": "^([a-z][a-z0-9-]{0,62}|[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12})$", "title": "Workflow", "description": "The key or the ID of the workflow. A key is looked up when the component starts.", "examples": ["ship-order"]},
			"workflowId": {"x-literal": true, "type": "string", "format": "uuid", "title": "Workflow ID", "description": "The ID of the workflow.", "examples": ["019aa5f3-0a1b-7c2d-8e3f-4a5b6c7d8e9f"]},
			"version": {"x-literal": true, "type": "integer", "minimum": 1, "title": "Version", "description": "The version of the workflow. Defaults to the current version.", "examples": [3]}
		}, "examples": [{"workflow": "ship-order"}, {"workflowId": "019aa5f3-0a1b-7c2d-8e3f-4a5b6c7d8e9f"}]`,
		`"description": "The output of the other workflow.", "properties": {}, "additionalProperties": true`), maxDelay),
}

// checkWorkflow checks that exactly one field names the workflow.
func checkWorkflow(config json.RawMessage) []fault.Detail {
	all, err := members(config)
	switch {
	case err != nil:
		return nil
	case all["workflow"] == nil && all["workflowId"] == nil:
		return problem("/workflow", "is required: the key or the ID of the workflow")
	case all["workflow"] != nil && all["workflowId"] != nil:
		return problem("/workflow", "must not be set together with workflowId")
	}
	return nil
}

var respond = &module{
	flow: component.Flow{Gives: givesInput, Responds: true},
	Descriptor: inWorkflows(component.Respond, "Respond",
		"Sets the output of the run to this component's input. Clients that wait for the run receive the output immediately, while the run continues. If a run has several, the last one wins.",
		`"description": "The output of the run.", "properties": {}, "additionalProperties": true, "examples": [{"total": "1000"}]`,
		component.NoFields,
		`"description": "The output of the run.", "properties": {}, "additionalProperties": true`),
}

var fail = &module{
	flow: component.Flow{Fails: true},
	Descriptor: inWorkflows(component.Fail, "Fail",
		"Fails the run.",
		component.NoFields,
		`"description": "The error.", "properties": {
			"code": {"x-literal": true, "type": "string", "pattern": "^[A-Z][A-Z0-9_]{0,63}$", "default": "FAILED", "title": "Code", "description": "The code of the error.", "examples": ["AMOUNT_TOO_LARGE"]},
			"message": {"type": "string", "maxLength": 1024, "default": "the workflow failed on purpose", "title": "Message", "description": "The message of the error.", "examples": ["The amount is above the limit."]}
		}, "examples": [{}, {"code": "AMOUNT_TOO_LARGE", "message": "The amount is above the limit."}]`,
		`"description": "No output, because the component never completes.", "properties": {}`),
}
