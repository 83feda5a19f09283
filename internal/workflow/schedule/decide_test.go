package schedule

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weft-automation/weft/internal/kit/cron"
	"github.com/weft-automation/weft/internal/kit/waittest"
)

// clock returns a time on the first day of a month.
func clock(text string) time.Time {
	at, err := time.Parse("15:04:05", text)
	if err != nil {
		panic(err)
	}
	return time.Date(2026, 7, 1, at.Hour(), at.Minute(), at.Second(), 0, time.UTC)
}

func clocks(text string) []time.Time {
	times := []time.Time{}
	for one := range strings.FieldsSeq(text) {
		times = append(times, clock(one))
	}
	return times
}

// shown returns a step in one line.
func shown(do step) string {
	times := func(times ...time.Time) string {
		var all []string
		for _, at := range times {
			all = append(all, at.Format("15:04"))
		}
		return strings.Join(all, ",")
	}
	text := ""
	if do.start != nil {
		text += " begin " + times(*do.start)
	}
	if len(do.waiting) > 0 {
		text += " waiting " + times(do.waiting...)
	}
	if do.skipped != nil {
		text += fmt.Sprintf(" skip %s %s", times(*do.skipped), do.reason)
	}
	if do.next == nil {
		return text[min(1, len(text)):] + " next never"
	}
	return strings.TrimSpace(text + " next " + times(*do.next))
}

// The schedules in this test fire every ten minutes, or daily at nine.
func TestDecideFollowsOverlap(t *testing.T) {
	full := "08:00:00 08:10:00 08:20:00 08:30:00 08:40:00 08:50:00 09:00:00 09:10:00 09:20:00 09:30:00"
	for name, c := range map[string]struct {
		cron, overlap, next, waiting, now string
		running                           bool
		want                              string
	}{
		"not yet":                        {"*/10 * * * *", "skip", "10:10:00", "", "10:09:59", false, "next 10:10"},
		"on time":                        {"*/10 * * * *", "skip", "10:10:00", "", "10:10:00", false, "begin 10:10 next 10:20"},
		"a little late":                  {"*/10 * * * *", "skip", "10:10:00", "", "10:19:59", false, "begin 10:10 next 10:20"},
		"one was missed":                 {"*/10 * * * *", "allow", "10:10:00", "", "10:20:01", false, "begin 10:20 skip 10:10 missed next 10:30"},
		"many were missed":               {"*/10 * * * *", "queue", "00:00:00", "", "10:25:00", false, "begin 10:20 skip 10:10 missed next 10:30"},
		"skip during a run":              {"*/10 * * * *", "skip", "10:10:00", "", "10:10:01", true, "skip 10:10 overlap next 10:20"},
		"allow during a run":             {"*/10 * * * *", "allow", "10:10:00", "", "10:10:01", true, "begin 10:10 next 10:20"},
		"queue during a run":             {"*/10 * * * *", "queue", "10:10:00", "", "10:10:01", true, "waiting 10:10 next 10:20"},
		"queue behind others":            {"*/10 * * * *", "queue", "10:10:00", "10:00:00", "10:10:01", true, "waiting 10:00,10:10 next 10:20"},
		"the first goes first":           {"*/10 * * * *", "queue", "10:10:00", "09:50:00 10:00:00", "10:10:01", false, "begin 09:50 waiting 10:00,10:10 next 10:20"},
		"one waited":                     {"*/10 * * * *", "queue", "10:20:00", "10:10:00", "10:13:00", false, "begin 10:10 next 10:20"},
		"one waits":                      {"*/10 * * * *", "queue", "10:20:00", "10:10:00", "10:13:00", true, "waiting 10:10 next 10:20"},
		"the queue is full":              {"*/10 * * * *", "queue", "10:10:00", full, "10:10:00", true, "waiting 08:00,08:10,08:20,08:30,08:40,08:50,09:00,09:10,09:20,09:30 skip 10:10 queue_full next 10:20"},
		"within the hour":                {"0 9 * * *", "skip", "09:00:00", "", "10:00:00", false, "begin 09:00 next 09:00"},
		"more than an hour ago":          {"0 9 * * *", "skip", "09:00:00", "", "10:00:01", false, "skip 09:00 missed next 09:00"},
		"missed, and a run is under way": {"*/10 * * * *", "skip", "00:00:00", "", "10:25:00", true, "skip 10:20 overlap next 10:30"},
	} {
		times, err := cron.Parse(c.cron, "")
		if err != nil {
			t.Fatal(err)
		}
		do := decide(times, state{overlap: c.overlap, next: new(clock(c.next)), waiting: clocks(c.waiting), running: c.running, now: clock(c.now)})
		if got := shown(do); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		if do.next != nil && !do.next.After(clock(c.now)) {
			t.Errorf("%s: the next time is %v", name, do.next)
		}
	}
}

// decide takes few steps, regardless of how long an outage was.
func TestDecideAfterALongOutage(t *testing.T) {
	times, err := cron.Parse("* * * * *", "America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	now := clock("10:25:30")
	quickest := time.Hour
	for range 5 {
		began := time.Now()
		do := decide(times, state{overlap: "skip", next: new(now.AddDate(-1, 0, 0)), waiting: []time.Time{}, now: now})
		quickest = min(quickest, time.Since(began))
		if do.start == nil || !do.start.Equal(clock("10:25:00")) || do.next == nil || !do.next.Equal(clock("10:26:00")) {
			t.Fatal(shown(do))
		}
	}
	if waittest.Timed() && quickest > time.Second {
		t.Errorf("it took %v at best", quickest)
	}
}

// If a clock change skips a time, the time does not fire. If a clock change repeats a time, the
// time fires twice.
func TestDecideOnClockChanges(t *testing.T) {
	times, err := cron.Parse("30 2 * * *", "Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for day, want := range map[string]string{
		"2026-03-28T02:00:00Z": "2026-03-30T00:30:00Z", "2026-10-24T23:00:00Z": "2026-10-25T00:30:00Z 2026-10-25T01:30:00Z 2026-10-26T01:30:00Z",
	} {
		at, err := time.Parse(time.RFC3339, day)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for range strings.Fields(want) {
			next := first(times, at)
			do := decide(times, state{overlap: "skip", next: next, waiting: []time.Time{}, now: next.Add(time.Second)})
			got, at = append(got, do.start.Format(time.RFC3339)), *do.start
		}
		if strings.Join(got, " ") != want {
			t.Errorf("after %s: %v, want %s", day, got, want)
		}
	}
}
