package chaos

import (
	"fmt"
	"testing"
	"time"

	"github.com/weft-automation/weft/internal/kit/waittest"
)

// EX-01: one of two workers is killed with 1,000 unfinished executions, at least 200 of them
// running. All executions are final within 30 s, each execution is posted once, and all deliveries
// of a callback have the same bytes.
func TestEX01OneOfTwoWorkersIsKilled(t *testing.T) {
	t.Parallel()
	for range size(1, 3) {
		s := newScene(t, shared)
		s.expect.again = 1
		s.start("serve")
		slots := size(40, 150)
		lost := s.start("work", fmt.Sprint("WEFT_WORKERS=", slots))
		s.start("work", fmt.Sprint("WEFT_WORKERS=", slots))
		s.upstream.hold()
		watching := s.watch()
		n := size(200, 1000)
		s.load(n, mixed)
		s.awaitRunning(size(60, 200))
		running, alive := s.upstream.running(), s.alive()
		lost.kill()
		s.upstream.release()
		took := s.finish(30 * time.Second)
		watching.stop()
		figures.note(t, "%d unfinished, %d running at the kill; all final %.1f s later; %s", alive, running, took.Seconds(), s.summary())
	}
}

// awaitRunning waits until n calls are in flight.
func (s *scene) awaitRunning(n int) {
	s.t.Helper()
	eventually(s.t, 30*time.Second, "calls to be in flight", func() (bool, string) {
		running := s.upstream.running()
		return running >= n, fmt.Sprintf("%d of %d", running, n)
	})
}

// EX-02: like EX-01, but the killed worker is the only one and restarts 5 s later.
func TestEX02OnlyWorkerIsKilledAndRestarted(t *testing.T) {
	if waittest.LeftToSoak(t, "internal/program/chaos.TestEX02SingleProcessIsKilledAndRestarted", "internal/program/chaos.TestEX01OneOfTwoWorkersIsKilled") {
		return
	}
	t.Parallel()
	s := newScene(t, shared)
	s.expect.again = 1
	s.start("serve")
	workers := fmt.Sprint("WEFT_WORKERS=", size(60, 200))
	lost := s.start("work", workers)
	s.upstream.hold()
	watching := s.watch()
	s.load(size(150, 1000), mixed)
	s.awaitRunning(size(50, 200))
	alive := s.alive()
	lost.kill()
	s.upstream.release()
	hold(t, size(time.Second, 5*time.Second))
	s.start("work", workers)
	took := s.finish(30 * time.Second)
	watching.stop()
	figures.note(t, "%d unfinished at the kill; all final %.1f s after the restart; %s", alive, took.Seconds(), s.summary())
}

// EX-03: executions that allow only one attempt don't stay unfinished. Safe calls are repeated and
// complete. Unsafe calls fail with WORKER_LOST.
func TestEX03ExecutionsWithOneAttemptFinish(t *testing.T) {
	t.Parallel()
	s := newScene(t, shared)
	s.expect.again = 1
	s.start("serve")
	workers := fmt.Sprint("WEFT_WORKERS=", size(40, 120))
	lost := s.start("work", workers)
	s.start("work", workers)
	s.upstream.hold()
	watching := s.watch()
	s.load(size(120, 1000), func(i int) order {
		o := mixed(i)
		o.attempts, o.unsafe = 1, i%3 == 0
		return o
	})
	s.awaitRunning(size(70, 200))
	lost.kill()
	s.upstream.release()
	took := s.finish(30 * time.Second)
	watching.stop()
	failed := s.number("SELECT count(*) FROM component_executions WHERE error ->> 'code' = 'WORKER_LOST'")
	if failed == 0 {
		t.Error("the killed worker had no unsafe call in flight")
	}
	figures.note(t, "all final %.1f s after the kill; %d unsafe calls failed as WORKER_LOST; %s", took.Seconds(), failed, s.summary())
}

// EX-05: a worker is killed after the effect of an unsafe call, before the result is stored. The
// call is not repeated, and its execution reports that the outcome is unknown.
func TestEX05AnUnsafeCallIsNotRepeated(t *testing.T) {
	if waittest.LeftToSoak(t, "internal/execution.TestEX05AnUnsafeCallWhoseWorkerIsLostIsNotRepeated", "internal/program/chaos.TestEX03ExecutionsWithOneAttemptFinish") {
		return
	}
	t.Parallel()
	s := newScene(t, shared)
	s.expect.again = 1
	s.start("serve")
	lost := s.start("work")
	s.upstream.hold()
	n := size(20, 200)
	s.load(n, func(int) order { return order{unsafe: true, attempts: 3, callback: true} })
	s.awaitRunning(min(n, 90)) // a workspace's share of a hundred slots
	effects := s.upstream.running()
	lost.kill()
	s.upstream.release()
	s.start("work")
	s.finish(30 * time.Second)
	if s.upstream.repeats() != 0 {
		t.Errorf("%d effects were repeated", s.upstream.repeats())
	}
	lines, err := s.breaches(t.Context(), `SELECT id || ' ended ' || status || ' ' || COALESCE(error::text, '')
		FROM component_executions WHERE error ->> 'code' IS DISTINCT FROM 'WORKER_LOST' AND status <> 'COMPLETED'`)
	if err != nil || len(lines) > 0 {
		t.Errorf("unexpected executions %v (%v)", lines, err)
	}
	if failed := s.number("SELECT count(*) FROM component_executions WHERE error ->> 'code' = 'WORKER_LOST'"); failed != effects {
		t.Errorf("%d calls had an effect, but %d executions report an unknown outcome", effects, failed)
	}
	figures.note(t, "%d effects before the kill, none repeated; %s", effects, s.summary())
}

// EX-02 with all of Weft in one process, as in `weft dev`, where executions start without the
// queue. The process is killed and restarted.
func TestEX02SingleProcessIsKilledAndRestarted(t *testing.T) {
	t.Parallel()
	s := newScene(t, shared)
	s.expect.again = 1
	command := "dev --verbose --no-proxy --addr 127.0.0.1:0 --ops-addr 127.0.0.1:0 --allow-network 127.0.0.0/8 --data-dir " + t.TempDir()
	lost := s.start(command)
	s.upstream.hold()
	watching := s.watch()
	s.load(size(130, 1000), func(i int) order {
		o := mixed(i)
		o.unsafe = i%4 == 0
		return o
	})
	s.awaitRunning(size(100, 190))
	running := s.upstream.running()
	lost.kill()
	s.upstream.release()
	s.start(command)
	took := s.finish(30 * time.Second)
	watching.stop()
	figures.note(t, "%d running at the kill; all final %.1f s after the restart; %s", running, took.Seconds(), s.summary())
}
