package rotation_test

import (
	"encoding/json"
	"testing"

	"github.com/weft-automation/weft/internal/account/environment"
	"github.com/weft-automation/weft/internal/local/pgtest"
	"github.com/weft-automation/weft/internal/program/rotation"
	"github.com/weft-automation/weft/internal/secret/vault"
	"github.com/weft-automation/weft/internal/workflow/hook"
)

func TestMT07HookSecretsAreReencrypted(t *testing.T) {
	pool := pgtest.DB(t)
	old, fresh := key("2025", 1), key("2026", 2)
	r := fill(t, pool, ring(t, old), 1)
	id, workflow := newID(t), newID(t)
	if _, err := pool.Exec(t.Context(), "INSERT INTO workflows (workspace_id, id, key, name) VALUES ($1, $2, 'hooked', 'hooked')", r.workspace, workflow); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), `INSERT INTO hooks (workspace_id, id, workflow_id, name, status, verification, sealed, sealed_token, sealed_previous)
		VALUES ($1, $2, $3, '', 'ACTIVE', '{}', $4, $5, $6)`, r.workspace, id, workflow, sealed(t, ring(t, old), "secret", hook.SealedAt(r.workspace, id)),
		sealed(t, ring(t, old), "token", hook.TokenAt(r.workspace, id)), sealed(t, ring(t, old), "previous", hook.PreviousAt(r.workspace, id))); err != nil {
		t.Fatal(err)
	}
	report, err := rotation.Run(t.Context(), pool, ring(t, fresh, old), nil)
	if err != nil || !report.Done() || report.Sealed != 5 {
		t.Fatalf("unexpected report %+v (%v)", report, err)
	}
	var kept, token, previous []byte
	if err := pool.QueryRow(t.Context(), "SELECT sealed, sealed_token, sealed_previous FROM hooks").Scan(&kept, &token, &previous); err != nil {
		t.Fatal(err)
	}
	if plain, err := ring(t, fresh).Open(kept, hook.SealedAt(r.workspace, id)); err != nil || string(plain) != "secret" {
		t.Errorf("the secret is %q (%v)", plain, err)
	}
	if plain, err := ring(t, fresh).Open(token, hook.TokenAt(r.workspace, id)); err != nil || string(plain) != "token" {
		t.Errorf("the verify token is %q (%v)", plain, err)
	}
	if plain, err := ring(t, fresh).Open(previous, hook.PreviousAt(r.workspace, id)); err != nil || string(plain) != "previous" {
		t.Errorf("the previous secret is %q (%v)", plain, err)
	}
	if missing, err := rotation.MissingKeys(t.Context(), pool, ring(t, old)); err != nil || len(missing) != 1 {
		t.Errorf("missing keys %v (%v)", missing, err)
	}
}

// Only the keys of workspaces are re-encrypted. The outputs under them need no change, however many
// there are.
func TestMT07OutputKeysAreReencrypted(t *testing.T) {
	pool := pgtest.DB(t)
	old, fresh := key("2025", 1), key("2026", 2)
	r := fill(t, pool, ring(t, old), 1)
	at := vault.Place{WorkspaceID: r.workspace, Row: newID(t), Field: vault.Output}
	stored, err := vault.New(pool, ring(t, old)).SealJSON(t.Context(), at, json.RawMessage(`{"a":1}`))
	if err != nil {
		t.Fatal(err)
	}
	if missing, err := rotation.MissingKeys(t.Context(), pool, ring(t, fresh)); err != nil || len(missing) != 1 {
		t.Errorf("missing keys before the rotation: %v (%v)", missing, err)
	}
	report, err := rotation.Run(t.Context(), pool, ring(t, fresh, old), nil)
	if err != nil || !report.Done() || report.Sealed != 3 {
		t.Fatalf("unexpected report %+v (%v)", report, err)
	}
	if plain, err := vault.New(pool, ring(t, fresh)).OpenJSON(t.Context(), at, stored); err != nil || string(plain) != `{"a":1}` {
		t.Errorf("the output is %s (%v)", plain, err)
	}
	if missing, err := rotation.MissingKeys(t.Context(), pool, ring(t, fresh)); err != nil || len(missing) != 0 {
		t.Errorf("missing keys %v (%v)", missing, err)
	}
}

