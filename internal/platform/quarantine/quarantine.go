// Package quarantine decides whether this process may work on this database, because a restored
// backup has forgotten work that was already done.
//
// It holds a restored database until an operator releases it. It also holds a process whose clock
// differs from the database's. It stops no work itself: code that starts work asks Held. The one
// invariant: nothing is free before the database was found at its known place, and only a release
// frees what is held.
package quarantine

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/platform/clock"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

const (
	lookEvery  = time.Second
	lookWithin = 5 * time.Second

	// followWithin is how long a process that has seen nothing of the past waits
	// for one that can vouch for a new timeline.
	followWithin = 5 * time.Second
)

// Watch looks after the quarantine in one process.
type Watch struct {
	pool postgres.DB
	log  *slog.Logger

	// Clock is compared with PostgreSQL's at each look, and may differ by Tolerance at
	// most; nil: it is not compared. Set them before the first look.
	Clock     *clock.Clock
	Tolerance time.Duration

	held   atomic.Bool
	adrift atomic.Bool   // the clock differs by more
	beats  atomic.Bool   // the next look is to count a beat
	freed  chan struct{} // closed once it was free for the first time
	once   sync.Once

	// Of the looking goroutine alone.
	seen     int64     // the last beat while all was in order, or nothing
	doubt    time.Time // since when the timeline is another
	released time.Time // when the last quarantine ended
	said     string    // the reason that is in the log

	position position
	soon     chan struct{} // the next look is due at once
}

// nothing is what a process has seen that has not found all in order yet.
const nothing = -1

// NewWatch makes a watch that holds everything until Look has found all in
// order.
func NewWatch(pool postgres.DB, log *slog.Logger) *Watch {
	w := &Watch{pool: pool, log: log, freed: make(chan struct{}), soon: make(chan struct{}, 1), seen: nothing}
	w.held.Store(true)
	return w
}

// Held reports whether nothing may be begun: no component, no callback. A nil
// Watch holds nothing.
func (w *Watch) Held() bool { return w != nil && (w.held.Load() || w.adrift.Load()) }

// Freed is closed once work may begin for the first time.
func (w *Watch) Freed() <-chan struct{} { return w.freed }

// errHeld rejects new executions and runs. A second restore would lose them.
var errHeld = &fault.Error{
	Code: fault.Unavailable, Reason: "quarantined", RetryAfter: time.Minute,
	Message: "The database is in quarantine: it accepts no new executions or runs until its operator releases it. Reads and other changes work.",
}

// Check returns an UNAVAILABLE error while nothing may be accepted or begun: that of
// CheckRestore, or that of CheckClock.
func (w *Watch) Check() error {
	if err := w.CheckRestore(); err != nil {
		return err
	}
	return w.CheckClock()
}

// CheckRestore returns an UNAVAILABLE error with the reason `quarantined` while the
// database is held.
func (w *Watch) CheckRestore() error {
	if w.held.Load() {
		return errHeld
	}
	return nil
}

// Run looks every second until ctx ends. While the database does not answer,
// what was known stays.
func (w *Watch) Run(ctx context.Context) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-w.soon:
		}
		if err := w.Look(ctx); err != nil && ctx.Err() == nil && !postgres.Unavailable(err) {
			w.log.WarnContext(ctx, "the quarantine could not be looked at", "error", err)
		}
	}
}

// Look compares where the database was known to live with where it does, and
// begins the quarantine of one that is elsewhere.
func (w *Watch) Look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	now, err := w.read(ctx)
	if err != nil {
		return err
	}
	defer w.open()
	if now.ReleasedAt != nil && !now.ReleasedAt.Equal(w.released) {
		w.seen, w.doubt, w.released = nothing, time.Time{}, *now.ReleasedAt
		w.position.forget()
	}
	switch {
	case now.QuarantinedAt != nil:
		w.hold(ctx, *now.Reason)
	case now.Place != now.PlaceNow:
		return w.begin(ctx, now, fmt.Sprintf("the database was known at %s and is at %s: it was copied, or read in from a dump", now.Place, now.PlaceNow))
	case now.Beat < w.seen:
		return w.begin(ctx, now, "the database has forgotten what this process had seen in it: an older state came back")
	case w.position.lost(serverOf(now)) != "":
		return w.begin(ctx, now, w.position.lost(serverOf(now)))
	case now.Timeline == now.TimelineNow:
		w.seen, w.doubt = now.Beat, time.Time{}
		w.position.follow(serverOf(now), now.Flushed)
		w.free(ctx)
	case now.TimelineNow != 0: // else the server still recovers and takes no work anyway
		return w.moved(ctx, now)
	}
	return nil
}

