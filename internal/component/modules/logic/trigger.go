package logic

import (
	"encoding/json"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/envref"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/secret/signature"
)

var begins = component.Flow{Trigger: true}

var onAPICalled = &module{
	flow: component.Flow{Trigger: true, RunInput: inputSchemaOf, Gives: givesTrigger},
	Descriptor: inWorkflows("ON_API_CALLED", "On API call",
		"Where a run begins that was triggered by the API or by another workflow. Gives each member of the trigger's input by its name, and the input whole.",
		nothing,
		`"description": "What a run takes.", "properties": {
			"inputSchema": {"type": "object", "title": "Input schema", "description": "A JSON Schema of type object, which says what members the input has: a trigger whose input breaks it is refused. Without it, every input is taken.", "examples": [{"type": "object", "required": ["amount"], "properties": {"amount": {"type": "string"}}}]}
		}, "examples": [{}, {"inputSchema": {"type": "object", "required": ["amount"], "properties": {"amount": {"type": "string"}}}}]`,
		`"description": "Each member of the input by its name, and:", "required": ["input", "triggeredAt"], "additionalProperties": true, "properties": {
			"input": {"type": "object", "title": "Input", "description": "The input whole.", "examples": [{"amount": "1000"}]},
			"triggeredAt": {"type": "string", "format": "date-time", "title": "Triggered at", "description": "When the run was triggered.", "examples": ["2026-01-31T12:00:00.000Z"]}
		}`),
	check: checkInputSchema,
}

// inputSchemaOf is the schema that a config holds of the input of a run; nil if it
// holds none.
func inputSchemaOf(config json.RawMessage) json.RawMessage {
	var c struct {
		InputSchema json.RawMessage `json:"inputSchema"`
	}
	if err := json.Unmarshal(config, &c); err != nil {
		return nil
	}
	return c.InputSchema
}

// checkInputSchema judges the schema that a config holds, which is one of an
// object: the input of a run.
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
		return problem("/inputSchema/type", `must be "object": the input of a run is one`)
	}
	return nil
}

var onSchedule = &module{
	flow: begins,
	Descriptor: inWorkflows("ON_SCHEDULE", "On schedule",
		"Where a run begins that its schedule triggered.",
		nothing,
		`"description": "When runs begin, by schedules of the workflow that name no other times when they are created.", "required": ["cron"], "properties": {
			"cron": {"type": "string", "minLength": 1, "maxLength": 200, "title": "Cron", "description": "Minute, hour, day of the month, month and day of the week (0 or 7 is Sunday), or @hourly, @daily, @weekly, @monthly, @yearly. If neither day field is *, a day matches when one of the two does.", "examples": ["0 9 * * MON-FRI", "@daily"]},
			"timeZone": {"type": "string", "minLength": 1, "maxLength": 64, "default": "UTC", "title": "Time zone", "description": "The time zone of the schedule, by its IANA name. A time that a clock change skips starts no run, and a time that it repeats starts two.", "examples": ["Europe/Berlin"]}
		}, "examples": [{"cron": "0 9 * * MON-FRI", "timeZone": "Europe/Berlin"}]`,
		`"description": "When.", "required": ["scheduledAt"], "properties": {
			"scheduledAt": {"type": "string", "format": "date-time", "title": "Scheduled at", "description": "The time of the schedule, which the run may have begun somewhat after.", "examples": ["2026-01-31T08:00:00.000Z"]}
		}`),
	check: checkSchedule,
}

var onWebhook = &module{
	flow: begins,
	Descriptor: inWorkflows("ON_WEBHOOK", "On webhook",
		"Where a run begins that a request of another service triggered.",
		nothing,
		`"description": "Whose requests are taken, by hooks of the workflow that name nothing else when they are created.", "properties": {
			"verification": {"type": "object", "title": "Verification", "description": "How a request proves whose it is: by the HMAC of its body under a secret that both sides know, or as Standard Webhooks has it, where only the secret counts.", "required": ["secret"], "additionalProperties": false, "properties": {
				"scheme": {"type": "string", "enum": ["hmac", "standardWebhooks"], "default": "hmac", "description": "How it is signed."},
				"secret": {"type": "string", "minLength": 8, "maxLength": 1024, "x-secret": true, "description": "The secret of the HMAC."},
				"header": {"type": "string", "pattern": "^[A-Za-z0-9-]{1,64}$", "description": "The header that holds it. Required for hmac."},
				"prefix": {"type": "string", "maxLength": 32, "description": "What stands before it in the header."},
				"algorithm": {"type": "string", "enum": ["sha256", "sha512"], "default": "sha256", "description": "The hash function."},
				"encoding": {"type": "string", "enum": ["hex", "base64"], "default": "hex", "description": "How its bytes are written."},
				"deliveryHeader": {"type": "string", "pattern": "^[A-Za-z0-9-]{1,64}$", "description": "The header with the id of a delivery. Deliveries with the same id start one run; with hmac, so do deliveries with the same body."},
				"acceptRepeatedBodies": {"type": "boolean", "default": false, "description": "Whether a delivery with a new id starts a run although its body came before. Needs deliveryHeader. Anyone who captured a delivery can then send it again."}
			}, "examples": [{"secret": "correct-horse-battery", "header": "X-Hub-Signature-256", "prefix": "sha256=", "deliveryHeader": "X-GitHub-Delivery"}]}
		}, "examples": [{"verification": {"secret": "correct-horse-battery", "header": "X-Hub-Signature-256", "prefix": "sha256=", "deliveryHeader": "X-GitHub-Delivery"}}]`,
		`"description": "The request.", "required": ["headers", "body"], "properties": {
			"headers": {"type": "object", "additionalProperties": {"type": "string"}, "title": "Headers", "description": "Its headers by lower-case name.", "examples": [{"content-type": "application/json"}]},
			"body": {"title": "Body", "description": "Its body: the JSON value where the content type says JSON, else text.", "examples": [{"action": "opened"}]}
		}`),
	check: checkVerification,
}

// checkVerification checks what the schema cannot: the header of an HMAC, and the form of a
// secret of Standard Webhooks.
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
