package quarantine

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// Status is the information that an operator needs before a release. Work that is unfinished in
// a restored database may have finished after the backup was made.
type Status struct {
	Since  *time.Time // nil if there is no quarantine
	Reason string
	// Elsewhere means that the database isn't at its known place, and that no process has
	// started the quarantine yet.
	Elsewhere bool

	Executions []Undone // unfinished executions, by repeat rule
	Runs       int64    // unfinished runs
	Unfrozen   int64    // callbacks of unfinished executions: they get a different webhook-id
	Queued     int64    // callbacks that are due: they are sent unchanged, perhaps for a second time
}

// Undone counts the unfinished executions of one repeat rule.
type Undone struct {
	Rule      string
	Created   int64
	Executing int64
	Held      int64 // part of Executing: held by a worker when the backup was made
}

// Unfinished returns the number of unfinished executions.
func (s Status) Unfinished() (n int64) {
	for _, u := range s.Executions {
		n += u.Created + u.Executing
	}
	return n
}

// Unsafe returns the number of unfinished executions that are not safe to repeat.
func (s Status) Unsafe() (n int64) {
	for _, u := range s.Executions {
		if u.Rule == unsafe {
			n += u.Created + u.Executing
		}
	}
	return n
}

// UnsafeHeld returns how many of Unsafe a worker held when the backup was made. If the worker no
// longer exists, a release fails these executions with WORKER_LOST.
func (s Status) UnsafeHeld() (n int64) {
	for _, u := range s.Executions {
		if u.Rule == unsafe {
			n += u.Held
		}
	}
	return n
}

// unsafe is the repeat rule of calls that must not be made twice.
const unsafe = "unsafe"

// StatusOf reads the status from the database.
func StatusOf(ctx context.Context, pool postgres.DB) (Status, error) {
	now, err := read(ctx, pool)
	if err != nil {
		return Status{}, err
	}
	executions, err := db.New().InstallationCountUnfinished(ctx, pool)
	if err != nil {
		return Status{}, fmt.Errorf("count unfinished executions: %w", err)
	}
	pending, err := db.New().InstallationCountPending(ctx, pool)
	if err != nil {
		return Status{}, fmt.Errorf("count unfinished runs and callbacks: %w", err)
	}
	status := Status{
		Since: now.QuarantinedAt, Elsewhere: now.QuarantinedAt == nil && (now.Place != now.PlaceNow || now.Timeline != now.TimelineNow),
		Runs: pending.Runs, Unfrozen: pending.Unfrozen, Queued: pending.Queued,
	}
	for _, row := range executions {
		status.Executions = append(status.Executions, Undone{Rule: row.RepeatRule, Created: row.Created, Executing: row.Executing, Held: row.Held})
	}
	if now.Reason != nil {
		status.Reason = *now.Reason
	}
	return status, nil
}

const (
	pageSize   = 500
	longEnough = 10 * time.Minute // for a statement over all unfinished executions
)

// List calls visit for all work that continues after a release: unfinished executions, unfinished
// runs and callbacks that are due, in the order of their IDs within each kind.
func List(ctx context.Context, pool postgres.DB, visit func(db.InstallationListUnfinishedRow) error) error {
	for _, kind := range []string{"execution", "run", "callback"} {
		if err := list(ctx, pool, kind, visit); err != nil {
			return err
		}
	}
	return nil
}

// ListRuns is List for unfinished runs only.
func ListRuns(ctx context.Context, pool postgres.DB, visit func(db.InstallationListUnfinishedRow) error) error {
	return list(ctx, pool, "run", visit)
}

func list(ctx context.Context, pool postgres.DB, kind string, visit func(db.InstallationListUnfinishedRow) error) error {
	p := db.InstallationListUnfinishedParams{Kind: kind, MaxRows: pageSize}
	for {
		page, err := db.New().InstallationListUnfinished(ctx, pool, p)
		if err != nil {
			return fmt.Errorf("list unfinished work: %w", err)
		}
		for _, row := range page {
			if err := visit(row); err != nil {
				return err
			}
			p.After = row.ID
		}
		if len(page) < pageSize {
			return nil
		}
	}
}

// Start puts the database in quarantine. Within two seconds no process starts new work; calls in
// flight finish. It returns false and changes nothing if the database is already in
// quarantine.
func Start(ctx context.Context, pool postgres.DB, reason string) (started bool, err error) {
	if _, err := read(ctx, pool); err != nil {
		return false, err
	}
	n, err := db.New().InstallationQuarantine(ctx, pool, &reason)
	if err != nil {
		return false, fmt.Errorf("start the quarantine: %w", err)
	}
	return n > 0, nil
}

// CancelRuns requests the cancellation of all unfinished runs, in transactions of up to
// 500. It returns the number of runs. They become CANCELED after the release.
func CancelRuns(ctx context.Context, pool postgres.DB, reason string) (canceled int64, err error) {
	for {
		n, err := db.New().RunCancelUnfinished(ctx, pool, db.RunCancelUnfinishedParams{Reason: reason, MaxRows: pageSize})
		canceled += n
		if err != nil {
			return canceled, fmt.Errorf("cancel unfinished runs: %w", err)
		}
		if n < pageSize {
			return canceled, nil
		}
	}
}

// Release ends the quarantine. In the same transaction, the callbacks of unfinished executions
// get a different webhook-id, because receivers may have received these callbacks with a
// different body. It returns false if there was no quarantine.
func Release(ctx context.Context, pool postgres.DB) (released bool, err error) {
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, fmt.Sprintf("SET LOCAL statement_timeout = %d", longEnough.Milliseconds())); err != nil {
			return err
		}
		n, err := db.New().InstallationRelease(ctx, tx)
		if err != nil || n == 0 {
			return err
		}
		released = true
		_, err = db.New().CallbackCountRestore(ctx, tx)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("end the quarantine: %w", err)
	}
	return released, nil
}
