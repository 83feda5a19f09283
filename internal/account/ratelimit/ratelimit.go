// Package ratelimit limits the requests of a workspace per second and per hour, and its open
// calls, across all nodes (contract part 8, decisions 6).
//
// The caller passes the cost of a request; the limits come from the terms of the workspace.
// State is stored in PostgreSQL, and PostgreSQL's clock is used for all times. Every decision
// takes at most 50 ms: if the store is slower, a node decides by the state that it read last,
// and charges the store later.
package ratelimit

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/kit/wait"
	"github.com/weft-automation/weft/internal/platform/groupcommit"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/platform/telemetry"
)

const (
	// Patience is how long a decision may wait for the store. It leaves 5 of the 50 ms for
	// everything else.
	Patience = 45 * time.Millisecond
	// tripTimeout limits the duration of a transaction. Decisions don't wait for the end of the
	// transaction.
	tripTimeout = time.Second
	// syncInterval is the interval at which a node writes its outstanding charges and its open
	// calls to the store.
	syncInterval = 3 * time.Second
)

var queries = db.New()

// Limiter decides requests for one node. It is safe for concurrent use. A nil Limiter limits
// nothing.
type Limiter struct {
	db       postgres.DB
	node     uuid.UUID
	metrics  *telemetry.Metrics
	patience time.Duration

	takes      *groupcommit.Group[*request, Decision]
	opens      *groupcommit.Group[*opening, struct{}]
	background sync.WaitGroup // round trips that may outlast the decision that started them

	mu    sync.Mutex
	views map[uuid.UUID]*view
}

// New returns a limiter whose decisions wait for the store for at most patience. conn must be a
// separate pool, so that a slow limiter doesn't hold connections that other code needs.
func New(conn postgres.DB, metrics *telemetry.Metrics, patience time.Duration) (*Limiter, error) {
	node, err := uuid.NewRandom()
	if err != nil {
		return nil, err
	}
	l := &Limiter{db: conn, node: node, metrics: metrics, patience: patience, views: map[uuid.UUID]*view{}}
	timeout := max(tripTimeout, patience)
	whole := func(error) bool { return true } // a failure is caused by the store, so items are not retried one by one
	l.takes = groupcommit.New(groupcommit.Options[*request]{Max: 512, Timeout: timeout}, whole, l.takeBatch)
	l.opens = groupcommit.New(groupcommit.Options[*opening]{Max: 512, Timeout: timeout}, whole, func(ctx context.Context, openings []*opening) ([]struct{}, error) {
		err := pgx.BeginFunc(ctx, l.db, func(tx pgx.Tx) error { return l.openTx(ctx, tx, openings) })
		return make([]struct{}, len(openings)), err
	})
	return l, nil
}

// request is a request to decide. The fields after limits are guarded by the limiter's lock.
type request struct {
	workspaceID uuid.UUID
	cost        int // 0: only writes outstanding charges to the store
	limits      Limits

	decision *Decision // nil until the request is decided
	returned bool      // whether takeFromStore has returned
}

// Take admits or rejects cost requests of a workspace. It always decides. A cost of 0 is always
// admitted, without access to the store.
func (l *Limiter) Take(ctx context.Context, workspaceID uuid.UUID, cost int) Decision {
	if l == nil {
		return Decision{Allowed: true}
	}
	_, terms, known := l.Terms(ctx, workspaceID)
	r := &request{workspaceID: workspaceID, cost: cost, limits: limitsOf(terms)}
	if r.limits.none() {
		return Decision{Allowed: true}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	v, source := l.view(workspaceID), "memory"
	switch {
	case cost == 0:
		r.decision = new(v.remaining(r.limits))
	case !known: // the terms are unknown, so reject nothing
		r.decision = new(v.remaining(r.limits))
		r.decision.charged = charge{v.usage.at, int64(cost)}
		v.charge(r.decision.charged, r.limits)
	case v.takeFromLease(r) || v.refuse(r):
	default:
		source = "store"
		l.mu.Unlock()
		l.await(func() { l.takeFromStore(ctx, r) })
		l.mu.Lock()
		if r.decision == nil {
			source, v = "degraded", l.view(workspaceID)
			r.decision = new(v.usage.take(v.now(), cost, r.limits))
			if r.returned {
				v.owe(r.decision.charged)
			} // otherwise takeFromStore charges the request when it returns
		}
	}
	l.metrics.LimitDecided(source, r.decision.Allowed)
	return *r.decision
}

// await runs trip in the background. It returns when trip is done, or after patience.
func (l *Limiter) await(trip func()) {
	done := make(chan struct{})
	l.background.Go(func() {
		defer close(done)
		trip()
	})
	timer := time.NewTimer(l.patience)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

// Refund refunds the charge of d. It returns d with the refunded requests added to what remains.
// It doesn't wait for the store: other nodes see the refund after this node's next write to the
// store, at most three seconds later.
func (l *Limiter) Refund(workspaceID uuid.UUID, d Decision) Decision {
	if d.charged.n == 0 {
		return d
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.view(workspaceID).charge(charge{d.charged.at, -d.charged.n}, d.limits)
	d = d.withMore(d.charged.n)
	d.charged = charge{}
	return d
}

// Run keeps the store up to date until ctx ends.
func (l *Limiter) Run(ctx context.Context) {
	for wait.For(ctx, syncInterval) == nil {
		l.sync(ctx)
	}
}

// sync starts to write this node's outstanding charges and open calls to the store. It doesn't
// wait for the writes. The next round repeats failed writes. sync also evicts workspaces that
// have been idle for an hour, after which none of their requests count, and deletes the open
// calls of dead nodes.
func (l *Limiter) sync(ctx context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, v := range l.views {
		if time.Now().After(v.lease.until) {
			v.endLease()
		}
		if limits := limitsOf(v.terms.terms); len(v.owed) > 0 && !limits.none() {
			l.background.Go(func() { _, _ = l.takes.Do(ctx, &request{workspaceID: id, limits: limits}) })
		}
		if v.open != (calls{}) {
			l.background.Go(func() { _, _ = l.opens.Do(ctx, &opening{workspaceID: id}) })
		} else if len(v.owed) == 0 && time.Since(v.used) > time.Hour {
			delete(l.views, id)
		}
	}
	l.background.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, tripTimeout)
		defer cancel()
		_ = queries.OpenCallDeleteExpired(ctx, l.db)
	})
}

// Close waits for round trips in progress, including those that release closed calls. Later
// calls are decided without the store.
func (l *Limiter) Close() {
	l.background.Wait()
	l.takes.Close()
	l.opens.Close()
}
