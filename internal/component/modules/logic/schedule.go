package logic

import (
	"encoding/json"
	"errors"
	"time"

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