// A key that only verify tokens of hooks are sealed under is missing if the ring lacks it.
func TestMT07KeysOfVerifyTokensAreNeeded(t *testing.T) {
	pool := pgtest.DB(t)
	old, fresh := key("2025", 1), key("2026", 2)
	workspace, id, workflow := fill(t, pool, ring(t, fresh), 1).workspace, newID(t), newID(t)
	if _, err := pool.Exec(t.Context(), "INSERT INTO workflows (workspace_id, id, key, name) VALUES ($1, $2, 'hooked', 'hooked')", workspace, workflow); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), `INSERT INTO hooks (workspace_id, id, workflow_id, name, status, verification, sealed, sealed_token)
		VALUES ($1, $2, $3, '', 'ACTIVE', '{}', $4, $5)`, workspace, id, workflow, sealed(t, ring(t, fresh), "secret", hook.SealedAt(workspace, id)),
		sealed(t, ring(t, old), "token", hook.TokenAt(workspace, id))); err != nil {
		t.Fatal(err)
	}
	if missing, err := rotation.MissingKeys(t.Context(), pool, ring(t, fresh)); err != nil || len(missing) != 1 {
		t.Errorf("missing keys %v (%v)", missing, err)
	}
}

// The variables of a workspace are re-encrypted, and so are the copies of live runs.
func TestMT07VariablesAreReencrypted(t *testing.T) {
	pool := pgtest.DB(t)
	old, fresh := key("2025", 1), key("2026", 2)
	r := fill(t, pool, ring(t, old), 1)
	id, run := newID(t), newID(t)
	if _, err := pool.Exec(t.Context(), `INSERT INTO environment_variables (workspace_id, id, name, description, secret, kind, sealed, sealed_token)
		VALUES ($1, $2, 'A', '', true, 'oauth2', $3, $4)`, r.workspace, id, sealed(t, ring(t, old), "value", environment.SealedAt(r.workspace, id)),
		sealed(t, ring(t, old), "token", environment.TokenAt(r.workspace, id))); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), `INSERT INTO workflow_runs
		(workspace_id, id, workflow_id, workflow_version, status, trigger, input, variables, deadline, job_id, created_at, updated_at)
		VALUES ($1, $2, $2, 1, 'EXECUTING', 'API', '{}', $3, now(), 1, now(), now())`,
		r.workspace, run, sealed(t, ring(t, old), "value", environment.SnapshotAt(r.workspace, run))); err != nil {
		t.Fatal(err)
	}
	report, err := rotation.Run(t.Context(), pool, ring(t, fresh, old), nil)
	if err != nil || !report.Done() || report.Sealed != 5 {
		t.Fatalf("unexpected report %+v (%v)", report, err)
	}
	var variable, token, taken []byte
	err = pool.QueryRow(t.Context(), "SELECT v.sealed, v.sealed_token, r.variables FROM environment_variables v JOIN workflow_runs r USING (workspace_id)").Scan(&variable, &token, &taken)
	if err != nil {
		t.Fatal(err)
	}
	if plain, err := ring(t, fresh).Open(variable, environment.SealedAt(r.workspace, id)); err != nil || string(plain) != "value" {
		t.Errorf("the variable is %q (%v)", plain, err)
	}
	if plain, err := ring(t, fresh).Open(token, environment.TokenAt(r.workspace, id)); err != nil || string(plain) != "token" {
		t.Errorf("the access token is %q (%v)", plain, err)
	}
	if plain, err := ring(t, fresh).Open(taken, environment.SnapshotAt(r.workspace, run)); err != nil || string(plain) != "value" {
		t.Errorf("the run's copy is %q (%v)", plain, err)
	}
	if missing, err := rotation.MissingKeys(t.Context(), pool, ring(t, old)); err != nil || len(missing) != 1 {
		t.Errorf("missing keys %v (%v)", missing, err)
	}
}
