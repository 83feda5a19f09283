package clock_test

import (
	"testing"
	"time"

	"github.com/weft-automation/weft/internal/platform/clock"
)

func TestNowFollowsTheObservedClock(t *testing.T) {
	start := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name        string
		ahead, took time.Duration // of the observed clock, and of the response
	}{
		{"the same", 0, time.Millisecond}, {"ahead", 10 * time.Minute, time.Millisecond}, {"behind", -10 * time.Minute, time.Millisecond},
		{"ahead, and slow to answer", time.Minute, 5 * time.Second},
	} {
		local := clock.New(func() time.Time { return start })
		local.Observe(start, start.Add(c.took), start.Add(c.took/2).Add(c.ahead))
		if off := local.Now().Sub(start.Add(c.ahead)).Abs(); off > c.took {
			t.Errorf("%s: off by %v", c.name, off)
		}
	}
}

func TestASlowAnswerDoesNotMoveAClockThatAgrees(t *testing.T) {
	start := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	local := clock.New(func() time.Time { return start })
	local.Observe(start, start.Add(time.Millisecond), start)
	before := local.Offset()
	local.Observe(start, start.Add(time.Minute), start.Add(50*time.Second))
	if got := local.Offset(); got != before {
		t.Errorf("it moved by %v", got-before)
	}
}

func TestWithoutAClockTimeIsLocal(t *testing.T) {
	var none *clock.Clock
	before := time.Now().Round(0)
	now := none.Now()
	if after := time.Now().Round(0); now.Before(before) || now.After(after) || none.Offset() != 0 {
		t.Errorf("Now returns %v between %v and %v", now, before, after)
	}
}
