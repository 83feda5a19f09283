package run_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/platform/permit"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/workflow/orchestrator"
	"github.com/weft-automation/weft/internal/workflow/run"
)

// slow delays every insert of a child run.
func (b *bench) slow(t testing.TB, delay time.Duration) {
	t.Helper()
	b.exec(t, fmt.Sprintf(`CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(%f); RETURN NEW; END $$`, delay.Seconds()))
	b.exec(t, "CREATE TRIGGER dawdle BEFORE INSERT ON workflow_runs FOR EACH ROW WHEN (NEW.parent_run_id IS NOT NULL) EXECUTE FUNCTION dawdle()")
}

// parent draws a workflow that, after a short delay, starts the specified number of concurrent
// child runs.
func (n *node) parent(t testing.TB, children int) uuid.UUID {
	t.Helper()
	inner := n.draw(t, `[{"id":"p","module":"JSON_CONSTANT","config":{"value":1}}]`, "", "")
	components, edges := `[{"id":"d","module":"DELAY","config":{"durationMs":100}}`, `[`
	for i := range children {
		components += fmt.Sprintf(`,{"id":"c%d","module":"RUN_WORKFLOW","config":{"workflowId":%q}}`, i, inner)
		edges += fmt.Sprintf(`{"id":"%d","from":"d","to":"c%d","port":"next"},`, i, i)
	}
	return n.draw(t, components+`]`, strings.TrimSuffix(edges, ",")+`]`, "")
}

// A run that starts many child runs at once is split into several advances, so that no transaction waits
// long for its lock.
func TestAdvanceStartsFewChildRuns(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.start(t, options{slots: 4, sweep: time.Second})
	key := n.trigger(t, run.TriggerParams{WorkflowID: n.parent(t, 40)})
	if got, _ := n.end(t, key); got.Status != status.RunCompleted {
		t.Errorf("%s %s", got.Status, got.Error)
	}
	if most := b.number(t, "SELECT max(n) FROM (SELECT count(*) AS n FROM workflow_runs WHERE parent_run_id = $1 GROUP BY created_at) AS folds", key.ID); most > 16 {
		t.Errorf("an advance started %d child runs", most)
	}
	b.balanced(t)
}

// The run of a second workspace is advanced without delay, regardless of how many advances the first
// workspace needs.
func TestRunsOfAnotherWorkspaceDoNotWait(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.slow(t, 300*time.Millisecond)
	busy := b.start(t, options{slots: 4, sweep: time.Second})
	heavy := busy.parent(t, 10)
	other := *b
	other.workspace = b.account(t, credit.Credits(10), plan.Starter)
	n := &node{bench: &other, workflows: busy.workflows, engine: busy.engine, runs: busy.runs, ctx: postgres.Scope(context.Background(), other.workspace)}
	light := n.draw(t, `[{"id":"p","module":"JSON_CONSTANT","config":{"value":1}}]`, "", "")
	for range 10 * orchestrator.AdvancesAtOnce { // advances that take half a minute in total
		busy.trigger(t, run.TriggerParams{WorkflowID: heavy})
	}
	b.until(t, permit.Each, nothing, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'")
	if got, _ := n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: light})); got.Status != status.RunCompleted {
		t.Errorf("%s %s", got.Status, got.Error)
	}
	if waiting := b.number(t, "SELECT count(*) FROM workflow_runs WHERE finished_at IS NULL AND parent_run_id IS NULL"); waiting == 0 {
		t.Error("no other advance was waiting")
	}
}

// A child run whose first stage cannot be paid does not hold the account while it waits for its
// parent run. Accounts are locked last. Otherwise the two runs would deadlock.
func TestFinishingChildRunLocksTheAccountLast(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.workspace = b.account(t, 0, plan.Starter)
	n := b.start(t, options{slots: 2, sweep: 100 * time.Millisecond})
	inner := n.draw(t, `[{"id":"s","module":"WAIT_FOR_SIGNAL","config":{"name":"go","timeoutMs":3600000}},{"id":"w","module":"WORK"}]`, `[{"id":"1","from":"s","to":"w","port":"next"}]`, "")
	key := n.trigger(t, run.TriggerParams{WorkflowID: n.draw(t, fmt.Sprintf(`[{"id":"c","module":"RUN_WORKFLOW","config":{"workflowId":%q}}]`, inner), "", "")})
	b.until(t, 1, nothing, "SELECT count(*) FROM run_stages WHERE signal = 'go'")
	above, err := b.pool.Begin(t.Context()) // locks like an advance of the parent run
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = above.Rollback(context.Background()) }()
	if _, err := above.Exec(t.Context(), "SELECT FROM workflow_runs WHERE id = $1 FOR NO KEY UPDATE", key.ID); err != nil {
		t.Fatal(err)
	}
	n.goOn(t, n.child(t, key))
	b.until(t, 1, nothing, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%RunWake%'")
	if _, err := above.Exec(t.Context(), "SELECT FROM credit_accounts WHERE workspace_id = $1 FOR UPDATE NOWAIT", b.workspace); err != nil {
		t.Errorf("the account is locked while the child run waits for the run above: %v", err)
	}
	if err := above.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, _ := n.end(t, key); got.Status != status.RunFailed || code(t, got) != "INSUFFICIENT_CREDITS" {
		t.Errorf("%s %s", got.Status, got.Error)
	}
	b.balanced(t)
}
