package quarantine

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/uuid7"
	"github.com/weft-automation/weft/internal/local/pgtest"
	"github.com/weft-automation/weft/internal/platform/clock"
)

// The clock of a process was 400 days ahead for seconds. All its later IDs were in that year, and
// their rows in the default partition.
func TestAClockThatWasWrongLeavesNoTimeInIDs(t *testing.T) {
	t.Parallel()
	var off time.Duration
	tomorrow := time.Now().AddDate(0, 0, 1)
	w := NewWatch(pgtest.DB(t), slog.New(slog.DiscardHandler))
	w.Clock, w.Tolerance, w.IDs = clock.New(func() time.Time { return time.Now().Add(off) }), 5*time.Second, &uuid7.Maker{}
	inTime := func(when string) {
		id, err := w.IDs.New()
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		if at := time.Unix(id.Time().UnixTime()); at.After(tomorrow) {
			t.Errorf("%s: an ID of %v", when, at)
		}
	}
	poll(t, w)
	inTime("at first")
	off = 400 * 24 * time.Hour
	inTime("before the wrong clock is found")
	poll(t, w)
	var refused *fault.Error
	if _, err := w.IDs.New(); !errors.As(err, &refused) || refused.Reason != "clock_differs" {
		t.Errorf("while the clock is wrong: an ID was made, or %v", err)
	}
	off = 0
	poll(t, w)
	inTime("after it was corrected")
}
