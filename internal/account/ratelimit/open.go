package ratelimit

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/plan"
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
	// openLife is how long what a node has open counts without being renewed, and
	// renewEvery how often it is.
	openLife   = 10 * time.Second
	renewEvery = 3 * time.Second
	// openLockClass is the class of the advisory locks under which caps are judged.
	openLockClass = 0x6f70656e
)

// calls is how many calls of each kind are open.
type calls [kinds]int

// capOf is the cap on a kind.
func capOf(kind Kind, terms plan.Terms) int {
	if kind == Wait {
		return terms.Waits
	}
	return terms.Streams
}

// opening is a call that wants to be open, or nothing but news of a workspace
// when cap is 0. What follows the parameters belongs to the limiter's lock.
type opening struct {
	workspaceID uuid.UUID
	kind        Kind
	cap         int

	decided, allowed bool
}

// StreamPause is the Retry-After of a stream that is over the cap: nobody knows when one ends,
// but what a node that is gone had open no longer counts by then.
const StreamPause = openLife

// Open counts a call as open until closed is called, over all nodes. It reports false, and
// counts nothing, if the workspace has as many open as its plan allows.
func (l *Limiter) Open(ctx context.Context, workspaceID uuid.UUID, kind Kind) (closed func(), allowed bool) {
	if l == nil {
		return func() {}, true
	}
	began := time.Now()
	_, terms, known := l.Terms(ctx, workspaceID)
	o := &opening{workspaceID: workspaceID, kind: kind, cap: capOf(kind, terms)}
	if o.cap == plan.None {
		return l.openFreely(o), true
	}
	switch {
	case l.open(ctx, o, l.patience-time.Since(began)):
		return l.closing(o), true
	case known:
		return nil, false
	case l.awaitTerms(ctx, workspaceID):
		return l.Open(ctx, workspaceID, kind)
	}
	return l.openFreely(&opening{workspaceID: workspaceID, kind: kind, cap: plan.None}), true
}

// openFreely counts a call that no cap holds for, or one whose cap is unknown.
func (l *Limiter) openFreely(o *opening) (closed func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.view(o.workspaceID).open[o.kind]++
	return l.closing(o)
}

func (l *Limiter) closing(o *opening) func() { return sync.OnceFunc(func() { l.closed(o) }) }

