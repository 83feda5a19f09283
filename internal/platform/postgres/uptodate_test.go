package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/local/pgtest"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// If no migration is due, Migrate finds that out with one query and doesn't wait for a lock.
// Otherwise it waits for the lock of migrations.
func TestMigrateDoesNotWaitIfNothingIsToDo(t *testing.T) {
	t.Parallel()
	pool := withoutTimeouts(t)
	for _, change := range []string{
		"UPDATE river.river_migration SET version = 1000 WHERE version = (SELECT max(version) FROM river.river_migration)",
		"CREATE INDEX river_job_args_index ON river.river_job USING gin (args)",
		"CREATE INDEX river_job_metadata_index ON river.river_job USING gin (metadata)",
		"CREATE INDEX later_component_executions ON ONLY component_executions (created_at)",
		"GRANT DELETE ON river.river_job TO weft_api",
		"GRANT SELECT ON river.river_queue TO weft_api",
		"GRANT UPDATE (args) ON river.river_job TO weft_api",
		"GRANT SELECT ON river.river_job TO weft_api WITH GRANT OPTION",
		"REVOKE INSERT ON river.river_job FROM weft_api",
		"REVOKE USAGE ON SEQUENCE river.river_job_id_seq FROM weft_api",
		"ALTER TABLE river.river_job DISABLE ROW LEVEL SECURITY",
		"ALTER POLICY of_workspace ON river.river_job USING (true)",
		"CREATE POLICY another ON river.river_job TO weft_api USING (true)",
		"DO $$ BEGIN EXECUTE format('GRANT TEMPORARY ON DATABASE %I TO PUBLIC', current_database()); END $$",
		"GRANT CREATE ON SCHEMA public TO PUBLIC",
		"UPDATE schema_migrations SET checksum = '' WHERE number = 3",
		"DELETE FROM schema_migrations WHERE number = 3",
		"INSERT INTO schema_migrations (number, name, checksum) VALUES (9999, 'later', '')",
		"ALTER TABLE schema_migrations DROP COLUMN expand",
		"DROP TABLE schema_migrations",
	} {
		tx, err := pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), change); err != nil {
			t.Fatalf("%s: %v", change, err)
		}
		if postgres.NothingToMigrate(t.Context(), tx) {
			t.Errorf("not detected: %s", change)
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	other, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Release()
	if _, err := other.Exec(t.Context(), "SELECT pg_advisory_lock(x'77656674'::bigint)"); err != nil {
		t.Fatal(err)
	}
	if err := postgres.Migrate(waittest.Context(t), pool); err != nil {
		t.Errorf("with nothing to do: %v", err)
	}
	if _, err := pool.Exec(t.Context(), "INSERT INTO schema_migrations (number, name, checksum, expand) VALUES (9999, 'later', '', true)"); err != nil {
		t.Fatal(err)
	}
	if err := postgres.Migrate(waittest.Context(t), pool); err != nil {
		t.Errorf("with an expanded schema: %v", err)
	}
	if _, err := pool.Exec(t.Context(), "GRANT DELETE ON river.river_job TO weft_api"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second) // Migrate waits until then
	defer cancel()
	if err := postgres.Migrate(ctx, pool); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("with something to do: %v", err)
	}
}

func withoutTimeouts(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool, err := postgres.OpenWithoutTimeouts(t.Context(), pgtest.DSN(t), "test", postgres.Owner, 4)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}
