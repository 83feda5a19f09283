package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/db"
)

// takeFromStore decides a request in the store. If the caller has timed out and decided the
// request locally, takeFromStore queues a charge for the difference between the two decisions.
func (l *Limiter) takeFromStore(ctx context.Context, r *request) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.patience)
	defer cancel()
	d, err := l.takes.Do(ctx, r)
	l.mu.Lock()
	defer l.mu.Unlock()
	v := l.view(r.workspaceID)
	if d.leased.n > 0 {
		v.startLease(d)
	}
	r.returned = true
	if r.decision != nil {
		own := r.decision.charged
		v.owe(charge{max(own.at, d.charged.at), own.n - d.charged.n})
	} else if err == nil {
		r.decision = &d
	}
}

var errMissingRows = errors.New("rows of workspaces are missing")

// takeBatch decides requests in one transaction. The table is unlogged, so the commit doesn't
// wait for a disk.
func (l *Limiter) takeBatch(ctx context.Context, requests []*request) (decisions []Decision, err error) {
	rows := map[uuid.UUID]*row{}
	for _, r := range requests {
		rows[r.workspaceID] = &row{}
	}
	take := func(tx pgx.Tx) (err error) {
		decisions, err = l.takeTx(ctx, tx, rows, requests)
		return err
	}
	if err = pgx.BeginFunc(ctx, l.db, take); errors.Is(err, errMissingRows) {
		if err = queries.RateLimitInsertMany(ctx, l.db, slices.Collect(maps.Keys(rows))); err == nil {
			err = pgx.BeginFunc(ctx, l.db, take)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, row := range rows {
		v := l.view(id)
		if err != nil {
			v.owed = append(row.owed, v.owed...)
			continue
		}
		row.usage.catchUp(v.owed, row.now, limitsOf(v.terms.terms)) // charged since takeTx
		v.usage, v.storeTime, v.seen = row.usage, row.now, time.Now()
	}
	return decisions, err
}

// takeTx locks the rows of the workspaces, adds their outstanding charges and decides the
// requests.
func (l *Limiter) takeTx(ctx context.Context, tx pgx.Tx, rows map[uuid.UUID]*row, requests []*request) ([]Decision, error) {
	locked, err := queries.RateLimitLock(ctx, tx, slices.Collect(maps.Keys(rows)))
	if err != nil {
		return nil, fmt.Errorf("lock rate limits: %w", err)
	}
	if len(locked) < len(rows) {
		return nil, errMissingRows
	}
	l.mu.Lock()
	for _, r := range locked {
		row, v := rows[r.WorkspaceID], l.view(r.WorkspaceID)
		row.usage, row.now, row.owed, v.owed = decode(r.State), r.Now, v.owed, nil
		row.usage.catchUp(row.owed, row.now, limitsOf(v.terms.terms))
		row.changed = len(row.owed) > 0
	}
	l.mu.Unlock()
	decisions := make([]Decision, len(requests))
	for i, r := range requests {
		decisions[i] = rows[r.workspaceID].take(r)
	}
	var changed db.RateLimitUpdateManyParams
	for id, row := range rows {
		if row.changed {
			changed.WorkspaceIds, changed.States = append(changed.WorkspaceIds, id), append(changed.States, row.usage.encode())
		}
	}
	if len(changed.WorkspaceIds) > 0 {
		if err := queries.RateLimitUpdateMany(ctx, tx, changed); err != nil {
			return nil, fmt.Errorf("update rate limits: %w", err)
		}
	}
	return decisions, nil
}

// row is the usage of a workspace while its row is locked.
type row struct {
	usage   usage
	now     time.Time
	owed    []charge // outstanding charges, which usage includes
	changed bool
	leased  bool // a request of this batch has a lease
}

func (s *row) take(r *request) Decision {
	d := s.usage.take(s.now, r.cost, r.limits)
	if !d.Allowed || r.cost == 0 {
		return d
	}
	s.changed = true
	if size := leaseSize(r.limits); size > 0 && !s.leased {
		if lease := s.usage.take(s.now, size, r.limits); lease.Allowed {
			d.leased, s.leased = lease.charged, true
		}
	}
	return d
}
