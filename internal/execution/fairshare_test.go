package execution_test

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/account/workspace"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/execution"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/waittest"
)

// busy is a component that takes a configurable time and records how many of its calls run
// concurrently.
type busy struct {
	module
	takes   atomic.Int64 // nanoseconds
	mu      sync.Mutex
	running int
	most    int
	sum     time.Duration // total run time, up to changed
	changed time.Time     // when running last changed
	started map[uuid.UUID]time.Time
}

func newBusy(name string, takes time.Duration) *busy {
	b := &busy{started: map[uuid.UUID]time.Time{}}
	b.takes.Store(int64(takes))
	b.module = module{name: name, price: 1, repeat: component.RepeatPure, run: func(ctx context.Context, call component.Call) (component.Result, error) {
		b.mu.Lock()
		b.started[call.ExecutionID] = b.change(1)
		b.most = max(b.most, b.running)
		b.mu.Unlock()
		select {
		case <-time.After(time.Duration(b.takes.Load())):
		case <-ctx.Done():
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.change(-1)
		return component.Result{Output: json.RawMessage(`{}`)}, ctx.Err()
	}}
	return b
}

// change adds to the number of running components and returns the time. The caller holds b.mu.
func (b *busy) change(by int) time.Time {
	now := time.Now()
	b.sum += time.Duration(b.running) * now.Sub(b.changed)
	b.running, b.changed = b.running+by, now
	return now
}

// peak returns the largest number of calls that ran at the same time.
func (b *busy) peak() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.most
}

// used returns the total run time so far.
func (b *busy) used() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.change(0)
	return b.sum
}

// other creates a second workspace in the same database.
func (b *bench) other(t *testing.T, name string) *bench {
	t.Helper()
	second := *b
	var err error
	second.workspace, err = workspace.Create(t.Context(), b.pool, workspace.CreateParams{Name: name, Plan: plan.Enterprise, Paid: credit.Credits(1_000_000)})
	if err != nil {
		t.Fatal(err)
	}
	return &second
}

// arrivals submits one execution per interval and returns how long each execution waited for its
// start, sorted.
func (b *bench) arrivals(t *testing.T, n *node, quick *busy, count int, every time.Duration) []time.Duration {
	t.Helper()
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	var waits []time.Duration
	for range count {
		asked := time.Now()
		id := b.submit(t, n, execution.SubmitParams{Module: quick.name}).ID
		b.await(t, n, id)
		quick.mu.Lock()
		waits = append(waits, quick.started[id].Sub(asked))
		quick.mu.Unlock()
		<-ticker.C
	}
	slices.SortFunc(waits, func(a, b time.Duration) int { return cmp.Compare(a, b) })
	return waits
}

func p95(sorted []time.Duration) time.Duration { return sorted[(len(sorted)*95+99)/100-1] }

// The busy workspace holds nine tenths of the slots. Its components run for nearly all of that
// time. The rest is spent writing starts and finishes.
func TestRL08OneWorkspaceWithMuchQueuedDoesNotDelayAnother(t *testing.T) {
	const submitters = 8
	queued, count, every, slots, least := 200, 10, 120*time.Millisecond, 20, 0.6 // few and short, because other tests run at the same time
	if waittest.Timed() {
		queued, count, every, slots, least = 10_000, 60, time.Second, 100, 0.8
	}
	for way, o := range map[string]options{
		"one process": {slots: slots, workers: slots},
		"a process that serves and one that works": {slots: slots, workers: slots, works: true},
	} {
		t.Run(way, func(t *testing.T) {
			capacity := o.capacity()
			window := capacity * 9 / 10
			a := newBench(t)
			b := a.other(t, "b")
			long, quick := newBusy("LONG", 0), newBusy("QUICK", 0)
			worker := a.start(t, o, long, quick)
			server := worker
			if o.works {
				server = a.start(t, options{idle: true}, long, quick)
			}
			idle := p95(b.arrivals(t, server, quick, count, every/4))
			// A's executions take long enough to last four times as long as B's arrivals.
			long.takes.Store(int64(4*count*capacity) * int64(max(every, 2*idle+noise)) / int64(queued))

			var submitting sync.WaitGroup
			for range submitters {
				submitting.Go(func() {
					for range queued / submitters {
						a.submit(t, server, execution.SubmitParams{Module: "LONG"})
					}
				})
			}
			submitting.Wait()
			start, before := time.Now(), long.used()
			waits := b.arrivals(t, server, quick, count, every)
			used := float64(long.used()-before) / float64(time.Since(start)) / float64(capacity)
			var left, has int
			for has < window { // an execution may have finished before the next one started
				err := a.pool.QueryRow(t.Context(), `SELECT count(*) FILTER (WHERE parked), count(*) FILTER (WHERE NOT parked)
					FROM component_executions WHERE finished_at IS NULL AND workspace_id = $1`, a.workspace).Scan(&left, &has)
				if err != nil {
					t.Fatal(err)
				}
				if left == 0 {
					t.Fatalf("the backlog was over too early to show anything: the other has %d of %d slots", has, capacity)
				}
			}
			t.Logf("p95 to the start: %v idle, %v with %d queued; the other has %d of %d slots, and components ran in %.0f %% of them", idle, p95(waits), queued, has, capacity, 100*used)
			if got := p95(waits); waittest.Timed() && (got > 2*time.Second || got > 2*idle+noise) {
				t.Errorf("p95 to the start is %v, idle it was %v", p95(waits), idle)
			}
			if waittest.Timed() && used < least {
				t.Errorf("the other has %d of %d slots and ran in %.0f %% of them", has, capacity, 100*used)
			}
			// Each acceptance in flight may fill a slot that a release also fills.
			if most := long.peak(); most > window+submitters {
				t.Errorf("%d of the other's ran at once, want at most %d and one for each of %d submitters", most, window, submitters)
			}
		})
	}
}

