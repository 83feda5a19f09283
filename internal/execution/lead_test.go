package execution

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weft-automation/weft/internal/local/pgtest"
)

// A process that may not lead releases the lead. If it does not have the lead, it does not try to,
// so PostgreSQL logs no warning.
func TestAProcessThatMayNotLeadReleasesTheLead(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	var notices []string
	session := func() *pgx.Conn {
		config, err := pgx.ParseConfig(dsn)
		if err != nil {
			t.Fatal(err)
		}
		config.OnNotice = func(_ *pgconn.PgConn, notice *pgconn.Notice) { notices = append(notices, notice.Message) }
		conn, err := pgx.ConnectConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close(t.Context()) })
		return conn
	}
	one, other := session(), session()
	for i, step := range []struct {
		conn           *pgx.Conn
		mayLead, leads bool
	}{{one, true, true}, {other, true, false}, {one, false, false}, {one, false, false}, {other, true, true}, {one, true, false}} {
		if b, err := beat(t.Context(), step.conn, 0, step.mayLead); err != nil || b.leads != step.leads {
			t.Errorf("beat %d: leads: %v, %v", i, b.leads, err)
		}
	}
	if len(notices) > 0 {
		t.Errorf("PostgreSQL warns: %q", notices)
	}
}
