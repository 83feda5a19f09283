// Package notify wakes the subscribers of a row when it changes, in this process and in others.
//
// A wake-up carries an ID and nothing else. It may be lost, duplicated or early, so subscribers
// always read the row. The one invariant: a subscriber is woken within two seconds of a commit
// even if every notification is lost, because the hub polls the rows that it watches.
package notify

import (
	"context"
	"sync"

	"github.com/google/uuid"
)

// Key names a row: its workspace and its id.
type Key struct {
	WorkspaceID uuid.UUID
	ID          uuid.UUID
}

// Hub wakes subscribers of this process. The zero value is not usable: NewHub.
type Hub struct {
	mu      sync.Mutex
	waiting map[Key]map[*Subscription]struct{}

	outMu  sync.Mutex
	out    []Key
	outNew chan struct{}
}

// NewHub makes an empty hub.
func NewHub() *Hub {
	return &Hub{waiting: map[Key]map[*Subscription]struct{}{}, outNew: make(chan struct{}, 1)}
}

// Subscription is one interest in one row.
type Subscription struct {
	hub   *Hub
	key   Key
	c     chan struct{}
	value any // guarded by hub.mu

	look           func() (over bool) // nil: c is received from
	forget         func() bool        // the end of Follow's context
	looking, again bool               // guarded by hub.mu
}

// Key is the row of interest.
func (s *Subscription) Key() Key { return s.key }

// C receives after the row may have changed; several changes may be one
// receive.
func (s *Subscription) C() <-chan struct{} { return s.c }

// Value is what came with the news, nil if it must be read from the row.
func (s *Subscription) Value() any {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	return s.value
}

// Close ends the interest. It may be called more than once.
func (s *Subscription) Close() {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	delete(s.hub.waiting[s.key], s)
	if len(s.hub.waiting[s.key]) == 0 {
		delete(s.hub.waiting, s.key)
	}
}

// Follow takes the place of receiving from C, and of a goroutine that waits for it: from
// now on look runs in a goroutine of its own whenever the row may have changed, and when
// ctx ends; never twice at once, and several changes may be one look. Once it returns
// true it does not run again, and the interest ends.
func (s *Subscription) Follow(ctx context.Context, look func() (over bool)) {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	s.look = look
	s.forget = context.AfterFunc(ctx, s.Wake)
	if len(s.c) > 0 {
		s.poke()
	}
}

func (s *Subscription) follow() {
	for again := true; again; {
		if s.look() {
			s.forget()
			s.Close()
			return
		}
		s.hub.mu.Lock()
		again, s.again = s.again, false
		s.looking = again
		s.hub.mu.Unlock()
	}
}

// Subscribe registers an interest. Subscribe first, then read the row: a change
// after the read then always wakes.
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

// Change is news of a row. Value, if there is one, spares waiters of this process a
// read: the row as it now stands and will stand, or that it is not what they wait for.
type Change struct {
	Key   Key
	Value any
}

// Publish tells that rows have changed: at once to this process, soon to the
// others, which get the keys alone. Call it after the commit.
func (h *Hub) Publish(changes ...Change) {
	keys := make([]Key, len(changes))
	h.mu.Lock()
	for i, change := range changes {
		keys[i] = change.Key
		for s := range h.waiting[change.Key] {
			s.value = change.Value
			s.poke()
		}
	}
	h.mu.Unlock()
	h.outMu.Lock()
	// Bounded: what does not fit is found by the other processes' own checks.
	if len(h.out) < 100_000 {
		h.out = append(h.out, keys...)
	}
	h.outMu.Unlock()
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
			s.poke()
		}
	}
}

func (h *Hub) wakeAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, subscriptions := range h.waiting {
		for s := range subscriptions {
			s.value = nil
			s.poke()
		}
	}
}

// Wake is news of the row for this interest alone.
func (s *Subscription) Wake() {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	s.poke()
}

// poke wants hub.mu.
func (s *Subscription) poke() {
	switch {
	case s.look == nil:
		select {
		case s.c <- struct{}{}:
		default:
		}
	case s.looking:
		s.again = true
	default:
		s.looking = true
		go s.follow()
	}
}

// watched lists the rows that somebody waits for.
func (h *Hub) watched() []Key {
	h.mu.Lock()
	defer h.mu.Unlock()
	keys := make([]Key, 0, len(h.waiting))
	for key := range h.waiting {
		keys = append(keys, key)
	}
	return keys
}

// drain takes what waits to be told to other processes.
func (h *Hub) drain() []Key {
	h.outMu.Lock()
	defer h.outMu.Unlock()
	keys := h.out
	h.out = nil
	return keys
}
