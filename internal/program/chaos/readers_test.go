package chaos

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/weft-automation/weft/internal/kit/waittest"
)

// EX-20: clients poll every 20 ms and follow streams while workers are killed, replaced and frozen,
// connections are terminated and nodes are lost. The states that clients see only move forward, and
// a record shows its usage once the execution is final.
func TestEX20ReadersSeeStatesMoveForward(t *testing.T) {
	if waittest.LeftToSoak(t, "internal/execution.TestSS03AWatcherSeesTheFinalStateOnce", "internal/program/chaos.TestEX01OneOfTwoWorkersIsKilled") {
		return
	}
	t.Parallel()
	s := newScene(t, shared)
	s.expect.again = 3
	s.start("serve")
	s.start("serve")
	worker := []*process{s.start("work"), s.start("work")}
	watching := s.watch()
	load := s.startLoad(size(40*time.Millisecond, 8*time.Millisecond), func(i int) order {
		return order{tenant: i % 2, millis: i % 400, attempts: 1 + i%3, unsafe: i%4 == 0, callback: true}
	})
	faults := []func(){
		func() { worker[0].kill(); worker[0] = s.start("work") },
		func() { s.cutListeners() },
		func() {
			s.number(`SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
				WHERE datname = current_database() AND application_name IN ('weft-api', 'weft-queue', 'weft-worker')`)
		},
		func() { p := s.node(); s.leave(p); p.kill(); s.start("serve") },
		func() { worker[1].signal(syscall.SIGSTOP); hold(t, time.Second); worker[1].signal(syscall.SIGCONT) },
		func() {
			worker[1].signal(syscall.SIGTERM)
			worker[1].exitCode(t, 25*time.Second)
			worker[1] = s.start("work")
		},
	}
	n := 0
	during(t.Context(), size(6*time.Second, time.Minute), size(900*time.Millisecond, 2*time.Second), func() {
		faults[n%len(faults)]()
		n++
	})
	if err := load.stop(); err != nil {
		t.Errorf("a submission failed after retries: %v", err)
	}
	took := s.finish(30 * time.Second)
	watching.stop()
	figures.note(t, "%d faults, %d reads and their streams; all final %.1f s after the load; %s", n, watching.reads, took.Seconds(), s.summary())
}

// CB-19: one receiver never responds and has many callbacks queued. The callbacks of a different
// tenant arrive within 2 s, and executions are as fast as before.
func TestCB19BlackHoleDelaysNoOtherTenant(t *testing.T) {
	if waittest.LeftToSoak(t, "internal/execution/callback.TestCB19ADeadHostDoesNotDelayAnotherWorkspace") {
		return
	}
	s := newScene(t, shared)
	s.start("serve")
	s.start("work")
	hole, connections := blackHole(t)
	n := size(20, 200)
	pace := func() time.Duration {
		began := time.Now()
		s.load(n, func(int) order { return order{tenant: 1, module: "RANDOM_UUID", callback: true} })
		eventually(t, 30*time.Second, "the healthy tenant's executions to finish", func() (bool, string) {
			left := s.number("SELECT count(*) FROM component_executions WHERE workspace_id = $1 AND finished_at IS NULL", s.tenants[1].id)
			return left == 0, fmt.Sprint(left)
		})
		return time.Since(began)
	}
	before := pace()
	s.load(size(200, 2000), func(int) order {
		return order{module: "RANDOM_UUID", callback: true, to: hole + "/hole"}
	})
	filled := time.Now()
	var meanwhile time.Duration
	rounds := size(1, 5)
	for range rounds {
		meanwhile += pace() / time.Duration(rounds)
	}
	eventually(t, 30*time.Second, "the healthy tenant's callbacks", func() (bool, string) {
		got := s.receiver.delivered()
		return got == n*(rounds+1), fmt.Sprint(got)
	})
	var late []time.Duration
	for id, a := range s.ledger.acknowledged() {
		if a.to == "" && a.at.After(filled) {
			var finished time.Time
			if err := s.pool.QueryRow(t.Context(), "SELECT finished_at FROM component_executions WHERE id = $1", id).Scan(&finished); err != nil {
				t.Fatal(err)
			}
			late = append(late, s.receiver.of(id.String()).first.Sub(finished))
		}
	}
	slices.Sort(late)
	t.Logf("p50 %v, p90 %v, p95 %v, max %v", percentile(late, .5), percentile(late, .9), percentile(late, .95), percentile(late, 1))
	if p95 := percentile(late, .95); p95 > 2*time.Second {
		t.Errorf("the healthy tenant's callbacks took %v (p95)", p95)
	}
	if soak && meanwhile > before*11/10+250*time.Millisecond {
		t.Errorf("%d executions took %v, but %v before", n, meanwhile, before)
	}
	if connections() == 0 {
		t.Error("no callback was sent to the black hole")
	}
	// The black hole's callbacks are not awaited: their schedule is long.
	eventually(t, 30*time.Second, "all executions to be final", func() (bool, string) {
		left := s.number("SELECT count(*) FROM component_executions WHERE finished_at IS NULL")
		return left == 0, fmt.Sprint(left)
	})
	s.checkRecords()
	s.checkLogs()
	figures.note(t, "%d callbacks in a black hole (%d tried); the others' p95 %v; %d executions took %v, %v before",
		size(200, 2000), connections(), percentile(late, .95).Round(time.Millisecond), n, meanwhile.Round(time.Millisecond), before.Round(time.Millisecond))
}
