package logic

import (
	"encoding/json"
	"time"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/reference"
	"github.com/weft-automation/weft/internal/kit/timestamp"
)

// Maximum lengths of waits.
const (
	maxDelay = 30 * 24 * time.Hour
	maxUntil = 366 * 24 * time.Hour
)

const (
	durationField  = `"durationMs": {"type": "integer", "minimum": 1, "maximum": 2592000000, "title": "Duration (ms)", "description": "The duration, in milliseconds. The maximum is 30 days.", "examples": [60000]}`
	timestampField = `"timestamp": {"type": "string", "format": "date-time", "maxLength": 40, "title": "Timestamp", "description": "The time to wait until, in RFC 3339 format, at most 366 days ahead. If it is in the past, the run continues immediately.", "examples": ["2026-12-24T18:00:00Z"]}`
	resumed        = `"description": "The time when the run continued.", "required": ["resumedAt"], "properties": {
			"resumedAt": {"type": "string", "format": "date-time", "title": "Resumed at", "description": "The time when the wait finished.", "examples": ["2026-12-24T18:00:00.000Z"]}
		}`
)

var delay = &module{
	flow: component.Flow{Lasts: true},
	Descriptor: lasting(inWorkflows(component.Delay, "Delay",
		"Waits for a duration. Other branches of the run continue. Set the duration in the config or as an input; the input takes precedence.",
		`"description": "The duration, if it is known only at run time.", "properties": {`+durationField+`}, "examples": [{}, {"durationMs": 60000}]`,
		`"description": "The duration.", "properties": {`+durationField+`}, "examples": [{"durationMs": 60000}]`,
		resumed), maxDelay),
	either: "durationMs",
}

var waitUntil = &module{
	Descriptor: lasting(inWorkflows(component.WaitUntil, "Wait until",
		"Waits until a point in time. Other branches of the run continue. Set the time in the config or as an input; the input takes precedence.",
		`"description": "The time, if it is known only at run time.", "properties": {`+timestampField+`}, "examples": [{}, {"timestamp": "2026-12-24T18:00:00Z"}]`,
		`"description": "The time.", "properties": {`+timestampField+`}, "examples": [{"timestamp": "2026-12-24T18:00:00Z"}]`,
		resumed), maxUntil),
	check:  checkTimestamp,
	either: "timestamp",
}

var waitForSignal = &module{
	flow: component.Flow{Ports: []string{graph.PortNext, graph.PortTimeout}, Lasts: true},
	Descriptor: lasting(inWorkflows(component.WaitForSignal, "Wait for signal",
		"Waits until the run receives a signal and returns its payload. Continues at timeout if no signal arrives in time.",
		component.NoFields,
		`"description": "The signal and the timeout.", "required": ["name", "timeoutMs"], "properties": {
			"name": {"type": "string", "pattern": "^[A-Za-z0-9._~-]{1,200}$", "title": "Name", "description": "The name of the signal.", "examples": ["approved"]},
			"timeoutMs": {"type": "integer", "minimum": 1, "maximum": 2592000000, "title": "Timeout (ms)", "description": "The maximum time to wait, in milliseconds. The maximum is 30 days.", "examples": [86400000]},
			"secret": {"x-literal": true, "type": "boolean", "default": false, "title": "Secret", "description": "Whether the payload is secret. If so, the payload and everything derived from it are encrypted at rest, and errors don't quote it.", "examples": [true]}
		}, "examples": [{"name": "approved", "timeoutMs": 86400000}]`,
		`"description": "The signal.", "properties": {
			"payload": {"title": "Payload", "description": "The payload of the signal. Missing if the wait timed out.", "examples": [{"approver": "ada"}]}
		}`), maxDelay),
}

type due struct {
	DurationMs *component.Integer `json:"durationMs"`
	Timestamp  *string            `json:"timestamp"`
}

// Due returns the time when a DELAY or a WAIT_UNTIL that starts now finishes. Its input takes
// precedence over its config. Every error is a *component.Error.
func Due(name string, input, config json.RawMessage, now time.Time) (time.Time, error) {
	var given [2]due
	for i, part := range []json.RawMessage{input, config} {
		if len(part) == 0 {
			continue
		}
		read, err := component.Decode[due](part)
		if err != nil {
			return now, component.Permanent(component.CodeInvalidInput, "durationMs must be a whole number, and timestamp a time in RFC 3339 format")
		}
		given[i] = read
	}
	if name == delay.Module {
		return after(first(given[0].DurationMs, given[1].DurationMs), now)
	}
	return until(first(given[0].Timestamp, given[1].Timestamp), now)
}

func first[T any](a, b *T) *T {
	if a != nil {
		return a
	}
	return b
}

func after(ms *component.Integer, now time.Time) (time.Time, error) {
	if ms == nil {
		return now, component.Permanent(component.CodeInvalidInput, "durationMs is required in the config or as an input")
	}
	if *ms < 1 || int64(*ms) > maxDelay.Milliseconds() {
		return now, component.Permanent(component.CodeInvalidInput, "durationMs must be between 1 and %d", maxDelay.Milliseconds())
	}
	return now.Add(time.Duration(*ms) * time.Millisecond), nil
}

func until(text *string, now time.Time) (time.Time, error) {
	if text == nil {
		return now, component.Permanent(component.CodeInvalidInput, "timestamp is required in the config or as an input")
	}
	at, err := timestamp.Parse(*text)
	if err != nil {
		return now, component.Permanent(component.CodeInvalidInput, "timestamp must be a time in RFC 3339 format, such as 2026-12-24T18:00:00Z")
	}
	if at.Sub(now) > maxUntil {
		return now, component.Permanent(component.CodeInvalidInput, "timestamp must be within 366 days")
	}
	return at, nil
}

func checkTimestamp(config json.RawMessage) []fault.Detail {
	var c due
	if err := json.Unmarshal(config, &c); err != nil || c.Timestamp == nil || reference.In(*c.Timestamp) {
		return nil
	}
	if _, err := timestamp.Parse(*c.Timestamp); err != nil {
		return problem("/timestamp", "must be a time in RFC 3339 format, such as 2026-12-24T18:00:00Z")
	}
	return nil
}
