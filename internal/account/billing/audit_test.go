package billing_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// failing is a database in which one transaction can't be started.
type failing struct {
	postgres.DB
	started, fails int
}

func (f *failing) Begin(ctx context.Context) (pgx.Tx, error) {
	if f.started++; f.started == f.fails {
		return nil, errors.New("it took too long")
	}
	return f.DB.Begin(ctx)
}

// A workspace that can't be audited doesn't prevent the audit of the others. Each workspace has
// a separate snapshot, so that vacuum is held up only for the duration of one audit.
func TestAuditContinuesAfterAWorkspaceFails(t *testing.T) {
	t.Parallel()
	d := newDesk(t, noon)
	ids := []uuid.UUID{d.open("a", plan.Starter, 0), d.open("b", plan.Starter, 0), d.open("c", plan.Starter, credit.Credits(1))}
	if _, err := d.pool.Exec(t.Context(), "UPDATE credit_accounts SET paid = paid + 5 WHERE workspace_id = ANY ($1)", ids[1:]); err != nil {
		t.Fatal(err)
	}
	conn := &failing{DB: d.pool, fails: 2}
	drifts, workspaces, err := billing.Audit(t.Context(), conn, uuid.Nil)
	if err == nil || !strings.Contains(err.Error(), "1 of 3 workspaces") || !strings.Contains(err.Error(), ids[1].String()) {
		t.Errorf("the failure: %v", err)
	}
	if workspaces != 2 || len(drifts) != 1 || drifts[0].WorkspaceID != ids[2] || conn.started != 3 {
		t.Errorf("%v in %d workspaces, %d snapshots", drifts, workspaces, conn.started)
	}
}

