package logic

import (
	"encoding/json"
	"time"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/kit/envref"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/timestamp"
)

// How long a wait may be.
const (
	maxDelay = 30 * 24 * time.Hour
	maxUntil = 366 * 24 * time.Hour
)

const (
	durationField  = `"durationMs": {"type": "integer", "minimum": 1, "maximum": 2592000000, "title": "Duration (ms)", "description": "How long, in milliseconds: 30 days at most.", "examples": [60000]}`
	timestampField = `"timestamp": {"type": "string", "format": "date-time", "maxLength": 40, "title": "Timestamp", "description": "When, as a time in RFC 3339 form: within 366 days. A time in the past is over at once.", "examples": ["2026-12-24T18:00:00Z"]}`
	resumed        = `"description": "When the run went on.", "required": ["resumedAt"], "properties": {
			"resumedAt": {"type": "string", "format": "date-time", "title": "Resumed at", "description": "When the wait was over.", "examples": ["2026-12-24T18:00:00.000Z"]}
		}`
)

var delay = &module{
	flow: component.Flow{Lasts: true},
	Descriptor: lasting(inWorkflows("DELAY", "Delay",
		"Waits for some time. Nothing is held up meanwhile. The duration stands in the config, or comes as an input, which counts before it.",
		`"description": "How long, where that is known only in the run.", "properties": {`+durationField+`}, "examples": [{}, {"durationMs": 60000}]`,
		`"description": "How long.", "properties": {`+durationField+`}, "examples": [{"durationMs": 60000}]`,
		resumed), maxDelay),
	either: "durationMs",
}

var waitUntil = &module{
	Descriptor: lasting(inWorkflows("WAIT_UNTIL", "Wait until",
		"Waits until a time. Nothing is held up meanwhile. The time stands in the config, or comes as an input, which counts before it.",
		`"description": "Until when, where that is known only in the run.", "properties": {`+timestampField+`}, "examples": [{}, {"timestamp": "2026-12-24T18:00:00Z"}]`,
		`"description": "Until when.", "properties": {`+timestampField+`}, "examples": [{"timestamp": "2026-12-24T18:00:00Z"}]`,
		resumed), maxUntil),
	check:  checkTimestamp,
	either: "timestamp",
}

var waitForSignal = &module{
	flow: component.Flow{Ports: []string{graph.PortNext, graph.PortTimeout}, Lasts: true},
	Descriptor: lasting(inWorkflows("WAIT_FOR_SIGNAL", "Wait for signal",
		"Waits until the run is given a signal, and gives its payload. Goes on by timeout where none came in time.",
		nothing,
		`"description": "What signal, and how long.", "required": ["name", "timeoutMs"], "properties": {
			"name": {"type": "string", "pattern": "^[A-Za-z0-9._~-]{1,200}$", "title": "Name", "description": "The name of the signal.", "examples": ["approved"]},
			"timeoutMs": {"type": "integer", "minimum": 1, "maximum": 2592000000, "title": "Timeout (ms)", "description": "How long to wait for it, in milliseconds: 30 days at most.", "examples": [86400000]},
			"secret": {"type": "boolean", "default": false, "title": "Secret", "description": "Whether the payload is a secret: then it is encrypted at rest, with all that the run makes of it, and no error quotes it.", "examples": [true]}
		}, "examples": [{"name": "approved", "timeoutMs": 86400000}]`,
		`"description": "What came.", "properties": {
			"payload": {"title": "Payload", "description": "The payload of the signal; absent where none came.", "examples": [{"approver": "ada"}]}
		}`), maxDelay),
}

type due struct {
	DurationMs *component.Integer `json:"durationMs"`
	Timestamp  *string            `json:"timestamp"`
}

// Due is when a DELAY or a WAIT_UNTIL that begins now is over. Its input counts
// before its config. Every error is a *component.Error.
func Due(name string, input, config json.RawMessage, now time.Time) (time.Time, error) {
	var given [2]due
	for i, part := range []json.RawMessage{input, config} {
		if len(part) == 0 {
			continue
		}
		read, err := component.Decode[due](part)
		if err != nil {
			return now, component.Permanent(component.CodeInvalidInput, "durationMs must be a whole number, and timestamp a time in RFC 3339 form")
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
		return now, component.Permanent(component.CodeInvalidInput, "durationMs is required, in the config or as an input")
	}
	if *ms < 1 || int64(*ms) > maxDelay.Milliseconds() {
		return now, component.Permanent(component.CodeInvalidInput, "durationMs must be between 1 and %d", maxDelay.Milliseconds())
	}
	return now.Add(time.Duration(*ms) * time.Millisecond), nil
}

func until(text *string, now time.Time) (time.Time, error) {
	if text == nil {
		return now, component.Permanent(component.CodeInvalidInput, "timestamp is required, in the config or as an input")
	}
	at, err := timestamp.Parse(*text)
	if err != nil {
		return now, component.Permanent(component.CodeInvalidInput, "timestamp must be a time in RFC 3339 form, such as 2026-12-24T18:00:00Z")
	}
	if at.Sub(now) > maxUntil {
		return now, component.Permanent(component.CodeInvalidInput, "timestamp must be within 366 days")
	}
	return at, nil
}

func checkTimestamp(config json.RawMessage) []fault.Detail {
	var c due
	if err := json.Unmarshal(config, &c); err != nil || c.Timestamp == nil || envref.In(*c.Timestamp) {
		return nil
	}
	if _, err := timestamp.Parse(*c.Timestamp); err != nil {
		return problem("/timestamp", "must be a time in RFC 3339 form, such as 2026-12-24T18:00:00Z")
	}
	return nil
}
