package ratelimit

import (
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/kit/waittest"
)

// Two nodes are asked for far more than may be open: exactly the cap is.
func TestRL09CapsHoldOverAllNodes(t *testing.T) {
	n := start(t, 2, patient)
	id := n.workspace(t, plan.Starter)
	other := n.workspace(t, plan.Starter)
	for kind, c := range map[Kind]struct {
		tries, cap int
	}{Wait: {200, 40}, Stream: {500, 10}} {
		var mu sync.Mutex
		var open []func()
		refused := 0
		var all sync.WaitGroup
		for i := range c.tries {
			all.Go(func() {
				closed, allowed := n.limiters[i%2].Open(t.Context(), id, kind)
				mu.Lock()
				defer mu.Unlock()
				if allowed {
					open = append(open, closed)
					return
				}
				refused++
			})
		}
		all.Wait()
		if len(open) != c.cap || refused != c.tries-c.cap {
			t.Errorf("kind %d: %d are open, %d refused", kind, len(open), refused)
		}
		for i, l := range n.limiters {
			if waits, streams := l.OpenCalls(t.Context(), id); [kinds]int{waits, streams}[kind] != c.cap {
				t.Errorf("node %d knows of %d waits and %d streams", i, waits, streams)
			}
		}
		if closed, allowed := n.limiters[0].Open(t.Context(), other, kind); !allowed {
			t.Errorf("kind %d: another workspace is not allowed", kind)
		} else {
			closed()
		}
		for _, closed := range open {
			closed()
			closed() // again is the same
		}
		for i, l := range n.limiters {
			waittest.Until(t, "all is free again", func() bool {
				waits, streams := l.OpenCalls(t.Context(), id)
				return waits == 0 && streams == 0
			})
			closed, allowed := l.Open(t.Context(), id, kind)
			if !allowed {
				t.Fatalf("node %d lets nobody in again", i)
			}
			closed()
		}
	}
}

// The calls of a node that died count until its rows expire. The rows of a running node are
// renewed.
func TestRL09RowsOfADeadNodeExpire(t *testing.T) {
	n := start(t, 1, patient)
	id := n.workspace(t, plan.Starter)
	dead := func(expires string) {
		_, err := n.owner.Exec(t.Context(), `INSERT INTO open_calls (workspace_id, node, waits, expires_at)
			VALUES ($1, $2, 40, now() + $3::interval) ON CONFLICT (workspace_id, node) DO UPDATE SET expires_at = excluded.expires_at`, id, uuid.Max, expires)
		if err != nil {
			t.Fatal(err)
		}
	}
	dead("1 minute")
	if _, allowed := n.limiters[0].Open(t.Context(), id, Wait); allowed {
		t.Error("what another node has open is not counted")
	}
	dead("-1 second")
	closed, allowed := n.limiters[0].Open(t.Context(), id, Wait)
	if !allowed {
		t.Fatal("what a dead node had open is counted")
	}
	defer closed()
	left := func() (left time.Duration) {
		if err := n.owner.QueryRow(t.Context(), "SELECT expires_at - now() FROM open_calls WHERE node = $1", n.limiters[0].node).Scan(&left); err != nil {
			t.Fatal(err)
		}
		return left
	}
	before := left()
	waittest.Until(t, "it is renewed", func() bool { now := left(); defer func() { before = now }(); return now > before })
}

// A node that stops has closed its calls, so the other nodes need not wait until its rows
// expire.
func TestRL09AStoppedNodeHoldsNoCalls(t *testing.T) {
	n := start(t, 2, patient)
	id := n.workspace(t, plan.Starter)
	var open []func()
	for range plan.Starter.Terms().Streams {
		closed, allowed := n.limiters[0].Open(t.Context(), id, Stream)
		if !allowed {
			t.Fatal("fewer than the cap are open, and no other is allowed")
		}
		open = append(open, closed)
	}
	for _, closed := range open {
		closed()
	}
	n.limiters[0].Close()
	closed, allowed := n.limiters[1].Open(t.Context(), id, Stream)
	if !allowed {
		t.Fatal("the calls of the stopped node count")
	}
	closed()
}
