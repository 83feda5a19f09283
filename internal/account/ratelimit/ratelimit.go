// Package ratelimit limits the requests of a workspace in a second and in an hour, and its open
// calls, over all nodes (contract part 8, decisions 6).
//
// Costs are the caller's and terms are the workspace's. State is in PostgreSQL, and time is
// PostgreSQL's. The one invariant: a decision takes at most 50 ms. If the store is slower, a
// node decides by the state that it last saw, and charges the store later.
package ratelimit

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/platform/groupcommit"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/platform/telemetry"
)

const (
	// Patience is how long a decision may wait for the store. It leaves 5 ms of the 50 for
	// everything else.
	Patience = 45 * time.Millisecond
	// tripTimeout limits a transaction. Decisions don't wait for its end.
	tripTimeout = time.Second
	// syncInterval is the time between two reports of what a node owes and has open.
	syncInterval = 3 * time.Second
)

var queries = db.New()

// Limiter decides for one node. It is safe for concurrent use. A nil Limiter limits nothing.
type Limiter struct {
	db       postgres.DB
	node     uuid.UUID
	metrics  *telemetry.Metrics
	patience time.Duration

	takes      *groupcommit.Group[*request, Decision]
	opens      *groupcommit.Group[*opening, struct{}]
	background sync.WaitGroup // trips that may outlast the decision that started them

	mu    sync.Mutex
	views map[uuid.UUID]*view
}

// New returns a limiter whose decisions wait for the store for at most patience. conn must be
// its own pool, so that a slow limiter holds no connections that others need.
func New(conn postgres.DB, metrics *telemetry.Metrics, patience time.Duration) (*Limiter, error) {
	node, err := uuid.NewRandom()
	if err != nil {
		return nil, err
	}
	l := &Limiter{db: conn, node: node, metrics: metrics, patience: patience, views: map[uuid.UUID]*view{}}
	timeout := max(tripTimeout, patience)
	whole := func(error) bool { return true } // a failure is the store's: it is not retried item by item
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
	cost        int // 0: only charges what the workspace owes
	limits      Limits

	decision *Decision // nil before it is decided
	returned bool      // from the store
}

// Take lets cost requests of a workspace in, or refuses them. It always decides. A cost of 0
// is always let in, and neither waits for the store nor reaches it.
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
	case !known: // refuse nothing by terms that are not the workspace's
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
			} // else takeFromStore charges it when it returns
		}
	}
	l.metrics.LimitDecided(source, r.decision.Allowed)
	return *r.decision
}

// await runs trip in the background and returns when it is done, or after patience.
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

// Refund takes back what d charged, and returns d with that remaining again. It doesn't wait:
// other nodes see it with the next trip of this node, or three seconds later.
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
	ticker := time.NewTicker(syncInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			l.sync(ctx)
		}
	}
}

// sync brings what this node owes and has open to the store. It doesn't wait for it, and the
// next round repeats what fails. It also forgets workspaces that have been idle for an hour, of
// which nothing counts any more, and the open calls of dead nodes.
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

// Close waits for trips under way, among them those that release closed calls. Later calls are
// decided without the store.
func (l *Limiter) Close() {
	l.background.Wait()
	l.takes.Close()
	l.opens.Close()
}
