package postgres_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weft-automation/weft/internal/platform/postgres"
)

// Timeouts that Weft sets, which a frozen process exceeds, are not the caller's fault.
func TestTimeoutsMakeTheDatabaseUnavailable(t *testing.T) {
	for code, want := range map[string]bool{
		"25P03": true, // idle_in_transaction_session_timeout
		"55P03": true, // lock_timeout
		"57014": true, // statement_timeout
		"23505": false,
		"25P02": false, // a statement after a failed statement
	} {
		if got := postgres.Unavailable(fmt.Errorf("write: %w", &pgconn.PgError{Code: code})); got != want {
			t.Errorf("%s: unavailable %v", code, got)
		}
	}
}
