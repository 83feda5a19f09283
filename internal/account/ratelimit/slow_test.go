package ratelimit

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/account/workspace"
	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/local/pgtest"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/platform/telemetry"
)

// slow is a store that delays every response by 200 ms.
type slow struct{ postgres.DB }

func (slow) delay(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(200 * time.Millisecond):
	}
}

func (s slow) Begin(ctx context.Context) (pgx.Tx, error) {
	s.delay(ctx)
	return s.DB.Begin(ctx)
}

func (s slow) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	s.delay(ctx)
	return s.DB.Query(ctx, sql, args...)
}

func (s slow) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	s.delay(ctx)
	return s.DB.QueryRow(ctx, sql, args...)
}

// stalled is a store that never responds.
type stalled struct{ postgres.DB }

func (stalled) Begin(ctx context.Context) (pgx.Tx, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (stalled) Query(ctx context.Context, _ string, _ ...any) (pgx.Rows, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (stalled) QueryRow(ctx context.Context, _ string, _ ...any) pgx.Row {
	<-ctx.Done()
	return noRow{ctx.Err()}
}

type noRow struct{ err error }

func (r noRow) Scan(...any) error { return r.err }

// The clock of the synctest bubble stands still while any goroutine runs, so the limit is exact
// however busy the machine is.
func TestRL10ADecisionWaitsForTheStoreFor50Milliseconds(t *testing.T) {
	take := func(l *Limiter, id uuid.UUID) { l.Take(t.Context(), id, 1) }
	open := func(l *Limiter, id uuid.UUID) {
		if closed, allowed := l.Open(t.Context(), id, Wait); allowed {
			closed()
		}
	}
	for what, decide := range map[string]func(*Limiter, uuid.UUID){"a request": take, "a wait": open} {
		for whose, known := range map[string]time.Duration{"is not known": 0, "was known": -time.Second, "is known": time.Hour} {
			t.Run(what+" of a workspace that "+whose, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l, err := New(stalled{}, nil, Patience)
					if err != nil {
						t.Fatal(err)
					}
					id := uuid.New()
					if known != 0 {
						l.view(id).terms = termsView{name: plan.Growth, terms: plan.Growth.Terms(), known: true, until: time.Now().Add(known)}
					}
					for n := range 3 {
						asked := time.Now()
						decide(l, id)
						if took := time.Since(asked); took > 50*time.Millisecond {
							t.Errorf("decision %d took %v", n, took)
						}
					}
					l.Close()
				})
			})
		}
	}
}

// The store responds, but slowly. No request is rejected before the limits of the workspace are
// known. After that, the limits also cover the requests that were admitted before.
func TestRL10StoreSlow(t *testing.T) {
	pool := pgtest.DB(t)
	l, err := New(slow{pool}, telemetry.NewMetrics("test"), Patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	made := func(name plan.Name) uuid.UUID {
		id, err := workspace.Create(t.Context(), pool, workspace.CreateParams{Name: string(name), Plan: name})
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	var let, waits, bare atomic.Int64
	var all sync.WaitGroup
	growth, enterprise := made(plan.Growth), made(plan.Enterprise)
	for range 200 {
		all.Go(func() {
			d := l.Take(t.Context(), growth, 1)
			if d.Allowed {
				let.Add(1)
			}
			if d.PolicyField() == "" || d.Field(0) == "" {
				bare.Add(1)
			}
		})
	}
	for range 150 {
		all.Go(func() {
			if _, allowed := l.Open(t.Context(), enterprise, Wait); allowed {
				waits.Add(1)
			}
		})
	}
	all.Wait()
	if bare.Load() > 0 {
		t.Errorf("%d requests had no fields", bare.Load())
	}
	if waits.Load() != 150 {
		t.Errorf("%d of 150 waits of a workspace without a limit were let in", waits.Load())
	}
	waittest.Until(t, "the terms are known", func() bool {
		_, _, one := l.Terms(t.Context(), growth)
		_, _, other := l.Terms(t.Context(), enterprise)
		return one && other
	})
	terms := plan.Growth.Terms()
	if d := l.Take(t.Context(), growth, 1); d.limits.RPS != terms.RPS {
		t.Errorf("by known terms: %+v", d)
	}
	waittest.Until(t, "what was let in before the terms were known counts", func() bool {
		return l.Take(t.Context(), growth, 0).Hour.Remaining <= terms.RPH-int(let.Load())
	})
	if d := l.Take(t.Context(), enterprise, 1); !d.Allowed || d.PolicyField() != "" {
		t.Errorf("without limits: %+v", d)
	}
}
