package ratelimit

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/account/workspace"
	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/platform/telemetry"
)

// A new process whose store does not respond does not know the plan of a workspace.
func TestNothingIsRefusedByLimitsThatAreUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := New(stalled{}, telemetry.NewMetrics("test"), Patience)
		if err != nil {
			t.Fatal(err)
		}
		id := uuid.New()
		const requests, waits = 150, 205
		for i := range requests {
			if d := l.Take(t.Context(), id, 1); !d.Allowed || d.charged.n != 1 {
				t.Fatalf("request %d: %+v", i, d)
			}
		}
		for i := range waits {
			closed, allowed := l.Open(t.Context(), id, Wait)
			if !allowed {
				t.Fatalf("wait %d is not allowed", i)
			}
			defer closed()
		}
		var owed int64
		for _, c := range l.view(id).owed {
			owed += c.n
		}
		if owed != requests {
			t.Errorf("the store is owed %d requests of %d", owed, requests)
		}
		l.Close()
	})
}

// A limiter with a long patience for its store also waits that long for terms.
func TestTermsAreAwaitedAsLongAsTheStore(t *testing.T) {
	t.Parallel()
	n := start(t, 1, patient)
	id, err := workspace.Create(t.Context(), n.owner, workspace.CreateParams{Name: uuid.NewString(), Plan: plan.Starter})
	if err != nil {
		t.Fatal(err)
	}
	tx, err := n.owner.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	if _, err := tx.Exec(t.Context(), "LOCK TABLE workspaces IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	known := make(chan bool, 1)
	go func() {
		_, _, is := n.limiters[0].Terms(context.Background(), id)
		known <- is
	}()
	waittest.Until(t, "the look-up has waited for longer than tripTimeout", func() (long bool) {
		err := n.owner.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock' AND clock_timestamp() - query_start > $1::interval)`, tripTimeout).Scan(&long)
		if err != nil {
			t.Fatal(err)
		}
		return long
	})
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !waittest.Receive(t, "the terms", known) {
		t.Error("the terms are unknown")
	}
}
