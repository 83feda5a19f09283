package cron_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weft-automation/weft/internal/kit/cron"
)

func at(t *testing.T, text string) time.Time {
	t.Helper()
	parsed, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func parse(t *testing.T, expression, zone string) *cron.Schedule {
	t.Helper()
	schedule, err := cron.Parse(expression, zone)
	if err != nil {
		t.Fatalf("%s in %s: %v", expression, zone, err)
	}
	return schedule
}

func TestNextTimes(t *testing.T) {
	for _, c := range []struct{ expression, zone, after, want string }{
		{"0 9 * * MON-FRI", "Europe/Berlin", "2026-01-30T08:00:00Z", "2026-02-02T08:00:00Z 2026-02-03T08:00:00Z"},
		{"0 9 * * *", "Europe/Berlin", "2026-07-01T00:00:00Z", "2026-07-01T07:00:00Z"},
		{"0 9 * * *", "", "2026-07-01T00:00:00Z", "2026-07-01T09:00:00Z"},
		{"*/15 * * * *", "UTC", "2026-07-01T00:14:59.999Z", "2026-07-01T00:15:00Z 2026-07-01T00:30:00Z"},
		{"@monthly", "UTC", "2026-07-01T00:00:00Z", "2026-08-01T00:00:00Z"},
		{"0 0 29 2 *", "UTC", "2096-03-01T00:00:00Z", "2104-02-29T00:00:00Z"},
		// Clocks in Berlin skip 02:00 to 03:00 on 29 March and repeat it on 25 October.
		{"30 2 * * *", "Europe/Berlin", "2026-03-28T00:00:00Z", "2026-03-28T01:30:00Z 2026-03-30T00:30:00Z"},
		{"30 2 * * *", "Europe/Berlin", "2026-10-24T22:00:00Z", "2026-10-25T00:30:00Z 2026-10-25T01:30:00Z 2026-10-26T01:30:00Z"},
		{"*/30 2 * * *", "Europe/Berlin", "2026-10-24T22:00:00Z", "2026-10-25T00:00:00Z 2026-10-25T00:30:00Z 2026-10-25T01:00:00Z 2026-10-25T01:30:00Z 2026-10-26T01:00:00Z"},
		{"0 * * * *", "America/New_York", "2026-03-08T06:00:00Z", "2026-03-08T07:00:00Z"}, // the hour after is 03:00 there
		// Midnight is skipped.
		{"0 5 * * *", "Asia/Beirut", "2026-03-28T04:00:00Z", "2026-03-29T02:00:00Z"},
		{"0 5 * * *", "Africa/Cairo", "2026-04-23T04:00:00Z", "2026-04-24T02:00:00Z"},
		{"0 5 8 3 *", "America/Havana", "2026-03-01T00:00:00Z", "2026-03-08T09:00:00Z"},
		// Clocks change by 30 minutes.
		{"45 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00Z", "2026-10-03T15:45:00Z"},
		{"0 2 4 10 *", "Australia/Lord_Howe", "2026-01-01T00:00:00Z", "2027-10-03T15:00:00Z"},
		{"15 2 4 10 *", "Australia/Lord_Howe", "2026-01-01T00:00:00Z", "2027-10-03T15:15:00Z"},
		// 30 December 2011 is missing.
		{"0 12 * * *", "Pacific/Apia", "2011-12-29T00:00:00Z", "2011-12-29T22:00:00Z 2011-12-30T22:00:00Z"},
	} {
		schedule, last, got := parse(t, c.expression, c.zone), at(t, c.after), []string{}
		for range strings.Fields(c.want) {
			last = schedule.Next(last)
			got = append(got, last.Format(time.RFC3339))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s in %s after %s: %v, want %s", c.expression, c.zone, c.after, got, c.want)
		}
	}
}

func TestADayThatNeverComesHasNoNextTime(t *testing.T) {
	for _, expression := range []string{"0 0 30 2 *", "0 0 31 2,4,6,9,11 *"} {
		if next := parse(t, expression, "Europe/Berlin").Next(at(t, "2026-01-01T00:00:00Z")); !next.IsZero() {
			t.Errorf("%s: %s", expression, next)
		}
	}
}

// Each pair is two ways to write the same times.
func TestNotations(t *testing.T) {
	for short, long := range map[string]string{
		"@yearly": "0 0 1 1 *", "@annually": "0 0 1 JAN *", "@weekly": "0 0 * * 0", "@daily": "0 0 * * *", "@midnight": "00 00 ? * ?", "@hourly": "0 * * * *",
		"0 0 * * 7": "0 0 * * SUN", "0 0 * * 5-7": "0 0 * * FRI,SAT,SUN", "0 0 * * mon-sun": "0 0 * * 1-6,0", "0 0 * * 0-7": "0 0 * * 0-6",
		"0 0 * * 1/2": "0 0 * * 1,3,5", "5/20 * * * *": "5,25,45 * * * *", "1-10/4 * * * *": "1,5,9 * * * *", "0 0 1 feb-Apr *": "0 0 1 2,3,4 *",
		"  0\t0 1 1   * ": "0 0 1 1 *", "0 0 */10 * *": "0 0 1,11,21,31 * *", "0 0 13 * 5": "0 0 13,13 * fri",
	} {
		one, other, last := parse(t, short, ""), parse(t, long, ""), at(t, "2026-01-01T00:00:00Z")
		for range 50 {
			got, want := one.Next(last), other.Next(last)
			if !got.Equal(want) {
				t.Errorf("%q comes at %s, %q at %s", short, got, long, want)
				break
			}
			last = want
		}
	}
}

func TestErrorsNameTheField(t *testing.T) {
	const anyField = "five fields"
	for expression, want := range map[string]string{
		"60 * * * *": "minute: expected numbers from 0 to 59", "-1 * * * *": "minute: expected numbers", "* 24 * * *": "hour: expected numbers from 0 to 23",
		"* * 0 * *": "day of the month: expected numbers from 1 to 31", "* * * 13 *": "month: expected numbers from 1 to 12 or names from JAN to DEC",
		"* * * * 8": "day of the week: expected numbers from 0 to 7 or names from SUN to SAT", "* * * * MOO": "day of the week: expected",
		"5-1 * * * *": "minute: a range", "* * * * 6-2": "day of the week: a range", "* */0 * * *": "hour: the step", "* * */x * *": "day of the month: the step",
		"* * , * *": "day of the month: expected", "*-5 * * * *": "minute: expected", "1-2-3 * * * *": "minute: expected", "99999999999999999999 * * * *": "minute: expected",
		"": anyField, "* * *": anyField, "* * * * * *": anyField, "TZ=0": anyField, "CRON_TZ=Europe/Berlin 0 9 * * *": anyField, "@every 1s": anyField, "@reboot": anyField, "@Daily": anyField,
	} {
		if _, err := cron.Parse(expression, ""); err == nil || errors.Is(err, cron.ErrTimeZone) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", expression, err, want)
		}
	}
	for _, zone := range []string{"Mars/Olympus", "Local", "../../etc/passwd", "Europe/Berlin\x00"} {
		if _, err := cron.Parse("@daily", zone); !errors.Is(err, cron.ErrTimeZone) {
			t.Errorf("%q: %v", zone, err)
		}
	}
}

