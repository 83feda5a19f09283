package billing_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/goleak"

	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const noon = "2026-11-18T12:00:00Z" // a Wednesday

// sides is the number of concurrent callers, each with its own connection.
const sides = 20

func state(pots [5]credit.Amount, live int) string {
	return fmt.Sprintf("plan %s, paid %s, reserved %s, used %s+%s, live %d", pots[0], pots[1], pots[2], pots[3], pots[4], live)
}

// Every debit is sent twice: the second one finds the posting of the first.
func TestLE01EachOfManyDebitsIsPostedOnce(t *testing.T) {
	t.Parallel()
	d := newDeskOf(t, sides, noon)
	each := waittest.Size(10, 50)
	half := int64(sides * each / 2)
	id := d.open("a", plan.Starter, credit.Credits(half))
	var admitted, settled, refused atomic.Int64
	var senders sync.WaitGroup
	for range sides {
		senders.Go(func() {
			for range each {
				made, err := d.admit(billing.Want{WorkspaceID: id, Amount: credit.Credits(1)})
				if err != nil {
					t.Error(err)
					return
				}
				if len(made) == 0 {
					refused.Add(1)
					continue
				}
				admitted.Add(1)
				var twice sync.WaitGroup
				for range 2 {
					twice.Go(func() {
						if err := d.settle(100, made...); err == nil {
							settled.Add(1)
						} else if e, ok := errors.AsType[*pgconn.PgError](err); !ok || e.Code != "23505" {
							t.Error(err)
						}
					})
				}
				twice.Wait()
			}
		})
	}
	senders.Wait()
	if admitted.Load() != half || settled.Load() != half || refused.Load() != half {
		t.Errorf("%d admitted, %d settled, %d refused", admitted.Load(), settled.Load(), refused.Load())
	}
	if got, want := d.account(id), state([5]credit.Amount{}, 0); got != want {
		t.Errorf("the account has %s, want %s", got, want)
	}
	d.audit()
}

func TestLE02OneExecutionFinishedFromFiftySidesIsPostedOnce(t *testing.T) {
	t.Parallel()
	d := newDeskOf(t, sides, noon)
	id := d.open("a", plan.Starter, credit.Credits(10))
	made, err := d.admit(billing.Want{WorkspaceID: id, Amount: credit.Credits(3)})
	if err != nil || len(made) != 1 {
		t.Fatalf("%d admitted, %v", len(made), err)
	}
	var ends sync.WaitGroup
	var won atomic.Int64
	for range 50 {
		ends.Go(func() {
			if d.settle(100, made...) == nil {
				won.Add(1)
			}
		})
	}
	ends.Wait()
	if won.Load() != 1 || d.text("SELECT count(*)::text FROM credit_postings WHERE kind = 'EXECUTION'") != "1" {
		t.Errorf("%d sides won, %s postings", won.Load(), d.text("SELECT count(*)::text FROM credit_postings WHERE kind = 'EXECUTION'"))
	}
	if got, want := d.account(id), state([5]credit.Amount{0, credit.Credits(7)}, 0); got != want {
		t.Errorf("the account has %s, want %s", got, want)
	}
}

// The last admitted execution may exceed the remaining credits by less than its price.
func TestLE08ParallelAdmissionsOvershootByLessThanOnePrice(t *testing.T) {
	t.Parallel()
	d := newDeskOf(t, sides, noon)
	id := d.open("a", plan.Starter, credit.Credits(10))
	var mu sync.Mutex
	var made []execution
	var senders sync.WaitGroup
	for range sides {
		senders.Go(func() {
			for range 10 {
				one, err := d.admit(billing.Want{WorkspaceID: id, Amount: credit.Credits(3)})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				made = append(made, one...)
				mu.Unlock()
			}
		})
	}
	senders.Wait()
	if len(made) != 4 {
		t.Errorf("%d of 200 were admitted at 3 credits each on credit for 10, want 4", len(made))
	}
	if err := d.settle(100, made...); err != nil {
		t.Fatal(err)
	}
	if got, want := d.account(id), state([5]credit.Amount{0, 0, 0, 0, credit.Credits(2)}, 0); got != want {
		t.Errorf("the account has %s, want %s", got, want)
	}
	d.audit()
}

