package logic

import (
	"encoding/json"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/envref"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/secret/signature"
)

var startsRun = component.Flow{Trigger: true}

var onAPICalled = &module{
	flow: component.Flow{Trigger: true, RunInput: inputSchemaOf, Gives: givesTrigger},
	Descriptor: inWorkflows(component.OnAPICalled, "On API call",
		"Starts runs that are triggered by the API or by another workflow. Returns each field of the input by name, and the whole input.",
		component.NoFields,
		`"description": "The input of runs.", "properties": {
			"inputSchema": {"x-literal": "text", "type": "object", "title": "Input schema", "description": "A JSON Schema of type object for the input. A trigger with an invalid input is rejected. By default, any input is accepted.", "examples": [{"type": "object", "required": ["amount"], "properties": {"amount": {"type": "string"}}}]}
		}, "examples": [{}, {"inputSchema": {"type": "object", "required": ["amount"], "properties": {"amount": {"type": "string"}}}}]`,
		`"description": "The fields of the input by name, and:", "required": ["input", "triggeredAt"], "additionalProperties": true, "properties": {
			"input": {"type": "object", "title": "Input", "description": "The whole input.", "examples": [{"amount": "1000"}]},
			"triggeredAt": {"type": "string", "format": "date-time", "title": "Triggered at", "description": "The time when the run was triggered.", "examples": ["2026-01-31T12:00:00.000Z"]}
		}`),
	check: checkInputSchema,
}

// inputSchemaOf returns the schema of a run's input from a config, or nil if the config has no
// such schema.
func inputSchemaOf(config json.RawMessage) json.RawMessage {
	var c struct {
		InputSchema json.RawMessage `json:"inputSchema"`
	}
	if err := json.Unmarshal(config, &c); err != nil {
		return nil
	}
	return c.InputSchema
}

// checkInputSchema validates the input schema in a config, which must be of type object.
func checkInputSchema(config json.RawMessage) []fault.Detail {
	schema := inputSchemaOf(config)
	if schema == nil {
		return nil
	}
	if _, faults := component.NewSchema("/inputSchema", schema); len(faults) > 0 {
		return faults
	}
	head, err := members(schema)
	if err != nil || head["type"] != nil && head["type"] != "object" {
		return problem("/inputSchema/type", `must be "object", because the input of a run is an object`)
	}
	return nil
}

var onSchedule = &module{
	flow: startsRun,
	Descriptor: inWorkflows(component.OnSchedule, "On schedule",
		"Starts runs that are triggered by a schedule.",
		component.NoFields,
		`"description": "The default times for schedules of the workflow that don't set their own.", "required": ["cron"], "properties": {
			"cron": {"type": "string", "minLength": 1, "maxLength": 200, "title": "Cron", "description": "Minute, hour, day of the month, month and day of the week (0 or 7 is Sunday), or @hourly, @daily, @weekly, @monthly, @yearly. If neither day field is *, a day matches when one of the two does.", "examples": ["0 9 * * MON-FRI", "@daily"]},
			"timeZone": {"type": "string", "minLength": 1, "maxLength": 64, "default": "UTC", "title": "Time zone", "description": "The IANA name of the time zone of the schedule. If a clock change skips a time, no run starts. If it repeats a time, two runs start.", "examples": ["Europe/Berlin"]}
		}, "examples": [{"cron": "0 9 * * MON-FRI", "timeZone": "Europe/Berlin"}]`,
		`"description": "The time of the schedule.", "required": ["scheduledAt"], "properties": {
			"scheduledAt": {"type": "string", "format": "date-time", "title": "Scheduled at", "description": "The scheduled time. The run can start slightly later.", "examples": ["2026-01-31T08:00:00.000Z"]}
		}`),
	check: checkSchedule,
}

