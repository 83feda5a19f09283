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

// SetPlan locks the account and then the workspace. Stop and Resume use the same order, which
// prevents deadlocks.
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
	drifts, _, err := billing.Audit(t.Context(), d.pool, id)
	if err != nil || len(drifts) == 0 {
		t.Fatalf("%v, %v", drifts, err)
	}
	d.duringPlanChange(id, func() ([]uuid.UUID, error) { return billing.Stop(t.Context(), d.pool, drifts) })
	spoil(-3)
	d.duringPlanChange(id, func() ([]uuid.UUID, error) { return billing.Resume(t.Context(), d.pool, id) })
}

// duringPlanChange calls fn while a plan change holds the first of its two locks. Both must
// succeed.
func (d *desk) duringPlanChange(id uuid.UUID, fn func() ([]uuid.UUID, error)) {
	d.t.Helper()
	type result struct {
		now []uuid.UUID
		err error
	}
	changed := make(chan result, 1)
	err := d.tx(func(tx pgx.Tx) error {
		if _, err := tx.Exec(d.t.Context(), "SELECT FROM credit_accounts WHERE workspace_id = $1 FOR NO KEY UPDATE", id); err != nil {
			return err
		}
		go func() {
			now, err := fn()
			changed <- result{now, err}
		}()
		waittest.Until(d.t, "the change waits for the account", func() bool {
			return d.text("SELECT count(*)::text FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") != "0"
		})
		_, err := tx.Exec(d.t.Context(), "UPDATE workspaces SET plan = 'growth' WHERE id = $1", id)
		return err
	})
	if err != nil {
		d.t.Errorf("the change of the plan: %v", err)
	}
	if r := <-changed; r.err != nil || !slices.Equal(r.now, []uuid.UUID{id}) {
		d.t.Errorf("changed %v, %v", r.now, r.err)
	}
}
