package rotation_test

import (
	"maps"
	"testing"

	"github.com/weft-automation/weft/internal/execution/callback"
	"github.com/weft-automation/weft/internal/local/pgtest"
	"github.com/weft-automation/weft/internal/program/rotation"
	"github.com/weft-automation/weft/internal/secret/vault"
	"github.com/weft-automation/weft/internal/workflow/run"
)

// The secrets of a run's callback are in its own row, and those of a schedule or a hook under the key of
// the workspace.
func TestMT07CallbacksOfRunsSchedulesAndHooksAreReencrypted(t *testing.T) {
	pool := pgtest.DB(t)
	old, fresh := key("2025", 1), key("2026", 2)
	workspace := fill(t, pool, ring(t, old), 0).workspace
	given := callback.Params{URL: "https://a.example/", Secret: new("secret"), Headers: map[string]string{"Authorization": "Bearer canary"}}

	id := newID(t)
	stored, _, err := given.Stored(ring(t, old), workspace, id)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), `INSERT INTO callbacks (workspace_id, execution_id, of_run, url, sealed, signed, created_at)
		VALUES ($1, $2, true, $3, $4, true, now())`, workspace, id, given.URL, stored); err != nil {
		t.Fatal(err)
	}
	before, after := &run.Service{Deps: run.Deps{Vault: vault.New(pool, ring(t, old))}}, &run.Service{Deps: run.Deps{Vault: vault.New(pool, ring(t, fresh))}}
	kept := map[vault.Place]run.StoredCallback{}
	for _, field := range []vault.Field{vault.ScheduleCallback, vault.HookCallback} {
		at := vault.Place{WorkspaceID: workspace, Row: newID(t), Field: field}
		var change run.CallbackChange
		change.URL.Given, change.Secret.Given, change.Headers.Given = true, true, true
		change.URL.Value, change.Secret.Value, change.Headers.Value = &given.URL, given.Secret, given.Headers
		if kept[at], err = before.ChangeCallback(t.Context(), at, change, run.StoredCallback{}); err != nil {
			t.Fatal(err)
		}
		if _, err := after.OpenCallback(t.Context(), at, kept[at]); err == nil {
			t.Errorf("%s: the new key opens it before the rotation", field)
		}
	}

	report, err := rotation.Run(t.Context(), pool, ring(t, fresh, old), nil)
	if err != nil || !report.Done() || report.Sealed != 2 {
		t.Fatalf("unexpected report %+v (%v)", report, err)
	}
	if err := pool.QueryRow(t.Context(), "SELECT sealed FROM callbacks").Scan(&stored); err != nil {
		t.Fatal(err)
	}
	if _, err := ring(t, fresh).Open(stored, callback.SealedAt(workspace, id)); err != nil {
		t.Errorf("the callback of the run: %v", err)
	}
	for at, one := range kept {
		got, err := after.OpenCallback(t.Context(), at, one)
		if err != nil || got.URL != given.URL || *got.Secret != *given.Secret || !maps.Equal(got.Headers, given.Headers) {
			t.Errorf("%s: %+v (%v)", at.Field, got, err)
		}
		at.Row = id
		if _, err := after.OpenCallback(t.Context(), at, one); err == nil {
			t.Errorf("%s: it opens in another row", at.Field)
		}
	}
}
