package billing_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/waittest"
)

// An execution finishes while an empty account receives credits. The settlement waits for the
// lock of the account and uses the new credits. If the settlement failed, the execution would
// run again.
func TestASettlementUsesCreditsCommittedWhileItWaited(t *testing.T) {
	t.Parallel()
	for pot, want := range map[string]string{
		"plan": "plan 3, paid 0, reserved 0, used 52+0, live 0", "paid": "plan 0, paid 3, reserved 0, used 50+0, live 0",
	} {
		t.Run(pot, func(t *testing.T) {
			t.Parallel()
			d := newDeskOf(t, 4, noon)
			id := d.open("a", plan.Growth, 0)
			d.use(id, credit.Credits(50))
			made, err := d.admit(billing.Want{WorkspaceID: id, Amount: credit.Credits(2)})
			if err != nil || len(made) != 1 {
				t.Fatalf("%d admitted, %v", len(made), err)
			}
			settled := make(chan error, 1)
			err = d.tx(func(tx pgx.Tx) error {
				if _, err := tx.Exec(t.Context(), "UPDATE credit_accounts SET "+pot+" = $1", credit.Credits(5)); err != nil {
					return err
				}
				go func() { settled <- d.settle(100, made...) }()
				waittest.Until(t, "the settlement waits for the account", func() bool {
					return d.text("SELECT count(*)::text FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") != "0"
				})
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := waittest.Receive(t, "the settlement", settled); err != nil {
				t.Fatal(err)
			}
			if got := d.account(id); got != want {
				t.Errorf("the account is %s, want %s", got, want)
			}
		})
	}
}
