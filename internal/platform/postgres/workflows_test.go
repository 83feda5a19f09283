package postgres_test

import (
	"errors"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weft-automation/weft/internal/local/pgtest"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// No role can change final, saved or logged rows of workflows. On other rows, each role has only
// the rights that it needs.
func TestFinalSavedAndLoggedRowsOfWorkflowsAreProtected(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	id := uuid.Must(uuid.NewV7())
	refused := func(role postgres.Role, want string, statements ...string) {
		t.Helper()
		pool, err := postgres.Open(t.Context(), dsn, "test", role, 1)
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		for _, sql := range statements {
			_, err := pool.Exec(postgres.Scope(t.Context(), id), sql)
			refusal, _ := errors.AsType[*pgconn.PgError](err)
			if err != nil && refusal == nil || refusal == nil && want != "" || refusal != nil && refusal.Code != want {
				t.Errorf("%s as %s: %v, want %q", sql, role, err, want)
			}
		}
	}
	const run = "INSERT INTO workflow_runs (workspace_id, id, workflow_id, workflow_version, status, trigger, input, deadline, job_id, created_at, updated_at) "
	const stage = "INSERT INTO run_stages (workspace_id, run_id, id, component_id, module, name, status, created_at, updated_at) "
	one := "'" + id.String() + "'"
	refused(postgres.Owner, "", "INSERT INTO workspaces (id, name, plan) VALUES ("+one+", 'one', 'starter')")
	refused(postgres.API, "",
		"INSERT INTO workflows (workspace_id, id, key, name) VALUES ("+one+", "+one+", 'one', 'one')",
		"INSERT INTO workflow_versions (workspace_id, workflow_id, version, name, definition) VALUES ("+one+", "+one+", 1, 'one', '{}')",
		run+"VALUES ("+one+", "+one+", "+one+", 1, 'CREATED', 'API', '{}', now(), 1, now(), now())",
		"INSERT INTO run_signals VALUES ("+one+", "+one+", 'go', '{}', now())",
		stage+"VALUES ("+one+", "+one+", "+one+", 'a', 'HASH', '', 'CREATED', now(), now())",
		"INSERT INTO run_events VALUES ("+one+", "+one+", 1, 'CREATED', '{}', NULL, now())",
		"UPDATE workflows SET status = 'PAUSED'",
		"UPDATE workflow_runs SET cancel_requested_at = now(), cancel_mode = 'graceful', wake_at = now(), updated_at = now()",
		"SELECT FROM workflow_runs FOR UPDATE")
	refused(postgres.API, "42501", // insufficient_privilege
		"UPDATE workflow_runs SET status = 'EXECUTING'", "UPDATE workflow_runs SET reserved = 1", "UPDATE workflow_versions SET version = 2",
		"UPDATE run_stages SET usage = 1",
		"UPDATE run_signals SET payload = '[]'", "DELETE FROM workflows", "DELETE FROM workflow_runs")
	refused(postgres.System, "",
		stage+"VALUES ("+one+", "+one+", gen_random_uuid(), 'b', 'HASH', '', 'CREATED', now(), now())",
		"INSERT INTO run_events VALUES ("+one+", "+one+", 2, 'CREATED', '{}', NULL, now())")
	refused(postgres.System, "42501", "UPDATE workflow_versions SET version = 2", "UPDATE run_events SET seq = 2", "DELETE FROM run_events",
		"UPDATE run_signals SET payload = '[]'", "DELETE FROM run_signals", "DELETE FROM run_stages", "DELETE FROM workflow_runs", "DELETE FROM workflow_versions")
	refused(postgres.System, "23505", stage+"VALUES ("+one+", "+one+", gen_random_uuid(), 'a', 'HASH', '', 'CREATED', now(), now())") // unique_violation
	refused(postgres.System, "23503", stage+"VALUES ("+one+", gen_random_uuid(), "+one+", 'a', 'HASH', '', 'CREATED', now(), now())") // foreign_key_violation
	refused(postgres.System, "23514",                                                                                                 // check_violation
		"UPDATE workflow_runs SET status = 'FAILED', finished_at = now()", "UPDATE workflow_runs SET status = 'COMPLETED'",
		"UPDATE workflow_runs SET pending_count = -1", "UPDATE workflow_runs SET pending_count = 1",
		"UPDATE workflow_runs SET stage_count = 1, pending_count = 1, status = 'COMPLETED', finished_at = now()",
		"UPDATE run_stages SET item_count = 1, next_item = 2, live_items = 0", "UPDATE run_stages SET usage = 1")
	refused(postgres.System, "",
		"UPDATE run_stages SET status = 'COMPLETED', usage = 1, output = '{}', port = 'next', finished_at = now()",
		"UPDATE workflow_runs SET status = 'CANCELED', finished_at = now()")
	refused(postgres.Owner, "23001", // restrict_violation
		"UPDATE workflow_runs SET usage = 1", "UPDATE run_stages SET usage = 2", "UPDATE run_events SET seq = 2", "TRUNCATE run_events",
		"UPDATE run_signals SET payload = '[]'", "UPDATE workflow_versions SET version = 2", "DELETE FROM workflow_versions", "TRUNCATE workflow_versions")
}
