package cli_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/internal/local/pgtest"
)

func TestAdminGrantsCreditsAndSetsPlansAndAuditPasses(t *testing.T) {
	dsn := pgtest.DSN(t)
	environ := []string{"DATABASE_URL=" + dsn}
	run(t, environ, "", "admin", "credits", "shop", "10").check(t, 4, "", `workspace "shop" not found`)
	run(t, environ, "", "keys", "create", "--new-workspace", "--workspace=shop", "--plan=growth").check(t, 0, "", "The secret is not shown again")

	run(t, environ, "", "admin", "credits", "shop", "100.5", "--reference=invoice 7", "--note=by transfer").check(t, 0, "", "100.5 paid credits")
	run(t, environ, "", "admin", "credits", "shop", "100.5", "--reference=invoice 7").check(t, 0, "", "nothing was changed")
	run(t, environ, "", "admin", "credits", "shop", "1", "--reference="+strings.Repeat("é", 200), "--note="+strings.Repeat("é", 500)).check(t, 0, "", "1 paid credits")
	run(t, environ, "", "admin", "credits", "shop", "1", "--reference="+strings.Repeat("é", 201)).check(t, 6, "", "1 to 200 characters")
	run(t, environ, "", "admin", "credits", "shop", "--reference=return", "--", "-1").check(t, 0, "", "-1 paid credits")
	run(t, environ, "", "admin", "credits", "shop", "7", "--reference=invoice 7").check(t, 6, "", "already used for a grant of 100.5 credits")
	run(t, environ, "", "admin", "credits", "shop", "--", "-0.5").check(t, 0, "", "-0.5 paid credits")
	run(t, environ, "", "admin", "credits", "shop", "--reference=back", "--", "-101").check(t, 6, "", "has only 100 paid credits")
	run(t, environ, "", "admin", "credits", "shop", "1e3").check(t, 1, "", "not a decimal")

	run(t, environ, "", "admin", "plan", "set", "shop", "gold").check(t, 2, "", "gold")
	run(t, environ, "", "admin", "plan", "set", "shop", "enterprise", "--rps=0").check(t, 6, "", "at least 1")
	run(t, environ, "", "admin", "plan", "set", "shop", "enterprise", "--limit=-1").check(t, 1, "", "not a number of credits")
	run(t, environ, "", "admin", "plan", "set", "shop", "enterprise", "--limit=9223372036854").check(t, 6, "", "between 0 and 1,000,000,000 credits")
	run(t, environ, "", "admin", "plan", "set", "shop", "enterprise", "--rps=50", "--rph=9000", "--credits=400", "--limit=1000.5").
		check(t, 0, "", "is on the plan enterprise. Rate limits: 50 requests per second, 9000 per hour. Each month: 400 plan credits, and usage of 1000.5 without")
	run(t, environ, "", "admin", "plan", "set", "shop", "enterprise").check(t, 0, "", "unlimited requests per second, unlimited per hour. Each month: 0 plan credits")
	run(t, environ, "", "admin", "plan", "set", "shop", "enterprise", "--streams=0").check(t, 6, "", "The limits for inline waits")
	run(t, environ, "", "admin", "plan", "set", "shop", "growth", "--waits=7").check(t, 0, "", "Concurrency limits: 7 waiting calls, 50 streams.")
	run(t, environ, "", "admin", "plan", "set", "shop", "enterprise").check(t, 0, "", "unlimited waiting calls, unlimited streams")
	run(t, environ, "", "admin", "plan", "set", "shop", "growth").check(t, 0, "", "Plan credits available: 0 before, 50 now.")
	run(t, environ, "", "admin", "plan", "set", "shop", "enterprise", "--rps=50", "--rph=9000", "--waits=100", "--streams=2000", "--credits=400", "--limit=1000.5").check(t, 0, "", "50 before, 100 now")

	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	var got string
	err = conn.QueryRow(t.Context(), `SELECT concat_ws(' ', w.plan, w.custom_rps, w.custom_rph, w.custom_waits, w.custom_streams, a.monthly, a.usage_limit, a.plan, a.paid, w.id)
		FROM workspaces w JOIN credit_accounts a ON a.workspace_id = w.id`).Scan(&got)
	if want := "enterprise 50 9000 100 2000 400000000 1000500000 100000000 100000000 "; err != nil || !strings.HasPrefix(got, want) {
		t.Errorf("%v, %v; want %s", got, err, want)
	}
	id := got[strings.LastIndex(got, " ")+1:]

	run(t, environ, "", "audit").check(t, 0, "", "1 workspace: ")
	run(t, environ, "", "audit", id).check(t, 0, "", "Workspace "+id+": ")
	run(t, environ, "", "audit", "nobody").check(t, 4, "", "not found")
	if _, err := conn.Exec(t.Context(), "UPDATE credit_accounts SET paid = paid + 3000000"); err != nil {
		t.Fatal(err)
	}
	run(t, environ, "", "audit").check(t, 1, "account "+id+"  has 103 paid credits, but its postings sum to 100", "1 row is wrong")
	if _, err := conn.Exec(t.Context(), "UPDATE credit_accounts SET paid = paid - 3000000; UPDATE workspaces SET billing_stopped_at = now(); UPDATE credit_accounts SET stopped = true"); err != nil {
		t.Fatal(err)
	}
	run(t, environ, "", "audit", "shop").check(t, 0, "", "correct again. The workspace can start new work")
	run(t, environ, "", "audit", "shop").check(t, 0, "", "Workspace shop: ")
}

