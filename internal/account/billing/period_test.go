package billing_test

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/fault"
)

// lines returns the releases and expiries of a workspace, in one line.
func (d *desk) lines(id uuid.UUID) string {
	return d.text(`SELECT COALESCE(string_agg(kind || ' ' || reference || ' ' || trim_scale(plan / 1000000.0), '; ' ORDER BY created_at, kind, reference), '')
		FROM credit_postings WHERE workspace_id = $1 AND kind IN ('RELEASE', 'EXPIRY')`, id)
}

// A workspace uses a plan with 200 credits a month.
func TestLE05PlanCreditsComeInQuartersAndExpireWithTheMonth(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "2026-10-30T10:00:00Z")
	id := d.open("a", plan.Growth, 0)
	renew := func(at string) {
		t.Helper()
		d.at(at)
		for range 2 { // renewing twice is harmless
			if err := d.books.Renew(t.Context(), d.pool, id); err != nil {
				t.Fatal(err)
			}
		}
	}
	renew("2026-10-30T10:00:00Z")
	d.use(id, credit.Credits(20))
	renew("2026-10-31T23:59:59Z")
	renew("2026-11-01T00:00:00Z") // a Sunday: 30 expire
	d.use(id, credit.Credits(50))
	renew("2026-11-01T23:59:59Z")
	renew("2026-11-02T00:00:00Z")
	d.use(id, credit.Credits(50))
	renew("2026-11-09T00:00:00Z")
	d.use(id, credit.Credits(10))
	renew("2026-11-16T00:00:00Z") // filled up: 10
	d.use(id, credit.Credits(50))
	renew("2026-11-23T00:00:00Z") // the month's rest: 40
	d.use(id, credit.Credits(100))
	renew("2026-11-30T00:00:00Z") // the month is used up
	renew("2027-01-07T00:00:00Z") // December is skipped
	want := "RELEASE 2026-10-26 50; EXPIRY 2026-10 -30; RELEASE 2026-11-01 50; RELEASE 2026-11-02 50; RELEASE 2026-11-09 50; " +
		"RELEASE 2026-11-16 10; RELEASE 2026-11-23 40; RELEASE 2027-01-04 50"
	if got := d.lines(id); got != want {
		t.Errorf("posted\n%s\nwant\n%s", got, want)
	}
	if got, want := d.account(id), state([5]credit.Amount{credit.Credits(50)}, 0); got != want {
		t.Errorf("the account has %s, want %s", got, want)
	}
	d.audit()
}

// Admissions, settlements and two upkeeps run in the first second of a month.
func TestLE05MonthlyResetDuringConcurrentSettlements(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "2026-11-30T23:59:59Z")
	id := d.open("a", plan.Growth, credit.Credits(1_000))
	var late []execution
	for range 40 {
		made, err := d.admit(billing.Want{WorkspaceID: id, Amount: credit.Credits(2)})
		if err != nil {
			t.Fatal(err)
		}
		late = append(late, made...)
	}
	if err := d.settle(100, late[:10]...); err != nil {
		t.Fatal(err)
	}
	// Midnight in each zone: only UTC's starts the month.
	for _, zone := range []string{"Pacific/Kiritimati", "Europe/Berlin", "UTC"} {
		place, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		d.mu.Lock()
		d.now = time.Date(2026, 12, 1, 0, 0, 0, 0, place)
		d.mu.Unlock()
		var sides sync.WaitGroup
		for range 2 {
			sides.Go(func() {
				if _, err := d.books.RenewDue(t.Context(), d.pool); err != nil {
					t.Error(err)
				}
			})
		}
		if zone == "UTC" {
			for _, e := range late[10:] {
				sides.Go(func() {
					if err := d.settle(100, e); err != nil {
						t.Error(err)
					}
				})
			}
		}
		sides.Wait()
	}
	if got, want := d.lines(id), "RELEASE 2026-11-30 50; EXPIRY 2026-11 -30; RELEASE 2026-12-01 50"; got != want {
		t.Errorf("posted\n%s\nwant\n%s", got, want)
	}
	if got, want := d.account(id), state([5]credit.Amount{0, credit.Credits(990), 0, credit.Credits(50)}, 0); got != want {
		t.Errorf("the account has %s, want %s", got, want)
	}
	if got := d.text("SELECT count(*)::text FROM credit_postings WHERE kind = 'EXECUTION' AND created_at >= '2026-12-01Z'"); got != "30" {
		t.Errorf("%s charges are December's, want 30", got)
	}
	d.audit()
}

func TestPlanChangesApplyAtOnceAndKeepUsage(t *testing.T) {
	t.Parallel()
	d := newDesk(t, noon)
	id := d.open("a", plan.Starter, 0)
	set := func(name plan.Name, monthly *credit.Amount, want string) {
		t.Helper()
		if err := d.books.SetPlan(t.Context(), d.pool, billing.Plan{WorkspaceID: id, Name: name, Credits: monthly}); err != nil {
			t.Fatal(err)
		}
		if got := d.account(id); got != want {
			t.Errorf("%s: the account has %s, want %s", name, got, want)
		}
		d.audit()
	}
	pots := func(pot, used int64) string {
		return state([5]credit.Amount{credit.Credits(pot), 0, 0, credit.Credits(used)}, 0)
	}
	set(plan.Growth, nil, pots(50, 0))
	set(plan.Growth, nil, pots(50, 0))
	d.use(id, credit.Credits(20))
	set(plan.Growth, nil, pots(30, 20))
	set(plan.Professional, nil, pots(230, 20))
	set(plan.Growth, nil, pots(30, 20))
	for range 2 { // to another plan and back
		set(plan.Starter, nil, pots(0, 20))
		set(plan.Growth, nil, pots(30, 20))
	}
	set(plan.Enterprise, new(credit.Credits(40)), pots(0, 20)) // the quarter of 10 is used up
	set(plan.Enterprise, new(credit.Credits(300)), pots(55, 20))
	set(plan.Growth, nil, pots(30, 20))
	set(plan.Enterprise, new(credit.Credits(400)), pots(80, 20))
	d.at("2026-11-23T00:00:00Z")
	d.use(id, credit.Credits(40))
	if got, want := d.account(id), pots(60, 60); got != want {
		t.Errorf("after the next release the account has %s, want %s", got, want)
	}
}

