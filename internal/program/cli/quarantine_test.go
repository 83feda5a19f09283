package cli_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/internal/local/pgtest"
)

// After a restore, executions, runs and callbacks that finished after the backup may appear
// unfinished. The status lists all of them, and a release repeats unsafe calls only if the operator
// chooses that.
func TestReleaseAfterARestoreRequiresADecisionOnUnsafeCalls(t *testing.T) {
	dsn := pgtest.DSN(t)
	environ := []string{"DATABASE_URL=" + dsn}
	run(t, environ, "", "keys", "create", "--new-workspace", "--workspace=shop", "--plan=growth").check(t, 0, "", "The secret is not shown again")
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	text := func(sql string, args ...any) (got string) {
		t.Helper()
		if err := conn.QueryRow(t.Context(), sql, args...).Scan(&got); err != nil {
			t.Fatal(err)
		}
		return got
	}
	workspace := text("SELECT id::text FROM workspaces")
	execution := func(rule, state, more string) string {
		t.Helper()
		id := uuid.Must(uuid.NewV7()).String()
		exec(`INSERT INTO component_executions (workspace_id, id, module, call, attempts, status, repeat_rule, job_id, has_callback, created_at, updated_at, reserved, attempt, parked)
			SELECT $1, $2, 'API_CALL', 'call', 1, $3, $4, 1000001, true, now(), now(), 1000000, `+more, workspace, id, state, rule)
		exec(`INSERT INTO callbacks (workspace_id, execution_id, url, signed, created_at) VALUES ($1, $2, 'https://a.example', false, now())`, workspace, id)
		return id
	}
	pure := execution("pure", "CREATED", "0, false")
	created, parked, executing := execution("unsafe", "CREATED", "0, false"), execution("unsafe", "CREATED", "0, true"), execution("unsafe", "EXECUTING", "1, false")
	exec("UPDATE component_executions SET worker_id = 4711 WHERE id = $1", executing)
	exec("UPDATE credit_accounts SET live = 4, parked = 1, reserved = 4000000")
	done := uuid.Must(uuid.NewV7()).String()
	exec(`INSERT INTO component_executions (workspace_id, id, module, call, attempts, status, job_id, has_callback, created_at, updated_at, finished_at)
		VALUES ($1, $2, 'API_CALL', '', 1, 'COMPLETED', 1, true, now(), now(), now())`, workspace, done)
	exec(`INSERT INTO callbacks (workspace_id, execution_id, url, signed, state, body, job_id, created_at) VALUES ($1, $2, 'https://a.example', false, 'QUEUED', 'as it was', 1, now())`, workspace, done)
	exec(`INSERT INTO credit_postings (workspace_id, id, kind, reference, plan, paid, allowance, usage, created_at) VALUES ($1, gen_random_uuid(), 'EXECUTION', $2, 0, 0, 0, 0, now())`, workspace, done)
	exec(`INSERT INTO workflow_runs (workspace_id, id, workflow_id, workflow_version, status, trigger, input, reserved, deadline, job_id, created_at, updated_at)
		VALUES ($1, $2, $2, 1, 'EXECUTING', 'API', '{}', 0, now() + interval '1 hour', 1, now(), now())`, workspace, uuid.Must(uuid.NewV7()))

	run(t, environ, "", "quarantine", "status").check(t, 0, "not in quarantine", "")
	run(t, environ, "", "quarantine", "release", "--fail-unsafe").check(t, 1, "", "was not in quarantine")
	run(t, environ, "", "quarantine", "begin", "--reason=restored").check(t, 0, "", "After two seconds, no process starts new work")
	run(t, environ, "", "quarantine", "begin", "--reason=again").check(t, 0, "", ": restored. Nothing changed.")
	status := run(t, environ, "", "quarantine", "status", "--list")
	for _, want := range []string{
		"4 executions are unfinished", "1 run is unfinished", "4 callbacks of unfinished executions", "1 callback is due",
		"unsafe       2        1          not safe to repeat", "fails 1 of them with WORKER_LOST if their workers are gone",
		pure, created, parked, executing, done,
	} {
		status.check(t, 0, want, "")
	}
	run(t, environ, "", "quarantine", "status", "--list", "--jq=.executions, .unfinished[0].kind").check(t, 0, "4\n", "")
	run(t, environ, "", "quarantine", "release").check(t, 1, "", "3 unfinished executions are not safe to repeat")
	run(t, environ, "", "quarantine", "release", "--fail-unsafe", "--repeat-unsafe").check(t, 2, "", "")
	run(t, environ, "", "quarantine", "release", "--fail-unsafe", "--cancel-runs").check(t, 0, "", "3 executions failed with RESTORE_UNCERTAIN")
	run(t, environ, "", "quarantine", "status").check(t, 0, "not in quarantine", "")

	for what, c := range map[string]struct{ sql, want string }{
		"what is unsafe has failed in one transaction": {`SELECT count(*) || ' in ' || count(DISTINCT xmin::text) FROM component_executions
			WHERE repeat_rule = 'unsafe' AND status = 'FAILED' AND error->>'code' = 'RESTORE_UNCERTAIN' AND worker_id IS NULL AND NOT parked`, "3 in 1"},
		"the rest is unfinished":                {"SELECT string_agg(id::text, ' ') FROM component_executions WHERE finished_at IS NULL", pure},
		"what is computed again has another id": {"SELECT string_agg(state || ' ' || restores, ' ' ORDER BY execution_id) FROM callbacks", "PENDING 1 QUEUED 1 QUEUED 1 QUEUED 1 QUEUED 0"},
		"the body says why":                     {"SELECT count(*)::text FROM callbacks WHERE convert_from(body, 'UTF8') LIKE '%RESTORE_UNCERTAIN%'", "3"},
		"the run is canceled":                   {"SELECT cancel_mode || ' ' || (cancel_reason LIKE '%restored%') || ' ' || (wake_at <= now()) FROM workflow_runs", "immediate true true"},
		"the account fits":                      {"SELECT live || ' ' || parked || ' ' || reserved FROM credit_accounts", "1 0 1000000"},
		"event in the audit log":                {"SELECT details->>'count' || ' ' || actor_kind FROM audit_events WHERE action = 'executions.failed'", "3 operator"},
	} {
		if got := text(c.sql); got != c.want {
			t.Errorf("%s: %q, want %q", what, got, c.want)
		}
	}
	run(t, environ, "", "audit").check(t, 0, "", "1 workspace: ")

	// A second restore counts once more for unfinished work.
	run(t, environ, "", "quarantine", "begin").check(t, 0, "", "is in quarantine")
	run(t, environ, "", "quarantine", "release").check(t, 0, "", "Released")
	if got := text("SELECT restores::text FROM callbacks WHERE execution_id = $1", pure); got != "2" {
		t.Errorf("after two restores the callback has the count %s", got)
	}
	if got := text("SELECT string_agg(restores::text, ' ') FROM callbacks WHERE execution_id <> $1 AND state = 'QUEUED' AND body <> 'as it was'", pure); strings.Contains(got, "2") {
		t.Errorf("frozen callbacks have the counts %s", got)
	}
}