func TestClockChanges(t *testing.T) {
	for _, c := range []struct{ expression, zone, after, until, want string }{
		{"30 2 * * *", "Europe/Berlin", "2026-01-01T00:00:00Z", "2027-04-01T00:00:00Z",
			"2026-03-29T01:00:00Z skips 1 from 2026-03-29T02:30, 2026-10-25T01:00:00Z repeats 1 from 2026-10-25T02:30, 2027-03-28T01:00:00Z skips 1 from 2027-03-28T02:30"},
		{"*/15 * * * *", "Europe/Berlin", "2026-03-29T00:59:59Z", "2026-03-29T01:00:00Z", "2026-03-29T01:00:00Z skips 4 from 2026-03-29T02:00"},
		{"*/15 * * * *", "Europe/Berlin", "2026-03-29T01:00:00Z", "2026-10-25T00:59:59Z", ""},
		{"0 3 * * *", "Europe/Berlin", "2026-01-01T00:00:00Z", "2036-01-01T00:00:00Z", ""},
		{"0 0 * * *", "Asia/Beirut", "2026-01-01T00:00:00Z", "2026-12-31T00:00:00Z", "2026-03-28T22:00:00Z skips 1 from 2026-03-29T00:00"},
		{"30 23 * * *", "Asia/Beirut", "2026-01-01T00:00:00Z", "2026-12-31T00:00:00Z", "2026-10-24T21:00:00Z repeats 1 from 2026-10-24T23:30"},
		{"0 2 28 3 *", "Europe/Berlin", "2026-06-01T00:00:00Z", "2028-01-01T00:00:00Z", "2027-03-28T01:00:00Z skips 1 from 2027-03-28T02:00"},
		{"*/20 * * * *", "Australia/Lord_Howe", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z",
			"2026-04-04T15:00:00Z repeats 1 from 2026-04-05T01:40, 2026-10-03T15:30:00Z skips 2 from 2026-10-04T02:00"},
		{"30 2 * * *", "UTC", "2026-01-01T00:00:00Z", "2036-01-01T00:00:00Z", ""},
		{"0 12 * * *", "Pacific/Apia", "2011-12-01T00:00:00Z", "2012-01-15T00:00:00Z", "2011-12-30T10:00:00Z skips 1 from 2011-12-30T12:00"},
	} {
		var got []string
		for change := range parse(t, c.expression, c.zone).ClockChanges(at(t, c.after), at(t, c.until)) {
			did := "repeats"
			if change.Skipped {
				did = "skips"
			}
			got = append(got, strings.Join([]string{change.At.Format(time.RFC3339), did, string(rune('0' + change.Count)), "from", change.First.Format("2006-01-02T15:04")}, " "))
		}
		if strings.Join(got, ", ") != c.want {
			t.Errorf("%s in %s: %s\nwant %s", c.expression, c.zone, strings.Join(got, ", "), c.want)
		}
	}
}

// FuzzParse parses arbitrary text. Parse must not panic, and the next time must be after the
// given time.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"0 9 * * MON-FRI", "@daily", "TZ=0", "CRON_TZ=", "@every 1h", "*/5 1-3,7 ? JAN-mar 0/2", "61 * * * *", "* * * * * *", "*/0 * * * *", "0 0 * * MON-SUN"} {
		f.Add(text, "Europe/Berlin")
	}
	f.Fuzz(func(t *testing.T, text, zone string) {
		schedule, err := cron.Parse(text, zone)
		if err != nil {
			return
		}
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		if next := schedule.Next(now); !next.IsZero() && !next.After(now) {
			t.Errorf("%q after %s comes at %s", text, now, next)
		}
	})
}
