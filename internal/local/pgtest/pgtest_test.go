//go:build linux

package pgtest_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/weft-automation/weft/internal/local/pgtest"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEachDatabaseIsMigratedAndSeparate(t *testing.T) {
	for _, name := range []string{"one", "two", "three"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.DB(t)
			if err := postgres.CheckSchema(t.Context(), pool); err != nil {
				t.Error(err)
			}
			if _, err := pool.Exec(t.Context(), "CREATE TABLE mine ()"); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestATransactionIsRolledBack(t *testing.T) {
	for range 2 {
		t.Run("alone", func(t *testing.T) {
			if _, err := pgtest.Tx(t).Exec(t.Context(), "CREATE TABLE mine ()"); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestDatabaseIsDroppedAfterItsTest(t *testing.T) {
	var dsn string
	t.Run("user", func(t *testing.T) { dsn = pgtest.DSN(t) })
	if conn, err := postgres.Connect(t.Context(), dsn, "test"); err == nil {
		t.Errorf("the database is still there: %v", conn.Close(t.Context()))
	}
}

func BenchmarkClone(b *testing.B) {
	for b.Loop() {
		pgtest.DSN(b)
	}
}