func TestAdminSuspendsAndResumesAWorkspace(t *testing.T) {
	environ := []string{"DATABASE_URL=" + pgtest.DSN(t)}
	run(t, environ, "", "keys", "create", "--new-workspace", "--workspace=shop").check(t, 0, "", "The secret is not shown again")
	run(t, environ, "", "admin", "suspend", "shop").check(t, 2, "", "--reason")
	run(t, environ, "", "admin", "suspend", "shop", "--reason= ").check(t, 6, "", "1 to 500 characters")
	run(t, environ, "", "admin", "suspend", "nobody", "--reason=spam").check(t, 4, "", "not found")
	run(t, environ, "", "admin", "resume", "shop").check(t, 0, "", "is not suspended; nothing was changed")
	run(t, environ, "", "admin", "suspend", "shop", "--reason=spam").check(t, 0, "", "can start no executions or runs")
	run(t, environ, "", "admin", "suspend", "shop", "--reason=spam").check(t, 0, "", "already suspended; nothing was changed")
	run(t, environ, "", "admin", "suspend", "shop", "--reason=spam", "--cancel").check(t, 0, "", "Canceled: 0 runs and 0 executions.")
	conn, err := pgx.Connect(t.Context(), strings.TrimPrefix(environ[0], "DATABASE_URL="))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	if _, err := conn.Exec(t.Context(), `INSERT INTO component_executions (workspace_id, id, module, call, attempts, status, job_id, has_callback, created_at, updated_at)
		SELECT id, gen_random_uuid(), 'API_CALL', 'call', 1, 'CREATED', 1, false, now(), now() FROM workspaces, generate_series(1, 450);
		INSERT INTO workflow_runs (workspace_id, id, workflow_id, workflow_version, status, trigger, input, reserved, deadline, job_id, created_at, updated_at)
		SELECT id, gen_random_uuid(), id, 1, 'EXECUTING', 'API', '{}', 0, now() + interval '1 hour', 1, now(), now() FROM workspaces, generate_series(1, 201)`); err != nil {
		t.Fatal(err)
	}
	run(t, environ, "", "admin", "suspend", "shop", "--reason=spam", "--cancel").check(t, 0, "", "Canceled: 201 runs and 450 executions.")
	run(t, environ, "", "admin", "suspend", "shop", "--reason=spam", "--cancel").check(t, 0, "", "Canceled: 0 runs and 0 executions.")
	run(t, environ, "", "admin", "resume", "shop").check(t, 0, "", "can start executions and runs again")
}
