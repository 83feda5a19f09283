// Package ratelimit limits how much a workspace may request across all nodes: requests per second
// and per hour, and open calls (contract part 8, decisions 6).
//
// It knows no operations and no plans: the caller passes the cost, and the workspace's terms set
// the limits. The state and the clock are PostgreSQL's. The one invariant: a decision takes at
// most 50 ms. If the store is slower, the node decides by the last state it saw and reports to the
// store later.
package ratelimit

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/platform/groupcommit"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/platform/telemetry"
)

const (
	// Patience is how long a decision may wait for the store. What is left of the
	// 50 ms is for the rest.
	Patience = 45 * time.Millisecond
	// giveUp ends a trip. What is decided without it waits no longer than patience.
	giveUp = time.Second
	// freshFor is how long a look at the store is good enough to refuse by: other
	// nodes may have given something back since.
	freshFor = time.Second
)

var queries = db.New()

// Limiter decides for one node. It is safe for concurrent use. A nil one limits
// nothing.
type Limiter struct {
	db      postgres.DB
	node    uuid.UUID
	metrics *telemetry.Metrics
	// patience is Patience but in tests of what a store decides that answers.
	patience time.Duration
	// tripLimit is the timeout of a trip that callers may wait for.
	tripLimit time.Duration

	takes       *groupcommit.Group[*ask, Decision]
	takesHealth health
	opens       *groupcommit.Group[*opening, bool]
	opensHealth health
	judging     sync.Mutex     // one at a time writes what this node has open
	later       sync.WaitGroup // trips that nobody waits for

	mu         sync.Mutex
	workspaces map[uuid.UUID]*workspaceView
}

// workspaceView is what this node knows of a workspace.
type workspaceView struct {
	used  time.Time
	terms termsView
	seen  stateView
	owed  []charge // what the store was not told yet
	lease lease
	open  calls
	// stored says that the store has a row of what this node has open.
	stored bool
}

// stateView is a state as it was last seen in the store, or as this node went on
// with it by itself.
type stateView struct {
	state []byte
	at    time.Time // of the store
	when  time.Time // here
}

// now is what the store's clock says, by the time that has passed here.
func (v stateView) now() time.Time {
	if v.when.IsZero() {
		return time.Now()
	}
	return v.at.Add(time.Since(v.when))
}

// New makes a limiter over a pool of its own: what is slow here must not keep
// connections from others. Run keeps it up, Close ends it.
func New(conn postgres.DB, metrics *telemetry.Metrics, patience time.Duration) (*Limiter, error) {
	node, err := uuid.NewRandom()
	if err != nil {
		return nil, err
	}
	l := &Limiter{db: conn, node: node, metrics: metrics, patience: patience, tripLimit: max(giveUp, patience), workspaces: make(map[uuid.UUID]*workspaceView)}
	never := func(error) bool { return true } // a failure is the store's, no item's
	l.takes = groupcommit.New(groupcommit.Options[*ask]{Max: 512, Timeout: l.tripLimit}, never, l.take)
	l.opens = groupcommit.New(groupcommit.Options[*opening]{Max: 512, Timeout: l.tripLimit}, never, l.judge)
	return l, nil
}

// Take lets cost requests of a workspace in, or refuses them. It always decides. A
// cost of 0 is always let in.
func (l *Limiter) Take(ctx context.Context, workspaceID uuid.UUID, cost int) Decision {
	if l == nil {
		return Decision{Allowed: true}
	}
	_, terms, known := l.Terms(ctx, workspaceID)
	limits := Limits{RPS: terms.RPS, RPH: terms.RPH}
	switch {
	case cost == 0:
		return l.takeNothing(workspaceID, limits)
	case !known:
		return l.takeUnread(ctx, &ask{workspaceID: workspaceID, cost: cost, limits: limits})
	case limits.none():
		return Decision{Allowed: true}
	}
	if d, allowed := l.fromLease(workspaceID, cost, limits); allowed {
		l.metrics.LimitDecided("memory", true)
		return d
	}
	if d, refused := l.refusedBySight(workspaceID, cost, limits); refused {
		l.metrics.LimitDecided("memory", false)
		return d
	}
	a := &ask{workspaceID: workspaceID, cost: cost, limits: limits}
	if !l.takesHealth.ask() {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.decideAndOwe(a)
	}
	done := make(chan struct{})
	l.later.Go(func() { l.bring(ctx, a, done) })
	timer := time.NewTimer(l.patience)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		l.takesHealth.late()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if a.answer == nil {
		return l.decideAlone(a) // what the store has to know of it, bring tells when it knows
	}
	return *a.answer
}

