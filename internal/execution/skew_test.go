package execution_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/execution"
	"github.com/weft-automation/weft/internal/kit/status"
)

// turns records when each execution was called.
type turns struct {
	mu   sync.Mutex
	busy map[uuid.UUID]bool
	at   map[uuid.UUID][]time.Time
	both int
}

func (s *turns) begin(id uuid.UUID) (turn int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy[id] {
		s.both++
	}
	s.busy[id] = true
	s.at[id] = append(s.at[id], time.Now())
	return len(s.at[id])
}

func (s *turns) end(id uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy[id] = false
}

// Two nodes share the work although their clocks are ten minutes slow and ten minutes fast. No
// execution runs on both nodes, and no execution starts before or long after it is due by the
// database's clock.
func TestEX18NodesWithWrongClocksShareTheWork(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	seen := &turns{busy: map[uuid.UUID]bool{}, at: map[uuid.UUID][]time.Time{}}
	moody := module{name: "MOODY", price: 1, repeat: component.RepeatUnsafe,
		run: func(_ context.Context, call component.Call) (component.Result, error) {
			defer seen.end(call.ExecutionID)
			switch seen.begin(call.ExecutionID) {
			case 1:
				return component.Result{}, &component.Error{Code: "MOODY", Retryable: true}
			case 2:
				return component.Result{Wait: &component.Wait{After: time.Second, State: json.RawMessage(`1`)}}, nil
			}
			return component.Result{Output: json.RawMessage(`{}`)}, nil
		}}
	slow := b.start(t, options{workers: 10, skew: -10 * time.Minute}, moody)
	fast := b.start(t, options{workers: 10, slots: 3, skew: 10 * time.Minute}, moody)
	var ids []uuid.UUID
	for i := range 20 {
		ids = append(ids, b.submit(t, []*node{slow, fast}[i%2], execution.SubmitParams{Module: "MOODY", Attempts: 2}).ID)
	}
	for _, id := range ids {
		if got := b.await(t, slow, id); got.Status != status.ExecutionCompleted {
			t.Errorf("ended %s with %s", got.Status, got.Error)
		}
	}
	seen.mu.Lock()
	defer seen.mu.Unlock()
	if seen.both > 0 {
		t.Errorf("%d turns started while another was running", seen.both)
	}
	for id, at := range seen.at {
		if len(at) != 3 {
			t.Errorf("%s had %d turns", id, len(at))
			continue
		}
		for i := range 2 {
			if gap := at[i+1].Sub(at[i]); gap < 790*time.Millisecond || gap > 5*time.Minute {
				t.Errorf("turn %d came after %v", i+2, gap)
			}
		}
	}
	if count, _ := b.postings(t); count != int64(len(ids)) {
		t.Errorf("%d postings", count)
	}
}