// Wrong books stop billing for their workspace only: new executions with a price are rejected,
// accepted executions are charged. Billing resumes once the books are correct.
func TestLE09WrongBooksStopTheBillingOfTheirWorkspace(t *testing.T) {
	t.Parallel()
	d := newDesk(t, noon)
	wrong, right, fixed := d.open("wrong", plan.Starter, credit.Credits(10)), d.open("right", plan.Starter, credit.Credits(10)), d.open("fixed", plan.Starter, credit.Credits(10))
	late, err := d.admit(billing.Want{WorkspaceID: wrong, Amount: credit.Credits(1)}) // a reservation without a live execution
	if err != nil {
		t.Fatal(err)
	}
	change := func(statement string) {
		t.Helper()
		if _, err := d.pool.Exec(t.Context(), statement, fixed); err != nil {
			t.Fatal(err)
		}
	}
	change("UPDATE credit_accounts SET paid = paid + 3 WHERE workspace_id = $1")
	change("UPDATE credit_accounts SET live = live + 1 WHERE workspace_id <> $1") // moves no credits
	drifts, _, err := billing.Audit(t.Context(), d.pool, uuid.Nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range [][]uuid.UUID{{wrong, fixed}, nil} {
		if now, err := billing.Stop(t.Context(), d.pool, drifts); err != nil || !slices.Equal(now, want) {
			t.Fatalf("stopped %v, %v; want %v", now, err, want)
		}
	}
	wants := []billing.Want{{WorkspaceID: wrong, Amount: 1}, {WorkspaceID: wrong}, {WorkspaceID: right, Amount: 1}, {WorkspaceID: fixed, Amount: 1}}
	if made, err := d.admit(wants...); err != nil || len(made) != 2 || made[0].workspace != wrong || made[1].workspace != right {
		t.Errorf("admitted %v, %v", made, err)
	}
	err = d.tx(func(tx pgx.Tx) error {
		refusals, err := d.reserve(tx, wants[:1])
		if failure, ok := errors.AsType[*fault.Error](refusals[0]); !ok || failure.Code != fault.Unavailable || failure.Reason != "books_stopped" {
			t.Errorf("the refusal: %v", refusals[0])
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.settle(100, late...); err != nil {
		t.Errorf("the end of what was accepted before: %v", err)
	}
	change("UPDATE credit_accounts SET paid = paid - 3 WHERE workspace_id = $1")
	change("UPDATE credit_accounts SET reserved = reserved + 3 WHERE workspace_id <> $1")
	if now, err := billing.Stop(t.Context(), d.pool, drifts); err != nil || len(now) > 0 {
		t.Errorf("stopped a workspace that is correct again: %v, %v", now, err)
	}
	if now, err := billing.Resume(t.Context(), d.pool, wrong); err != nil || len(now) > 0 {
		t.Errorf("resumed with wrong books: %v, %v", now, err)
	}
	if now, err := billing.Resume(t.Context(), d.pool, uuid.Nil); err != nil || !slices.Equal(now, []uuid.UUID{fixed}) {
		t.Errorf("resumed %v, %v", now, err)
	}
	d.use(fixed, 1)
	logged := d.text("SELECT string_agg(action, ' ' ORDER BY id) FROM audit_events WHERE workspace_id = $1 AND actor_kind = 'system'", fixed)
	if logged != "credits.granted billing.stopped billing.resumed" {
		t.Errorf("the audit log has %q", logged)
	}
}

// Text that a spreadsheet would evaluate as a formula is quoted. Amounts stay numbers.
func TestStatementQuotesFormulas(t *testing.T) {
	t.Parallel()
	d := newDesk(t, noon)
	id := d.open("a", plan.Starter, credit.Credits(5))
	_, err := d.books.Grant(t.Context(), d.pool, billing.Grant{WorkspaceID: id, Amount: -credit.Credits(2), Reference: "@SUM(A1)", Note: "=1+2"})
	if err != nil {
		t.Fatal(err)
	}
	reader := billing.Reader{Books: d.books, DB: d.pool}
	file, err := reader.File(t.Context(), billing.Statement{WorkspaceID: id})
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := file.Write(t.Context(), &text, func() {}); err != nil || !strings.Contains(text.String(), ",'@SUM(A1),0,-2,0,0,'=1+2,") {
		t.Errorf("%s, %v", text.String(), err)
	}
	day := time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)
	wrong := billing.Statement{WorkspaceID: id, From: &day, To: new(day.AddDate(0, 0, -1))}
	_, asFile := reader.File(t.Context(), wrong)
	_, asPage := reader.Page(t.Context(), wrong, 10, "")
	_, right := reader.Page(t.Context(), billing.Statement{WorkspaceID: id, From: &day, To: &day}, 10, "")
	if fault.CodeOf(asFile) != fault.InvalidInput || fault.CodeOf(asPage) != fault.InvalidInput || right != nil {
		t.Errorf("%v, %v, %v", asFile, asPage, right)
	}
}

// The audit log holds the plan before a change, and distinguishes deductions from grants.
func TestAuditLogRecordsPlansAndGrants(t *testing.T) {
	t.Parallel()
	d := newDesk(t, noon)
	id := d.open("a", plan.Growth, credit.Credits(5))
	for _, p := range []billing.Plan{{Name: plan.Enterprise, RPS: new(int32(7)), Credits: new(credit.Credits(40))}, {Name: plan.Starter}} {
		p.WorkspaceID = id
		if err := d.books.SetPlan(t.Context(), d.pool, p); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.books.Grant(t.Context(), d.pool, billing.Grant{WorkspaceID: id, Amount: -credit.Credits(2), Reference: "mistake"}); err != nil {
		t.Fatal(err)
	}
	logged := d.text(`SELECT string_agg(action || ' ' || details::text, E'\n' ORDER BY id) FROM audit_events WHERE action <> 'workspace.created'`)
	want := `credits.granted {"amount": 5, "reference": "opening"}
plan.changed {"plan": "enterprise", "before": {"plan": "growth"}, "monthlyCredits": 40, "requestsPerSecond": 7}
plan.changed {"plan": "starter", "before": {"plan": "enterprise", "monthlyCredits": 40, "requestsPerSecond": 7}}
credits.taken_back {"amount": -2, "reference": "mistake"}`
	if logged != want {
		t.Errorf("logged\n%s\nwant\n%s", logged, want)
	}
}
