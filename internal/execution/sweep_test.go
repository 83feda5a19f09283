package execution

import (
	"cmp"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/execution/callback"
)

// swept returns a sweeper whose clock advances by tick on every read.
func (s *stage) swept(t *testing.T, tick time.Duration) *Sweeper {
	t.Helper()
	now := time.Now()
	s.runner.Now = func() time.Time {
		now = now.Add(tick)
		return now
	}
	return NewSweeper(s.runner)
}

func (s *stage) count(t *testing.T, sql string, args ...any) (n int) {
	t.Helper()
	if err := s.pool.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestAllExpiredKeysAreDeleted(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	sweeper := s.swept(t, 400*time.Millisecond)
	s.exec(t, `INSERT INTO idempotency_keys (workspace_id, operation, path, key, body_hash, resource_id, created_at)
		SELECT $1, 'o', '/p', n::text, '', $1, now() - interval '25 hours' FROM generate_series(1, 22000) AS n`, s.workspace)
	tidy := func() int {
		before := s.count(t, "SELECT count(*) FROM idempotency_keys")
		sweeper.round(t.Context(), keys, tidyEvery, sweeper.tidy)
		return before - s.count(t, "SELECT count(*) FROM idempotency_keys")
	}
	s.exec(t, "ALTER TABLE idempotency_keys RENAME created_at TO renamed")
	if gone := tidy(); gone != 0 {
		t.Fatalf("%d keys were deleted", gone)
	}
	s.exec(t, "ALTER TABLE idempotency_keys RENAME renamed TO created_at")
	for range failedWait / (400 * time.Millisecond) {
		s.runner.now()
	}
	for _, want := range []int{10_000, 10_000, 2_000, 0} {
		if gone := tidy(); gone != want {
			t.Errorf("%d keys were deleted in a sweep, want %d", gone, want)
		}
	}
}

func TestAWorkspaceIsReleasedAlthoughAnotherFails(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	crowd := func(id uuid.UUID) uuid.UUID {
		s.workspace = id
		s.insert(t, "status, job_id, parked", "'CREATED', 1, true")
		s.exec(t, "UPDATE credit_accounts SET live = 1, parked = 1 WHERE workspace_id = $1", id)
		return id
	}
	parked := func(id uuid.UUID) int {
		return s.count(t, "SELECT count(*) FROM component_executions WHERE parked AND workspace_id = $1", id)
	}
	low, high := crowd(s.workspace), crowd(s.other(t))
	if cmp.Compare(low.String(), high.String()) > 0 {
		low, high = high, low
	}
	sweeper := s.swept(t, 0)
	s.exec(t, `CREATE TRIGGER broken BEFORE UPDATE ON credit_accounts FOR EACH ROW
		WHEN (OLD.workspace_id = '`+low.String()+`') EXECUTE FUNCTION refuse_change()`)
	if _, err := sweeper.unpark(t.Context()); err == nil || parked(low) != 1 || parked(high) != 0 {
		t.Errorf("%d and %d are parked, %v", parked(low), parked(high), err)
	}
	s.exec(t, "DROP TRIGGER broken ON credit_accounts")
	// A round that was cut off continues after the last workspace that it visited.
	crowd(high)
	sweeper.unparkCursor = low
	for round, want := range []int{1, 0} {
		if _, err := sweeper.unpark(t.Context()); err != nil || parked(low) != want || parked(high) != 0 {
			t.Errorf("round %d: %d and %d are parked, %v", round, parked(low), parked(high), err)
		}
	}
}

// LE-09: the next hourly audit finds a row that the test corrupted.
func TestLE09TheHourlyAuditStopsAndResumesTheBilling(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	sweeper := s.swept(t, 2*auditEvery)
	audit := func() int {
		sweeper.audit(t.Context())
		sweeper.auditing.Lock() // wait for the audit
		defer sweeper.auditing.Unlock()
		return s.count(t, "SELECT count(*) FROM workspaces WHERE billing_stopped_at IS NOT NULL")
	}
	for _, c := range []struct {
		statement string
		stopped   int
	}{
		{"UPDATE credit_accounts SET paid = paid + 1 WHERE workspace_id = $1", 1},
		{"UPDATE credit_accounts SET reserved = reserved + 1 WHERE workspace_id = $1", 1},
		{"UPDATE credit_accounts SET paid = paid - 1, reserved = reserved - 1 WHERE workspace_id = $1", 0},
	} {
		s.exec(t, c.statement, s.workspace)
		if n := audit(); n != c.stopped {
			t.Errorf("after %s the billing of %d workspaces is stopped", c.statement, n)
		}
	}
}

// A worker may fetch the job of an execution while another process finishes the execution. The
// finish leaves such a job to the worker. If the worker's process dies, the job stays running.
func TestJobsOfFinalExecutionsAndRunsAreDeleted(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	const long, short = "1 minute", "1 second" // since the fetch
	final := s.insert(t, "status, job_id, finished_at", "'COMPLETED', 1001, now()").ID
	live := s.insert(t, "status, job_id", "'EXECUTING', 1002").ID
	run := func(status, finishedAt string) uuid.UUID {
		id, err := uuid.NewV7()
		if err != nil {
			t.Fatal(err)
		}
		s.exec(t, `INSERT INTO workflow_runs (workspace_id, id, workflow_id, workflow_version, status, trigger, input, deadline, job_id, created_at, updated_at, finished_at)
			VALUES ($1, $2, $1, 1, $3, 'API', '{}', now(), 1003, now(), now(), `+finishedAt+`)`, s.workspace, id, status)
		return id
	}
	finalRun, liveRun := run("COMPLETED", "now()"), run("EXECUTING", "NULL")
	for _, j := range []struct {
		name, kind, field string
		id                uuid.UUID
		state, fetched    string
	}{
		{"gone: of a final execution", Args{}.Kind(), "executionId", final, "running", long},
		{"gone: of a final run", "workflow_run", "runId", finalRun, "running", long},
		{"kept: just fetched", Args{}.Kind(), "executionId", final, "running", short},
		{"kept: not fetched", Args{}.Kind(), "executionId", final, "available", long},
		{"kept: of a live execution", Args{}.Kind(), "executionId", live, "running", long},
		{"kept: of a live run", "workflow_run", "runId", liveRun, "running", long},
		{"kept: of a callback", callback.Args{}.Kind(), "executionId", final, "running", long},
		{"kept: of an unknown kind", "later_kind", "executionId", final, "running", long},
	} {
		s.exec(t, `INSERT INTO river.river_job (kind, queue, args, metadata, max_attempts, attempt, state, attempted_at)
			VALUES ($1, $2, jsonb_build_object('workspaceId', $3::uuid, $4::text, $5::uuid), jsonb_build_object('name', $6::text), 9, 1, $7, now() - $8::text::interval)`,
			j.kind, Queue, s.workspace, j.field, j.id, j.name, j.state, j.fetched)
	}
	NewSweeper(s.runner).Sweep(t.Context())
	if n := s.count(t, "SELECT count(*) FROM river.river_job WHERE metadata->>'name' LIKE 'gone:%'"); n != 0 {
		t.Errorf("%d running jobs of final executions and runs are left", n)
	}
	if n := s.count(t, "SELECT count(*) FROM river.river_job WHERE metadata->>'name' LIKE 'kept:%'"); n != 6 {
		t.Errorf("%d of 6 other jobs are left", n)
	}
}
