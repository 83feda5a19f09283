package logic

import (
	"encoding/json"
	"errors"
	"strings"
	"time"
	_ "time/tzdata" // where the machine has no table of time zones

	"github.com/robfig/cron/v3"

	"github.com/weft-automation/weft/internal/fault"
	"github.com/weft-automation/weft/internal/variable"
)

// Schedule tells when something comes next.
type Schedule interface {
	// Next is the first time of the schedule after the given one; zero if there
	// is none within five years.
	Next(after time.Time) time.Time
}

// NewSchedule reads a cron expression of five fields, or one of @hourly, @daily,
// @weekly, @monthly and @yearly, in a time zone by its IANA name; "" is UTC. The
// error says which of both is wrong and does not quote it.
func NewSchedule(expression, timeZone string) (Schedule, error) {
	zone, err := zoneOf(timeZone)
	if err != nil {
		return nil, err
	}
	// The parser has a syntax of its own for time zones, which panics on some
	// texts, and one for intervals, which depend on when the process started.
	if strings.Contains(expression, "TZ=") || strings.HasPrefix(strings.TrimSpace(expression), "@every") {
		return nil, errCron
	}
	schedule, err := cron.ParseStandard(expression)
	if err != nil {
		return nil, errCron
	}
	return zoned{schedule, zone}, nil
}

var (
	errCron = errors.New("must be minute, hour, day of the month, month and day of the week, or @hourly, @daily, @weekly, @monthly, @yearly")
	errZone = errors.New("must be the IANA name of a time zone, such as Europe/Berlin")
)

func zoneOf(name string) (*time.Location, error) {
	if name == "Local" { // that of the machine: another one for each process
		return nil, errZone
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, errZone
	}
	return zone, nil
}

// zoned is a schedule in its time zone.
type zoned struct {
	schedule cron.Schedule
	zone     *time.Location
}

func (z zoned) Next(after time.Time) time.Time { return z.schedule.Next(after.In(z.zone)).UTC() }

func checkSchedule(config json.RawMessage) []fault.Detail {
	var c struct {
		Cron     string `json:"cron"`
		TimeZone string `json:"timeZone"`
	}
	if err := json.Unmarshal(config, &c); err != nil || variable.In(c.Cron) || variable.In(c.TimeZone) {
		return nil
	}
	schedule, err := NewSchedule(c.Cron, c.TimeZone)
	switch {
	case errors.Is(err, errZone):
		return problem("/timeZone", err.Error())
	case err != nil:
		return problem("/cron", err.Error())
	case schedule.Next(time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero(): // five years with a 29 February
		return problem("/cron", "never comes: there is no such day")
	}
	return nil
}
