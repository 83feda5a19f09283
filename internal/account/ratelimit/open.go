package ratelimit

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// Kind is a kind of call that stays open.
type Kind int

// The kinds.
const (
	Wait   Kind = iota // waits inline for a result
	Stream             // an event stream
	kinds
)

const (
	// openLife is how long the open calls of a node count unless they are renewed.
	openLife = 10 * time.Second
	// openLockClass is the class of the advisory locks under which caps are checked.
	openLockClass = 0x6f70656e
)

// StreamPause is the Retry-After of a stream beyond the cap. It is unknown when an open stream
// ends, but after StreamPause the streams of dead nodes no longer count.
const StreamPause = openLife

// calls is the number of open calls of each kind.
type calls [kinds]int

// opening is a call that is about to open. An opening with the cap plan.None only updates the
// store. The fields after cap are guarded by the limiter's lock.
type opening struct {
	workspaceID uuid.UUID
	kind        Kind
	cap         int

	decided, allowed bool
}

// Open counts a call as open on all nodes, until release is called. If the workspace has as many
// open calls as its plan allows, Open counts nothing and returns false.
func (l *Limiter) Open(ctx context.Context, workspaceID uuid.UUID, kind Kind) (release func(), allowed bool) {
	if l == nil {
		return func() {}, true
	}
	_, terms, known := l.Terms(ctx, workspaceID)
	o := &opening{workspaceID: workspaceID, kind: kind, cap: terms.Streams}
	if kind == Wait {
		o.cap = terms.Waits
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if o.cap == plan.None || !known {
		o.cap = plan.None // the terms are unknown, so reject nothing
		l.view(workspaceID).open[kind]++
		return sync.OnceFunc(func() { l.close(o) }), true
	}
	source := "memory"
	if l.view(workspaceID).open[kind] < o.cap {
		source = "store"
		l.mu.Unlock()
		l.await(func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.patience)
			defer cancel()
			_, _ = l.opens.Do(ctx, o) // after a failure the call is undecided
		})
		l.mu.Lock()
		if !o.decided {
			source = "degraded"
			l.decideOpen(o, 0)
		}
	}
	l.metrics.LimitDecided(source, o.allowed)
	if !o.allowed {
		return nil, false
	}
	return sync.OnceFunc(func() { l.close(o) }), true
}

// decideOpen decides a call, unless the call is decided already. others is the number of calls
// that are open on other nodes. The caller must hold l.mu.
func (l *Limiter) decideOpen(o *opening, others int) {
	v := l.view(o.workspaceID)
	if !o.decided && v.open[o.kind]+others < o.cap {
		v.open[o.kind]++
		o.allowed = true
	}
	o.decided = true
}

// close removes a call from the open calls. If the call counts towards a cap, close updates the
// store at once.
func (l *Limiter) close(o *opening) {
	l.mu.Lock()
	l.view(o.workspaceID).open[o.kind]--
	l.mu.Unlock()
	if o.cap != plan.None {
		l.background.Go(func() { _, _ = l.opens.Do(context.Background(), &opening{workspaceID: o.workspaceID}) })
	}
}

// OpenCalls returns how many calls of each kind a workspace has open on all nodes. If the calls
// have no cap, the numbers of other nodes may be ten seconds old.
func (l *Limiter) OpenCalls(ctx context.Context, workspaceID uuid.UUID) (waits, streams int) {
	ctx, cancel := context.WithTimeout(ctx, l.patience)
	defer cancel()
	others, _ := l.sumOthers(ctx, l.db, []uuid.UUID{workspaceID}) // if the store is unavailable, only this node's calls are counted
	l.mu.Lock()
	defer l.mu.Unlock()
	own := l.view(workspaceID).open
	return others[workspaceID][Wait] + own[Wait], others[workspaceID][Stream] + own[Stream]
}

// sumOthers returns the open calls of the other nodes.
func (l *Limiter) sumOthers(ctx context.Context, conn postgres.DB, ids []uuid.UUID) (map[uuid.UUID]calls, error) {
	rows, err := queries.OpenCallSumOthers(ctx, conn, db.OpenCallSumOthersParams{WorkspaceIds: ids, Node: l.node})
	others := make(map[uuid.UUID]calls, len(rows))
	for _, row := range rows {
		others[row.WorkspaceID] = calls{Wait: int(row.Waits), Stream: int(row.Streams)}
	}
	return others, err
}

// openTx decides calls, and then writes this node's open calls of the same workspaces. Until tx
// ends, other nodes can't decide calls of these workspaces.
func (l *Limiter) openTx(ctx context.Context, tx pgx.Tx, openings []*opening) error {
	workspaces := map[uuid.UUID]bool{}
	locks := map[int32]bool{} // workspaces that share a lock wait for each other
	for _, o := range openings {
		workspaces[o.workspaceID] = true
		locks[int32(binary.BigEndian.Uint32(o.workspaceID[12:]))] = true
	}
	ids := slices.Collect(maps.Keys(workspaces))
	err := queries.OpenCallLock(ctx, tx, db.OpenCallLockParams{LockClass: openLockClass, Keys: slices.Sorted(maps.Keys(locks))})
	if err != nil {
		return fmt.Errorf("lock open calls: %w", err)
	}
	others, err := l.sumOthers(ctx, tx, ids)
	if err != nil {
		return fmt.Errorf("sum open calls: %w", err)
	}
	own := db.OpenCallUpsertManyParams{Node: l.node, Life: openLife, WorkspaceIds: ids}
	l.mu.Lock()
	for _, o := range openings {
		l.decideOpen(o, others[o.workspaceID][o.kind])
	}
	for _, id := range ids {
		open := l.view(id).open
		own.Waits, own.Streams = append(own.Waits, int32(open[Wait])), append(own.Streams, int32(open[Stream]))
	}
	l.mu.Unlock()
	if err := queries.OpenCallUpsertMany(ctx, tx, own); err != nil {
		return fmt.Errorf("write open calls: %w", err)
	}
	return nil
}
