package billing_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/internal/billing"
	"github.com/weft-automation/weft/internal/credit"
	"github.com/weft-automation/weft/internal/plan"
	"github.com/weft-automation/weft/internal/postgres"
)

// failing is a database that refuses one of the transactions that are begun.
type failing struct {
	postgres.DB
	begun, fails int
}

func (f *failing) Begin(ctx context.Context) (pgx.Tx, error) {
	if f.begun++; f.begun == f.fails {
		return nil, errors.New("it took too long")
	}
	return f.DB.Begin(ctx)
}

// Each workspace is looked at by itself: one that cannot be keeps nobody from
// learning of the others, nor vacuum from its work for longer than one takes.
func TestAnAuditGoesOnWithTheOthersWhenOneFails(t *testing.T) {
	t.Parallel()
	d := newDesk(t, noon)
	ids := []uuid.UUID{d.open("a", plan.Starter, 0), d.open("b", plan.Starter, 0), d.open("c", plan.Starter, credit.Credits(1))}
	if _, err := d.pool.Exec(t.Context(), "UPDATE credit_accounts SET paid = paid + 5 WHERE workspace_id = ANY ($1)", ids[1:]); err != nil {
		t.Fatal(err)
	}
	conn := &failing{DB: d.pool, fails: 2}
	broken, workspaces, err := billing.Audit(t.Context(), conn, uuid.Nil)
	if err == nil || !strings.Contains(err.Error(), "1 of 3 workspaces") || !strings.Contains(err.Error(), ids[1].String()) {
		t.Errorf("the failure: %v", err)
	}
	if workspaces != 2 || len(broken) != 1 || broken[0].WorkspaceID != ids[2] || conn.begun != 3 {
		t.Errorf("%v in %d workspaces, %d snapshots", broken, workspaces, conn.begun)
	}
}
