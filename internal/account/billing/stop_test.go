package billing_test

import (
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/waittest"
)

// Whoever changes a plan locks the account and then the workspace. What stops and
// resumes changes both, and takes them in that order too: nobody waits in a circle.
func TestStoppingAndResumingLockTheAccountFirst(t *testing.T) {
	t.Parallel()
	d := newDeskOf(t, 4, noon)
	id := d.open("a", plan.Starter, credit.Credits(10))
	spoil := func(paid int) {
		t.Helper()
		if _, err := d.pool.Exec(t.Context(), "UPDATE credit_accounts SET paid = paid + $2 WHERE workspace_id = $1", id, paid); err != nil {
			t.Fatal(err)
		}
	}
	spoil(3)
	broken, _, err := billing.Audit(t.Context(), d.pool, id)
	if err != nil || len(broken) == 0 {
		t.Fatalf("%v, %v", broken, err)
	}
	d.besidePlanChange(id, func() ([]uuid.UUID, error) { return billing.Stop(t.Context(), d.pool, broken) })
	spoil(-3)
	d.besidePlanChange(id, func() ([]uuid.UUID, error) { return billing.Resume(t.Context(), d.pool, id) })
}

// besidePlanChange has judge change the workspace while a plan change is between its
// two locks. Both have to come through.
func (d *desk) besidePlanChange(id uuid.UUID, judge func() ([]uuid.UUID, error)) {
	d.t.Helper()
	type verdict struct {
		now []uuid.UUID
		err error
	}
	judged := make(chan verdict, 1)
	err := d.tx(func(tx pgx.Tx) error {
		if _, err := tx.Exec(d.t.Context(), "SELECT FROM credit_accounts WHERE workspace_id = $1 FOR NO KEY UPDATE", id); err != nil {
			return err
		}
		go func() {
			now, err := judge()
			judged <- verdict{now, err}
		}()
		waittest.Until(d.t, "somebody waits for the account", func() bool {
			return d.text("SELECT count(*)::text FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") != "0"
		})
		_, err := tx.Exec(d.t.Context(), "UPDATE workspaces SET plan = 'growth' WHERE id = $1", id)
		return err
	})
	if err != nil {
		d.t.Errorf("the change of the plan: %v", err)
	}
	if v := <-judged; v.err != nil || !slices.Equal(v.now, []uuid.UUID{id}) {
		d.t.Errorf("judged %v, %v", v.now, v.err)
	}
}
