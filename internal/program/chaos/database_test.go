package chaos

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/local/client"
)

// backgroundLoad is a load that runs until stop is called. Each submission is repeated until it is
// acknowledged.
type backgroundLoad struct {
	cancel  context.CancelFunc
	done    sync.WaitGroup
	refused atomic.Int64 // submissions that got 503 or lost their connection
	failed  atomic.Pointer[error]
}

func (s *scene) startLoad(pace time.Duration, make func(i int) order) *backgroundLoad {
	ctx, cancel := context.WithCancel(context.Background())
	w := &backgroundLoad{cancel: cancel}
	s.t.Cleanup(func() { w.stop() })
	var n atomic.Int64
	for range 4 {
		w.done.Go(func() {
			during(ctx, time.Hour, 4*pace, func() {
				// Wait for submissions in flight. Otherwise it is unknown whether these submissions
				// were acknowledged.
				_, refused, err := s.submitUntilAcknowledged(context.Background(), make(int(n.Add(1))))
				w.refused.Add(int64(refused))
				if err != nil {
					w.failed.CompareAndSwap(nil, &err)
				}
			})
		})
	}
	return w
}

func (w *backgroundLoad) stop() error {
	w.cancel()
	w.done.Wait()
	if failed := w.failed.Load(); failed != nil {
		return *failed
	}
	return nil
}

// EX-08: under load, PostgreSQL crashes, is down for 10 s, and restarts. No process exits,
// submissions get 503 with Retry-After while it is down, work resumes within 5 s after the restart,
// and nothing acknowledged is lost.
func TestEX08PostgreSQLRestartsUnderLoad(t *testing.T) {
	if waittest.LeftToSoak(t, "internal/program/chaos.TestOP01TheDatabaseCannotServe", "internal/program/chaos.TestEX14ResponseToACommitIsLost") {
		return
	}
	t.Parallel()
	database := ownServer(t, nil)
	s := newScene(t, database)
	s.expect.again = 2
	nodes := []*process{s.start("serve"), s.start("work"), s.start("work")}
	watching := s.watch()
	load := s.startLoad(size(40*time.Millisecond, 8*time.Millisecond), func(i int) order {
		return order{tenant: i % 2, millis: i % 300, callback: true}
	})
	hold(t, size(time.Second, 10*time.Second))
	if err := database.crash(); err != nil {
		t.Fatal(err)
	}
	if err := database.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	first := s.awaitWork(5 * time.Second)
	hold(t, size(time.Second, 10*time.Second))
	if err := database.stop(); err != nil {
		t.Fatal(err)
	}
	refusals := s.refusals(size(2*time.Second, 10*time.Second))
	if err := database.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := s.awaitWork(5 * time.Second)
	hold(t, size(500*time.Millisecond, 5*time.Second))
	if err := load.stop(); err != nil {
		t.Errorf("a submission got neither 200 nor 503: %v", err)
	}
	for _, p := range nodes {
		if p.ended() {
			t.Errorf("%s exited: %v", p.name, p.err)
		}
	}
	took := s.finish(45 * time.Second)
	watching.stop()
	figures.note(t, "work resumed %.1f s after the crash, %.1f s after the outage; %d responses 503 during it; all final %.1f s after the load; %s",
		first.Seconds(), second.Seconds(), refusals, took.Seconds(), s.summary())
}

// awaitWork waits until a new execution completes, and returns how long that took.
func (s *scene) awaitWork(limit time.Duration) time.Duration {
	s.t.Helper()
	return eventually(s.t, limit, "a new execution to complete", func() (bool, string) {
		record, err := s.submit(s.t.Context(), s.node(), order{module: "RANDOM_UUID", wait: time.Second})
		return err == nil && record.Completed, fmt.Sprint(record.Status, err)
	})
}

// refusals sends submissions for the duration and checks that each response is 503 with
// Retry-After, once the first one was: sessions read a new setting of the server at different times.
// It returns the number of responses.
func (s *scene) refusals(length time.Duration) (n int) {
	s.t.Helper()
	late := 0
	eventually(s.t, 5*time.Second, "the first response without a database", func() (bool, string) {
		_, err := s.submit(s.t.Context(), s.node(), order{module: "RANDOM_UUID"})
		return err != nil, "accepted"
	})
	during(s.t.Context(), length, 100*time.Millisecond, func() {
		began := time.Now()
		_, err := s.submit(s.t.Context(), s.node(), order{module: "RANDOM_UUID"})
		problem, ok := errors.AsType[*client.Problem](err)
		if !ok || problem.Status != http.StatusServiceUnavailable || problem.RetryAfter < time.Second {
			s.t.Errorf("without a database: %v", err)
		}
		if took := time.Since(began); took > 3*time.Second {
			late++
		}
		n++
	})
	if waittest.Timed() && late > n/2 {
		s.t.Errorf("without a database: %d of %d responses took more than 3 s", late, n)
	}
	return n
}

