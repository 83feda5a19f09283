// Package calendar calculates with times in time zones, and has the text form of durations. It doesn't
// read a clock.
package calendar

import (
	"errors"
	"time"
	_ "time/tzdata" // for machines without a time zone database

	"github.com/weft-automation/weft/internal/kit/timestamp"
)

// Errors contain no values.
var (
	ErrZone = errors.New("expected the IANA name of a time zone, such as Europe/Berlin")
	ErrTime = errors.New("expected a time, such as 2026-12-24T18:00:00Z, 2026-12-24T18:00 or 2026-12-24")
	ErrUnit = errors.New("expected millisecond, second, minute, hour, day, week, month or year")
	ErrYear = errors.New("the result is not in the years 0 to 9999")
)

// FourDigits reports whether the year has four digits.
func FourDigits(at time.Time) bool { return at.Year() >= 0 && at.Year() <= 9999 }

// Zone returns the time zone with an IANA name.
func Zone(name string) (*time.Location, error) {
	if name == "" || name == "Local" { // package time accepts them as UTC and the local zone, but they are not IANA names
		return nil, ErrZone
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, ErrZone
	}
	return zone, nil
}

// Parse parses a time in RFC 3339 form. Without an offset, it is a time in the zone; a date is its first
// moment.
func Parse(text string, zone *time.Location) (time.Time, error) {
	if at, err := timestamp.Parse(text); err == nil {
		return at, nil
	}
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04"} {
		if at, err := time.Parse(layout, text); err == nil {
			return resolve(at, zone, false), nil
		}
	}
	if at, err := time.Parse(time.DateOnly, text); err == nil {
		return resolve(at, zone, true), nil
	}
	return time.Time{}, ErrTime
}

// resolve returns the time at which the clocks of a zone show what wall shows in UTC. A time that is
// skipped is as long after the change as it would be with the clocks before it. Of a time that happens
// twice, it is the first or the second.
func resolve(wall time.Time, zone *time.Location, first bool) time.Time {
	shows := func(at time.Time) time.Time {
		_, offset := at.Zone()
		return at.Add(time.Duration(offset) * time.Second)
	}
	guess := time.Date(wall.Year(), wall.Month(), wall.Day(), wall.Hour(), wall.Minute(), wall.Second(), wall.Nanosecond(), zone)
	if !shows(guess).Equal(wall) {
		if shows(guess).After(wall) {
			return guess
		}
		return guess.Add(wall.Sub(shows(guess)))
	}
	var neighbors []time.Time // before and after the clocks of guess
	if start, _ := guess.ZoneBounds(); !start.IsZero() {
		neighbors = append(neighbors, start.Add(-time.Nanosecond))
	}
	if _, end := guess.ZoneBounds(); !end.IsZero() {
		neighbors = append(neighbors, end)
	}
	for _, neighbor := range neighbors {
		again := guess.Add(shows(guess).Sub(guess) - shows(neighbor).Sub(neighbor))
		if !again.Equal(guess) && shows(again).Equal(wall) && again.Before(guess) == first {
			return again
		}
	}
	return guess
}

// clocks are the units of a fixed length, in milliseconds.
var clocks = map[string]int64{"millisecond": 1, "second": 1000, "minute": 60_000, "hour": 3_600_000}

// dates are the units whose length depends on the calendar: months and days.
var dates = map[string]struct{ months, days int }{"day": {0, 1}, "week": {0, 7}, "month": {1, 0}, "year": {12, 0}}

// MaxMilliseconds is longer than any two times can be apart.
const MaxMilliseconds = 10_000 * 366 * 24 * 3_600_000

// Add adds a number of units to a time. Days, weeks, months and years keep the time of the day in the
// zone, and the day of the month if the month has it.
func Add(at time.Time, n int64, unit string, zone *time.Location) (time.Time, error) {
	length, isClock := clocks[unit]
	date, isDate := dates[unit]
	switch {
	case isClock && n <= MaxMilliseconds/length && n >= -MaxMilliseconds/length:
		at = time.UnixMilli(at.UnixMilli() + n*length).Add(time.Duration(at.Nanosecond() % 1_000_000))
	case isDate && n <= 10_000*366 && n >= -10_000*366:
		at = at.In(zone)
		month := time.Date(at.Year(), at.Month()+time.Month(int(n)*date.months), 1, 0, 0, 0, 0, time.UTC)
		day := min(at.Day(), month.AddDate(0, 1, -1).Day())
		wall := time.Date(month.Year(), month.Month(), day+int(n)*date.days, at.Hour(), at.Minute(), at.Second(), at.Nanosecond(), time.UTC)
		at = resolve(wall, zone, false)
	case !isClock && !isDate:
		return at, ErrUnit
	default:
		return at, ErrYear
	}
	if !FourDigits(at.UTC()) {
		return at, ErrYear
	}
	return at.UTC(), nil
}

// StartOf returns the start of the unit that a time is in, in the zone. Weeks start on Monday.
func StartOf(at time.Time, unit string, zone *time.Location) (time.Time, error) {
	at = at.In(zone)
	year, month, day := at.Date()
	switch unit {
	case "millisecond", "second", "minute", "hour":
		// The clocks show the start of an hour twice if it happens twice, so this one is counted back.
		_, offset := at.Zone()
		shown := at.UnixMilli() + int64(offset)*1000
		into := shown % clocks[unit]
		if into < 0 {
			into += clocks[unit]
		}
		return time.UnixMilli(at.UnixMilli() - into).UTC(), nil
	case "day":
	case "week":
		day -= (int(at.Weekday()) + 6) % 7
	case "month":
		day = 1
	case "year":
		month, day = 1, 1
	default:
		return at, ErrUnit
	}
	at = resolve(time.Date(year, month, day, 0, 0, 0, 0, time.UTC), zone, true).UTC()
	if !FourDigits(at) {
		return at, ErrYear
	}
	return at, nil
}