// open judges a call that has a cap, within what its terms left of the patience.
func (l *Limiter) open(ctx context.Context, o *opening, patience time.Duration) (allowed bool) {
	l.mu.Lock()
	own := l.view(o.workspaceID).open
	l.mu.Unlock()
	if own[o.kind] >= o.cap {
		l.metrics.LimitDecided("memory", false)
		return false
	}
	source := "degraded"
	if l.opensHealth.ask() {
		done := make(chan struct{})
		l.later.Go(func() {
			defer close(done)
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.patience)
			defer cancel()
			_, _ = l.opens.Do(ctx, o) // a failure leaves it undecided
		})
		timer := time.NewTimer(patience)
		defer timer.Stop()
		select {
		case <-done:
			source = "store"
		case <-timer.C:
			l.opensHealth.late()
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !o.decided {
		source = "degraded"
		l.grant(o, l.view(o.workspaceID).open[o.kind] < o.cap)
	}
	l.metrics.LimitDecided(source, o.allowed)
	return o.allowed
}

// grant decides once; l.mu is held.
func (l *Limiter) grant(o *opening, allowed bool) {
	if o.decided || o.cap == plan.None {
		return
	}
	o.decided, o.allowed = true, allowed
	if allowed {
		l.view(o.workspaceID).open[o.kind]++
	}
}

// closed ends a call. The store hears of it at once where others may wait for it.
func (l *Limiter) closed(o *opening) {
	l.mu.Lock()
	l.view(o.workspaceID).open[o.kind]--
	l.mu.Unlock()
	if o.cap != plan.None && l.opensHealth.ask() {
		l.later.Go(func() { _, _ = l.opens.Do(context.Background(), &opening{workspaceID: o.workspaceID}) })
	}
}

// OpenCalls is how many calls of each kind a workspace has open on all nodes. What
// others have without a cap is known here three seconds later.
func (l *Limiter) OpenCalls(ctx context.Context, workspaceID uuid.UUID) (waits, streams int) {
	ctx, cancel := context.WithTimeout(ctx, l.patience)
	defer cancel()
	others, err := queries.OpenCallSumOthers(ctx, l.db, db.OpenCallSumOthersParams{WorkspaceIds: []uuid.UUID{workspaceID}, Node: l.node})
	if err == nil && len(others) > 0 {
		waits, streams = int(others[0].Waits), int(others[0].Streams)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	own := l.view(workspaceID).open
	return waits + own[Wait], streams + own[Stream]
}

// judge decides on many openings and writes what this node has open of their
// workspaces, in one transaction. Two nodes never judge one workspace at once.
func (l *Limiter) judge(ctx context.Context, openings []*opening) (out []bool, err error) {
	l.judging.Lock()
	defer l.judging.Unlock()
	began := time.Now()
	l.opensHealth.begin()
	defer func() { l.opensHealth.end(err == nil && time.Since(began) <= l.patience) }()
	ids := make([]uuid.UUID, len(openings))
	for i, o := range openings {
		ids[i] = o.workspaceID
	}
	ids = sorted(ids)
	tx, err := l.db.Begin(ctx)
	if err != nil {
		return nil, fmt.Errorf("begin to judge open calls: %w", err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	if err := queries.OpenCallLock(ctx, tx, db.OpenCallLockParams{LockClass: openLockClass, Keys: lockKeys(ids)}); err != nil {
		return nil, fmt.Errorf("lock open calls: %w", err)
	}
	others, err := queries.OpenCallSumOthers(ctx, tx, db.OpenCallSumOthersParams{WorkspaceIds: ids, Node: l.node})
	if err != nil {
		return nil, fmt.Errorf("sum open calls: %w", err)
	}
	foreign := make(map[uuid.UUID]calls, len(others))
	for _, row := range others {
		foreign[row.WorkspaceID] = calls{Wait: int(row.Waits), Stream: int(row.Streams)}
	}
	out, own := l.judgeOwn(openings, foreign)
	if err := l.writeOpen(ctx, tx, ids, own); err != nil {
		return nil, err
	}
	if err := tx.Commit(ctx); err != nil {
		return nil, fmt.Errorf("commit open calls: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, o := range openings {
		l.grant(o, out[i])
	}
	for _, id := range ids {
		l.view(id).stored = own[id] != calls{}
	}
	return out, nil
}

// judgeOwn decides in the order of asking. own is what this node has open with
// what is let in now.
func (l *Limiter) judgeOwn(openings []*opening, foreign map[uuid.UUID]calls) (out []bool, own map[uuid.UUID]calls) {
	l.mu.Lock()
	defer l.mu.Unlock()
	out, own = make([]bool, len(openings)), map[uuid.UUID]calls{}
	for i, o := range openings {
		here, ok := own[o.workspaceID]
		if !ok {
			here = l.view(o.workspaceID).open
		}
		if o.cap != plan.None && !o.decided && here[o.kind]+foreign[o.workspaceID][o.kind] < o.cap {
			out[i] = true
			here[o.kind]++
		}
		own[o.workspaceID] = here
	}
	return out, own
}

// lockKeys are the keys of the advisory locks of workspaces, sorted. Two that
// share one only wait for each other.
func lockKeys(ids []uuid.UUID) []int32 {
	keys := make([]int32, len(ids))
	for i, id := range ids {
		keys[i] = int32(binary.BigEndian.Uint32(id[12:]))
	}
	slices.SortFunc(keys, cmp.Compare)
	return slices.Compact(keys)
}
