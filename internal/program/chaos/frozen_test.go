package chaos

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weft-automation/weft/internal/kit/waittest"
)

// EX-06: a worker is frozen until other workers have acquired its executions, then it is resumed.
// The resumed worker changes nothing, nothing is posted twice, and no state moves backwards. The
// frozen worker is the worker that runs the sweeper, because that case is harder.
func TestEX06AWorkerIsFrozenAndThawed(t *testing.T) {
	if waittest.LeftToSoak(t, "internal/program/chaos.TestOP02HangingWorkerReportsNotReady", "internal/execution.TestAnUnsafeCallOutlivesAStallOfTheDatabase") {
		return
	}
	t.Parallel()
	s := newScene(t, shared)
	s.expect.again = 1
	s.start("serve")
	workers := fmt.Sprint("WEFT_WORKERS=", size(30, 150))
	frozen := s.start("work", workers)
	s.awaitSweeper()
	s.start("work", workers)
	s.upstream.hold()
	watching := s.watch()
	s.load(size(80, 600), func(i int) order {
		o := mixed(i)
		o.unsafe = i%4 == 0
		return o
	})
	s.awaitRunning(size(50, 200))
	frozen.signal(syscall.SIGSTOP)
	s.upstream.release()
	took := eventually(t, 60*time.Second, "the other worker to finish the work of the frozen one", func() (bool, string) {
		n := s.alive()
		return n == 0, fmt.Sprintf("%d executions are not final", n)
	})
	before := s.fingerprint()
	frozen.signal(syscall.SIGCONT)
	eventually(t, 20*time.Second, "the thawed worker to register again", func() (bool, string) {
		code, body := frozen.status("/readyz")
		return code == 200, body
	})
	s.load(20, mixed) // either worker may execute it
	s.finish(30 * time.Second)
	watching.stop()
	if after := s.fingerprintOf(before.ids); after.hash != before.hash {
		t.Error("I5: final rows changed after the thaw")
	}
	figures.note(t, "all final %.1f s after the freeze; %s", took.Seconds(), s.summary())
}

// awaitSweeper waits until one worker is the leader.
func (s *scene) awaitSweeper() {
	s.t.Helper()
	eventually(s.t, 30*time.Second, "a worker to become the leader", func() (bool, string) {
		n := s.number(`SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database AND d.datname = current_database()
			WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND (l.classid::bigint << 32 | l.objid::bigint) = x'7765667473776570'::bigint`)
		return n == 1, fmt.Sprintf("%d leaders", n)
	})
}

// print is a fingerprint of rows.
type print struct {
	ids  []string
	hash string
}

// fingerprint returns the fingerprint of all final executions and their postings.
func (s *scene) fingerprint() print {
	s.t.Helper()
	ids, err := s.breaches(s.t.Context(), "SELECT id::text FROM component_executions WHERE finished_at IS NOT NULL ORDER BY id")
	if err != nil {
		s.t.Fatal(err)
	}
	return s.fingerprintOf(ids)
}

func (s *scene) fingerprintOf(ids []string) print {
	s.t.Helper()
	lines, err := s.breaches(s.t.Context(), fmt.Sprintf(`SELECT md5(string_agg(e::text || p::text, '' ORDER BY e.id))
		FROM component_executions e JOIN credit_postings p ON p.workspace_id = e.workspace_id AND p.reference = e.id::text
		WHERE e.id = ANY('{%s}')`, strings.Join(ids, ",")))
	if err != nil || len(lines) != 1 {
		s.t.Fatalf("fingerprint: %v, %v", lines, err)
	}
	return print{ids: ids, hash: lines[0]}
}
