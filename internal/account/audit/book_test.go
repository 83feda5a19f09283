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

// hanging is a database that never answers.
type hanging struct{ postgres.DB }

func (hanging) Exec(ctx context.Context, _ string, _ ...any) (pgconn.CommandTag, error) {
	<-ctx.Done()
	return pgconn.CommandTag{}, ctx.Err()
}

func TestADatabaseThatHangsHoldsUpNoEnd(t *testing.T) {
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
		began := time.Now()
		end()
		<-done
		if took := time.Since(began); took > 5*time.Second || lost != 60 {
			t.Errorf("the end took %v, %d of 60 were counted as lost", took, lost)
		}
	})
}

// What is told later happened when it happened.
func TestMT09AnEventHasTheTimeOfTheDeed(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.book.Deny(t.Context(), uuid.Nil, audit.Actor{}, "createApiKey", "role_not_allowed") // nobody's
	began := time.Now()
	s.book.Deny(t.Context(), s.a, audit.Actor{}, "createApiKey", "role_not_allowed")
	for time.Since(began) < 300*time.Millisecond { // as if the queue were long
		s.list(t, s.a, 1, "")
	}
	over, end := context.WithCancel(t.Context())
	end()
	s.book.Run(over)
	var late time.Duration
	if err := s.owner.QueryRow(t.Context(), "SELECT now() - created_at FROM audit_events").Scan(&late); err != nil || late < 300*time.Millisecond || s.lost.Load() != 0 {
		t.Errorf("the only event happened %v ago, %v; %d were lost", late, err, s.lost.Load())
	}
}