// An account that was renewed by an earlier version of Weft doesn't store the usage of the
// period. The usage is computed from the postings.
func TestPlanChangeAfterARenewalByAnEarlierVersion(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "2020-11-18T12:00:00Z") // ids are of the real clock, which is later
	id := d.open("a", plan.Growth, 0)
	d.use(id, credit.Credits(10))
	d.at("2020-11-23T12:00:00Z")
	d.use(id, credit.Credits(20))
	if _, err := d.pool.Exec(t.Context(), "UPDATE credit_accounts SET period = '2020-11-16', plan_used_before = 0"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name plan.Name
		pot  int64
	}{{plan.Growth, 30}, {plan.Starter, 0}, {plan.Growth, 30}, {plan.Professional, 230}} {
		if err := d.books.SetPlan(t.Context(), d.pool, billing.Plan{WorkspaceID: id, Name: c.name}); err != nil {
			t.Fatal(err)
		}
		if got, want := d.account(id), state([5]credit.Amount{credit.Credits(c.pot), 0, 0, credit.Credits(30)}, 0); got != want {
			t.Errorf("%s: the account has %s, want %s", c.name, got, want)
		}
	}
	want := "RELEASE 2020-11-16 50; EXPIRY 2020-11-23 starter -30; RELEASE 2020-11-23 10; RELEASE 2020-11-23 growth 30; RELEASE 2020-11-23 professional 200"
	if got := d.lines(id); got != want {
		t.Errorf("posted\n%s\nwant\n%s", got, want)
	}
	d.audit()
}

// A custom amount that overflows sums would make every submission fail.
func TestCustomAmountsAreLimited(t *testing.T) {
	t.Parallel()
	d := newDesk(t, noon)
	id := d.open("a", plan.Starter, credit.Credits(1))
	most := credit.Credits(1_000_000_000)
	for _, c := range []struct {
		amount   credit.Amount
		possible bool
	}{{most, true}, {most + 1, false}, {math.MaxInt64, false}, {-1, false}} {
		for _, p := range []billing.Plan{{Credits: &c.amount}, {UsageLimit: &c.amount}} {
			p.WorkspaceID, p.Name = id, plan.Enterprise
			err := d.books.SetPlan(t.Context(), d.pool, p)
			if (err == nil) != c.possible || err != nil && fault.CodeOf(err) != fault.InvalidInput {
				t.Errorf("%s: %v", c.amount, err)
			}
			d.use(id, 1)
		}
	}
}

// A submission counts as 2 requests, so a lower hourly limit would admit none.
func TestRateLimitsAdmitASubmission(t *testing.T) {
	t.Parallel()
	d := newDesk(t, noon)
	id := d.open("a", plan.Starter, 0)
	for _, c := range []struct {
		rps, rph *int32
		possible bool
	}{{nil, new(int32(2)), true}, {nil, new(int32(1)), false}, {new(int32(1)), nil, true}, {new(int32(0)), nil, false}} {
		err := d.books.SetPlan(t.Context(), d.pool, billing.Plan{WorkspaceID: id, Name: plan.Starter, RPS: c.rps, RPH: c.rph})
		if (err == nil) != c.possible || err != nil && fault.CodeOf(err) != fault.InvalidInput {
			t.Errorf("%v: %v", c, err)
		}
	}
}

// Growth allows usage of 500 a month beyond paid credits.
func TestUsageBeyondBothPotsStopsAtTheUsageLimit(t *testing.T) {
	t.Parallel()
	d := newDesk(t, noon)
	id := d.open("a", plan.Growth, credit.Credits(100))
	d.use(id, credit.Credits(140))
	if got, want := d.account(id), state([5]credit.Amount{0, credit.Credits(10), 0, credit.Credits(50)}, 0); got != want {
		t.Errorf("plan credits first: %s, want %s", got, want)
	}
	for range 46 {
		d.use(id, credit.Credits(10))
	}
	err := d.tx(func(tx pgx.Tx) error {
		refusals, err := d.reserve(tx, []billing.Want{{WorkspaceID: id, Amount: credit.Credits(2)}})
		if err != nil {
			return err
		}
		refusal, ok := errors.AsType[*fault.Error](refusals[0])
		if !ok || fmt.Sprint(refusal.Extra) != "map[availableCredits:0 nextReleaseAt:2026-11-23 00:00:00 +0000 UTC price:2 reservedCredits:0]" {
			t.Errorf("beyond the usage limit: %v, %+v", refusals[0], refusal)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if got, want := d.account(id), state([5]credit.Amount{0, 0, 0, credit.Credits(50), credit.Credits(450)}, 0); got != want {
		t.Errorf("the account has %s, want %s", got, want)
	}
	if _, err := d.books.Grant(t.Context(), d.pool, billing.Grant{WorkspaceID: id, Amount: credit.Credits(5), Reference: "more"}); err != nil {
		t.Fatal(err)
	}
	d.use(id, credit.Credits(5))
	d.at("2026-11-23T00:00:00Z")
	d.use(id, credit.Credits(50)) // the next quarter
	d.audit()
}
