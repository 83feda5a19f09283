package environment_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weft-automation/weft/internal/account/environment"
	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/account/workspace"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/local/pgtest"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/secret/seal"
)

// bench is a Service with the role of requests, and a workspace.
type bench struct {
	*environment.Service
	pool      *pgxpool.Pool // sees all workspaces
	workspace uuid.UUID
	ctx       context.Context
}

func setup(t *testing.T) *bench {
	t.Helper()
	dsn := pgtest.DSN(t)
	open := func(role postgres.Role) *pgxpool.Pool {
		pool, err := postgres.Open(t.Context(), dsn, "test", role, 4)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		return pool
	}
	b := &bench{pool: open(postgres.Owner)}
	var err error
	if b.workspace, err = workspace.Create(t.Context(), b.pool, workspace.CreateParams{Name: "Acme", Plan: plan.Starter}); err != nil {
		t.Fatal(err)
	}
	key := seal.Key{ID: "test"}
	key.Secret[0] = 7
	ring, err := seal.NewKeyring(key)
	if err != nil {
		t.Fatal(err)
	}
	b.Service, b.ctx = environment.NewService(open(postgres.API), ring), postgres.Scope(t.Context(), b.workspace)
	return b
}

func (b *bench) set(t *testing.T, name, value string, secret bool) {
	t.Helper()
	if _, err := b.Set(b.ctx, environment.SetParams{WorkspaceID: b.workspace, Name: name, Value: value, Secret: &secret}); err != nil {
		t.Fatal(err)
	}
}

func TestASecretStaysSecretAndIsNotShown(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first, err := b.Set(b.ctx, environment.SetParams{WorkspaceID: b.workspace, Name: "TOKEN", Value: "hush-1", Secret: new(true), Description: new("of X")})
	if err != nil || first.Value != nil || !first.Secret || first.Description != "of X" {
		t.Fatalf("%+v, %v", first, err)
	}
	again, err := b.Set(b.ctx, environment.SetParams{WorkspaceID: b.workspace, Name: "TOKEN", Value: "hush-2"})
	if err != nil || again.Value != nil || !again.Secret || again.Description != "of X" || again.CreatedAt != first.CreatedAt {
		t.Errorf("with a value only: %+v, %v", again, err)
	}
	b.set(t, "ADDRESS", "https://a.example", false)
	page, err := b.List(b.ctx, b.workspace, 10, "")
	if err != nil || len(page.Data) != 2 || page.Data[0].Name != "ADDRESS" || *page.Data[0].Value != "https://a.example" || page.Data[1].Value != nil {
		t.Errorf("%+v, %v", page, err)
	}
	var sealed int
	if err := b.pool.QueryRow(t.Context(), `SELECT count(*) FROM environment_variables v WHERE v::text LIKE '%' || encode('hush-2', 'hex') || '%'
		OR v::text LIKE '%' || encode('https://a.example', 'hex') || '%'`).Scan(&sealed); err != nil || sealed > 0 {
		t.Errorf("%d values are not sealed, %v", sealed, err)
	}
	var logged []string
	rows, _ := b.pool.Query(t.Context(), "SELECT action || ' ' || (details->>'name') FROM audit_events WHERE action LIKE 'environment%' ORDER BY id")
	for rows.Next() {
		var event string
		if err := rows.Scan(&event); err != nil {
			t.Fatal(err)
		}
		logged = append(logged, event)
	}
	if want := []string{"environment_variable.created TOKEN", "environment_variable.updated TOKEN", "environment_variable.created ADDRESS"}; !slices.Equal(logged, want) {
		t.Errorf("the audit log has %v", logged)
	}
}

func TestARunCopiesTheVariablesThatItNames(t *testing.T) {
	t.Parallel()
	b := setup(t)
	run := uuid.Must(uuid.NewV7())
	b.set(t, "TOKEN", "a secret token", true)
	b.set(t, "ADDRESS", "https://a.example", false)
	b.set(t, "OTHER", "not named", true)
	sealed, err := b.Take(b.ctx, b.pool, b.workspace, run, environment.Wanted{Names: []string{"ADDRESS", "NONE", "TOKEN"}, Outer: []string{"outer"}})
	if err != nil {
		t.Fatal(err)
	}
	b.set(t, "TOKEN", "later", true)
	if _, err := b.Delete(b.ctx, b.workspace, "ADDRESS"); err != nil {
		t.Fatal(err)
	}
	got, err := b.Open(b.workspace, run, sealed)
	if err != nil || len(got.Values) != 2 || got.Values["TOKEN"] != "a secret token" || got.Values["ADDRESS"] != "https://a.example" ||
		!slices.Equal(got.Secrets, []string{"outer", "a secret token"}) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := b.Open(b.workspace, uuid.Must(uuid.NewV7()), sealed); err == nil {
		t.Error("it was opened for another run")
	}
	if nothing, err := b.Take(b.ctx, b.pool, b.workspace, run, environment.Wanted{}); nothing != nil || err != nil {
		t.Errorf("without names: %v, %v", nothing, err)
	}
}

