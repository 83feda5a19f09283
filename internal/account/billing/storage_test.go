package billing_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/fault"
)

// A workspace that has used up its storage for the month is refused everything, even free
// executions, until the next month or a plan change.
func TestStorageOfMonthIsLimited(t *testing.T) {
	t.Parallel()
	d := newDesk(t, noon)
	id := d.open("a", plan.Starter, credit.Credits(100))
	limit := func(bytes int64) {
		t.Helper()
		if err := d.books.SetPlan(t.Context(), d.pool, billing.Plan{WorkspaceID: id, Name: plan.Starter, Storage: &bytes}); err != nil {
			t.Fatal(err)
		}
	}
	admitted := func(when string, want int) {
		t.Helper()
		made, err := d.admit(billing.Want{WorkspaceID: id}, billing.Want{WorkspaceID: id, Amount: credit.Credits(1)}, billing.Want{WorkspaceID: id, Run: true})
		if err != nil || len(made) != want {
			t.Errorf("%s: %d of 3 are admitted, %v; want %d", when, len(made), err, want)
		}
	}
	limit(10_000)
	admitted("at first", 3)
	d.use(id, credit.Credits(1)) // 1 KiB for the row
	if _, err := d.admit(billing.Want{WorkspaceID: id, Run: true, Bytes: 9_000}); err != nil {
		t.Fatal(err)
	}
	if stored := d.text("SELECT stored::text FROM credit_accounts WHERE workspace_id = $1", id); stored != "10024" {
		t.Errorf("%s bytes are stored, want 10024", stored)
	}
	admitted("at the limit", 0)
	limit(20_000)
	admitted("with a larger plan", 3)
	limit(10_000)
	admitted("with the first plan again", 0)
	d.at("2026-11-30T12:00:00Z")
	admitted("in another week of the month", 0)
	d.at("2026-12-01T00:00:00Z")
	admitted("in the next month", 3)
	if stored := d.text("SELECT stored::text FROM credit_accounts WHERE workspace_id = $1", id); stored != "0" {
		t.Errorf("%s bytes are stored in the next month", stored)
	}
	d.audit()
}

// The refusal names the limit and when the next month starts.
func TestStorageRefusalNamesTheLimit(t *testing.T) {
	t.Parallel()
	d := newDesk(t, noon)
	id := d.open("a", plan.Enterprise, 0)
	if err := d.books.SetPlan(t.Context(), d.pool, billing.Plan{WorkspaceID: id, Name: plan.Enterprise, Storage: new(int64(1))}); err != nil {
		t.Fatal(err)
	}
	err := d.tx(func(tx pgx.Tx) error {
		wants := []billing.Want{{WorkspaceID: id, Run: true, Bytes: 2}, {WorkspaceID: id}}
		refusals, err := d.reserve(tx, wants)
		if err == nil && refusals[0] != nil {
			t.Errorf("the first: %v", refusals[0])
		}
		return errors.Join(err, refusals[1])
	})
	refusal, ok := errors.AsType[*fault.Error](err)
	if !ok || refusal.Code != fault.InsufficientCredits || refusal.Reason != billing.ReasonStorage || refusal.Extra["storageLimit"] != int64(1) {
		t.Errorf("%v", err)
	}
}

// The enterprise plan has no storage limit unless one is set.
func TestEnterpriseHasNoDefaultStorageLimit(t *testing.T) {
	t.Parallel()
	d := newDesk(t, noon)
	id := d.open("a", plan.Enterprise, 0)
	for range 2 {
		if made, err := d.admit(billing.Want{WorkspaceID: id, Run: true, Bytes: 1 << 50}); err != nil || len(made) != 1 {
			t.Errorf("%d admitted, %v", len(made), err)
		}
	}
	if err := d.books.SetPlan(t.Context(), d.pool, billing.Plan{WorkspaceID: id, Name: plan.Enterprise, Storage: new(int64(0))}); fault.CodeOf(err) != fault.InvalidInput {
		t.Errorf("a limit of 0 bytes: %v", err)
	}
}