// If a worker is lost while it runs an unsafe execution, the effect stays unknown, even after a
// release. Executions that no worker had started run after the release.
func TestReleaseReportsStartedUnsafeExecutions(t *testing.T) {
	dsn := pgtest.DSN(t)
	environ := []string{"DATABASE_URL=" + dsn}
	run(t, environ, "", "keys", "create", "--new-workspace", "--workspace=shop").check(t, 0, "", "The secret is not shown again")
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	for _, state := range []string{"'CREATED', 0, NULL", "'EXECUTING', 1, NULL", "'EXECUTING', 1, 4711"} {
		_, err := conn.Exec(t.Context(), `INSERT INTO component_executions (workspace_id, id, module, call, attempts, repeat_rule, job_id, has_callback, created_at, updated_at, reserved, parked, status, attempt, worker_id)
			SELECT id, gen_random_uuid(), 'API_CALL', 'call', 1, 'unsafe', 1000001, false, now(), now(), 1000000, false, `+state+" FROM workspaces")
		if err != nil {
			t.Fatal(err)
		}
	}
	run(t, environ, "", "quarantine", "begin").check(t, 0, "", "is in quarantine")
	released := run(t, environ, "", "quarantine", "release", "--repeat-unsafe")
	released.check(t, 0, "", "2 executions are not safe to repeat and will run.")
	released.check(t, 0, "", "1 execution is not safe to repeat and had started on a worker. If that worker is gone, the result is FAILED with WORKER_LOST.")
}
