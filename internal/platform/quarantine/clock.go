package quarantine

import (
	"context"
	"time"

	"github.com/weft-automation/weft/internal/kit/fault"
)

// errAdrift rejects requests while the clocks differ.
var errAdrift = &fault.Error{
	Code: fault.Unavailable, Reason: "clock_differs", RetryAfter: 5 * time.Second,
	Message: "The clock of this process differs too much from the database's. It accepts no requests until they agree. Try again: another process may accept them.",
}

// CheckClock returns an UNAVAILABLE error with the reason `clock_differs` while the clock
// of this process differs from PostgreSQL's by more than the tolerance.
func (w *Watch) CheckClock() error {
	if w.adrift.Load() {
		return errAdrift
	}
	return nil
}

// Adrift reports whether CheckClock returns an error. In that case this process starts no work,
// but other processes may.
func (w *Watch) Adrift() bool { return w.adrift.Load() }

// compare corrects the clock by a result of PostgreSQL. It logs when the difference between the
// clocks becomes larger than the tolerance, and when it no longer is. sentAt is the time at which
// the query was sent.
func (w *Watch) compare(ctx context.Context, sentAt, dbTime time.Time) {
	if w.Clock == nil {
		return
	}
	receivedAt := w.Clock.Local()
	w.Clock.Observe(sentAt, receivedAt, dbTime)
	offset := w.Clock.Offset()
	adrift := offset.Abs() > w.Tolerance
	switch {
	case w.IDs == nil:
	case adrift:
		w.IDs.Refuse(errAdrift)
	default:
		w.IDs.Observe(dbTime, receivedAt.Sub(sentAt))
	}
	if was := w.adrift.Swap(adrift); was == adrift {
		return
	}
	if !adrift {
		w.log.WarnContext(ctx, "the clock agrees with the database's again", "database_ahead", offset.String())
		return
	}
	w.log.ErrorContext(ctx, "THE CLOCK OF THIS PROCESS DIFFERS FROM THE DATABASE'S: it starts no work until they agree. Synchronise both machines by NTP",
		"database_ahead", offset.String(), "tolerance", w.Tolerance.String())
}
