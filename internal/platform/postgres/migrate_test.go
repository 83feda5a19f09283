package postgres_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// A migration may lock tables in a different order than other transactions do. It retries if
// PostgreSQL aborts it because of a deadlock.
func TestAMigrationIsRetriedAfterADeadlock(t *testing.T) {
	t.Parallel()
	pool := withoutTimeouts(t)
	migrating, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer migrating.Release()
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	// PostgreSQL aborts the session that detects the deadlock first: the migration.
	if _, err := tx.Exec(t.Context(), "SET LOCAL deadlock_timeout = '1min'; LOCK TABLE workflow_runs IN ROW EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		done <- postgres.WithLockTimeout(t.Context(), migrating.Conn(), func(tx pgx.Tx) error {
			if _, err := tx.Exec(t.Context(), "LOCK TABLE credit_accounts"); err != nil {
				return err
			}
			_, err := tx.Exec(t.Context(), "LOCK TABLE workflow_runs")
			return err
		})
	}()
	waittest.Until(t, "the migration waits for the traffic", func() bool {
		var waits bool
		err := pool.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'workflow_runs'::regclass AND NOT granted)").Scan(&waits)
		return err == nil && waits
	})
	if _, err := tx.Exec(t.Context(), "LOCK TABLE credit_accounts IN ROW EXCLUSIVE MODE"); err != nil {
		t.Fatalf("the other transaction: %v", err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := waittest.Receive(t, "the end of the migration", done); err != nil {
		t.Errorf("the migration: %v", err)
	}
}
