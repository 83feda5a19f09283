package billing_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/kit/credit"
)

// model is what an account should be, by the words of decisions 7 and nothing
// else: no row, no posting.
type model struct {
	id       uuid.UUID
	terms    plan.Terms
	pots     [2]credit.Amount // plan, paid
	used     credit.Amount    // of this month's plan credits
	recent   credit.Amount    // of them, since the last release
	free     credit.Amount    // usage of this month that no pot paid
	kept     credit.Amount
	month    string
	week     time.Time
	under    []execution
	runs     []*run
	total    credit.Amount // usage ever
	admitted int
}

// run is one that is not final: it keeps back what its stages may cost, and pays what
// they did.
type run struct {
	id                         uuid.UUID
	committed, reserved, usage credit.Amount
	under                      []execution
}

// turn begins the periods that have begun by now.
func (m *model) turn(now time.Time) {
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
	if m.pots[0]+m.pots[1]-m.kept > 0 {
		return true
	}
	// Both pots are spoken for: what else is spoken for comes from the allowance,
	// and so will the plan credits that are still to be used.
	return m.pots[0]+m.pots[1]-m.kept+max(0, m.terms.UsageLimit-m.used-m.free-m.pots[0]) > 0
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
	live := len(m.under)
	for _, r := range m.runs {
		live += len(r.under)
	}
	return state([5]credit.Amount{m.pots[0], m.pots[1], m.kept, m.used, m.free}, live)
}

// world is some workspaces under random operations, once in the database and once
// in the model.
type world struct {
	*desk
	random *rand.Rand
	all    []*model
	grants int
	done   int
}

// pick is one of the workspaces, renewed in the model as every operation renews it.
func (w *world) pick() *model {
	m := w.all[w.random.IntN(len(w.all))]
	m.turn(w.now)
	return m
}

func (w *world) price() credit.Amount {
	if w.random.IntN(8) == 0 {
		return 0
	}
	return credit.Amount(w.random.Int64N(3_000_000) + 1)
}

// submit asks for a batch over several workspaces.
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
		m.kept += amount
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
		expected[i].under = append(expected[i].under, e)
		expected[i].admitted++
	}
	w.done += len(wants)
}

// end settles a batch: completed ones for their price, failed ones for nothing.
func (w *world) end() {
	percent := []int{100, 100, 100, 0, 50}[w.random.IntN(5)]
	var batch []execution
	for range w.random.IntN(30) + 1 {
		m := w.pick()
		if r := w.runOf(m); r != nil && len(r.under) > 0 && w.random.IntN(2) == 0 {
			e := r.under[0]
			r.under = r.under[1:]
			r.usage += e.price * credit.Amount(percent) / 100
			batch = append(batch, e)
			continue
		}
		if len(m.under) == 0 {
			continue
		}
		at := w.random.IntN(len(m.under))
		e := m.under[at]
		m.under = append(m.under[:at], m.under[at+1:]...)
		m.kept -= e.price
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

// runOf is one of the runs of a workspace; nil if it has none.
func (w *world) runOf(m *model) *run {
	if len(m.runs) == 0 {
		return nil
	}
	return m.runs[w.random.IntN(len(m.runs))]
}

// trigger begins a run, which counts no execution.
func (w *world) trigger() {
	m := w.pick()
	amount := w.price()
	admitted := amount == 0 || m.admits()
	made, err := w.admit(billing.Want{WorkspaceID: m.id, Amount: amount, Run: true})
	if err != nil || (len(made) == 1) != admitted {
		w.t.Fatalf("%d runs were admitted, %v; the model says %v", len(made), err, admitted)
	}
	if admitted {
		m.kept += amount
		m.runs = append(m.runs, &run{id: made[0].id, reserved: amount})
	}
	w.done++
}

// grow gives a run more stages, for which it keeps back what it has not yet.
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
		m.kept += more
		r.reserved += more
		r.committed += e.price
		expected = append(expected, e)
	}
	made, err := w.admit(wants...)
	if err != nil || len(made) != len(expected) {
		w.t.Fatalf("%d of %d stages were admitted, %v; the model admits %d", len(made), len(wants), err, len(expected))
	}
	r.under = append(r.under, expected...)
	w.done += len(wants)
}

// conclude ends a run that has nothing under way: it pays for all of its stages at once.
func (w *world) conclude() {
	m := w.pick()
	r := w.runOf(m)
	if r == nil || len(r.under) > 0 {
		return
	}
	err := w.renewing(func(tx pgx.Tx) error {
		return w.books.SettleRunTx(w.t.Context(), tx, billing.Charge{WorkspaceID: m.id, ExecutionID: r.id, Amount: r.usage, Reserved: r.reserved})
	})
	if err != nil {
		w.t.Fatal(err)
	}
	m.runs = slices.DeleteFunc(m.runs, func(other *run) bool { return other == r })
	m.kept -= r.reserved
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

// replan puts a workspace on another plan, at times by mistake and back. There is
// what there would be if it had begun the period on that plan.
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

// pass lets time go by; upkeep follows at times only.
func (w *world) pass() {
	w.mu.Lock()
	w.now = w.now.Add(time.Duration(w.random.Int64N(int64(40 * time.Hour))))
	w.mu.Unlock()
	if w.random.IntN(3) == 0 {
		if _, err := w.books.RenewDue(w.t.Context(), w.pool); err != nil {
			w.t.Fatal(err)
		}
		for _, m := range w.all {
			m.turn(w.now)
		}
	}
	w.done++
}

// compare holds the database against the model: balances, sums and totals.
func (w *world) compare() {
	w.t.Helper()
	for _, m := range w.all {
		if err := w.books.Renew(w.t.Context(), w.pool, m.id); err != nil {
			w.t.Fatal(err)
		}
		m.turn(w.now)
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
	operations := 3_000
	if os.Getenv("WEFT_SOAK") != "" {
		operations = 100_000
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	w := &world{desk: newDesk(t, "2026-11-21T10:00:00Z"), random: rand.New(rand.NewPCG(seed, 7))}
	for i, name := range append(plan.Names(), plan.Starter, plan.Growth) {
		paid := credit.Credits(int64(i * 10))
		w.all = append(w.all, &model{id: w.open(fmt.Sprint(i), name, paid), terms: name.Terms(), pots: [2]credit.Amount{0, paid}})
	}
	began := time.Now()
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
			w.end()
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
	t.Logf("%d operations in %s", w.done, time.Since(began).Round(time.Millisecond))
}
