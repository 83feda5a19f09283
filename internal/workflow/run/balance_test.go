package run_test

import (
	"context"
	"testing"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/kit/waittest"
)

// balanced checks that all accounts balance and that nothing is unfinished or reserved.
func (b *bench) balanced(t testing.TB) {
	t.Helper()
	broken, _, err := billing.Audit(context.Background(), b.pool, uuid.Nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, drift := range broken[:min(len(broken), 5)] {
		t.Errorf("the books: %s", drift)
	}
	for what, query := range map[string]string{
		"credits are reserved": "SELECT COALESCE(sum(reserved), 0)::bigint FROM credit_accounts",
		"executions live":      "SELECT count(*) FROM component_executions WHERE finished_at IS NULL",
		"runs live":            "SELECT count(*) FROM workflow_runs WHERE finished_at IS NULL",
		"stages live":          "SELECT count(*) FROM run_stages WHERE finished_at IS NULL",
		"runs lack a posting": `SELECT count(*) FROM workflow_runs r WHERE NOT EXISTS
			(SELECT FROM credit_postings p WHERE p.workspace_id = r.workspace_id AND p.kind = 'RUN' AND p.reference = r.id::text AND p.usage = r.usage)`,
		"counts of runs are wrong": `SELECT count(*) FROM workflow_runs r WHERE pending_count <> 0 OR (stage_count, failed_count) IS DISTINCT FROM
			(SELECT (count(*)::integer, (count(*) FILTER (WHERE s.status = 'FAILED'))::integer) FROM run_stages s WHERE s.workspace_id = r.workspace_id AND s.run_id = r.id)`,
	} {
		if got := b.number(t, query); got != 0 {
			t.Errorf("%d %s", got, what)
		}
	}
	// If River locked a job when its run ended, a worker fetches the job once it is due.
	waittest.Until(t, "no job of a finished run", func() bool {
		return b.number(t, `SELECT count(*) FROM river.river_job j JOIN workflow_runs r ON r.job_id = j.id
			WHERE r.finished_at IS NOT NULL AND j.state IN ('available', 'scheduled')`) == 0
	})
}

// number returns the result of a query for one number.
func (b *bench) number(t testing.TB, query string, args ...any) (n int64) {
	t.Helper()
	if err := b.pool.QueryRow(context.Background(), query, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}
