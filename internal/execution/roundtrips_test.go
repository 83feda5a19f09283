package execution_test

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weft-automation/weft/internal/execution"
	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/platform/idempotency"
)

// roundTrips counts the queries and batches that a pool sends to PostgreSQL, except notifications, which no
// response waits for, and checks of new connections.
type roundTrips struct{ atomic.Int32 }

func (r *roundTrips) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if strings.HasPrefix(q.SQL, "-- name: ") && !strings.Contains(q.SQL, "RiverJobNotify") {
		r.Add(1)
	}
	return ctx
}

func (r *roundTrips) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (r *roundTrips) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	r.Add(1)
	return ctx
}

func (r *roundTrips) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

func (r *roundTrips) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

func TestAnIdempotencyKeyCostsFewRoundTrips(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var sent roundTrips
	config := open(t, b.dsn).Config()
	config.ConnConfig.Tracer = &sent
	counted, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(counted.Close)
	n := b.start(t, options{idle: true, slots: 4}, computes(), echo())
	deps := n.runner.Deps
	deps.DB = counted
	runner := execution.NewRunner(deps, &execution.Identity{}, 4, slog.New(slog.DiscardHandler))
	service := execution.NewService(deps, runner)
	t.Cleanup(func() {
		soft, done := waittest.CleanupContext(t)
		defer done()
		runner.Drain(soft)
		runner.Close()
		service.Close()
	})
	cost := func(direct, keyed bool) int32 {
		p := b.waiting()
		if p.WaitFor = 0; direct {
			p.WaitFor = time.Minute
		}
		if keyed {
			p.Idempotency = &idempotency.Key{WorkspaceID: b.workspace, Operation: "x", Path: "/x", Key: uuid.NewString()}
		}
		before := sent.Load()
		if _, err := service.Submit(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		return sent.Load() - before
	}
	for _, c := range []struct {
		direct bool
		most   int32
	}{{true, 3}, {false, cost(false, false) + 2}} {
		if got := cost(c.direct, true); got > c.most || got == 0 {
			t.Errorf("direct: %v: %d round trips with a key, want at most %d", c.direct, got, c.most)
		}
	}
}
