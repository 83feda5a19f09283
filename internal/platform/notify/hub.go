// Package notify wakes the subscribers of a row when the row changes, in this process and in
// others.
//
// A wake-up carries only an ID. It may be lost, duplicated or early, so subscribers always read the
// row. A subscriber is woken within two seconds of a commit even if every notification is lost,
// because the relay polls the rows that have subscribers.
package notify

import (
	"context"
	"sync"

	"github.com/google/uuid"
)

// Key identifies a row by its workspace and its ID.
type Key struct {
	WorkspaceID uuid.UUID
	ID          uuid.UUID
}

// Hub wakes the subscribers of this process. Create it with NewHub.
type Hub struct {
	mu      sync.Mutex
	waiting map[Key]map[*Subscription]struct{}

	collecting map[uuid.UUID][]*Changes // by workspace

	outMu   sync.Mutex
	out     []Key
	outLost bool // there were too many keys for out, or they could not be sent
	outNew  chan struct{}
}

// NewHub returns a hub without subscriptions.
func NewHub() *Hub {
	return &Hub{waiting: map[Key]map[*Subscription]struct{}{}, collecting: map[uuid.UUID][]*Changes{}, outNew: make(chan struct{}, 1)}
}

// Subscription is a subscription to changes of one row.
type Subscription struct {
	hub   *Hub
	key   Key
	c     chan struct{}
	value any // guarded by hub.mu

	onChange       func() (done bool) // nil: the subscriber receives from c
	unfollow       func() bool        // stops waiting for the end of Follow's context
	running, again bool               // guarded by hub.mu
}

// Key returns the row of the subscription.
func (s *Subscription) Key() Key { return s.key }

// C returns a channel that receives after the row may have changed. Several changes may be merged
// into one receive.
func (s *Subscription) C() <-chan struct{} { return s.c }

// Value returns the value that was published with the last change, or nil if the row must be read.
func (s *Subscription) Value() any {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	return s.value
}

// Close ends the subscription. It may be called more than once.
func (s *Subscription) Close() {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	delete(s.hub.waiting[s.key], s)
	if len(s.hub.waiting[s.key]) == 0 {
		delete(s.hub.waiting, s.key)
	}
}

// Follow calls onChange in a new goroutine whenever the row may have changed, and when ctx is done.
// It is an alternative to receiving from C, which would need a waiting goroutine. Calls never
// overlap, and several changes may be merged into one call. When onChange returns true, the
// subscription ends.
func (s *Subscription) Follow(ctx context.Context, onChange func() (done bool)) {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	s.onChange = onChange
	s.unfollow = context.AfterFunc(ctx, s.Wake)
	if len(s.c) > 0 {
		s.notify()
	}
}

func (s *Subscription) run() {
	for again := true; again; {
		if s.onChange() {
			s.unfollow()
			s.Close()
			return
		}
		s.hub.mu.Lock()
		again, s.again = s.again, false
		s.running = again
		s.hub.mu.Unlock()
	}
}

// Subscribe subscribes to changes of a row. Subscribe before reading the row, so that every
// change after the read wakes the subscriber.
func (h *Hub) Subscribe(key Key) *Subscription {
	s := &Subscription{hub: h, key: key, c: make(chan struct{}, 1)}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waiting[key] == nil {
		h.waiting[key] = map[*Subscription]struct{}{}
	}
	h.waiting[key][s] = struct{}{}
	return s
}

// Change is a change of a row. The optional Value saves subscribers of this process a read. It is
// the final state of the row, or a value from which they can see that the change doesn't concern
// them.
type Change struct {
	Key   Key
	Value any
}

// Publish wakes the subscribers of changed rows: at once in this process, and soon in other
// processes, which receive only the keys. Call it after the commit.
func (h *Hub) Publish(changes ...Change) {
	if len(changes) == 0 {
		return
	}
	keys := make([]Key, len(changes))
	h.mu.Lock()
	for i, change := range changes {
		keys[i] = change.Key
		for s := range h.waiting[change.Key] {
			s.value = change.Value
			s.notify()
		}
		h.collect(change.Key)
	}
	h.mu.Unlock()
	h.outMu.Lock()
	// Bounded: other processes find the rest when they poll.
	if len(h.out) < 100_000 {
		h.out = append(h.out, keys...)
	} else {
		h.outLost = true
	}
	h.outMu.Unlock()
	h.wakeSender()
}

func (h *Hub) wakeSender() {
	select {
	case h.outNew <- struct{}{}:
	default:
	}
}

func (h *Hub) wake(keys []Key) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, key := range keys {
		for s := range h.waiting[key] {
			s.value = nil
			s.notify()
		}
		h.collect(key)
	}
}

func (h *Hub) wakeAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, subscriptions := range h.waiting {
		for s := range subscriptions {
			s.value = nil
			s.notify()
		}
	}
	h.missAll()
}

// Wake wakes this subscription alone.
func (s *Subscription) Wake() {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	s.notify()
}

// notify wakes the subscriber. The caller must hold hub.mu.
func (s *Subscription) notify() {
	switch {
	case s.onChange == nil:
		select {
		case s.c <- struct{}{}:
		default:
		}
	case s.running:
		s.again = true
	default:
		s.running = true
		go s.run()
	}
}

// watched returns the rows with subscriptions.
func (h *Hub) watched() []Key {
	h.mu.Lock()
	defer h.mu.Unlock()
	keys := make([]Key, 0, len(h.waiting))
	for key := range h.waiting {
		keys = append(keys, key)
	}
	return keys
}

// drain removes and returns the keys that other processes must be notified of.
func (h *Hub) drain() []Key {
	h.outMu.Lock()
	defer h.outMu.Unlock()
	keys := h.out
	if h.outLost {
		keys = append(keys, anything)
	}
	h.out, h.outLost = nil, false
	return keys
}
