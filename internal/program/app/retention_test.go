package app

import (
	"encoding/binary"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weft-automation/weft/internal/local/client"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

func TestDroppedExecutionLooksLikeAnUnknownOne(t *testing.T) {
	t.Parallel()
	w := startWhole(t, func(c *Config) { c.Retention = 24 * time.Hour })
	never := uuid.Must(uuid.NewV7())
	old := never
	binary.BigEndian.PutUint64(old[:], uint64(time.Now().AddDate(0, 0, -28).UnixMilli())<<16|0x7001)
	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := w.app.pools.system.Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec(`INSERT INTO component_executions (workspace_id, id, module, status, call, attempts, attempt, job_id, has_callback, created_at, updated_at, finished_at)
		SELECT id, $1, 'HASH', 'COMPLETED', '', 1, 1, 1, true, now(), now(), now() FROM workspaces`, old)
	exec(`INSERT INTO callbacks (workspace_id, execution_id, url, signed, body, state, delivered_at, created_at)
		SELECT id, $1, 'https://example.com', false, '', 'DELIVERED', now(), now() FROM workspaces`, old)
	if _, _, err := w.client.Get(t.Context(), old); err != nil {
		t.Fatalf("the execution is missing before it was dropped: %v", err)
	}
	// A table may be locked or already dropped, because the app's own sweep may be faster.
	keep := func() {
		t.Helper()
		for {
			if _, err := w.app.workers.keeper.Keep(t.Context()); err == nil {
				return
			} else if e, ok := errors.AsType[*pgconn.PgError](err); !ok || e.Code != "55P03" && e.Code != "40P01" && e.Code != "42P01" {
				t.Fatal(err)
			}
		}
	}
	// A sweep first notes that the week is final. It drops the week after the retention time.
	keep()
	owner, err := postgres.Connect(t.Context(), w.dsn, "test")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = owner.Close(t.Context()) }()
	if _, err := owner.Exec(t.Context(), "UPDATE partition_weeks SET final_since = final_since - interval '25 hours'"); err != nil {
		t.Fatal(err)
	}
	keep()
	for _, call := range []struct{ method, path string }{
		{http.MethodGet, ""}, {http.MethodPost, "/replay-callback"}, {http.MethodGet, "/callback-attempts"},
	} {
		var answers [2]client.Problem
		for n, id := range []uuid.UUID{old, never} {
			_, err := w.client.Call(t.Context(), call.method, "/v1/sdk/components/executions/"+id.String()+call.path, nil, nil)
			problem, ok := errors.AsType[*client.Problem](err)
			if !ok || problem.Status != http.StatusNotFound {
				t.Fatalf("%s %s: %v, want 404", call.method, call.path, err)
			}
			answers[n] = *problem
		}
		if answers[0].Code != answers[1].Code || answers[0].Detail != answers[1].Detail {
			t.Errorf("%s %s returns %+v for a dropped execution and %+v for an unknown one", call.method, call.path, answers[0], answers[1])
		}
	}
}