func TestASnapshotNamesVariablesThatChangedAfterTheVersionWasSaved(t *testing.T) {
	t.Parallel()
	b := setup(t)
	run := uuid.Must(uuid.NewV7())
	b.set(t, "EARLIER", "one", false)
	b.set(t, "EARLIER", "two", false)
	var saved time.Time
	if err := b.pool.QueryRow(t.Context(), "SELECT now()").Scan(&saved); err != nil {
		t.Fatal(err)
	}
	names := []string{"AGAIN", "DELETED", "EARLIER", "NEW", "OTHER"}
	for _, name := range names {
		if name != "NEW" && name != "EARLIER" {
			b.set(t, name, "one", false)
		}
	}
	b.set(t, "NEW", "one", false)
	b.set(t, "AGAIN", "one", true)
	b.set(t, "OTHER", "two", false)
	if _, err := b.Delete(b.ctx, b.workspace, "DELETED"); err != nil {
		t.Fatal(err)
	}
	b.set(t, "DELETED", "one", false)
	sealed, err := b.Take(b.ctx, b.pool, b.workspace, run, environment.Wanted{Names: names, Fixed: names, SavedAt: saved})
	if err != nil {
		t.Fatal(err)
	}
	got, err := b.Open(b.workspace, run, sealed)
	slices.Sort(got.Changed)
	if want := []string{"DELETED", "OTHER"}; err != nil || !slices.Equal(got.Changed, want) {
		t.Errorf("changed are %q, %v; want %q", got.Changed, err, want)
	}
}

func TestVariablesAreLimited(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, err := b.Set(b.ctx, environment.SetParams{WorkspaceID: b.workspace, Name: "LONG", Value: strings.Repeat("é", 4097)})
	if fault.CodeOf(err) != fault.InvalidInput {
		t.Errorf("8 KiB and two bytes: %v", err)
	}
	b.set(t, "LONG", strings.Repeat("é", 4096), false)
	if _, err := b.pool.Exec(t.Context(), `INSERT INTO environment_variables (workspace_id, id, name, description, secret, sealed)
		SELECT $1, gen_random_uuid(), 'V' || n, '', true, '' FROM generate_series(1, 199) AS n`, b.workspace); err != nil {
		t.Fatal(err)
	}
	_, err = b.Set(b.ctx, environment.SetParams{WorkspaceID: b.workspace, Name: "MORE", Value: "x"})
	if fault.CodeOf(err) != fault.Conflict {
		t.Errorf("201 variables: %v", err)
	}
	b.set(t, "V7", "x", true) // V7 exists already
	if _, err := b.Delete(b.ctx, b.workspace, "V8"); err != nil {
		t.Error(err)
	}
	b.set(t, "MORE", "x", true)
	if _, err := b.Delete(b.ctx, b.workspace, "V8"); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("deleted twice: %v", err)
	}
}

// If many variables are created at once, only as many as fit are created.
func TestTheLimitHoldsUnderConcurrency(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if _, err := b.pool.Exec(t.Context(), `INSERT INTO environment_variables (workspace_id, id, name, description, secret, sealed)
		SELECT $1, gen_random_uuid(), 'V' || n, '', true, '' FROM generate_series(1, 197) AS n`, b.workspace); err != nil {
		t.Fatal(err)
	}
	errs := make(chan error)
	for i := range 8 {
		go func() {
			_, err := b.Set(b.ctx, environment.SetParams{WorkspaceID: b.workspace, Name: fmt.Sprint("NEW", i), Value: "x"})
			errs <- err
		}()
	}
	made := 0
	for range 8 {
		if err := <-errs; err == nil {
			made++
		} else if fault.CodeOf(err) != fault.Conflict {
			t.Error(err)
		}
	}
	if made != 3 {
		t.Errorf("%d were created although there was room for 3", made)
	}
}
