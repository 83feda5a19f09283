package telemetry

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/local/pgtest"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// PostgreSQL shows the start of a transaction only to its own user and to superusers.
func TestTheOldestTransactionOfAnotherUserIsSeen(t *testing.T) {
	dsn := pgtest.DSN(t)
	pool, err := postgres.Open(t.Context(), dsn, "test", postgres.System, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	other, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close(t.Context()) }()
	// What Weft's user sees of itself: nothing.
	read := withOldest(pool, func() ([]float64, error) { return make([]float64, 5), nil })
	age := func() float64 {
		t.Helper()
		values, err := read()
		if err != nil {
			t.Fatal(err)
		}
		return values[oldestAt]
	}
	if got := age(); got != 0 {
		t.Errorf("%v without a transaction", got)
	}
	if _, err := other.Exec(t.Context(), "BEGIN; SELECT FROM workspaces"); err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, "the age to grow", func() bool { return age() > 0.05 })
	if _, err := other.Exec(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	if got := age(); got != 0 {
		t.Errorf("%v after its end", got)
	}
}
