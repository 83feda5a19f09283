package calendar_test

import (
	"testing"
	"time"

	"github.com/weft-automation/weft/internal/kit/calendar"
)

// In Havana, clocks went back from 01:00 to 00:00 on 5 November 2023, so the day had two midnights. A day
// never starts after a time in it.
func TestStartOfADayIsItsFirstMidnight(t *testing.T) {
	t.Parallel()
	havana, err := calendar.Zone("America/Havana")
	if err != nil {
		t.Fatal(err)
	}
	first := time.Date(2023, 11, 5, 4, 0, 0, 0, time.UTC)
	for at := first; at.Before(first.Add(25 * time.Hour)); at = at.Add(10 * time.Minute) {
		if got, err := calendar.StartOf(at, "day", havana); err != nil || !got.Equal(first) {
			t.Errorf("%s: %s, %v", at, got, err)
		}
	}
	if got, err := calendar.Parse("2023-11-05", havana); err != nil || !got.Equal(first) {
		t.Errorf("%s, %v", got, err)
	}
	if got, err := calendar.Parse("2023-11-05 00:30", havana); err != nil || !got.Equal(first.Add(90*time.Minute)) {
		t.Errorf("%s, %v", got, err)
	}
}

func TestDurationsHaveAText(t *testing.T) {
	t.Parallel()
	for milliseconds, text := range map[int64]string{0: "0ms", 1: "1ms", 1500: "1500ms", 90_000: "90s", 5_400_000: "90m", 129_600_000: "36h", 172_800_000: "2d", calendar.MaxMilliseconds: "3660000d"} {
		if got := calendar.FormatDuration(milliseconds); got != text {
			t.Errorf("%d is %s, want %s", milliseconds, got, text)
		}
		if got, err := calendar.ParseDuration(text); got != milliseconds || err != nil {
			t.Errorf("%s is %d, %v", text, got, err)
		}
	}
	for text, milliseconds := range map[string]int64{"1d2h3m4s5ms": 93_784_005, "0s": 0, "1h30m": 5_400_000} {
		if got, err := calendar.ParseDuration(text); got != milliseconds || err != nil {
			t.Errorf("%s is %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "1", "h", "-1h", "1.5h", "1H", " 1h", "1h ", "1m1h", "999999999d", "999999999999999ms", "1w"} {
		if got, err := calendar.ParseDuration(text); err == nil {
			t.Errorf("%q is %d", text, got)
		}
	}
}