func TestWantsOfOneBatchAreDecidedInOrder(t *testing.T) {
	t.Parallel()
	d := newDesk(t, noon)
	rich, poor := d.open("rich", plan.Starter, credit.Credits(100)), d.open("poor", plan.Starter, credit.Credits(2))
	wants := []billing.Want{
		{WorkspaceID: poor, Amount: credit.Credits(1)}, {WorkspaceID: rich, Amount: credit.Credits(60)},
		{WorkspaceID: poor, Amount: credit.Credits(5)}, {WorkspaceID: poor, Amount: credit.Credits(1)},
		{WorkspaceID: rich, Amount: credit.Credits(60)}, {WorkspaceID: poor, Amount: 0},
	}
	var refusals []error
	err := d.tx(func(tx pgx.Tx) (err error) {
		refusals, err = d.reserve(tx, wants)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, refused := range []bool{false, false, false, true, false, false} {
		if (refusals[i] != nil) != refused || refused && fault.CodeOf(refusals[i]) != fault.InsufficientCredits {
			t.Errorf("want %d: %v", i, refusals[i])
		}
	}
}

func TestAGrantIsAppliedOncePerReference(t *testing.T) {
	t.Parallel()
	d := newDesk(t, noon)
	id := d.open("a", plan.Starter, 0)
	grant := func(amount int64, reference string) (bool, error) {
		return d.books.Grant(t.Context(), d.pool, billing.Grant{WorkspaceID: id, Amount: credit.Credits(amount), Reference: reference})
	}
	for _, c := range []struct {
		amount    int64
		reference string
		granted   bool
		code      fault.Code
	}{
		{10, "invoice 1", true, ""}, {10, "invoice 1", false, ""}, {11, "invoice 1", false, fault.Conflict},
		{-4, "mistake", true, ""}, {-7, "too much", false, fault.InvalidInput},
		{-5, "returned", true, ""}, {-5, "returned", false, ""}, {-5, "twice", false, fault.InvalidInput}, {0, "nothing", false, fault.InvalidInput},
		{3, strings.Repeat("é", 200), true, ""}, {3, strings.Repeat("é", 201), false, fault.InvalidInput},
		{1, "", false, fault.InvalidInput}, {1, " \t", false, fault.InvalidInput}, {1, "a\x1b[31m", false, fault.InvalidInput}, {1, "\xff", false, fault.InvalidInput},
	} {
		granted, err := grant(c.amount, c.reference)
		if granted != c.granted || (err != nil) != (c.code != "") || err != nil && fault.CodeOf(err) != c.code {
			t.Errorf("%d for %q: %v, %v", c.amount, c.reference, granted, err)
		}
	}
	if got, want := d.account(id), state([5]credit.Amount{0, credit.Credits(4)}, 0); got != want {
		t.Errorf("the account has %s, want %s", got, want)
	}
	d.audit()
}

// No role can change a posting, the owner of the database included.
func TestLE06PostingsCannotBeChangedUnderAnyRole(t *testing.T) {
	t.Parallel()
	d := newDesk(t, noon)
	id := d.open("a", plan.Starter, credit.Credits(10))
	for _, role := range []postgres.Role{postgres.API, postgres.System, postgres.Owner} {
		pool, err := postgres.Open(t.Context(), d.pool.Config().ConnString(), "test", role, 1)
		if err != nil {
			t.Fatal(err)
		}
		ctx := postgres.Scope(t.Context(), id)
		for _, statement := range []string{
			"UPDATE credit_postings SET note = 'x'", "UPDATE credit_postings SET paid = paid + 1, granted = granted - 1",
			"DELETE FROM credit_postings", "TRUNCATE credit_postings",
		} {
			if _, err := pool.Exec(ctx, statement); err == nil {
				t.Errorf("%q may %s", role, statement)
			}
		}
		var n int
		if err := pool.QueryRow(ctx, "SELECT count(*) FROM credit_postings").Scan(&n); err != nil || n != 1 {
			t.Errorf("%q sees %d postings, %v", role, n, err)
		}
		_, err = pool.Exec(ctx, `INSERT INTO credit_postings (workspace_id, id, kind, reference, paid) VALUES ($1, $1, 'GRANT', 'x', 1)`, id)
		if err == nil {
			t.Errorf("%q may post entries that do not sum to zero", role)
		}
		if role == postgres.API {
			ctx = postgres.Scope(t.Context(), uuid.New())
			if _, err = pool.Exec(ctx, `INSERT INTO credit_postings (workspace_id, id, kind, reference) VALUES ($1, $1, 'GRANT', 'x')`, id); err == nil {
				t.Error("a request may post for another workspace")
			}
		}
		if role == postgres.System { // the role of the hourly audit
			if drifts, n, err := billing.Audit(t.Context(), pool, uuid.Nil); err != nil || n != 1 || len(drifts) > 0 {
				t.Errorf("an audit under %q: %v, %d workspaces, %v", role, drifts, n, err)
			}
		}
		pool.Close()
	}
}

// explained records the plan of each query.
type explained struct {
	postgres.DB
	t     *testing.T
	plans []string
}

func (e *explained) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	rows, err := e.DB.Query(ctx, "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) "+sql, args...)
	if err != nil {
		e.t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		e.t.Fatal(err)
	}
	e.plans = append(e.plans, strings.Join(lines, "\n"))
	return e.DB.Query(ctx, sql, args...)
}

// A statement of old days doesn't read later postings.
func TestAStatementReadsOnlyItsDays(t *testing.T) {
	t.Parallel()
	d := newDesk(t, noon)
	id := uuid.New()
	_, err := d.pool.Exec(t.Context(), `INSERT INTO credit_postings (workspace_id, id, kind, reference, paid, granted, created_at)
		SELECT $1, least_id(at), 'GRANT', at::text, 1, -1, at FROM generate_series('2026-01-01Z'::timestamptz, '2026-10-31Z', '1 hour') at`, id)
	if err != nil {
		t.Fatal(err)
	}
	days := func(from, to string) billing.Statement {
		s := billing.Statement{WorkspaceID: id}
		for day, text := range map[**time.Time]string{&s.From: from, &s.To: to} {
			if text == "" {
				continue
			}
			at, err := time.Parse(time.DateOnly, text)
			if err != nil {
				t.Fatal(err)
			}
			*day = &at
		}
		return s
	}
	for _, c := range []struct {
		from, to string
		lines    int
	}{
		{"2026-03-02", "2026-03-03", 48}, {"2026-03-02", "2026-03-02", 24}, {"", "2026-01-01", 24}, {"2026-10-30", "", 25},
		{"0001-01-01", "9999-12-31", 100}, {"0001-01-02", "1969-12-31", 0},
		{"", "0001-01-01", 0}, {"0000-01-01", "0001-01-01", 0},
	} {
		e := &explained{DB: d.pool, t: t}
		page, err := billing.Reader{DB: e}.Page(t.Context(), days(c.from, c.to), 100, "")
		if err != nil || len(page.Data) != c.lines {
			t.Errorf("%s to %s: %d lines, %v", c.from, c.to, len(page.Data), err)
		}
		_, after, _ := strings.Cut(e.plans[0], "Rows Removed by Filter: ")
		line, _, _ := strings.Cut(after, "\n")
		if removed, _ := strconv.Atoi(line); removed > 48 {
			t.Errorf("%s to %s reads %d other rows:\n%s", c.from, c.to, removed, e.plans[0])
		}
	}
}