// moved decides about a new timeline. The past of a process that lives on shows
// whether a standby took over with all of it, or an older state came back.
func (w *Watch) moved(ctx context.Context, now db.InstallationGetRow) error {
	switch {
	case w.seen != nothing:
		n, err := db.New().InstallationSetTimeline(ctx, w.pool, db.InstallationSetTimelineParams{Timeline: now.Timeline, Beat: now.Beat})
		if err == nil && n > 0 {
			w.log.WarnContext(ctx, "another server took over with all that this process has seen; work goes on", "timeline", now.TimelineNow)
		}
		return err
	case w.doubt.IsZero():
		w.doubt = time.Now()
		return nil
	case time.Since(w.doubt) < followWithin:
		return nil
	}
	return w.begin(ctx, now, fmt.Sprintf("the database was known on timeline %d and is on %d: it was restored, or a standby took over that lacked the last writes", now.Timeline, now.TimelineNow))
}

// begin puts the database in quarantine for what was read of it, unless somebody
// changed that meanwhile: the next look judges then.
func (w *Watch) begin(ctx context.Context, judged db.InstallationGetRow, reason string) error {
	w.held.Store(true)
	n, err := db.New().InstallationQuarantineUnchanged(ctx, w.pool, db.InstallationQuarantineUnchangedParams{
		Reason: &reason, Place: judged.Place, Timeline: judged.Timeline, ReleasedAt: judged.ReleasedAt,
	})
	if err != nil {
		return fmt.Errorf("begin the quarantine: %w", err)
	}
	if n > 0 {
		w.hold(ctx, reason)
	}
	return nil
}

func (w *Watch) hold(ctx context.Context, reason string) {
	w.held.Store(true)
	if w.said != reason {
		w.said = reason
		w.log.ErrorContext(ctx, "THE DATABASE IS IN QUARANTINE: no component runs and no callback is sent until `weft quarantine release`", "reason", reason)
	}
}

func (w *Watch) free(ctx context.Context) {
	w.held.Store(false)
	if w.said != "" {
		w.said = ""
		w.log.WarnContext(ctx, "the quarantine has ended") // as visible as its start
	}
}

// open reports the first look that held nothing to those who wait for it.
func (w *Watch) open() {
	if !w.Held() {
		w.once.Do(func() { close(w.freed) })
	}
}

// Beat is to be called about every second by one process that works: its next look
// counts a beat, which all others then see.
func (w *Watch) Beat() { w.beats.Store(true) }

// read is the installation, with the beat that is to be counted. What counts none
// (the database is elsewhere, or a server that only reads) is read as it is. Each answer
// shows PostgreSQL's clock, too.
func (w *Watch) read(ctx context.Context) (now db.InstallationGetRow, err error) {
	if w.beats.Swap(false) {
		asked := w.Clock.Local()
		now, err := db.New().InstallationBeat(ctx, w.pool)
		switch {
		case err == nil:
			w.compare(ctx, asked, now.Now)
			return db.InstallationGetRow(now), nil
		case !postgres.NotFound(err) && !postgres.Unavailable(err) && ctx.Err() == nil:
			w.log.WarnContext(ctx, "the installation's beat was not written", "error", err)
		}
	}
	asked := w.Clock.Local()
	if now, err = read(ctx, w.pool); err == nil {
		w.compare(ctx, asked, now.Now)
	}
	return now, err
}

// read is the installation, which the first process enters.
func read(ctx context.Context, pool postgres.DB) (db.InstallationGetRow, error) {
	now, err := db.New().InstallationGet(ctx, pool)
	if postgres.NotFound(err) {
		if err := db.New().InstallationInsert(ctx, pool); err != nil {
			return now, fmt.Errorf("enter the installation: %w", err)
		}
		now, err = db.New().InstallationGet(ctx, pool)
	}
	if err != nil {
		return now, fmt.Errorf("read the installation: %w", err)
	}
	return now, nil
}
