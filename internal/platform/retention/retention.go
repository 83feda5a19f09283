// Package retention creates the weekly partitions of executions and runs, and drops whole weeks
// once their retention time is over.
//
// It deletes no single row of these tables and never touches the ledger. The one invariant: what
// is not final, still to be delivered, or younger than the retention time is never dropped.
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
	// Least is the shortest time that may be asked for. A week goes as a whole,
	// and not before another has passed since it ended.
	Least = 24 * time.Hour

	ahead      = 3 // weeks that have their partitions before they begin
	keepEvery  = time.Hour
	retryAfter = time.Second // when a table was in use
	failedWait = time.Minute
)

// Keeper keeps the partitions. One process's keeper acts at a time.
type Keeper struct {
	db      postgres.DB
	kept    time.Duration
	metrics *telemetry.Metrics
	log     *slog.Logger
	due     time.Time
}

// NewKeeper makes a keeper that keeps what is final for so long, at least Least;
// 0 is Default. Metrics may be nil.
func NewKeeper(conn postgres.DB, kept time.Duration, metrics *telemetry.Metrics, log *slog.Logger) *Keeper {
	if kept == 0 {
		kept = Default
	}
	return &Keeper{db: conn, kept: max(kept, Least), metrics: metrics, log: log}
}

// Sweep makes and drops what is due. Call it about every second from one
// goroutine of the one process that sweeps: it acts once an hour, and again after
// a second while a table that it needs is in use. Failures are logged.
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

// Keep does one round: the partitions of this week and the coming ones, those of
// weeks that lie in the default partitions, the end of old weeks, and the trees of
// runs that have finished. It says how many weeks it dropped. An error may be that a table was in use: what was done
// by then stays done.
func (k *Keeper) Keep(ctx context.Context) (dropped int, err error) {
	q := db.New()
	found, err := q.PartitionsDefaultRows(ctx, k.db)
	if err != nil {
		return 0, fmt.Errorf("count rows in the default partitions: %w", err)
	}
	k.metrics.InDefaultPartitions(found)
	for week := range int32(ahead + 1) {
		if err := q.PartitionsCreateAhead(ctx, k.db, 7*week); err != nil {
			return 0, fmt.Errorf("make the partitions of a coming week: %w", err)
		}
	}
	if found > 0 {
		if err := k.move(ctx, found); err != nil {
			return 0, err
		}
	}
	if err := q.PartitionsRecordFinal(ctx, k.db); err != nil {
		return 0, fmt.Errorf("look for weeks that are final: %w", err)
	}
	weeks, err := q.PartitionsListFinal(ctx, k.db, k.kept)
	if err != nil {
		return 0, fmt.Errorf("list weeks that are final: %w", err)
	}
	for _, week := range weeks {
		gone, err := q.PartitionsDrop(ctx, k.db, db.PartitionsDropParams{Week: week, Kept: k.kept})
		if err != nil {
			return dropped, fmt.Errorf("drop the week of %s: %w", week.Format(time.DateOnly), err)
		}
		if gone {
			dropped++
			k.log.InfoContext(ctx, "a week of executions was dropped", "week", week.Format(time.DateOnly))
		}
	}
	if _, err := q.RunTreeDeleteOrphaned(ctx, k.db); err != nil {
		return dropped, fmt.Errorf("delete trees of finished runs: %w", err)
	}
	return dropped, nil
}

// move empties the default partitions: nothing there is ever dropped.
func (k *Keeper) move(ctx context.Context, found int64) error {
	k.log.WarnContext(ctx, "executions or runs lie in no week's partition and are moved", "count", found)
	weeks, err := db.New().PartitionsDefaultWeeks(ctx, k.db)
	if err != nil {
		return fmt.Errorf("list the weeks of the default partitions: %w", err)
	}
	for _, week := range weeks {
		if err := db.New().PartitionsCreate(ctx, k.db, week); err != nil {
			return fmt.Errorf("make the partitions of the week of %s: %w", week.Format(time.DateOnly), err)
		}
	}
	return nil
}

// inUse says that a lock was not to be had in the short time that is waited.
func inUse(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (e.Code == "55P03" || e.Code == "40P01")
}
