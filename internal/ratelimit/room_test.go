package ratelimit

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/fault"
	"github.com/weft-automation/weft/internal/plan"
	"github.com/weft-automation/weft/internal/waittest"
)

// Who is refused for inline waits is told when the first of them ends at the latest,
// whichever node has it.
func TestRL09ARefusedWaitIsToldWhenThereIsRoom(t *testing.T) {
	n := start(t, 2, patient)
	id := n.workspace(t, plan.Starter)
	begin := func(node int, lasts time.Duration) func() {
		closed, err := n.limiters[node].Open(t.Context(), id, Wait, lasts)
		if err != nil {
			t.Fatal(err)
		}
		return closed
	}
	began := time.Now()
	for i := range 19 {
		defer begin(i%2, 15*time.Second)()
	}
	short := begin(0, 8*time.Second)
	for node := range n.limiters {
		n.refused(t, node, id, Wait, began, 7*time.Second, 9*time.Second)
	}
	short()
	waittest.Until(t, "the other node has heard of the end", func() bool {
		closed, err := n.limiters[1].Open(t.Context(), id, Wait, 15*time.Second)
		if err == nil {
			t.Cleanup(closed)
		}
		return err == nil
	})
	for node := range n.limiters {
		n.refused(t, node, id, Wait, began, 14*time.Second, 16*time.Second)
	}
}

// All on one node is decided without the store.
func TestRL09ARefusedWaitIsToldByItsOwnNodeToo(t *testing.T) {
	n := start(t, 1, patient)
	id := n.workspace(t, plan.Starter)
	began := time.Now()
	for i := range 20 {
		closed, err := n.limiters[0].Open(t.Context(), id, Wait, time.Duration(15-i/2)*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		defer closed()
	}
	n.refused(t, 0, id, Wait, began, 5*time.Second, 7*time.Second)
}

// What another node says, or does not say, is never taken for too short a time.
func TestRL09ARefusedWaitIsToldByWhatOtherNodesSay(t *testing.T) {
	n := start(t, 1, patient)
	for name, c := range map[string]struct {
		waits       int
		ends        *string
		least, most time.Duration
	}{
		"it ends soon":                    {20, new("4 seconds"), 3 * time.Second, 4*time.Second + 100*time.Millisecond},
		"a node of before says nothing":   {20, nil, longestWait - time.Second, longestWait},
		"the node is gone":                {20, new("-3 seconds"), 55 * time.Second, longestWait},
		"more are open than one may have": {25, new("4 seconds"), longestWait, longestWait},
	} {
		id, began := n.workspace(t, plan.Starter), time.Now()
		_, err := n.owner.Exec(t.Context(), `INSERT INTO open_calls (workspace_id, node, waits, waits_end_at, expires_at)
			VALUES ($1, $2, $3, now() + $4::interval, now() + interval '1 minute')`, id, uuid.Max, c.waits, c.ends)
		if err != nil {
			t.Fatal(name, err)
		}
		n.refused(t, 0, id, Wait, began, min(c.least, longestWait), c.most)
	}
}

// refused asks for a call that there is no room for. At the time that all began the least
// pause was as long as that; it has become shorter since.
func (n *nodes) refused(t *testing.T, node int, id uuid.UUID, kind Kind, began time.Time, least, most time.Duration) {
	t.Helper()
	closed, err := n.limiters[node].Open(t.Context(), id, kind, time.Second)
	least -= time.Since(began)
	if err == nil {
		closed()
		t.Fatal("it is let in")
	}
	if failure, ok := err.(*fault.Error); !ok || failure.RetryAfter < least || failure.RetryAfter > most {
		t.Errorf("node %d refuses with %+v, want between %v and %v", node, err, least, most)
	}
}
