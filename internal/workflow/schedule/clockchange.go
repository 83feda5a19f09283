package schedule

import (
	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/kit/cron"
	"github.com/weft-automation/weft/internal/kit/timestamp"
)

// foresight is the number of years that are searched for the next clock change. It covers the
// longest time between two occurrences of a cron expression.
const foresight = 12

// clockChanges returns two clock changes that skip or repeat times of an active schedule: the last
// one since the schedule was saved, and the next one. If there is no such change, the result is
// nil.
func clockChanges(row db.ScheduleGetRow) (last, next *api.ScheduleClockChange) {
	if row.Status != active {
		return nil, nil
	}
	times, err := cron.Parse(row.Cron, row.TimeZone)
	if err != nil { // the time zone database no longer has the zone
		return nil, nil
	}
	for change := range times.ClockChanges(row.UpdatedAt, row.Now) {
		last = shownChange(change)
	}
	for change := range times.ClockChanges(row.Now, row.Now.AddDate(foresight, 0, 0)) {
		return last, shownChange(change)
	}
	return last, nil
}

func shownChange(change cron.ClockChange) *api.ScheduleClockChange {
	kind := api.ScheduleClockChangeKindRepeated
	if change.Skipped {
		kind = api.ScheduleClockChangeKindSkipped
	}
	return &api.ScheduleClockChange{
		At: timestamp.Of(change.At), Kind: kind, LocalTime: change.First.Format("2006-01-02T15:04"), Count: int32(change.Count),
	}
}
