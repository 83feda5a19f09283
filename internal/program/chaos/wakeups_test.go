package chaos

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/kit/waittest"
)

// cutListeners terminates every session that listens, including River's.
func (s *scene) cutListeners() int {
	return s.number(`SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
		WHERE datname = current_database() AND query ILIKE 'LISTEN%'`)
}

// EX-16: notifications are lost, because the listening connection is terminated every second or
// because a proxy drops them. Work still starts within 1.5 s, and the log reports the problem.
func TestEX16NotificationsAreLost(t *testing.T) {
	if waittest.LeftToSoak(t, "internal/program/chaos.TestSS04StreamsEndThoughNotificationsAreLost") {
		return
	}
	t.Parallel()
	t.Run("cut", func(t *testing.T) {
		t.Parallel()
		s := newScene(t, shared)
		s.start("serve")
		s.start("work")
		cuts := 0
		s.startLatency(t, func() { cuts += s.cutListeners() })
		if cuts == 0 {
			t.Error("no session listened")
		}
	})
	t.Run("swallowed", func(t *testing.T) {
		t.Parallel()
		s := newScene(t, shared)
		proxy := newFaultProxy(t, s.dsn)
		proxy.deaf.Store(true)
		s.start("serve", "DATABASE_URL="+proxy.dsn())
		worker := s.start("work", "DATABASE_URL="+proxy.dsn())
		s.startLatency(t, func() {})
		eventually(t, 5*time.Second, "a warning in the log", func() (bool, string) {
			return strings.Contains(worker.logged(), "notifications do not arrive"), worker.tail(5)
		})
	})
}

// startLatency submits executions one after the other while a fault occurs every second. It checks
// the time between the acceptance and the start of each execution.
func (s *scene) startLatency(t *testing.T, fault func()) {
	t.Helper()
	s.t = t
	length := size(3*time.Second, 30*time.Second)
	faults := make(chan struct{})
	go func() {
		defer close(faults)
		during(t.Context(), length, time.Second, fault)
	}()
	during(t.Context(), length, 50*time.Millisecond, func() {
		if _, _, err := s.submitUntilAcknowledged(t.Context(), order{module: "RANDOM_UUID"}); err != nil {
			t.Error(err)
		}
	})
	<-faults
	s.finish(10 * time.Second)
	worst := time.Duration(s.number(`SELECT (1000 * max(EXTRACT(epoch FROM attempt_started_at - created_at)))::integer
		FROM component_executions`)) * time.Millisecond
	if worst > 1500*time.Millisecond {
		t.Errorf("an execution started %v after its acceptance", worst)
	}
	figures.note(t, "%d executions, the slowest started after %v", s.ledger.count(), worst)
}

// SS-04: the listening connections are terminated every second. A stream ends at most 2.5 s after the
// commit, on any node.
func TestSS04StreamsEndThoughNotificationsAreLost(t *testing.T) {
	t.Parallel()
	s := newScene(t, shared)
	nodes := []*process{s.start("serve"), s.start("serve")}
	s.start("work")
	s.upstream.hold()
	n := size(20, 100)
	s.load(n, func(i int) order { return order{tenant: i % 2} })
	type end struct {
		id uuid.UUID
		at time.Time
	}
	ends := make(chan end, 2*n)
	for id, a := range s.ledger.acknowledged() {
		for _, p := range nodes {
			go func() {
				if _, err := s.stream(t.Context(), p, id, a.tenant); err != nil {
					t.Errorf("stream: %v", err)
				}
				ends <- end{id, time.Now()}
			}()
		}
	}
	s.awaitRunning(n)
	cutting := make(chan struct{})
	go func() {
		defer close(cutting)
		during(t.Context(), size(2*time.Second, 10*time.Second), size(200*time.Millisecond, time.Second), func() { s.cutListeners() })
	}()
	s.upstream.release()
	var late []time.Duration
	for range 2 * n {
		e := <-ends
		var finished time.Time
		if err := s.pool.QueryRow(t.Context(), "SELECT finished_at FROM component_executions WHERE id = $1", e.id).Scan(&finished); err != nil {
			t.Fatalf("a stream ended before its execution: %v", err)
		}
		late = append(late, e.at.Sub(finished))
	}
	<-cutting
	if worst := percentile(late, 1); waittest.Timed() && worst > 2500*time.Millisecond {
		t.Errorf("a stream ended %v after the commit", worst)
	}
	s.finish(10 * time.Second)
	figures.note(t, "%d streams on two nodes, the last event at most %v after the commit", len(late), percentile(late, 1).Round(time.Millisecond))
}
