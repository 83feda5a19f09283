package execution

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/component"
)

// An execution whose component is unknown to all workers is passed from worker to worker, and
// fails after unrunnableFor. Its reservation is released.
func TestAnExecutionThatNoWorkerCanRunFails(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	registry, err := component.NewRegistry()
	if err != nil {
		t.Fatal(err)
	}
	s.runner.Modules = registry
	s.exec(t, "UPDATE credit_accounts SET live = 1, reserved = 5 WHERE workspace_id = $1", s.workspace)
	key := s.insert(t, "status, job_id, reserved, attempt, continuing, wait_state, attempt_started_at", `'EXECUTING', 1, 5, 1, true, '{"looks":1}', now() - interval '1 minute'`)
	turn := func() db.ExecutionStartManyRow {
		t.Helper()
		s.exec(t, "UPDATE component_executions SET not_before = now() WHERE not_before IS NOT NULL")
		started, err := s.runner.flushStarts(t.Context(), []attemptStart{{key, 1, 7}})
		if err != nil || started[0] == nil {
			t.Fatalf("not started: %v", err)
		}
		if _, err := s.runner.runAttempt(t.Context(), attempt{row: *started[0]}); err != nil {
			t.Fatal(err)
		}
		return *started[0]
	}
	var first, second *time.Time
	since := func(into **time.Time) {
		t.Helper()
		if err := s.pool.QueryRow(t.Context(), "SELECT unrunnable_since FROM component_executions WHERE id = $1", key.ID).Scan(into); err != nil {
			t.Fatal(err)
		}
	}
	turn()
	since(&first)
	row := turn()
	since(&second)
	if first == nil || second == nil || !first.Equal(*second) || row.Elapsed < time.Minute {
		t.Errorf("it could not be run since %v, then since %v; its wait has lasted %v", first, second, row.Elapsed)
	}
	s.exec(t, "UPDATE component_executions SET unrunnable_since = now() - $1::interval", unrunnableFor)
	turn()
	var status string
	var failure json.RawMessage
	var reserved int
	err = s.pool.QueryRow(t.Context(), `SELECT e.status, e.error, a.reserved FROM component_executions e JOIN credit_accounts a USING (workspace_id)
		WHERE e.id = $1`, key.ID).Scan(&status, &failure, &reserved)
	var e struct{ Code string }
	if err != nil || status != "FAILED" || json.Unmarshal(failure, &e) != nil || e.Code != "INTERNAL_ERROR" || reserved != 0 {
		t.Errorf("it is %s with %s, %d is reserved, %v", status, failure, reserved, err)
	}
}
