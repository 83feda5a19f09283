// Package quarantine decides whether this process may start work on this database. A database that
// was restored from a backup has lost the record of work that was already done.
//
// The package holds a restored database until an operator releases the database. It also holds a
// process whose clock differs from the database's. It doesn't stop any work itself: code that
// starts work calls Held. Work is held until a poll finds the database at the place recorded in it.
// If the places differ, work is held until an operator releases the database. A process polls once
// per second, and also before it uses the first session on a server that may lack commits: Admit.
package quarantine

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/uuid7"
	"github.com/weft-automation/weft/internal/platform/clock"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

const (
	pollEvery   = time.Second
	pollTimeout = 5 * time.Second

	// followWithin is how long a new process waits for an older process to confirm that a new
	// timeline has all commits.
	followWithin = 5 * time.Second
)

// Watch monitors the quarantine in one process.
type Watch struct {
	pool *pgxpool.Pool
	log  *slog.Logger

	// Clock is compared with PostgreSQL's clock at each poll. The clocks may differ by at most
	// Tolerance; if Clock is nil, they are not compared. Set both fields before the first poll.
	Clock     *clock.Clock
	Tolerance time.Duration
	// IDs takes its time from each comparison, and makes none while the clocks differ. It may be nil.
	IDs *uuid7.Maker

	held   atomic.Bool
	adrift atomic.Bool   // the clock differs by more than Tolerance
	beats  atomic.Bool   // the next poll increments the beat
	freed  chan struct{} // closed when work may start for the first time
	once   sync.Once

	mu       sync.Mutex // held by judge
	seen     int64      // the last beat of a database in order, or noBeat
	doubt    time.Time  // when the new timeline was first seen
	released time.Time  // when the last quarantine ended
	logged   string     // the reason that was logged last

	position position
	soon     chan struct{} // triggers a poll
}

// noBeat is the value of seen before the process has found the database in order.
const noBeat = -1

// NewWatch returns a watch that holds everything until Poll has found the database in order.
func NewWatch(pool *pgxpool.Pool, log *slog.Logger) *Watch {
	w := &Watch{pool: pool, log: log, freed: make(chan struct{}), soon: make(chan struct{}, 1), seen: noBeat}
	w.held.Store(true)
	return w
}

// Held reports whether work must not start: neither components nor callbacks. It is false for a
// nil Watch.
func (w *Watch) Held() bool { return w != nil && (w.held.Load() || w.adrift.Load()) }

// Freed returns a channel that is closed when work may start for the first time.
func (w *Watch) Freed() <-chan struct{} { return w.freed }

// errHeld rejects new executions and runs. A second restore would lose them.
var errHeld = &fault.Error{
	Code: fault.Unavailable, Reason: "quarantined", RetryAfter: time.Minute,
	Message: "The database is in quarantine: it accepts no new executions or runs until its operator releases it. Reads and other changes work.",
}

// Check returns an UNAVAILABLE error while no work may be accepted or started: the error of
// CheckRestore or of CheckClock.
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

// Run polls every second until ctx is done. While the database is unavailable, the last result
// stays in force.
func (w *Watch) Run(ctx context.Context) {
	pause := pollEvery
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
			pause = pollEvery
		case <-w.soon:
			pause = 2 * pollEvery // the next beat triggers the next poll
		}
		if err := w.Poll(ctx); err != nil && ctx.Err() == nil && !postgres.Unavailable(err) {
			w.log.WarnContext(ctx, "could not check the quarantine", "error", err)
		}
	}
}

// Poll compares the place of the database with its known place, and starts the quarantine if the
// two differ.
func (w *Watch) Poll(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	session, err := w.pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("read the installation: %w", err)
	}
	defer session.Release()
	return w.judge(ctx, session)
}

// judge is Poll on the given session. It uses no other session: opening one may call judge.
func (w *Watch) judge(ctx context.Context, session postgres.DB) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	now, err := w.read(ctx, session)
	if err != nil {
		return err
	}
	defer w.open()
	if now.ReleasedAt != nil && !now.ReleasedAt.Equal(w.released) {
		w.seen, w.doubt, w.released = noBeat, time.Time{}, *now.ReleasedAt
		w.position.forget()
	}
	switch {
	case now.QuarantinedAt != nil:
		w.hold(ctx, *now.Reason)
	case now.Place != now.PlaceNow:
		return w.start(ctx, session, now, fmt.Sprintf("the database was at %s and is now at %s: it was copied, or restored from a dump", now.Place, now.PlaceNow))
	case now.Beat < w.seen:
		return w.start(ctx, session, now, "the database lacks changes that this process has already seen: an older state came back")
	case w.position.lost(serverOf(now)) != "":
		return w.start(ctx, session, now, w.position.lost(serverOf(now)))
	case now.Timeline == now.TimelineNow:
		w.seen, w.doubt = now.Beat, time.Time{}
		w.position.follow(serverOf(now), now.PlaceNow, now.Flushed)
		w.free(ctx)
	case now.TimelineNow != 0: // 0 means that the server is still recovering, and accepts no work
		return w.handleNewTimeline(ctx, session, now)
	}
	return nil
}