var onWebhook = &module{
	flow: startsRun,
	Descriptor: inWorkflows(component.OnWebhook, "On webhook",
		"Starts runs that are triggered by a webhook request from another service.",
		component.NoFields,
		`"description": "The default verification for hooks of the workflow that don't set their own.", "properties": {
			"verification": {"type": "object", "title": "Verification", "description": "How requests are authenticated: by an HMAC of the body with a shared secret, or by Standard Webhooks, which uses only the secret.", "required": ["secret"], "additionalProperties": false, "properties": {
				"scheme": {"type": "string", "enum": ["hmac", "standardWebhooks"], "default": "hmac", "description": "The signature scheme."},
				"secret": {"type": "string", "minLength": 8, "maxLength": 1024, "x-secret": true, "description": "The shared secret."},
				"header": {"type": "string", "pattern": "^[A-Za-z0-9-]{1,64}$", "description": "The header with the signature. Required for hmac."},
				"prefix": {"type": "string", "maxLength": 32, "description": "The prefix of the signature in the header."},
				"algorithm": {"type": "string", "enum": ["sha256", "sha512"], "default": "sha256", "description": "The hash function."},
				"encoding": {"type": "string", "enum": ["hex", "base64"], "default": "hex", "description": "The encoding of the signature."},
				"deliveryHeader": {"type": "string", "pattern": "^[A-Za-z0-9-]{1,64}$", "description": "The header with the ID of a delivery. Deliveries with the same ID start only one run. With hmac, deliveries with the same body also start only one run."},
				"acceptRepeatedBodies": {"type": "boolean", "default": false, "description": "Whether a delivery with a new ID and a known body starts a run. Requires deliveryHeader. Anyone who captures a delivery can then replay it."},
				"verifyToken": {"type": "string", "maxLength": 256, "pattern": "^[^\\x00-\\x1f\\x7f]*$", "x-secret": true, "description": "The token with which the sender verifies the address by a GET request."}
			}, "examples": [{"secret": "correct-horse-battery", "header": "X-Hub-Signature-256", "prefix": "sha256=", "deliveryHeader": "X-GitHub-Delivery"}]}
		}, "examples": [{"verification": {"secret": "correct-horse-battery", "header": "X-Hub-Signature-256", "prefix": "sha256=", "deliveryHeader": "X-GitHub-Delivery"}}]`,
		`"description": "The request.", "required": ["headers", "query", "body"], "properties": {
			"headers": {"type": "object", "additionalProperties": {"type": "string"}, "title": "Headers", "description": "The headers, by lower-case name.", "examples": [{"content-type": "application/json"}]},
			"query": {"type": "object", "additionalProperties": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}, "title": "Query", "description": "The query parameters of the address: a string for each name, and a list for a repeated name. No signature covers them.", "examples": [{"shop": "berlin"}]},
			"body": {"title": "Body", "description": "The body: the JSON value of JSON, an object of the fields of a form, otherwise text.", "examples": [{"action": "opened"}]},
			"replaced": {"type": "array", "items": {"type": "string"}, "title": "Replaced", "description": "JSON pointers to the parts of body and query that could not be stored as sent, and were replaced. Absent if nothing was replaced.", "examples": [["/body/text"]]}
		}`),
	check: checkVerification,
}

// checkVerification checks rules that the schema can't express: the header for HMAC, and the format
// of a Standard Webhooks secret.
func checkVerification(config json.RawMessage) []fault.Detail {
	var c struct {
		Verification *struct {
			Scheme string  `json:"scheme"`
			Secret string  `json:"secret"`
			Header *string `json:"header"`
		} `json:"verification"`
	}
	if err := json.Unmarshal(config, &c); err != nil || c.Verification == nil {
		return nil
	}
	switch v := c.Verification; {
	case v.Scheme == "standardWebhooks":
		if err := signature.CheckSecret(v.Secret); err != nil && !envref.In(v.Secret) {
			return problem("/verification/secret", err.Error())
		}
	case v.Header == nil:
		return problem("/verification/header", "is required: expected a string")
	}
	return nil
}
