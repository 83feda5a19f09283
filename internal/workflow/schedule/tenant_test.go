package schedule_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/account/workspace"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/secret/vault"
	"github.com/weft-automation/weft/internal/workflow/orchestrator"
	"github.com/weft-automation/weft/internal/workflow/schedule"
)

// The schedules of a workspace whose account is held don't delay those of others.
func TestSchedulesOfAnotherWorkspaceDoNotWait(t *testing.T) {
	t.Parallel()
	b := newBench(t, credit.Credits(10))
	n := b.start(t)
	other := *b
	var err error
	if other.workspace, err = workspace.Create(t.Context(), b.pool, workspace.CreateParams{Name: "other", Plan: plan.Starter, Paid: credit.Credits(10)}); err != nil {
		t.Fatal(err)
	}
	other.ctx = postgres.Scope(context.Background(), other.workspace)
	m := *n
	m.bench = &other
	theirs := m.schedule(t, m.save(t, waits, edge), schedule.Draft{})
	flow := n.save(t, waits, edge)
	tx, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	if _, err := tx.Exec(t.Context(), "SELECT FROM credit_accounts WHERE workspace_id = $1 FOR UPDATE", b.workspace); err != nil {
		t.Fatal(err)
	}
	for range 8 {
		key := n.schedule(t, flow, schedule.Draft{})
		b.due(t, key, time.Second)
		n.Enqueue(key)
	}
	const waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
	waittest.Until(t, "schedules that wait for the account", func() bool { return b.number(t, waiting) >= 3 })
	b.due(t, theirs, time.Second)
	m.Enqueue(theirs)
	waittest.Until(t, "the run of the other workspace", func() bool { return m.show(t, theirs).LastRunID != nil })
	if most := b.number(t, waiting); most > 3 {
		t.Errorf("the workspace took %d places, want all but one", most)
	}
	if runs := b.number(t, "SELECT count(*) FROM workflow_runs WHERE workspace_id = $1", b.workspace); runs != 0 {
		t.Errorf("%d runs of the held workspace were accepted before the other one", runs)
	}
}

// The previous result of a schedule is withheld, like other outputs, if it derives from a secret.
func TestASecretPreviousResultIsWithheld(t *testing.T) {
	t.Parallel()
	b := newBench(t, credit.Credits(10))
	n := b.start(t)
	key := n.schedule(t, n.save(t, waits, edge), schedule.Draft{})
	for _, secret := range []bool{true, false} {
		sealed, err := orchestrator.SealPrevious(t.Context(), n.vault, n.workspace, key.ID, orchestrator.Previous{Output: json.RawMessage(`"canary"`), Secret: secret})
		if err != nil {
			t.Fatal(err)
		}
		b.exec(t, "UPDATE schedules SET sealed_previous = $2, previous_at = now() WHERE id = $1", key.ID, sealed)
		for _, ctx := range []context.Context{n.ctx, vault.Withhold(n.ctx)} {
			shown, err := n.Get(ctx, key, anyone{})
			if err != nil {
				t.Fatal(err)
			}
			if shows := strings.Contains(string(shown.Previous), "canary"); shows == (secret && vault.Withholds(ctx)) {
				t.Errorf("secret %v, withheld %v: the previous result is %s", secret, vault.Withholds(ctx), shown.Previous)
			}
		}
	}
}
