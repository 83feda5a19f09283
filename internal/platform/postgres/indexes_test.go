package postgres_test

import (
	"testing"

	"github.com/weft-automation/weft/internal/local/pgtest"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// An index that a migration declares is built in every partition, even after an interrupted
// build. Complete indexes are not rebuilt.
func TestAnIndexOfAPartitionedTableIsCompleted(t *testing.T) {
	dsn := pgtest.DSN(t)
	pool, err := postgres.OpenWithoutTimeouts(t.Context(), dsn, "test", postgres.Owner, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	exec := func(sql string) {
		t.Helper()
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	var partitions, built int
	count := func() (valid bool) {
		t.Helper()
		err := pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM pg_inherits WHERE inhparent = 'component_executions'::regclass),
			(SELECT count(*) FROM pg_inherits WHERE inhparent = x.indexrelid), x.indisvalid
			FROM pg_index x WHERE x.indexrelid = 'later_component_executions'::regclass`).Scan(&partitions, &built, &valid)
		if err != nil {
			t.Fatal(err)
		}
		return valid
	}
	exec("CREATE INDEX later_component_executions ON ONLY component_executions (created_at) WHERE parked")
	exec("CREATE INDEX component_executions_default_later ON component_executions_default (id)") // left by an interrupted build
	exec("CREATE TABLE component_executions_late (LIKE component_executions INCLUDING ALL)")
	exec(`ALTER TABLE component_executions ATTACH PARTITION component_executions_late
		FOR VALUES FROM ('ffffffff-0000-7000-8000-000000000000') TO ('ffffffff-0000-7000-8000-000000000001')`)
	if count(); built != 1 {
		t.Fatalf("%d partitions have the index, want only the one that was created after it", built)
	}
	for range 2 {
		if err := postgres.Migrate(t.Context(), pool); err != nil {
			t.Fatal(err)
		}
		if valid := count(); !valid || built != partitions {
			t.Errorf("%d of %d partitions have the index, valid %v", built, partitions, valid)
		}
	}
}
