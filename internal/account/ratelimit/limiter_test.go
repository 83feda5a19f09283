package ratelimit

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/account/workspace"
	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/local/pgtest"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/platform/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patient is the patience for tests of decisions by a store that responds. It is long enough for
// a busy machine.
const patient = 10 * time.Second

// nodes are limiters that share a database, like the limiters of several processes.
type nodes struct {
	owner    *pgxpool.Pool
	limiters []*Limiter
	metrics  []*telemetry.Metrics
}

func start(t *testing.T, n int, patience time.Duration) *nodes {
	t.Helper()
	return startOn(t, pgtest.DSN(t), n, patience)
}

func startOn(t *testing.T, dsn string, n int, patience time.Duration) *nodes {
	t.Helper()
	all := &nodes{owner: open(t, dsn, postgres.Owner)}
	for range n {
		metrics := telemetry.NewMetrics("test")
		limiter, err := New(open(t, dsn, postgres.System), metrics, patience)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		var running sync.WaitGroup
		running.Go(func() { limiter.Run(ctx) })
		t.Cleanup(func() {
			cancel()
			running.Wait()
			limiter.Close()
		})
		all.limiters, all.metrics = append(all.limiters, limiter), append(all.metrics, metrics)
	}
	return all
}

func open(t *testing.T, dsn string, role postgres.Role) *pgxpool.Pool {
	t.Helper()
	pool, err := postgres.Open(t.Context(), dsn, "limits", role, 4)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// workspace creates a workspace, with custom terms if the caller passes any, and makes every node
// read them.
func (n *nodes) workspace(t *testing.T, name plan.Name, custom ...string) uuid.UUID {
	t.Helper()
	id, err := workspace.Create(t.Context(), n.owner, workspace.CreateParams{Name: uuid.NewString(), Plan: name})
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range custom {
		if _, err := n.owner.Exec(t.Context(), "UPDATE workspaces SET "+change+" WHERE id = $1", id); err != nil {
			t.Fatal(err)
		}
	}
	for _, l := range n.limiters {
		waittest.Until(t, "the node knows the terms", func() bool {
			_, _, known := l.Terms(t.Context(), id)
			return known
		})
	}
	return id
}

// stored returns the usage of a workspace in the store.
func (n *nodes) stored(t *testing.T, id uuid.UUID) usage {
	t.Helper()
	var data []byte
	if err := n.owner.QueryRow(t.Context(), "SELECT state FROM rate_limits WHERE workspace_id = $1", id).Scan(&data); err != nil {
		t.Fatal(err)
	}
	return decode(data)
}

// decisions is how many decisions a node made.
func (n *nodes) decisions(t *testing.T, node int, by, outcome string) (sum float64) {
	t.Helper()
	families, err := n.metrics[node].Registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if text := m.String(); family.GetName() == "weft_limit_decisions_total" && strings.Contains(text, `"`+by+`"`) && strings.Contains(text, `"`+outcome+`"`) {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// Concurrent requests to several nodes are admitted up to the same limit as on one node.
func TestRL02NodesShareOneBucket(t *testing.T) {
	n := start(t, 3, patient)
	id := n.workspace(t, plan.Professional)
	var allowed atomic.Int64
	var all sync.WaitGroup
	began := time.Now()
	for i := range 90 {
		all.Go(func() {
			cost := 1 + i%2
			if n.limiters[i%3].Take(t.Context(), id, cost).Allowed {
				allowed.Add(int64(cost))
			}
		})
	}
	all.Wait()
	took := time.Since(began)
	if got, most := allowed.Load(), 25*(took.Seconds()+1); got < 25 || float64(got) > most {
		t.Errorf("%d were let in within %v, want 25 to %v", got, took, most)
	}
}

// Above 200 requests a second, nodes lease several requests at a time. In total, nodes admit no
// more than the limit, and they return unused requests.
func TestRL02LeasesHoldTheLimit(t *testing.T) {
	n := start(t, 2, patient)
	id := n.workspace(t, plan.Enterprise, "custom_rps = 1000, custom_rph = 1000000")
	var let, asked atomic.Int64
	press := func() {
		var all sync.WaitGroup
		began := time.Now()
		for i := range 16 {
			all.Go(func() {
				for time.Since(began) < 2*time.Second {
					asked.Add(1)
					d := n.limiters[i%2].Take(t.Context(), id, 1)
					if d.Allowed {
						let.Add(1)
					}
					if d.Second.Remaining < 0 || d.Second.Remaining > 1000 || d.Hour.Remaining > 1_000_000 {
						t.Errorf("%+v", d)
					}
				}
			})
		}
		all.Wait()
	}
	began := time.Now()
	for let.Load() < 2000 { // beyond the first second's limit: leases are renewed
		press()
		if got, most := let.Load(), 1000*(time.Since(began).Seconds()+1.02); float64(got) > most {
			t.Errorf("%d of %d were let in within %v, want at most %v", got, asked.Load(), time.Since(began), most)
		}
	}
	// Far from the limit, nearly no request needs a separate round trip.
	wide := n.workspace(t, plan.Enterprise, "custom_rps = 100000")
	before := n.decisions(t, 0, "store", "allowed")
	began = time.Now()
	for range 2000 {
		if d := n.limiters[0].Take(t.Context(), wide, 2); !d.Allowed {
			t.Fatalf("%+v", d)
		}
	}
	if trips := n.decisions(t, 0, "store", "allowed") - before; trips > 10+time.Since(began).Seconds()*10 {
		t.Errorf("%v of 2000 were asked of the store one by one", trips)
	}
	waittest.Until(t, "unused requests are returned", func() bool {
		return n.stored(t, id).sum == let.Load()
	})
}

// Requests that exceed the limit by far are rejected without reaching the store. The node's
// rejections are the same as the store's rejections.
func TestRL03AFloodStaysOutside(t *testing.T) {
	n := start(t, 1, patient)
	l, id := n.limiters[0], n.workspace(t, plan.Starter)
	let, began := 0, time.Now()
	for range 2000 {
		d := l.Take(t.Context(), id, 2)
		if d.Allowed {
			let += 2
		} else if d.RetryAfter() != 1 || d.Violated != Second || d.Second.Remaining > 1 {
			t.Fatalf("%+v", d)
		}
	}
	took := time.Since(began)
	if most := 5 * (took.Seconds() + 1); float64(let) > most {
		t.Errorf("%d in %v", let, took)
	}
	if trips := n.decisions(t, 0, "store", "refused") + n.decisions(t, 0, "store", "allowed"); trips > 10+10*took.Seconds() {
		t.Errorf("%v trips to the store in %v", trips, took)
	}
}

func TestARefundIsThereForAllNodes(t *testing.T) {
	n := start(t, 2, patient)
	id := n.workspace(t, plan.Starter, "custom_rps = 1, custom_rph = 2")
	first := n.limiters[0].Take(t.Context(), id, 2)
	if again := n.limiters[1].Take(t.Context(), id, 2); !first.Allowed || again.Allowed {
		t.Fatalf("%+v, %+v", first, again)
	}
	if after := n.limiters[0].Refund(id, first); after.Hour.Remaining != 2 {
		t.Errorf("%+v", after)
	}
	waittest.Until(t, "the other node lets it in", func() bool { return n.limiters[1].Take(t.Context(), id, 2).Allowed })
}

// While the store is blocked, the node decides in time, by a local limit of the same size. Once
// the store is available again, the node charges it for these requests.
func TestRL10StoreBlocked(t *testing.T) {
	n := start(t, 1, Patience)
	l, id, strange := n.limiters[0], n.workspace(t, plan.Growth), n.workspace(t, plan.Starter)
	if !l.Take(t.Context(), id, 1).Allowed {
		t.Fatal("the first is refused")
	}
	tx, err := n.owner.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "LOCK TABLE rate_limits, open_calls IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	// TestRL10ADecisionWaitsForTheStoreFor50Milliseconds proves how long a decision takes.
	began, let := time.Now(), 0
	waittest.Until(t, "15 are let in without the store", func() bool {
		if l.Take(t.Context(), id, 1).Allowed {
			let++
		}
		return let == 15
	})
	if got, most := float64(let), 10*(time.Since(began).Seconds()+1); got < 15 || got > most {
		t.Errorf("%d were let in, want 15 to %v", let, most)
	}
	if d := l.Take(t.Context(), strange, 2); !d.Allowed {
		t.Errorf("a workspace that was never seen: %+v", d)
	}
	for range 10 {
		closed, allowed := l.Open(t.Context(), id, Wait)
		if !allowed {
			t.Fatal("a wait is not allowed")
		}
		defer closed()
	}
	if got := n.decisions(t, 0, "degraded", "allowed"); got < 15 {
		t.Errorf("%v degraded decisions are counted", got)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, "the store decides again", func() bool {
		before := n.decisions(t, 0, "store", "allowed")
		l.Take(t.Context(), id, 1)
		return n.decisions(t, 0, "store", "allowed") > before
	})
	waittest.Until(t, "the store knows what was let in", func() bool {
		l.Take(t.Context(), id, 1)
		return n.stored(t, id).sum >= int64(let)
	})
}

// The store is away altogether.
func TestRL10StoreDown(t *testing.T) {
	n := start(t, 1, Patience)
	l, id := n.limiters[0], n.workspace(t, plan.Starter)
	l.db.(*pgxpool.Pool).Close()
	let, began := 0, time.Now()
	for range 50 {
		if l.Take(t.Context(), id, 1).Allowed {
			let++
		}
	}
	if most := 5 * (time.Since(began).Seconds() + 1); let < 5 || float64(let) > most {
		t.Errorf("%d were let in, want 5 to %v", let, most)
	}
	strange := uuid.New()
	for n := range 3 {
		d := l.Take(t.Context(), strange, 50)
		if !d.Allowed || d.PolicyField() != `"second";q=100;w=1` || d.Field(0) == "" {
			t.Errorf("request %d of a workspace whose terms nobody knows: %+v", n, d)
		}
	}
}

// Every node applies a change of the plan or of custom terms in time.
func TestRL12PlanChanges(t *testing.T) {
	n := start(t, 2, patient)
	id := n.workspace(t, plan.Starter)
	for _, c := range []struct {
		change string
		want   string
	}{
		{"custom_rps = 7, custom_rph = 70", `"second";q=7;w=1, "hour";q=70;w=3600`},
		{"plan = 'enterprise', custom_rps = NULL, custom_rph = NULL", ""},
	} {
		if _, err := n.owner.Exec(t.Context(), "UPDATE workspaces SET "+c.change); err != nil {
			t.Fatal(err)
		}
		waittest.Until(t, c.change, func() bool {
			return n.limiters[0].Take(t.Context(), id, 1).PolicyField() == c.want && n.limiters[1].Take(t.Context(), id, 1).PolicyField() == c.want
		})
	}
}

// BenchmarkTake measures a decision in the store, with GOMAXPROCS or more concurrent callers.
func BenchmarkTake(b *testing.B) {
	pool := pgtest.DB(b)
	l, err := New(pool, nil, Patience)
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	id, err := workspace.Create(b.Context(), pool, workspace.CreateParams{Name: "bench", Plan: plan.Growth})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := pool.Exec(b.Context(), "UPDATE workspaces SET custom_rps = 1000000, custom_rph = 2000000000"); err != nil {
		b.Fatal(err)
	}
	for _, callers := range []int{1, 32} {
		b.Run(fmt.Sprint(callers), func(b *testing.B) {
			b.SetParallelism(callers)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					l.Take(context.Background(), id, 1)
				}
			})
		})
	}
}
