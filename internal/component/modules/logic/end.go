package logic

import "github.com/weft-automation/weft/internal/component"

// What a FAIL fails with where its config does not say it.
const (
	FailCode    = "FAILED"
	FailMessage = "the workflow failed on purpose"
)

var runWorkflow = &module{
	flow: component.Flow{Lasts: true},
	Descriptor: lasting(inWorkflows("RUN_WORKFLOW", "Run workflow",
		"Runs another workflow of the workspace and gives its output. Canceling the run cancels that one too.",
		`"description": "The input of the other workflow.", "properties": {}, "additionalProperties": true, "examples": [{"amount": "1000"}]`,
		`"description": "Which workflow.", "required": ["workflowId"], "properties": {
			"workflowId": {"type": "string", "format": "uuid", "title": "Workflow", "description": "The id of the workflow.", "examples": ["019aa5f3-0a1b-7c2d-8e3f-4a5b6c7d8e9f"]},
			"version": {"type": "integer", "minimum": 1, "title": "Version", "description": "Which version of it; without it the present one.", "examples": [3]}
		}, "examples": [{"workflowId": "019aa5f3-0a1b-7c2d-8e3f-4a5b6c7d8e9f"}]`,
		`"description": "The output of the other workflow.", "properties": {}, "additionalProperties": true`), maxDelay),
}

var respond = &module{
	flow: component.Flow{Gives: givesInput},
	Descriptor: inWorkflows("RESPOND", "Respond",
		"Gives the run its output, which is this component's input, and ends a wait for the run early. The run goes on; of several the last one counts.",
		`"description": "The output of the run.", "properties": {}, "additionalProperties": true, "examples": [{"total": "1000"}]`,
		nothing,
		`"description": "The output of the run.", "properties": {}, "additionalProperties": true`),
}

var fail = &module{
	flow: component.Flow{Fails: true},
	Descriptor: inWorkflows("FAIL", "Fail",
		"Fails the run.",
		nothing,
		`"description": "With what error.", "properties": {
			"code": {"type": "string", "pattern": "^[A-Z][A-Z0-9_]{0,63}$", "default": "FAILED", "title": "Code", "description": "The code of the error.", "examples": ["AMOUNT_TOO_LARGE"]},
			"message": {"type": "string", "maxLength": 1024, "default": "the workflow failed on purpose", "title": "Message", "description": "The message of the error.", "examples": ["The amount is above the limit."]}
		}, "examples": [{}, {"code": "AMOUNT_TOO_LARGE", "message": "The amount is above the limit."}]`,
		`"description": "Nothing: it never completes.", "properties": {}`),
}
