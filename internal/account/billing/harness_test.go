package billing_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/account/workspace"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/local/pgtest"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// desk is a database with books whose clock the test sets.
type desk struct {
	t     *testing.T
	pool  *pgxpool.Pool
	books billing.Books

	mu  sync.Mutex
	now time.Time
}

func newDesk(t *testing.T, now string) *desk {
	t.Helper()
	return newDeskOf(t, 0, now)
}

// newDeskOf returns a desk with the given number of connections.
func newDeskOf(t *testing.T, conns int32, now string) *desk {
	t.Helper()
	d := &desk{t: t, pool: pgtest.Pool(t, conns)}
	d.books = billing.Books{Now: func() time.Time { d.mu.Lock(); defer d.mu.Unlock(); return d.now }}
	d.at(now)
	return d
}

// at sets the clock to a time in RFC 3339.
func (d *desk) at(now string) {
	d.t.Helper()
	at, err := time.Parse(time.RFC3339, now)
	if err != nil {
		d.t.Fatal(err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now = at
}

func (d *desk) open(name string, of plan.Name, paid credit.Amount) uuid.UUID {
	d.t.Helper()
	id, err := workspace.Create(d.t.Context(), d.pool, workspace.CreateParams{Name: name, Plan: of, Paid: paid})
	if err != nil {
		d.t.Fatal(err)
	}
	return id
}

// execution is an admitted execution.
type execution struct {
	workspace, id uuid.UUID
	price         credit.Amount
	stage         bool
}

// admit requests all wants in one transaction, as acceptance does, and returns the
// admitted executions.
func (d *desk) admit(wants ...billing.Want) (admitted []execution, err error) {
	var refusals []error
	err = d.tx(func(tx pgx.Tx) (err error) {
		refusals, err = d.reserve(tx, wants)
		return err
	})
	if err != nil {
		return nil, err
	}
	for i, w := range wants {
		if refusals[i] == nil {
			admitted = append(admitted, execution{workspace: w.WorkspaceID, id: uuid.Must(uuid.NewV7()), price: w.Amount})
		}
	}
	return admitted, nil
}

// settle finishes executions, each at the given percentage of its price.
func (d *desk) settle(percent int, all ...execution) error {
	charges := make([]billing.Charge, len(all))
	for i, e := range all {
		charges[i] = billing.Charge{WorkspaceID: e.workspace, ExecutionID: e.id, Amount: e.price * credit.Amount(percent) / 100, Reserved: e.price, Stage: e.stage}
	}
	var workspaces []uuid.UUID
	for _, e := range all {
		workspaces = append(workspaces, e.workspace)
	}
	return d.renewing(func(tx *postgres.Tx) { d.books.QueueSettle(tx.AtCommit(), charges) }, workspaces...)
}

// renewing settles in a transaction, after starting the periods that are due.
func (d *desk) renewing(settle func(tx *postgres.Tx), workspaces ...uuid.UUID) error {
	for {
		err := billing.PeriodError(postgres.InTx(d.t.Context(), d.pool, nil, func(tx *postgres.Tx) error {
			settle(tx)
			return nil
		}), workspaces...)
		over, ok := errors.AsType[*billing.PeriodOver](err)
		if !ok {
			return err
		}
		if err := d.books.Renew(d.t.Context(), d.pool, over.Workspaces...); err != nil {
			return err
		}
	}
}

func (d *desk) tx(work func(tx pgx.Tx) error) error {
	return pgx.BeginFunc(d.t.Context(), d.pool, work)
}

// reserve reserves wants, after starting the periods that are due.
func (d *desk) reserve(tx pgx.Tx, wants []billing.Want) ([]error, error) {
	ids := make([]uuid.UUID, len(wants))
	for i, w := range wants {
		ids[i] = w.WorkspaceID
	}
	if err := d.books.Renew(d.t.Context(), tx, ids...); err != nil {
		return nil, err
	}
	refusals := make([]error, len(wants))
	for i, w := range wants {
		err := d.books.ReserveTx(d.t.Context(), tx, w)
		if _, refused := errors.AsType[*fault.Error](err); err != nil && !refused {
			return nil, err
		}
		refusals[i] = err
	}
	return refusals, nil
}

// use admits and settles at once.
func (d *desk) use(id uuid.UUID, amount credit.Amount) {
	d.t.Helper()
	made, err := d.admit(billing.Want{WorkspaceID: id, Amount: amount})
	if err != nil || len(made) != 1 {
		d.t.Fatalf("%d admitted, %v", len(made), err)
	}
	if err := d.settle(100, made...); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) text(query string, args ...any) (text string) {
	d.t.Helper()
	if err := d.pool.QueryRow(d.t.Context(), query, args...).Scan(&text); err != nil {
		d.t.Fatal(err)
	}
	return text
}

// account returns "plan paid reserved plan_used allowance_used live" in credits.
func (d *desk) account(id uuid.UUID) string {
	d.t.Helper()
	var pots [5]credit.Amount
	var live int
	err := d.pool.QueryRow(d.t.Context(), `SELECT plan, paid, reserved, plan_used, allowance_used, live
		FROM credit_accounts WHERE workspace_id = $1`, id).Scan(&pots[0], &pots[1], &pots[2], &pots[3], &pots[4], &live)
	if err != nil {
		d.t.Fatal(err)
	}
	return state(pots, live)
}

// audit fails the test if an account isn't the sum of its postings. The executions of
// these tests have no rows, so they are not audited.
func (d *desk) audit() {
	d.t.Helper()
	rows, err := d.pool.Query(context.Background(), `
		SELECT a.workspace_id FROM credit_accounts a LEFT JOIN credit_postings p ON p.workspace_id = a.workspace_id
		GROUP BY a.workspace_id
		HAVING a.plan <> COALESCE(sum(p.plan), 0) OR a.paid <> COALESCE(sum(p.paid), 0)
			OR COALESCE(sum(p.plan + p.paid + p.allowance + p.usage + p.granted + p.released + p.expired), 0) <> 0`)
	if err != nil {
		d.t.Fatal(err)
	}
	drifts, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil || len(drifts) > 0 {
		d.t.Fatalf("accounts that don't match their postings: %v, %v", drifts, err)
	}
}
