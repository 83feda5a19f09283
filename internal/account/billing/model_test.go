package billing_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// model is the expected state of an account, computed from the rules of decisions 7
// without rows or postings.
type model struct {
	id       uuid.UUID
	terms    plan.Terms
	pots     [2]credit.Amount // plan, paid
	used     credit.Amount    // of this month's plan credits
	recent   credit.Amount    // part of used: since the last release
	free     credit.Amount    // usage of this month that neither pot paid for
	reserved credit.Amount
	month    string
	week     time.Time
	live     []execution
	runs     []*run
	total    credit.Amount // usage ever
	admitted int
}

// run is a run that is not final. It reserves the possible cost of its stages, and pays for
// their usage.
type run struct {
	id                         uuid.UUID
	committed, reserved, usage credit.Amount
	live                       []execution
}

// renew starts the periods that are due at now.
func (m *model) renew(now time.Time) {
	monday := now.AddDate(0, 0, -((int(now.Weekday()) + 6) % 7)).Truncate(24 * time.Hour)
	if month := now.Format("2006-01"); month != m.month {
		m.month, m.pots[0], m.used, m.free, m.week = month, 0, 0, 0, time.Time{}
	}
	if monday.Equal(m.week) {
		return
	}
	m.week, m.recent = monday, 0
	m.fill()
}

func (m *model) fill() {
	rest := max(0, m.terms.Monthly-m.used)
	m.pots[0] = max(m.pots[0], min(rest, (m.terms.Monthly+3)/4))
}

func (m *model) admits() bool {
	if m.pots[0]+m.pots[1]-m.reserved > 0 {
		return true
	}
	// Both pots are reserved. Further reservations use the allowance, which must also cover the
	// unused plan credits.
	return m.pots[0]+m.pots[1]-m.reserved+max(0, m.terms.UsageLimit-m.used-m.free-m.pots[0]) > 0
}

func (m *model) pay(amount credit.Amount) {
	m.total += amount
	for pot := range m.pots {
		part := min(amount, m.pots[pot])
		m.pots[pot] -= part
		amount -= part
		if pot == 0 {
			m.used += part
			m.recent += part
		}
	}
	m.free += amount
}

func (m *model) state() string {
	live := len(m.live)
	for _, r := range m.runs {
		live += len(r.live)
	}
	return state([5]credit.Amount{m.pots[0], m.pots[1], m.reserved, m.used, m.free}, live)
}

// world applies random operations to some workspaces, both in the database and in the
// model.
type world struct {
	*desk
	random *rand.Rand
	all    []*model
	grants int
	done   int
}

// pick returns a random workspace, renewed in the model as every operation renews it.
func (w *world) pick() *model {
	m := w.all[w.random.IntN(len(w.all))]
	m.renew(w.now)
	return m
}

func (w *world) price() credit.Amount {
	if w.random.IntN(8) == 0 {
		return 0
	}
	return credit.Amount(w.random.Int64N(3_000_000) + 1)
}

// submit requests a batch over several workspaces.
func (w *world) submit() {
	var wants []billing.Want
	var expected []*model
	for range w.random.IntN(30) + 1 {
		m := w.pick()
		amount := w.price()
		wants = append(wants, billing.Want{WorkspaceID: m.id, Amount: amount})
		if amount > 0 && !m.admits() {
			continue
		}
		m.reserved += amount
		expected = append(expected, m)
	}
	made, err := w.admit(wants...)
	if err != nil || len(made) != len(expected) {
		w.t.Fatalf("%d of %d were admitted, %v; the model admits %d", len(made), len(wants), err, len(expected))
	}
	for i, e := range made {
		if e.workspace != expected[i].id {
			w.t.Fatalf("admitted number %d is of another workspace than the model's", i)
		}
		expected[i].live = append(expected[i].live, e)
		expected[i].admitted++
	}
	w.done += len(wants)
}

