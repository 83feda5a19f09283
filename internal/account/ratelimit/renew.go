package ratelimit

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/db"
)

// forgetEvery is how often the rows of nodes that are gone are deleted.
const forgetEvery = time.Minute

// Run renews what this node has open until ctx ends.
func (l *Limiter) Run(ctx context.Context) {
	ticker := time.NewTicker(renewEvery)
	defer ticker.Stop()
	var forgot time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		l.renew(ctx)
		l.settle()
		if time.Since(forgot) > forgetEvery {
			forgot = time.Now()
			ctx, cancel := context.WithTimeout(ctx, giveUp)
			_ = queries.OpenCallDeleteExpired(ctx, l.db) // the next time will do
			cancel()
		}
	}
}

// renew writes anew what this node has open. A failure is the health's to know:
// the next round comes long before the rows expire.
func (l *Limiter) renew(ctx context.Context) {
	l.mu.Lock()
	var ids []uuid.UUID
	for id, v := range l.workspaces {
		if v.stored || v.open != (calls{}) {
			ids = append(ids, id)
		}
	}
	l.mu.Unlock()
	for len(ids) > 0 && ctx.Err() == nil {
		n := min(len(ids), 500)
		ctx, cancel := context.WithTimeout(ctx, giveUp)
		openings := make([]*opening, n)
		for i, id := range ids[:n] {
			openings[i] = &opening{workspaceID: id}
		}
		_, _ = l.judge(ctx, openings)
		cancel()
		ids = ids[n:]
	}
}

// settle tells the store what it was not told, of workspaces that ask no more.
func (l *Limiter) settle() {
	l.mu.Lock()
	var asks []*ask
	for id, v := range l.workspaces {
		if time.Now().After(v.lease.until) {
			v.endLease()
		}
		if limits := (Limits{RPS: v.terms.terms.RPS, RPH: v.terms.terms.RPH}); len(v.owed) > 0 && !limits.none() {
			asks = append(asks, &ask{workspaceID: id, limits: limits})
		}
	}
	l.mu.Unlock()
	for _, a := range asks {
		if !l.takesHealth.ask() {
			return // the next round is soon
		}
		l.later.Go(func() { _, _ = l.takes.Do(context.Background(), a) })
	}
}

// writeOpen writes what this node has open of workspaces.
func (l *Limiter) writeOpen(ctx context.Context, tx pgx.Tx, ids []uuid.UUID, own map[uuid.UUID]calls) error {
	some := db.OpenCallUpsertManyParams{Node: l.node, Life: openLife}
	var none []uuid.UUID
	for _, id := range ids {
		c := own[id]
		if c == (calls{}) {
			none = append(none, id)
			continue
		}
		some.WorkspaceIds = append(some.WorkspaceIds, id)
		some.Waits, some.Streams = append(some.Waits, int32(c[Wait])), append(some.Streams, int32(c[Stream]))
	}
	if len(some.WorkspaceIds) > 0 {
		if err := queries.OpenCallUpsertMany(ctx, tx, some); err != nil {
			return fmt.Errorf("write open calls: %w", err)
		}
	}
	if len(none) > 0 {
		if err := queries.OpenCallDeleteMany(ctx, tx, db.OpenCallDeleteManyParams{WorkspaceIds: none, Node: l.node}); err != nil {
			return fmt.Errorf("forget open calls: %w", err)
		}
	}
	return nil
}
