package postgres_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/account/workspace"
	"github.com/weft-automation/weft/internal/local/pgtest"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// A connection serves one workspace after the other. No workspace sees the rows of the previous
// one.
func TestMT03APooledConnectionHasTheScopeOfItsCaller(t *testing.T) {
	dsn := pgtest.DSN(t)
	owner, err := postgres.Open(t.Context(), dsn, "test", postgres.Owner, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer owner.Close()
	var ids []uuid.UUID
	for _, name := range []string{"a", "b"} {
		id, err := workspace.Create(t.Context(), owner, workspace.CreateParams{Name: name, Plan: plan.Starter})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	pool, err := postgres.Open(t.Context(), dsn, "test", postgres.API, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	seen := func(ctx context.Context) (names string) {
		t.Helper()
		if err := pool.QueryRow(ctx, "SELECT COALESCE(string_agg(name, ',' ORDER BY name), '') FROM workspaces").Scan(&names); err != nil {
			t.Fatal(err)
		}
		return names
	}
	boom := errors.New("boom")
	ends := map[string]func(){
		"a commit": func() {
			_ = pgx.BeginFunc(postgres.Scope(t.Context(), ids[0]), pool, func(pgx.Tx) error { return nil })
		},
		"an error": func() {
			_ = pgx.BeginFunc(postgres.Scope(t.Context(), ids[0]), pool, func(tx pgx.Tx) error {
				_, _ = tx.Exec(t.Context(), "SELECT 1/0")
				return boom
			})
		},
		"a panic": func() {
			defer func() { _ = recover() }()
			_ = pgx.BeginFunc(postgres.Scope(t.Context(), ids[0]), pool, func(pgx.Tx) error { panic(boom) })
		},
	}
	for name, end := range ends {
		end()
		if got := seen(t.Context()); got != "" {
			t.Errorf("after %s and without a scope: %q", name, got)
		}
		end()
		if got := seen(postgres.Scope(t.Context(), ids[1])); got != "b" {
			t.Errorf("after %s, in the scope of b: %q", name, got)
		}
	}
	if got := seen(postgres.Scope(t.Context(), ids...)); got != "a,b" {
		t.Errorf("in the scope of both: %q", got)
	}
	if _, err := pool.Exec(postgres.Scope(t.Context(), ids[0]), "RESET ROLE"); err != nil {
		t.Fatal(err)
	}
	if got := seen(postgres.Scope(t.Context(), ids[0])); got != "a" {
		t.Errorf("after RESET ROLE: %q", got)
	}
}
