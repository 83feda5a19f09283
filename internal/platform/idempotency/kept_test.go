package idempotency_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/account/workspace"
	"github.com/weft-automation/weft/internal/local/pgtest"
)

func TestAKeyIsKeptForADay(t *testing.T) {
	pool := pgtest.DB(t)
	id, err := workspace.Create(t.Context(), pool, workspace.CreateParams{Name: "a", Plan: plan.Starter})
	if err != nil {
		t.Fatal(err)
	}
	put := db.IdempotencyUpsertParams{WorkspaceID: id, Operation: "o", Path: "/", Key: "k", BodyHash: []byte{1}, ResourceID: uuid.New()}
	if err := db.New().IdempotencyUpsert(t.Context(), pool, put); err != nil {
		t.Fatal(err)
	}
	for age, kept := range map[time.Duration]bool{0: true, 24*time.Hour - 5*time.Minute: true, 24*time.Hour + time.Second: false} {
		if _, err := pool.Exec(t.Context(), "UPDATE idempotency_keys SET created_at = now() - $1::interval", age); err != nil {
			t.Fatal(err)
		}
		_, err := db.New().IdempotencyGet(t.Context(), pool, db.IdempotencyGetParams{WorkspaceID: id, Operation: "o", Path: "/", Key: "k"})
		if kept && err != nil || !kept && !errors.Is(err, pgx.ErrNoRows) {
			t.Errorf("after %s: %v, want it kept: %v", age, err, kept)
		}
	}
}
