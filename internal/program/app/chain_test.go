package app

import (
	"maps"
	"testing"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/account/environment"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

func TestChainExamplesExistOnlyWithAChain(t *testing.T) {
	t.Parallel()
	w, dir := startWhole(t, nil), t.TempDir()
	workspaceID := w.tenant(t, "chain").id
	ctx := postgres.Scope(t.Context(), workspaceID)
	start := func(chain bool) map[string]uuid.UUID {
		t.Helper()
		ids, err := DevConfig{DataDir: dir, Chain: chain}.examples(ctx, w.app.workflows, workspaceID, "127.0.0.1:4001")
		if err != nil {
			t.Fatal(err)
		}
		return ids
	}
	with := start(true)
	without := start(false)
	if _, named := without["chainWatch"]; named || len(without) != 2 || len(with) != 4 {
		t.Errorf("workflows with a chain: %v, without: %v", with, without)
	}
	if again := start(true); !maps.Equal(again, with) {
		t.Errorf("got %v after a restart, want %v", again, with)
	}
}

func TestChainVariableFollowsTheChainsAddress(t *testing.T) {
	t.Parallel()
	w := startWhole(t, nil)
	workspaceID := w.tenant(t, "chain").id
	for _, c := range []struct {
		addr string
		sets int
	}{{"127.0.0.1:4001", 2}, {"127.0.0.1:4001", 2}, {"127.0.0.1:4002", 3}} {
		if err := setChainVariables(t.Context(), w.app.variables, workspaceID, c.addr); err != nil {
			t.Fatal(err)
		}
		page, err := w.app.variables.List(postgres.Scope(t.Context(), workspaceID), workspaceID, 10, "")
		if err != nil || len(page.Data) != 2 || page.Data[0].Name != keyVariable || page.Data[0].Value != nil || page.Data[1].Name != chainVariable || *page.Data[1].Value != "http://"+c.addr {
			t.Errorf("%s: unexpected variables %+v (%v)", c.addr, page.Data, err)
		}
		var sets int
		err = w.app.pools.system.QueryRow(t.Context(), "SELECT count(*) FROM audit_events WHERE workspace_id = $1 AND action LIKE 'environment_variable.%'", workspaceID).Scan(&sets)
		if err != nil || sets != c.sets {
			t.Errorf("%s: variables were set %d times (%v), want %d", c.addr, sets, err, c.sets)
		}
	}
	// A variable that the user made secret stays secret, and gets the correct value.
	hidden := environment.SetParams{WorkspaceID: workspaceID, Name: chainVariable, Value: "of mine", Secret: new(true)}
	if _, err := w.app.variables.Set(postgres.Scope(t.Context(), workspaceID), hidden); err != nil {
		t.Fatal(err)
	}
	if err := setChainVariables(t.Context(), w.app.variables, workspaceID, "127.0.0.1:4003"); err != nil {
		t.Fatal(err)
	}
}
