package idempotency_test

import (
	"context"
	"testing"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/account/workspace"
	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/local/pgtest"
)

// A key is reused while upkeep waits for the lock of its row. After that, the key is no longer
// expired.
func TestUpkeepDoesNotDeleteAKeyThatIsReusedMeanwhile(t *testing.T) {
	pool := pgtest.DB(t)
	id, err := workspace.Create(t.Context(), pool, workspace.CreateParams{Name: "a", Plan: plan.Starter})
	if err != nil {
		t.Fatal(err)
	}
	p := db.IdempotencyUpsertParams{WorkspaceID: id, Operation: "o", Path: "/", Key: "k", BodyHash: []byte{1}, ResourceID: uuid.New()}
	if err := db.New().IdempotencyUpsert(t.Context(), pool, p); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), "UPDATE idempotency_keys SET created_at = now() - interval '2 days'"); err != nil {
		t.Fatal(err)
	}
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background()) //nolint:errcheck // committed by then
	if err := db.New().IdempotencyUpsert(t.Context(), tx, p); err != nil {
		t.Fatal(err)
	}
	type outcome struct {
		gone int64
		err  error
	}
	tidied := make(chan outcome, 1)
	go func() {
		n, err := db.New().IdempotencyDeleteExpired(t.Context(), pool)
		tidied <- outcome{n, err}
	}()
	waittest.Until(t, "upkeep waits", func() (waits bool) {
		if err := pool.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')").Scan(&waits); err != nil {
			t.Fatal(err)
		}
		return waits
	})
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := <-tidied; got.gone != 0 || got.err != nil {
		t.Errorf("%d keys were deleted, %v", got.gone, got.err)
	}
	if _, err := db.New().IdempotencyGet(t.Context(), pool, db.IdempotencyGetParams{WorkspaceID: id, Operation: "o", Path: "/", Key: "k"}); err != nil {
		t.Errorf("the key: %v", err)
	}
}
