package ratelimit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/db"
)

// locked is the state of a workspace while its row is locked.
type locked struct {
	state   State
	now     time.Time
	owed    []charge
	changed bool
	leased  bool // to this batch
}

// take decides for many asks, in one transaction. The table is unlogged: its
// commit waits for no disk.
func (l *Limiter) take(ctx context.Context, asks []*ask) (out []Decision, err error) {
	began := time.Now()
	l.takesHealth.begin()
	ids := make([]uuid.UUID, len(asks))
	for i, a := range asks {
		ids[i] = a.workspaceID
	}
	ids = sorted(ids)
	owed := l.takeOwed(ids)
	defer func() {
		l.takesHealth.end(err == nil && time.Since(began) <= l.patience)
		if err != nil {
			l.restoreOwed(owed)
		}
	}()
	tx, states, err := l.lock(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("lock rate limits: %w", err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	for id, counts := range owed {
		states[id].owed = counts
	}
	out = make([]Decision, len(asks))
	for i, a := range asks {
		out[i] = states[a.workspaceID].take(a)
	}
	var changed db.RateLimitUpdateManyParams
	for id, s := range states {
		if s.changed {
			data, _ := s.state.AppendBinary(nil) // cannot fail
			changed.WorkspaceIds, changed.States = append(changed.WorkspaceIds, id), append(changed.States, data)
		}
	}
	if len(changed.WorkspaceIds) > 0 {
		if err := queries.RateLimitUpdateMany(ctx, tx, changed); err != nil {
			return nil, fmt.Errorf("update rate limits: %w", err)
		}
	}
	if err := tx.Commit(ctx); err != nil {
		return nil, fmt.Errorf("commit rate limits: %w", err)
	}
	l.saw(states)
	return out, nil
}

// take is what an ask gets of a locked state. What is owed is charged before, by
// the limits of whoever comes first.
func (s *locked) take(a *ask) Decision {
	if s.owed != nil {
		s.state.catchUp(s.owed, s.now, a.limits)
		s.owed, s.changed = nil, true
	}
	d := s.state.Take(s.now, a.cost, a.limits)
	s.changed = s.changed || d.Allowed && a.cost > 0
	if more := leased(a.limits); d.Allowed && a.cost > 0 && more > 0 && !s.leased {
		if lease := s.state.Take(s.now, more, a.limits); lease.Allowed {
			d.lease, s.leased = lease.charged, true
			d.Second.Reset, d.Hour.Reset = lease.Second.Reset, lease.Hour.Reset
		}
	}
	return d
}

// lock begins a transaction that holds the states of workspaces, whose ids are
// sorted. Rows that are missing are made first.
func (l *Limiter) lock(ctx context.Context, ids []uuid.UUID) (pgx.Tx, map[uuid.UUID]*locked, error) {
	for range 2 {
		tx, err := l.db.Begin(ctx)
		if err != nil {
			return nil, nil, err
		}
		rows, err := queries.RateLimitLock(ctx, tx, ids)
		if err == nil && len(rows) == len(ids) {
			states := make(map[uuid.UUID]*locked, len(rows))
			for _, row := range rows {
				s := &locked{now: row.Now}
				_ = s.state.UnmarshalBinary(row.State) // one of another version begins anew
				states[row.WorkspaceID] = s
			}
			return tx, states, nil
		}
		_ = tx.Rollback(context.WithoutCancel(ctx))
		if err == nil {
			err = queries.RateLimitInsertMany(ctx, l.db, ids)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return nil, nil, errors.New("rows that were made are not there")
}

// saw notes what was seen of the store. What is owed by now counts with it.
func (l *Limiter) saw(states map[uuid.UUID]*locked) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, s := range states {
		v := l.view(id)
		s.state.catchUp(v.owed, s.now, Limits{RPS: v.terms.terms.RPS, RPH: v.terms.terms.RPH})
		data, _ := s.state.AppendBinary(nil) // cannot fail
		v.seen = stateView{state: data, at: s.now, when: time.Now()}
	}
}

func (l *Limiter) takeOwed(ids []uuid.UUID) map[uuid.UUID][]charge {
	l.mu.Lock()
	defer l.mu.Unlock()
	owed := map[uuid.UUID][]charge{}
	for _, id := range ids {
		if v := l.view(id); len(v.owed) > 0 {
			owed[id], v.owed = v.owed, nil
		}
	}
	return owed
}

func (l *Limiter) restoreOwed(owed map[uuid.UUID][]charge) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, counts := range owed {
		v := l.view(id)
		v.owed = append(counts, v.owed...)
	}
}

func sorted(ids []uuid.UUID) []uuid.UUID {
	slices.SortFunc(ids, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
	return slices.Compact(ids)
}
