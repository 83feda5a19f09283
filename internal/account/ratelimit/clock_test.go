package ratelimit

import (
	"testing"
	"time"

	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/local/pgtest"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// skewable returns a database whose clock the test can set. Setting it makes the clocks of the
// nodes differ from the database's clock.
func skewable(t *testing.T) (dsn string, ahead func(time.Duration)) {
	t.Helper()
	dsn = pgtest.DSN(t)
	owner := open(t, dsn, postgres.Owner)
	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := owner.Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec(`CREATE SCHEMA skewed`)
	exec(`CREATE TABLE skewed.clock AS SELECT interval '0' AS ahead`)
	// Sessions of Weft search pg_catalog first, so the test replaces the function there.
	exec(`ALTER FUNCTION pg_catalog.clock_timestamp() RENAME TO true_clock_timestamp`)
	exec(`CREATE FUNCTION pg_catalog.clock_timestamp() RETURNS timestamptz LANGUAGE sql
		AS 'SELECT pg_catalog.true_clock_timestamp() + ahead FROM skewed.clock'`)
	exec(`GRANT USAGE ON SCHEMA skewed TO PUBLIC`)
	exec(`GRANT SELECT ON skewed.clock TO PUBLIC`)
	return dsn, func(by time.Duration) { exec("UPDATE skewed.clock SET ahead = $1", by) }
}

// The clocks of two nodes are an hour off. The database's clock decides: together the nodes admit
// no more than the limit, and a client that waits for Retry-After is admitted although no time
// has passed on the nodes.
func TestRL05TheClockOfANodeDecidesNothing(t *testing.T) {
	dsn, ahead := skewable(t)
	n := startOn(t, dsn, 2, patient)
	for way, off := range map[string]time.Duration{"the nodes are behind": time.Hour, "the nodes are ahead": -time.Hour} {
		t.Run(way, func(t *testing.T) {
			ahead(off)
			id := n.workspace(t, plan.Starter, "custom_rps = 100, custom_rph = 5")
			for i := range 5 {
				if d := n.limiters[i%2].Take(t.Context(), id, 1); !d.Allowed {
					t.Fatalf("request %d: %+v", i, d)
				}
			}
			var wait time.Duration
			for i, l := range n.limiters {
				d := l.Take(t.Context(), id, 1)
				if d.Allowed || d.Wait > time.Hour+time.Minute {
					t.Fatalf("node %d after all was used: %+v", i, d)
				}
				wait = max(wait, d.Wait)
			}
			var at time.Time
			if err := n.owner.QueryRow(t.Context(), "SELECT updated_at FROM rate_limits WHERE workspace_id = $1", id).Scan(&at); err != nil {
				t.Fatal(err)
			}
			if got := time.Until(at); (got - off).Abs() > time.Minute {
				t.Fatalf("the state is of %v from now, want %v", got, off)
			}
			ahead(off + wait)
			for _, l := range n.limiters {
				waittest.Until(t, "it is let in", func() bool { return l.Take(t.Context(), id, 1).Allowed })
			}
		})
	}
}