// finish settles a batch at random percentages: failed executions cost nothing.
func (w *world) finish() {
	percent := []int{100, 100, 100, 0, 50}[w.random.IntN(5)]
	var batch []execution
	for range w.random.IntN(30) + 1 {
		m := w.pick()
		if r := w.runOf(m); r != nil && len(r.live) > 0 && w.random.IntN(2) == 0 {
			e := r.live[0]
			r.live = r.live[1:]
			r.usage += e.price * credit.Amount(percent) / 100
			batch = append(batch, e)
			continue
		}
		if len(m.live) == 0 {
			continue
		}
		at := w.random.IntN(len(m.live))
		e := m.live[at]
		m.live = append(m.live[:at], m.live[at+1:]...)
		m.reserved -= e.price
		m.pay(e.price * credit.Amount(percent) / 100)
		batch = append(batch, e)
	}
	if len(batch) == 0 {
		return
	}
	if err := w.settle(percent, batch...); err != nil {
		w.t.Fatal(err)
	}
	w.done += len(batch)
}

// runOf returns a random run of a workspace, or nil if it has none.
func (w *world) runOf(m *model) *run {
	if len(m.runs) == 0 {
		return nil
	}
	return m.runs[w.random.IntN(len(m.runs))]
}

// trigger starts a run, which doesn't count as an execution.
func (w *world) trigger() {
	m := w.pick()
	amount := w.price()
	admitted := amount == 0 || m.admits()
	made, err := w.admit(billing.Want{WorkspaceID: m.id, Amount: amount, Run: true})
	if err != nil || (len(made) == 1) != admitted {
		w.t.Fatalf("%d runs were admitted, %v; the model says %v", len(made), err, admitted)
	}
	if admitted {
		m.reserved += amount
		m.runs = append(m.runs, &run{id: made[0].id, reserved: amount})
	}
	w.done++
}

// grow adds stages to a run, and reserves the part of their cost that exceeds the reservation.
func (w *world) grow() {
	m := w.pick()
	r := w.runOf(m)
	if r == nil {
		return
	}
	var wants []billing.Want
	var expected []execution
	for range w.random.IntN(5) + 1 {
		e := execution{workspace: m.id, id: uuid.Must(uuid.NewV7()), price: w.price(), stage: true}
		more := max(0, r.committed+e.price-r.reserved)
		wants = append(wants, billing.Want{WorkspaceID: m.id, Amount: more})
		if more > 0 && !m.admits() {
			break // the run asks for no more after that
		}
		m.reserved += more
		r.reserved += more
		r.committed += e.price
		expected = append(expected, e)
	}
	made, err := w.admit(wants...)
	if err != nil || len(made) != len(expected) {
		w.t.Fatalf("%d of %d stages were admitted, %v; the model admits %d", len(made), len(wants), err, len(expected))
	}
	r.live = append(r.live, expected...)
	w.done += len(wants)
}

// conclude finishes a run without live stages: it pays for all of its stages at once.
func (w *world) conclude() {
	m := w.pick()
	r := w.runOf(m)
	if r == nil || len(r.live) > 0 {
		return
	}
	err := w.renewing(func(tx *postgres.Tx) {
		w.books.QueueSettleRun(tx.AtCommit(), billing.Charge{WorkspaceID: m.id, ExecutionID: r.id, Amount: r.usage, Reserved: r.reserved})
	}, m.id)
	if err != nil {
		w.t.Fatal(err)
	}
	m.runs = slices.DeleteFunc(m.runs, func(other *run) bool { return other == r })
	m.reserved -= r.reserved
	m.pay(r.usage)
	w.done++
}

func (w *world) grant() {
	m := w.pick()
	amount := credit.Amount(w.random.Int64N(20_000_000) + 1)
	w.grants++
	for range 2 { // the same reference twice
		_, err := w.books.Grant(w.t.Context(), w.pool, billing.Grant{WorkspaceID: m.id, Amount: amount, Reference: fmt.Sprint("grant ", w.grants)})
		if err != nil {
			w.t.Fatal(err)
		}
	}
	m.pots[1] += amount
	w.done++
}