// unread are the terms of a workspace until its own could be read. Nothing is refused by
// them: what exceeds them waits for the workspace's own.
var unread = plan.Terms{RPS: 100, Waits: 100, Streams: 500}

// takeUnread decides without the terms of the workspace: up to the limits of unread
// requests are let in at once. Further ones wait for the terms, because a refusal needs
// them. What they are is unknown after giveUp: then it lets the request in, and the store
// counts it later.
func (l *Limiter) takeUnread(ctx context.Context, a *ask) (d Decision) {
	l.mu.Lock()
	d = l.decideAndOwe(a)
	l.mu.Unlock()
	if d.Allowed {
		return d
	}
	if l.awaitTerms(ctx, a.workspaceID) {
		return l.Take(ctx, a.workspaceID, a.cost)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	v := l.view(a.workspaceID)
	v.seen.change(func(s *State, now time.Time) {
		d = s.Take(now, 0, a.limits)
		d.charged = charge{at: s.at, n: int64(a.cost)}
		s.add(d.charged, a.limits)
	})
	v.owe(d.charged)
	return d
}

// Terms gives the plan and the terms of a workspace, at most three seconds old.
// While they cannot be read, the last ones hold; known is false if there are none,
// and then they are of nobody's plan: wide enough for any workspace to begin with.
func (l *Limiter) Terms(ctx context.Context, workspaceID uuid.UUID) (name plan.Name, terms plan.Terms, known bool) {
	view := l.loadTerms(ctx, workspaceID)
	if !view.known {
		return "", unread, false
	}
	return view.name, view.terms, view.known
}

// Refund takes back what a decision charged. It does not wait.
func (l *Limiter) Refund(workspaceID uuid.UUID, d Decision) Decision {
	if !d.Allowed || d.charged.n == 0 {
		return d
	}
	back := charge{d.charged.at, -d.charged.n}
	l.mu.Lock()
	v := l.view(workspaceID)
	v.owe(back)
	v.seen.change(func(s *State, _ time.Time) { s.add(back, d.limits) })
	l.mu.Unlock()
	if l.takesHealth.ask() {
		l.later.Go(func() { _, _ = l.takes.Do(context.Background(), &ask{workspaceID: workspaceID, limits: d.limits}) })
	}
	return d.refunded()
}

// Close waits for what is on its way and forgets what this node has open. What
// still asks afterwards is decided without the store.
func (l *Limiter) Close(ctx context.Context) {
	l.takes.Close()
	l.opens.Close()
	l.later.Wait()
	l.mu.Lock()
	var ids []uuid.UUID
	for id, v := range l.workspaces {
		if v.stored {
			ids = append(ids, id)
		}
	}
	l.mu.Unlock()
	if len(ids) > 0 {
		// If this fails, the rows expire.
		_ = queries.OpenCallDeleteMany(ctx, l.db, db.OpenCallDeleteManyParams{WorkspaceIds: ids, Node: l.node})
	}
}

// maxWorkspaces bounds what is remembered.
const maxWorkspaces = 20_000

// view is what is known of a workspace; l.mu is held.
func (l *Limiter) view(id uuid.UUID) *workspaceView {
	v, ok := l.workspaces[id]
	if !ok {
		if len(l.workspaces) >= maxWorkspaces {
			l.makeRoom()
		}
		v = &workspaceView{}
		l.workspaces[id] = v
	}
	v.used = time.Now()
	return v
}

// makeRoom forgets who was not here for an hour, and whoever else comes first
// until there is room; not what is open or owed.
func (l *Limiter) makeRoom() {
	for _, idle := range []time.Duration{time.Hour, time.Minute, 0} {
		for id, v := range l.workspaces {
			if len(l.workspaces) < maxWorkspaces*3/4 {
				return
			}
			if time.Since(v.used) >= idle && v.open == (calls{}) && len(v.owed) == 0 && v.lease.left == 0 && !v.stored && v.terms.loading == nil {
				delete(l.workspaces, id)
			}
		}
	}
}
