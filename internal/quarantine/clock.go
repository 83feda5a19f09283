package quarantine

import (
	"context"
	"time"

	"github.com/weft-automation/weft/internal/fault"
)

// errAdrift is what callers are told.
var errAdrift = &fault.Error{
	Code: fault.Unavailable, Reason: "clock_differs", RetryAfter: 5 * time.Second,
	Message: "The clock of this process differs too much from the database's. It accepts nothing until they agree; other processes may.",
}

// CheckClock returns an UNAVAILABLE error with the reason `clock_differs` while the clock
// of this process differs from PostgreSQL's by more than the tolerance.
func (w *Watch) CheckClock() error {
	if w.adrift.Load() {
		return errAdrift
	}
	return nil
}

// Adrift reports whether CheckClock returns an error: this process begins no work, others
// may.
func (w *Watch) Adrift() bool { return w.adrift.Load() }

// compare judges the clock by an answer of PostgreSQL that was asked for then.
func (w *Watch) compare(ctx context.Context, asked, shown time.Time) {
	if w.Clock == nil {
		return
	}
	w.Clock.Observe(asked, w.Clock.Local(), shown)
	offset := w.Clock.Offset()
	adrift := offset.Abs() > w.Tolerance
	if was := w.adrift.Swap(adrift); was == adrift {
		return
	}
	if !adrift {
		w.log.InfoContext(ctx, "the clock agrees with the database's again", "database_ahead", offset.String())
		return
	}
	w.log.ErrorContext(ctx, "THE CLOCK OF THIS PROCESS DIFFERS FROM THE DATABASE'S: it begins no work until they agree. Synchronise both machines by NTP",
		"database_ahead", offset.String(), "tolerance", w.Tolerance.String())
}
