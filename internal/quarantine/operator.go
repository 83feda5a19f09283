package quarantine

import (
	"context"
	"fmt"
	"time"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/postgres"
)

// Status is what an operator wants to know before a release.
type Status struct {
	Since  *time.Time // nil: there is no quarantine
	Reason string
	// Elsewhere: the database is not where it was known to live, and no process has
	// begun the quarantine yet.
	Elsewhere bool

	Executions int64 // not final: they go on
	Doubtful   int64 // of them under way when the state was taken, and not safe to repeat: they fail with WORKER_LOST
	Callbacks  int64 // to be delivered, some of them perhaps for the second time
}

// StatusOf reads the status.
func StatusOf(ctx context.Context, pool postgres.DB) (Status, error) {
	now, err := read(ctx, pool)
	if err != nil {
		return Status{}, err
	}
	undone, err := db.New().InstallationUndone(ctx, pool)
	if err != nil {
		return Status{}, fmt.Errorf("count what is undone: %w", err)
	}
	status := Status{
		Since: now.QuarantinedAt, Elsewhere: now.QuarantinedAt == nil && (now.Place != now.PlaceNow || now.Timeline != now.TimelineNow),
		Executions: undone.Executions, Doubtful: undone.Doubtful, Callbacks: undone.Callbacks,
	}
	if now.Reason != nil {
		status.Reason = *now.Reason
	}
	return status, nil
}

// Begin puts the database in quarantine, if it is in none: every process heeds
// it within two seconds. What is under way goes on to its end.
func Begin(ctx context.Context, pool postgres.DB, reason string) error {
	if _, err := read(ctx, pool); err != nil {
		return err
	}
	if _, err := db.New().InstallationQuarantine(ctx, pool, &reason); err != nil {
		return fmt.Errorf("begin the quarantine: %w", err)
	}
	return nil
}

// Release ends the quarantine. It returns false when there was none.
func Release(ctx context.Context, pool postgres.DB) (bool, error) {
	n, err := db.New().InstallationRelease(ctx, pool)
	if err != nil {
		return false, fmt.Errorf("end the quarantine: %w", err)
	}
	return n > 0, nil
}