// replan changes the plan of a workspace to a random plan, then to the starter plan and back. The
// result is as if the period had started on the random plan.
func (w *world) replan() {
	m := w.pick()
	names := plan.Names()
	p := billing.Plan{WorkspaceID: m.id, Name: names[w.random.IntN(len(names))]}
	m.terms = p.Name.Terms()
	if p.Name == plan.Enterprise {
		p.Credits, p.UsageLimit = new(credit.Amount(w.random.Int64N(200_000_000))), new(credit.Amount(w.random.Int64N(100_000_000)))
		m.terms.Monthly, m.terms.UsageLimit = *p.Credits, *p.UsageLimit
	}
	m.pots[0] = max(0, min((m.terms.Monthly+3)/4-m.recent, m.terms.Monthly-m.used))
	for _, next := range []billing.Plan{p, {WorkspaceID: m.id, Name: plan.Starter}, p} {
		if err := w.books.SetPlan(w.t.Context(), w.pool, next); err != nil {
			w.t.Fatal(err)
		}
		w.done++
	}
}

// pass advances the clock, and renews accounts in only some of the calls.
func (w *world) pass() {
	w.mu.Lock()
	w.now = w.now.Add(time.Duration(w.random.Int64N(int64(40 * time.Hour))))
	w.mu.Unlock()
	if w.random.IntN(3) == 0 {
		if _, err := w.books.RenewDue(w.t.Context(), w.pool); err != nil {
			w.t.Fatal(err)
		}
		for _, m := range w.all {
			m.renew(w.now)
		}
	}
	w.done++
}

// compare compares the balances, sums and totals in the database with the model.
func (w *world) compare() {
	w.t.Helper()
	for _, m := range w.all {
		if err := w.books.Renew(w.t.Context(), w.pool, m.id); err != nil {
			w.t.Fatal(err)
		}
		m.renew(w.now)
		if got, want := w.account(m.id), m.state(); got != want {
			w.t.Fatalf("after %d operations at %s the account of %s has\n%s, the model\n%s", w.done, w.now, m.id, got, want)
		}
		total := w.text("SELECT COALESCE(sum(usage), 0)::text FROM credit_postings WHERE workspace_id = $1", m.id)
		if total != fmt.Sprint(int64(m.total)) {
			w.t.Fatalf("%s micro-credits of usage are posted, the model has %d", total, m.total)
		}
	}
	w.audit()
}

func TestLE07RandomOperationsKeepTheBooksEqualToAModel(t *testing.T) {
	t.Parallel()
	operations := waittest.Size(800, 100_000)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	w := &world{desk: newDesk(t, "2026-11-21T10:00:00Z"), random: rand.New(rand.NewPCG(seed, 7))}
	for i, name := range append(plan.Names(), plan.Starter, plan.Growth) {
		paid := credit.Credits(int64(i * 10))
		w.all = append(w.all, &model{id: w.open(fmt.Sprint(i), name, paid), terms: name.Terms(), pots: [2]credit.Amount{0, paid}})
	}
	started := time.Now()
	next := operations / 10
	for w.done < operations {
		switch n := w.random.IntN(100); {
		case n < 38:
			w.submit()
		case n < 42:
			w.trigger()
		case n < 48:
			w.grow()
		case n < 88:
			w.finish()
		case n < 92:
			w.conclude()
		case n < 96:
			w.grant()
		case n < 98:
			w.replan()
		default:
			w.pass()
		}
		if w.done >= next {
			next += operations / 10
			w.compare()
		}
	}
	w.compare()
	t.Logf("%d operations in %s", w.done, time.Since(started).Round(time.Millisecond))
}
