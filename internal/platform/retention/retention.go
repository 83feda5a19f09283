// Package retention creates the weekly partitions of executions and runs, and drops whole weeks once
// their retention time is over.
//
// It deletes no individual rows of these tables and never changes the ledger. It never drops rows that
// are not final, not delivered yet, or younger than the retention time.
//
// # How a week is dropped
//
// Executions, callbacks and attempts belong to the week of the execution's ID. Runs, stages, events and
// signals belong to the week of the run's ID. Upkeep creates the partitions of this week and the next
// three. For each past week, upkeep records the time at which it first found all rows final and
// delivered. Once that time is older than the retention time, the week's tables are dropped in one
// transaction, which waits at most 25 ms for each lock and is retried a second later. Rows whose week
// had no partition are in the default partitions; upkeep warns about these rows and moves them.
package retention

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/platform/telemetry"
)

const (
	// Default is how long executions and runs are kept after their end.
	Default = 30 * 24 * time.Hour
	// Least is the shortest retention time that can be configured. Only whole weeks are dropped,
	// and only once this time has passed since the end of the week.
	Least = 24 * time.Hour

	ahead      = 3 // coming weeks whose partitions are created in advance
	keepEvery  = time.Hour
	retryAfter = time.Second // after a table was in use
	failedWait = time.Minute

	// Statements wait behind a lock that waits. So the first attempt waits briefly, and only attempts to
	// create the partitions of the first weeks (this one and the next) become patient. They remain below
	// deadlock_timeout, so that the attempt gives way in a deadlock and no request does.
	firstWeeks    = 2
	leastPatience = 25 * time.Millisecond
	mostPatience  = 800 * time.Millisecond
	// After that many attempts, something holds a table for long, such as pg_dump. The next attempts
	// follow after a pause, so that requests aren't delayed all the time.
	manyAttempts = 12
	longPause    = 10 * time.Second
)

// Keeper manages the partitions. Only the keeper of one process works at a time.
type Keeper struct {
	db      postgres.DB
	kept    time.Duration
	metrics *telemetry.Metrics
	log     *slog.Logger
	due     time.Time

	attempts int // that failed to create the partitions of the first weeks, since the last success
}

// NewKeeper returns a keeper with the given retention time, which must be at least Least; 0
// means Default. metrics may be nil.
func NewKeeper(conn postgres.DB, kept time.Duration, metrics *telemetry.Metrics, log *slog.Logger) *Keeper {
	if kept == 0 {
		kept = Default
	}
	return &Keeper{db: conn, kept: max(kept, Least), metrics: metrics, log: log}
}

// Sweep creates and drops the partitions that are due. Call it about every second from one
// goroutine, in the one process that does upkeep. It does its work once an hour, and retries
// after a second if a table is in use. It logs failures.
func (k *Keeper) Sweep(ctx context.Context) {
	if time.Now().Before(k.due) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	dropped, err := k.Keep(ctx)
	busy := inUse(err)
	switch {
	case err == nil:
		k.due = time.Now().Add(keepEvery)
	case busy && k.attempts > manyAttempts:
		k.due = time.Now().Add(longPause)
	case busy:
		k.due = time.Now().Add(retryAfter)
	default:
		k.due = time.Now().Add(failedWait)
	}
	if busy {
		err = nil
	}
	k.metrics.Swept("retention", dropped, err)
	if err != nil && ctx.Err() == nil {
		k.log.WarnContext(ctx, "upkeep failed", "kind", "retention", "error", err)
	}
}

// Keep does one round: it creates the partitions of this week and the coming ones, moves rows out
// of the default partitions, drops old weeks, and deletes the trees of finished runs. It returns
// the number of dropped weeks. It may return an error because a table was in use; the work that
// it did before the error is kept.
func (k *Keeper) Keep(ctx context.Context) (dropped int, err error) {
	q := db.New()
	found, err := q.PartitionsDefaultRows(ctx, k.db)
	if err != nil {
		return 0, fmt.Errorf("count rows in the default partitions: %w", err)
	}
	k.metrics.InDefaultPartitions(found)
	for week := range int32(ahead + 1) {
		if err := k.create(ctx, week); err != nil {
			return 0, err
		}
	}
	if found > 0 {
		if err := k.move(ctx, found); err != nil {
			return 0, err
		}
	}
	if err := q.PartitionsRecordFinal(ctx, k.db); err != nil {
		return 0, fmt.Errorf("find final weeks: %w", err)
	}
	weeks, err := q.PartitionsListFinal(ctx, k.db, k.kept)
	if err != nil {
		return 0, fmt.Errorf("list final weeks: %w", err)
	}
	for _, week := range weeks {
		gone, err := q.PartitionsDrop(ctx, k.db, db.PartitionsDropParams{Week: week, Kept: k.kept})
		if err != nil {
			return dropped, fmt.Errorf("drop the week of %s: %w", week.Format(time.DateOnly), err)
		}
		if gone {
			dropped++
			k.log.InfoContext(ctx, "dropped a week of executions", "week", week.Format(time.DateOnly))
		}
	}
	if _, err := q.RunTreeDeleteOrphaned(ctx, k.db); err != nil {
		return dropped, fmt.Errorf("delete trees of finished runs: %w", err)
	}
	return dropped, nil
}

// create creates the partitions of the week that is the given number of weeks ahead. While the tables
// are in use, each call for one of the first weeks waits longer for them than the call before.
func (k *Keeper) create(ctx context.Context, week int32) error {
	patience := leastPatience
	if week < firstWeeks {
		patience = min(leastPatience<<min(k.attempts, manyAttempts), mostPatience)
	}
	made, err := db.New().PartitionsCreateAhead(ctx, k.db, db.PartitionsCreateAheadParams{Days: 7 * week, Patience: patience})
	switch {
	case err == nil && made:
		k.log.InfoContext(ctx, "created the partitions of a week", "weeks_ahead", week, "failed_attempts", k.attempts)
		k.attempts = 0
	case week < firstWeeks && inUse(err):
		if k.attempts++; k.attempts == 1 || k.attempts%10 == 0 {
			k.log.WarnContext(ctx, "the partitions of a week are missing and their tables are in use; trying again", "weeks_ahead", week, "failed_attempts", k.attempts)
		}
	}
	if err != nil {
		return fmt.Errorf("create the partitions of a coming week: %w", err)
	}
	return nil
}

// move moves the rows of the default partitions, which are never dropped, into partitions of their week.
func (k *Keeper) move(ctx context.Context, found int64) error {
	k.log.WarnContext(ctx, "moving executions or runs that are outside of all weekly partitions", "count", found)
	weeks, err := db.New().PartitionsDefaultWeeks(ctx, k.db)
	if err != nil {
		return fmt.Errorf("list the weeks of the default partitions: %w", err)
	}
	for _, week := range weeks {
		if err := db.New().PartitionsCreate(ctx, k.db, week); err != nil {
			return fmt.Errorf("create the partitions of the week of %s: %w", week.Format(time.DateOnly), err)
		}
	}
	return nil
}

// inUse reports whether err means that a lock wasn't available in time.
func inUse(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (e.Code == "55P03" || e.Code == "40P01")
}
