package logic

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/kit/cron"
	"github.com/weft-automation/weft/internal/kit/envref"
	"github.com/weft-automation/weft/internal/kit/fault"
)

func checkSchedule(config json.RawMessage) []fault.Detail {
	var c struct {
		Cron     string `json:"cron"`
		TimeZone string `json:"timeZone"`
	}
	if err := json.Unmarshal(config, &c); err != nil || envref.In(c.Cron) || envref.In(c.TimeZone) {
		return nil
	}
	schedule, err := cron.Parse(c.Cron, c.TimeZone)
	switch {
	case errors.Is(err, cron.ErrTimeZone):
		return problem("/timeZone", err.Error())
	case err != nil:
		return problem("/cron", err.Error())
	case schedule.Next(time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero():
		return problem("/cron", "never fires: none of its months has such a day")
	}
	return nil
}

// previousRun is the schema of the result of an earlier run.
const previousRun = `{"type": "object", "title": "Previous", "description": "Of the schedule's runs that have completed, the one with the latest scheduled time. Has no value in the first run, and in runs that a request starts.", "required": ["scheduledAt", "output"], "properties": {
				"scheduledAt": {"type": "string", "format": "date-time", "title": "Scheduled at", "description": "The scheduled time of that run."},
				"output": {"title": "Output", "description": "The output of that run. Null if it completed without a RESPOND."}
			}, "examples": [{"scheduledAt": "2026-01-30T08:00:00.000Z", "output": {"cursor": "4711"}}]}`

// givesSchedule describes the output of ON_SCHEDULE: the fields of the schedule's input, according to
// the schema of the workflow.
func givesSchedule(_, _, runInput json.RawMessage, _ []string) []graph.Given {
	return givesInputOf(map[string]any{"scheduledAt": map[string]any{"type": "string"}, "previous": json.RawMessage(previousRun)}, runInput)
}
