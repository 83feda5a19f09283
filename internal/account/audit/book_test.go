package audit_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weft-automation/weft/internal/account/audit"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// hanging is a database that never responds.
type hanging struct{ postgres.DB }

func (hanging) Exec(ctx context.Context, _ string, _ ...any) (pgconn.CommandTag, error) {
	<-ctx.Done()
	return pgconn.CommandTag{}, ctx.Err()
}

func TestAHangingDatabaseDoesNotDelayTheStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lost := 0
		book := audit.NewBook(hanging{}, hanging{}, func() { lost++ }, slog.New(slog.DiscardHandler))
		ctx, end := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			book.Run(ctx)
		}()
		for range 60 {
			book.Deny(ctx, uuid.Max, audit.Actor{Kind: audit.System}, "createApiKey", "role_not_allowed")
		}
		synctest.Wait()
		started := time.Now()
		end()
		<-done
		if took := time.Since(started); took > 5*time.Second || lost != 60 {
			t.Errorf("stopping took %v, %d of 60 were counted as lost", took, lost)
		}
	})
}

// An event that is written later is recorded with the time at which it happened.
func TestMT09AnEventHasTheTimeOfTheChange(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.book.Deny(t.Context(), uuid.Nil, audit.Actor{}, "createApiKey", "role_not_allowed") // no workspace: not recorded
	started := time.Now()
	s.book.Deny(t.Context(), s.a, audit.Actor{}, "createApiKey", "role_not_allowed")
	for time.Since(started) < 300*time.Millisecond { // as if the queue were long
		s.list(t, s.a, 1, "")
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	s.book.Run(done)
	var late time.Duration
	if err := s.owner.QueryRow(t.Context(), "SELECT now() - created_at FROM audit_events").Scan(&late); err != nil || late < 300*time.Millisecond || s.lost.Load() != 0 {
		t.Errorf("the only event happened %v ago, %v; %d were lost", late, err, s.lost.Load())
	}
}
