package chaos

import (
	"fmt"
	"testing"
	"time"

	"github.com/weft-automation/weft/internal/kit/waittest"
)

// EX-01: kill -9 of one of two workers with 1,000 executions outstanding and at
// least 200 running: all final within 30 s, each posted once, each callback
// delivered with the same bytes.
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
		watching.end()
		figures.note(t, "%d outstanding, %d running at the kill; all final %.1f s later; %s", alive, running, took.Seconds(), s.summary())
	}
}

// awaitRunning waits until so many calls are under way.
func (s *scene) awaitRunning(n int) {
	s.t.Helper()
	eventually(s.t, 30*time.Second, "calls to be under way", func() (bool, string) {
		running := s.upstream.running()
		return running >= n, fmt.Sprintf("%d of %d", running, n)
	})
}

// EX-02: the same when the killed worker is the only one and comes back 5 s
// later.
func TestEX02TheOnlyWorkerIsKilledAndComesBack(t *testing.T) {
	if waittest.LeftToSoak(t, "internal/program/chaos.TestEX02TheWholeInOneProcessIsKilled", "internal/program/chaos.TestEX01OneOfTwoWorkersIsKilled") {
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
	watching.end()
	figures.note(t, "%d outstanding at the kill; all final %.1f s after the restart; %s", alive, took.Seconds(), s.summary())
}

// EX-03: with one attempt each, nothing stays unfinished: what is safe to repeat
// completes, what is not fails as WORKER_LOST.
func TestEX03WithOneAttemptEach(t *testing.T) {
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
	watching.end()
	failed := s.number("SELECT count(*) FROM component_executions WHERE error ->> 'code' = 'WORKER_LOST'")
	if failed == 0 {
		t.Error("no unsafe call was under way in the worker that was killed")
	}
	figures.note(t, "all final %.1f s after the kill; %d unsafe calls failed as WORKER_LOST; %s", took.Seconds(), failed, s.summary())
}

// EX-05: an unsafe call whose worker is killed after the effect and before the
// end is not made again, and its execution says that the outcome is unknown.
func TestEX05AnUnsafeCallIsNotRepeated(t *testing.T) {
	t.Parallel()
	s := newScene(t, shared)
	s.expect.again = 1
	s.start("serve")
	lost := s.start("work")
	s.upstream.hold()
	n := size(20, 200)
	s.load(n, func(int) order { return order{unsafe: true, attempts: 3, callback: true} })
	s.awaitRunning(min(n, 90)) // what one workspace may have of a hundred slots
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
		t.Errorf("%v, %v", lines, err)
	}
	if failed := s.number("SELECT count(*) FROM component_executions WHERE error ->> 'code' = 'WORKER_LOST'"); failed != effects {
		t.Errorf("%d calls had taken effect, %d executions say that they do not know", effects, failed)
	}
	figures.note(t, "%d effects before the kill, none repeated; %s", effects, s.summary())
}

// EX-02 for the whole in one process, as weft dev runs it, where executions
// begin without a trip through the queue: it is killed and started again.
func TestEX02TheWholeInOneProcessIsKilled(t *testing.T) {
	t.Parallel()
	s := newScene(t, shared)
	s.expect.again = 1
	command := "dev --addr 127.0.0.1:0 --ops-addr 127.0.0.1:0 --allow-network 127.0.0.0/8 --data-dir " + t.TempDir()
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
	watching.end()
	figures.note(t, "%d running at the kill; all final %.1f s after the restart; %s", running, took.Seconds(), s.summary())
}
