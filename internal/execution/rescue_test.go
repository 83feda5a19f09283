package execution

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river/rivertype"
)

// dead inserts a worker without a session, and executions that the worker started.
func (s *stage) dead(t *testing.T, executions int, rule string) (worker int32) {
	t.Helper()
	if err := s.pool.QueryRow(t.Context(), "INSERT INTO workers (host, slots) VALUES ('gone', 1) RETURNING id").Scan(&worker); err != nil {
		t.Fatal(err)
	}
	s.exec(t, `INSERT INTO component_executions
		(workspace_id, id, module, call, attempts, attempt, status, job_id, epoch, repeat_rule, worker_id, attempt_started_at, created_at, updated_at)
		SELECT $1, gen_random_uuid(), 'M', 'call', 1, 1, 'EXECUTING', 1000000 + n, 1, $2, $3, now(), now(), now() FROM generate_series(1, $4::integer) AS n`,
		s.workspace, rule, worker, executions)
	s.exec(t, "UPDATE credit_accounts SET live = live + $2 WHERE workspace_id = $1", s.workspace, executions)
	return worker
}

// commits counts the transactions that last wrote the executions.
func (s *stage) commits(t *testing.T) int {
	t.Helper()
	return s.count(t, "SELECT count(DISTINCT xmin::text) FROM component_executions")
}

func TestExecutionsOfADeadWorkerAreFreedInBatches(t *testing.T) {
	t.Parallel()
	for rule, free := range map[string]string{
		"pure":   "worker_id IS NULL AND crashes = 1 AND epoch = 2 AND continuing AND status = 'EXECUTING'",
		"unsafe": "worker_id IS NULL AND status = 'FAILED' AND error->>'code' = 'WORKER_LOST'",
	} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			const count = 1200
			s.dead(t, count, rule)
			sweeper := s.swept(t, 0)
			freed, err := sweeper.sweepDead(t.Context())
			if err != nil || freed != count {
				t.Errorf("%d were freed, %v", freed, err)
			}
			if n := s.count(t, "SELECT count(*) FROM component_executions WHERE "+free); n != count {
				t.Errorf("%d of %d are freed", n, count)
			}
			if n := s.commits(t); n > count/20 {
				t.Errorf("it took %d transactions for %d executions", n, count)
			}
			if n := s.count(t, "SELECT count(*) FROM workers"); n != 0 {
				t.Errorf("%d workers are left", n)
			}
			if jobs := s.count(t, "SELECT count(*) FROM river.river_job"); rule == "pure" && jobs != count {
				t.Errorf("%d jobs for %d executions", jobs, count)
			}
		})
	}
}

func TestFailedRescuesAreLoggedOncePerPage(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	const count = 40
	s.dead(t, count, "pure")
	var log bytes.Buffer
	s.runner.log = slog.New(slog.NewTextHandler(&log, nil))
	s.exec(t, "CREATE TRIGGER broken BEFORE UPDATE ON component_executions FOR EACH ROW EXECUTE FUNCTION refuse_change()")
	if freed, err := s.swept(t, 0).sweepDead(t.Context()); err == nil || freed != 0 {
		t.Errorf("%d were freed, %v", freed, err)
	}
	if n := strings.Count(log.String(), "level=WARN"); n != 1 || !strings.Contains(log.String(), "count=40") {
		t.Errorf("%d warnings: %s", n, log.String())
	}
	if jobs := s.count(t, "SELECT count(*) FROM river.river_job"); jobs != 0 {
		t.Errorf("%d jobs are left of what failed", jobs)
	}
}

// Executions that were started or locked since the sweep read them are not changed, and keep
// their jobs.
func TestARescueSkipsExecutionsThatChanged(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	worker := s.dead(t, 3, "pure")
	s.exec(t, "UPDATE component_executions SET epoch = 7 WHERE job_id = 1000001")
	tx, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context()) //nolint:errcheck // the transaction has finished by then
	if _, err := tx.Exec(t.Context(), "SELECT FROM component_executions WHERE job_id = 1000002 FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	var seen []requeue
	rows, err := s.pool.Query(t.Context(), "SELECT workspace_id, id, job_id FROM component_executions")
	if err != nil {
		t.Fatal(err)
	}
	var p requeue
	_, err = pgx.ForEachRow(rows, []any{&p.key.WorkspaceID, &p.key.ID, &p.job}, func() error {
		p.epoch, p.worker, p.crashed = 1, &worker, true
		seen = append(seen, p)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.runner.flushRequeues(t.Context(), seen); err != nil {
		t.Fatal(err)
	}
	if n := s.count(t, "SELECT count(*) FROM component_executions WHERE worker_id IS NULL AND job_id < 1000000"); n != 1 {
		t.Errorf("%d were freed, want 1", n)
	}
	if n := s.count(t, "SELECT count(*) FROM river.river_job WHERE state = $1", string(rivertype.JobStateAvailable)); n != 1 {
		t.Errorf("%d available jobs, want 1 for the freed execution", n)
	}
}

// The result is the same if the sweep frees the worker's executions first, or if the process first
// records that it is alive.
func TestTheLossOfAWorkerThatSurvivedIsNotCounted(t *testing.T) {
	t.Parallel()
	for _, survivesFirst := range []bool{true, false} {
		s := newStage(t)
		worker := s.dead(t, 5, "pure")
		s.exec(t, "UPDATE component_executions SET crashes = 2")
		survive := func() {
			if err := pgx.BeginFunc(t.Context(), s.pool, func(tx pgx.Tx) error { return surviveTx(t.Context(), tx, worker) }); err != nil {
				t.Fatal(err)
			}
		}
		if survivesFirst {
			survive()
		}
		if freed, err := s.swept(t, 0).sweepDead(t.Context()); err != nil || freed != 5 {
			t.Fatalf("%d were freed, %v", freed, err)
		}
		counted := s.count(t, "SELECT count(*) FROM component_executions WHERE crashes = 3")
		if survivesFirst && counted != 0 || !survivesFirst && counted != 5 {
			t.Errorf("survives first: %v: %d losses are counted", survivesFirst, counted)
		}
		survive()
		if n := s.count(t, "SELECT count(*) FROM component_executions WHERE crashes = 2"); n != 5 {
			t.Errorf("survives first: %v: %d of 5 are as before", survivesFirst, n)
		}
	}
}
