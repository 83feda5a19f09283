package cron

import (
	"iter"
	"time"
)

// horizon is the number of years that Next searches. The longest interval between two times is
// from 29 February 2096 to 29 February 2104.
const horizon = 12

// Next returns the first time of the schedule after the given time, in UTC. It returns the zero
// time if the schedule has no time within 12 years.
//
// Between two clock changes the clock runs evenly, so Next searches each such period for a
// matching wall-clock time, without regard to time zones.
func (s *Schedule) Next(after time.Time) time.Time {
	from, until := after.Add(time.Nanosecond), after.AddDate(horizon, 0, 0)
	for from.Before(until) {
		offset, end := s.period(from, until)
		if at, found := s.match(wall(from, offset), wall(end, offset)); found {
			return at.Add(-offset)
		}
		from = end
	}
	return time.Time{}
}

// period returns the offset from UTC at a time, and the time of the next change of the offset, but
// at most limit.
func (s *Schedule) period(at, limit time.Time) (offset time.Duration, end time.Time) {
	_, seconds := at.In(s.zone).Zone()
	if _, end = at.In(s.zone).ZoneBounds(); end.IsZero() || end.After(limit) {
		end = limit
	}
	return time.Duration(seconds) * time.Second, end
}

// wall returns the time that a wall clock shows, with UTC as its location.
func wall(at time.Time, offset time.Duration) time.Time { return at.UTC().Add(offset) }

// match returns the first matching minute in the interval from one wall-clock time until just
// before another.
func (s *Schedule) match(from, until time.Time) (at time.Time, found bool) {
	at = from.Add(time.Minute - time.Nanosecond).Truncate(time.Minute)
	for at.Before(until) {
		year, month, day := at.Date()
		switch {
		case !s.months.has(int(month)):
			at = time.Date(year, month+1, 1, 0, 0, 0, 0, time.UTC)
		case !s.onDay(at):
			at = time.Date(year, month, day+1, 0, 0, 0, 0, time.UTC)
		case !s.hours.has(at.Hour()):
			at = at.Truncate(time.Hour).Add(time.Hour)
		case !s.minutes.has(at.Minute()):
			at = at.Add(time.Minute)
		default:
			return at, true
		}
	}
	return time.Time{}, false
}

// onDay reports whether a day matches. If both day fields are restricted, either may match.
func (s *Schedule) onDay(at time.Time) bool {
	day, weekday := s.days.has(at.Day()), s.weekdays.has(int(at.Weekday()))
	if s.everyDay {
		return day && weekday
	}
	return day || weekday
}

// ClockChange is a clock change that affects a schedule.
type ClockChange struct {
	At      time.Time // when the clocks change, in UTC
	Skipped bool      // the affected times are skipped; otherwise they are repeated
	First   time.Time // the first affected time on a wall clock, with UTC as its location
	Count   int       // the number of affected times
}

// ClockChanges returns the clock changes in the interval (after, until] that skip or repeat times
// of the schedule, the earliest first.
func (s *Schedule) ClockChanges(after, until time.Time) iter.Seq[ClockChange] {
	return func(yield func(ClockChange) bool) {
		before, at := s.period(after, until.Add(1))
		for !at.After(until) {
			offset, next := s.period(at, until.Add(1))
			first, end := wall(at, min(before, offset)), wall(at, max(before, offset))
			change := ClockChange{At: at.UTC(), Skipped: offset > before}
			for one, found := s.match(first, end); found; one, found = s.match(one.Add(time.Minute), end) {
				if change.Count++; change.Count == 1 {
					change.First = one
				}
			}
			if change.Count > 0 && !yield(change) {
				return
			}
			before, at = offset, next
		}
	}
}
