// Package cron parses cron expressions and computes their times in a time zone.
//
// It doesn't read a clock. An expression is compared with the time that a wall clock in its time
// zone shows: a time that a clock change skips never occurs, and a time that a clock change
// repeats occurs twice.
package cron

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // for machines without a time zone database
)

// Schedule is a cron expression in a time zone.
type Schedule struct {
	minutes, hours, days, months, weekdays set
	everyDay                               bool // the day of the month or the day of the week is "*"
	zone                                   *time.Location
}

// set is a set of numbers from 0 to 63, one bit each.
type set uint64

func (s set) has(n int) bool { return s&(1<<n) != 0 }

// ErrTimeZone reports an unknown time zone.
var ErrTimeZone = errors.New("must be the IANA name of a time zone, such as Europe/Berlin")

var errFields = errors.New("must be five fields (minute, hour, day of the month, month, day of the week) or one of @hourly, @daily, @weekly, @monthly, @yearly")

// macros are the expressions with a name.
var macros = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
	"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

// Parse reads a cron expression of five fields, or a name such as @daily, and the IANA name of a
// time zone; "" is UTC. It returns ErrTimeZone for an unknown zone. Any other error names the
// invalid field. Errors don't quote the input.
func Parse(expression, timeZone string) (*Schedule, error) {
	s := &Schedule{}
	var err error
	if s.zone, err = time.LoadLocation(timeZone); err != nil || timeZone == "Local" { // Local differs between machines
		return nil, ErrTimeZone
	}
	if long, ok := macros[expression]; ok {
		expression = long
	}
	texts := strings.Fields(expression)
	if len(texts) != len(fields) {
		return nil, errFields
	}
	into := []*set{&s.minutes, &s.hours, &s.days, &s.months, &s.weekdays}
	for i, f := range fields {
		var all bool
		if *into[i], all, err = f.parse(texts[i]); err != nil {
			return nil, err
		}
		s.everyDay = s.everyDay || all && (into[i] == &s.days || into[i] == &s.weekdays)
	}
	if s.weekdays.has(7) {
		s.weekdays |= 1 << time.Sunday
	}
	return s, nil
}

// field is one of the five parts of an expression.
type field struct {
	name      string
	min, max  int
	wrap      int // a second number for min; 0 means none
	names     []string
	firstName int // the number of the first name
}

var fields = []field{
	{name: "minute", max: 59},
	{name: "hour", max: 23},
	{name: "day of the month", min: 1, max: 31},
	{name: "month", min: 1, max: 12, names: strings.Fields("jan feb mar apr may jun jul aug sep oct nov dec"), firstName: 1},
	{name: "day of the week", max: 6, wrap: 7, names: strings.Fields("sun mon tue wed thu fri sat")},
}

// parse reads a comma-separated list. all reports whether one of its elements is "*".
func (f field) parse(text string) (numbers set, all bool, err error) {
	for element := range strings.SplitSeq(text, ",") {
		some, every, err := f.element(element)
		if err != nil {
			return 0, false, fmt.Errorf("%s: %w", f.name, err)
		}
		numbers, all = numbers|some, all || every
	}
	return numbers, all, nil
}

// element reads "*", a number or a range, each with an optional step.
func (f field) element(text string) (numbers set, all bool, err error) {
	text, stepText, stepped := strings.Cut(text, "/")
	step := 1
	if stepped {
		if step, err = strconv.Atoi(stepText); err != nil || step <= 0 {
			return 0, false, errors.New("the step after / must be a positive integer")
		}
	}
	first, last := f.min, f.max
	if all = text == "*" || text == "?"; !all {
		low, high, ranged := strings.Cut(text, "-")
		if first, err = f.number(low); err != nil {
			return 0, false, err
		}
		switch {
		case ranged:
			if last, err = f.number(high); err != nil {
				return 0, false, err
			}
			if last == f.min && f.wrap > 0 && first > last {
				last = f.wrap // MON-SUN
			}
		case !stepped:
			last = first
		}
	}
	if first > last {
		return 0, false, errors.New("a range must not end before it starts")
	}
	for n := first; n <= last; n += step {
		numbers |= 1 << n
	}
	return numbers, all && step == 1, nil
}

// number reads a number or a name.
func (f field) number(text string) (int, error) {
	for i, name := range f.names {
		if strings.EqualFold(text, name) {
			return f.firstName + i, nil
		}
	}
	highest := max(f.max, f.wrap)
	if n, err := strconv.Atoi(text); err == nil && n >= f.min && n <= highest {
		return n, nil
	}
	expected := fmt.Sprintf("expected numbers from %d to %d", f.min, highest)
	if len(f.names) > 0 {
		expected += fmt.Sprintf(" or names from %s to %s", strings.ToUpper(f.names[0]), strings.ToUpper(f.names[len(f.names)-1]))
	}
	return 0, errors.New(expected)
}
