package billing_test

import (
	"testing"
	"testing/synctest"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/account/workspace"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/local/pgtest"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// Checkpoints and cursors rely on the order of these IDs. The clock in a synctest bubble starts
// in the year 2000, like the clock of a machine with a wrong date.
func TestIDsOfPostingsAndAuditEventsUsePostgreSQLsClock(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		conn, err := pgxpool.New(ctx, dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		var books billing.Books
		id, err := workspace.Create(ctx, conn, workspace.CreateParams{Name: "a", Plan: plan.Growth, Paid: 5 * credit.Scale}) // GRANT
		if err != nil {
			t.Fatal(err)
		}
		if err := books.Renew(ctx, conn, id); err != nil { // RELEASE
			t.Fatal(err)
		}
		if _, err := books.Grant(ctx, conn, billing.Grant{WorkspaceID: id, Amount: 1, Reference: "invoice 1"}); err != nil {
			t.Fatal(err)
		}
		err = postgres.InTx(ctx, conn, nil, func(tx *postgres.Tx) error {
			books.QueueSettle(tx.AtCommit(), []billing.Charge{
				{WorkspaceID: id, ExecutionID: uuid.New(), Amount: 1}, {WorkspaceID: id, ExecutionID: uuid.New(), Amount: 2}, {WorkspaceID: id, ExecutionID: uuid.New(), Amount: 3},
			})
			books.QueueSettleRun(tx.AtCommit(), billing.Charge{WorkspaceID: id, ExecutionID: uuid.New(), Amount: 4})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct{ what, sql, want string }{
			{"kinds of postings in the order of their IDs", "SELECT string_agg(kind, ' ' ORDER BY id) FROM credit_postings", "GRANT RELEASE GRANT EXECUTION EXECUTION EXECUTION RUN"},
			{"charges in the order of their IDs", "SELECT string_agg(usage::text, ' ' ORDER BY id) FROM credit_postings WHERE usage > 0", "1 2 3 4"},
			{"postings with another time in the ID", "SELECT count(*)::text FROM credit_postings WHERE abs(extract(epoch FROM time_of(id) - now())) > 3600", "0"},
			{"audit events with another time in the ID", "SELECT count(*)::text FROM audit_events WHERE abs(extract(epoch FROM time_of(id) - now())) > 3600", "0"},
			{"audit events", "SELECT count(*)::text FROM audit_events", "2"},
		} {
			var got string
			if err := conn.QueryRow(ctx, c.sql).Scan(&got); err != nil || got != c.want {
				t.Errorf("%s: %s, %v; want %s", c.what, got, err, c.want)
			}
		}
	})
}