// handleNewTimeline decides whether a new timeline has all commits. A process that ran before
// the change compares the timeline with its last position: either a standby took over with all
// commits, or an older state was restored.
func (w *Watch) handleNewTimeline(ctx context.Context, session postgres.DB, now db.InstallationGetRow) error {
	switch {
	case w.seen != noBeat:
		n, err := db.New().InstallationSetTimeline(ctx, session, db.InstallationSetTimelineParams{Timeline: now.Timeline, Beat: now.Beat})
		if err == nil && n > 0 {
			w.log.WarnContext(ctx, "another server took over with everything that this process has seen; work continues", "timeline", now.TimelineNow)
		}
		return err
	case w.doubt.IsZero():
		w.doubt = time.Now()
		return nil
	case time.Since(w.doubt) < followWithin:
		return nil
	}
	return w.start(ctx, session, now, fmt.Sprintf("the database was on timeline %d and is now on %d: it was restored, or a standby took over that lacked the last writes", now.Timeline, now.TimelineNow))
}

// start starts a quarantine for the given installation. If the installation changed in the
// meantime, start does nothing and the next poll decides.
func (w *Watch) start(ctx context.Context, session postgres.DB, judged db.InstallationGetRow, reason string) error {
	w.held.Store(true)
	n, err := db.New().InstallationQuarantineUnchanged(ctx, session, db.InstallationQuarantineUnchangedParams{
		Reason: &reason, Place: judged.Place, Timeline: judged.Timeline, ReleasedAt: judged.ReleasedAt,
	})
	if err != nil {
		return fmt.Errorf("start the quarantine: %w", err)
	}
	if n > 0 {
		w.hold(ctx, reason)
	}
	return nil
}

func (w *Watch) hold(ctx context.Context, reason string) {
	w.held.Store(true)
	if w.logged != reason {
		w.logged = reason
		w.log.ErrorContext(ctx, "THE DATABASE IS IN QUARANTINE: no component runs and no callback is sent until `weft quarantine release`", "reason", reason)
	}
}

func (w *Watch) free(ctx context.Context) {
	w.held.Store(false)
	if w.logged != "" {
		w.logged = ""
		w.log.WarnContext(ctx, "the quarantine has ended") // at the same level as the message about the start
	}
}

// open closes freed once no work is held.
func (w *Watch) open() {
	if !w.Held() {
		w.once.Do(func() { close(w.freed) })
	}
}

// Beat makes the next poll increment the beat, which other processes see. One working process
// calls Beat about every second, after its upkeep, so that the poll also reads the position that
// the upkeep left.
func (w *Watch) Beat() { w.beats.Store(true) }

// read returns the installation and increments the beat if an increment is due. If the beat
// can't be incremented (the database is elsewhere, or the server is read-only), read returns the
// installation unchanged. Each result also has the time of PostgreSQL's clock.
func (w *Watch) read(ctx context.Context, session postgres.DB) (now db.InstallationGetRow, err error) {
	if w.beats.Swap(false) {
		asked := w.Clock.Local()
		now, err := db.New().InstallationBeat(ctx, session)
		switch {
		case err == nil:
			w.compare(ctx, asked, now.Now)
			return db.InstallationGetRow(now), nil
		case !postgres.NotFound(err) && !postgres.Unavailable(err) && ctx.Err() == nil:
			w.log.WarnContext(ctx, "could not increment the installation's beat", "error", err)
		}
	}
	asked := w.Clock.Local()
	if now, err = read(ctx, session); err == nil {
		w.compare(ctx, asked, now.Now)
	}
	return now, err
}

// read returns the installation. The first process creates it.
func read(ctx context.Context, pool postgres.DB) (db.InstallationGetRow, error) {
	now, err := db.New().InstallationGet(ctx, pool)
	if postgres.NotFound(err) {
		if err := db.New().InstallationInsert(ctx, pool); err != nil {
			return now, fmt.Errorf("create the installation: %w", err)
		}
		now, err = db.New().InstallationGet(ctx, pool)
	}
	if err != nil {
		return now, fmt.Errorf("read the installation: %w", err)
	}
	return now, nil
}