// noise is how late a start can be on a busy machine with two cores. On an idle machine, starts
// take some 30 ms.
const noise = 75 * time.Millisecond

// The test uses one slot, several submitters, and executions that pause.
func TestParkedExecutionsAllFinish(t *testing.T) {
	t.Parallel()
	for way, o := range waittest.Chosen(map[string]options{
		"one slot of the queue": {workers: 1}, "one local slot": {slots: 1, workers: 1}, "several": {slots: 5, workers: 5},
	}, "one local slot") {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			pausing := module{name: "PAUSES", price: 1, repeat: component.RepeatPure, run: func(_ context.Context, call component.Call) (component.Result, error) {
				if call.State == nil {
					return component.Result{Wait: &component.Wait{After: 300 * time.Millisecond, State: json.RawMessage(`1`)}}, nil
				}
				return component.Result{Output: json.RawMessage(`{}`)}, nil
			}}
			n := b.start(t, o, newBusy("QUICK", time.Millisecond), pausing)
			var ids [4][]uuid.UUID
			var submitting sync.WaitGroup
			for k := range ids {
				submitting.Go(func() {
					for m := range 25 {
						name := "QUICK"
						if m%10 == 9 {
							name = "PAUSES"
						}
						ids[k] = append(ids[k], b.submit(t, n, execution.SubmitParams{Module: name}).ID)
					}
				})
			}
			submitting.Wait()
			for _, id := range slices.Concat(ids[:]...) {
				b.await(t, n, id)
			}
			var live, parked int
			if err := b.pool.QueryRow(t.Context(), "SELECT live, parked FROM credit_accounts").Scan(&live, &parked); err != nil || live != 0 || parked != 0 {
				t.Errorf("the account counts %d live and %d parked executions, %v", live, parked, err)
			}
			if count, _ := b.postings(t); count != 100 {
				t.Errorf("%d postings of 100", count)
			}
		})
	}
}

// Parked executions are released although no execution finishes, because running ones pause or a
// worker is added. A parked execution whose job is missing gets a new job.
func TestParkedExecutionsAreReleasedWithoutAFinish(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	pausing := module{name: "PAUSES", price: 1, repeat: component.RepeatPure, run: func(context.Context, component.Call) (component.Result, error) {
		return component.Result{Wait: &component.Wait{After: time.Hour, State: json.RawMessage(`1`)}}, nil
	}}
	accepting := b.start(t, options{idle: true}, pausing, newBusy("QUICK", 0))
	for range 95 { // of 100 assumed slots
		b.submit(t, accepting, execution.SubmitParams{Module: "PAUSES"})
	}
	last := b.submit(t, accepting, execution.SubmitParams{Module: "QUICK"}).ID
	var parked, pending int
	err := b.pool.QueryRow(t.Context(), `SELECT count(*) FILTER (WHERE e.parked), count(*) FILTER (WHERE j.state = 'pending')
		FROM component_executions e JOIN river.river_job j ON j.id = e.job_id`).Scan(&parked, &pending)
	if err != nil || parked != 6 || pending != 6 {
		t.Fatalf("%d are parked, %d jobs pending, %v; want 6 of each", parked, pending, err)
	}
	_, err = b.pool.Exec(t.Context(), `WITH gone AS (DELETE FROM river.river_job j USING component_executions e WHERE e.id = $1 AND j.id = e.job_id)
		UPDATE component_executions SET updated_at = updated_at - interval '1 minute' WHERE id = $1`, last)
	if err != nil {
		t.Fatal(err)
	}
	n := b.start(t, options{slots: 10, workers: 10}, pausing, newBusy("QUICK", 0))
	b.await(t, n, last)
}