// EX-09: connections to the database are terminated at random, five a second.
func TestEX09ConnectionsAreTerminatedAtRandom(t *testing.T) {
	if waittest.LeftToSoak(t, "internal/program/chaos.TestEX14ResponseToACommitIsLost", "internal/program/chaos.TestOP01TheDatabaseCannotServe") {
		return
	}
	t.Parallel()
	s := newScene(t, shared)
	s.expect.again = 1
	s.start("serve")
	s.start("work")
	s.start("work")
	watching := s.watch()
	load := s.startLoad(size(40*time.Millisecond, 10*time.Millisecond), func(i int) order {
		return order{tenant: i % 2, millis: i % 200, callback: true}
	})
	cuts := 0
	during(t.Context(), size(4*time.Second, time.Minute), 200*time.Millisecond, func() {
		if s.number(`SELECT count(pg_terminate_backend(pid)) FROM (SELECT pid FROM pg_stat_activity
			WHERE datname = current_database() AND application_name LIKE 'weft-%' AND application_name <> 'weft-chaos'
			ORDER BY random() LIMIT 1) AS one`) == 1 {
			cuts++
		}
	})
	if err := load.stop(); err != nil {
		t.Errorf("a submission got neither 200 nor 503: %v", err)
	}
	took := s.finish(30 * time.Second)
	watching.stop()
	if watching.failed > max(1, watching.reads/100) { // a few failures of fewer than a hundred reads prove nothing
		t.Errorf("%d of %d reads failed after one retry", watching.failed, watching.reads)
	}
	figures.note(t, "%d connections terminated, %d submissions repeated, %d of %d reads failed; all final %.1f s after the load; %s",
		cuts, load.refused.Load(), watching.failed, watching.reads, took.Seconds(), s.summary())
}

// EX-10: a different client uses all of PostgreSQL's connections, including the service's
// connections. The API responds 503 and reports not ready. It recovers once the connections are
// released.
func TestEX10AllConnectionsAreUsedUp(t *testing.T) {
	if waittest.LeftToSoak(t, "internal/program/chaos.TestOP01TheDatabaseCannotServe") {
		return
	}
	t.Parallel()
	s := newScene(t, ownServer(t, map[string]string{"max_connections": "200"}))
	node := s.start("serve")
	worker := s.start("work")
	s.load(20, mixed)
	if n := s.number("SELECT 1"); n != 1 {
		t.Fatal("the test has no connection")
	}
	ctx, release := context.WithCancel(context.Background())
	defer release()
	var taken atomic.Int64
	var taking sync.WaitGroup
	for range 4 {
		taking.Go(func() { s.takeConnections(ctx, &taken) })
	}
	eventually(t, 20*time.Second, "the service to lose its connections", func() (bool, string) {
		own := s.number(`SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
			WHERE application_name LIKE 'weft-%' AND application_name <> 'weft-chaos'`)
		all := s.number("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'")
		code, body := node.status("/readyz")
		return own == 0 && all == 200 && code == http.StatusServiceUnavailable, fmt.Sprintf("%d of %d belong to the service, %s", own, all, body)
	})
	refusals := s.refusals(size(time.Second, 5*time.Second))
	if code, body := node.status("/healthz"); code != http.StatusOK {
		t.Errorf("liveness: %d %s", code, body)
	}
	release()
	taking.Wait()
	for _, p := range []*process{node, worker} {
		eventually(t, 5*time.Second, p.name+" to be ready again", func() (bool, string) {
			code, body := p.status("/readyz")
			return code == http.StatusOK, body
		})
	}
	recovered := s.awaitWork(5 * time.Second)
	s.finish(30 * time.Second)
	figures.note(t, "%d connections used up, %d responses 503, work resumed after %.1f s; %s", taken.Load(), refusals, recovered.Seconds(), s.summary())
}

// takeConnections opens connections and keeps them open until ctx is done.
func (s *scene) takeConnections(ctx context.Context, taken *atomic.Int64) {
	var held []*pgx.Conn
	during(ctx, time.Hour, 10*time.Millisecond, func() {
		if conn, err := pgx.Connect(ctx, s.dsn); err == nil {
			held = append(held, conn)
			taken.Add(1)
		}
	})
	for _, conn := range held {
		_ = conn.Close(context.Background())
	}
}

// EX-14: the connection between serve and PostgreSQL is closed after a commit, before the response
// to the commit arrives. Every execution has a job, every job has an execution, and a repeat with
// the same Idempotency-Key returns the first execution.
func TestEX14ResponseToACommitIsLost(t *testing.T) {
	t.Parallel()
	s := newScene(t, shared)
	proxy := newFaultProxy(t, s.dsn)
	s.start("serve", "DATABASE_URL="+proxy.dsn())
	proxy.dropAfterCommit.Store(3)
	n := size(60, 500)
	s.load(n, func(i int) order {
		o := order{tenant: i % 2, callback: true}
		if i%2 == 0 {
			o.once = fmt.Sprint("once-", i)
		}
		return o
	})
	proxy.dropAfterCommit.Store(0)
	if proxy.drops.Load() == 0 {
		t.Fatal("no response to a commit was dropped")
	}
	for what, query := range map[string]string{
		"execution without a job": `SELECT e.id::text FROM component_executions e LEFT JOIN river.river_job j ON j.id = e.job_id WHERE j.id IS NULL`,
		"job without an execution": `SELECT j.id::text FROM river.river_job j LEFT JOIN component_executions e ON e.job_id = j.id
			WHERE j.kind = 'component_execution' AND e.id IS NULL`,
		"key with two executions": `SELECT key FROM idempotency_keys GROUP BY workspace_id, key HAVING count(*) > 1`,
	} {
		if found, err := s.breaches(t.Context(), query); err != nil || len(found) > 0 {
			t.Errorf("found a %s: %v (%v)", what, found, err)
		}
	}
	keys := s.number("SELECT count(*) FROM idempotency_keys")
	distinct := map[string]bool{}
	for id, a := range s.ledger.acknowledged() {
		if a.once != "" {
			distinct[id.String()] = true
		}
	}
	if keys != n/2 || len(distinct) != n/2 {
		t.Errorf("%d Idempotency-Keys created %d executions, %d were acknowledged", n/2, keys, len(distinct))
	}
	s.start("work")
	s.finish(30 * time.Second)
	figures.note(t, "%d responses to commits dropped; %d unacknowledged executions completed too; %s",
		proxy.drops.Load(), s.number("SELECT count(*) FROM component_executions")-s.ledger.count(), s.summary())
}
