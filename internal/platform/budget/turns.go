package budget

import (
	"context"
	"slices"
	"sync"
)

// Turns limits what runs at the same time. What is beyond the limit waits, and sources take turns. A
// source has all places but one, so another source finds a place, or waits for one to become free.
// It is safe for concurrent use.
type Turns[Source comparable] struct {
	mu      sync.Mutex
	places  int // in total
	each    int // for a source
	used    int
	served  uint64 // number of places given so far
	sources map[Source]*waiters
}

// waiters are the places and the queue of a source.
type waiters struct {
	used   int
	served uint64          // Turns.served when the source last got a place
	queue  []chan struct{} // in order of arrival; closed when a place is given
}

// NewTurns returns Turns with a number of places.
func NewTurns[Source comparable](places int) *Turns[Source] {
	return &Turns[Source]{places: places, each: max(1, places-1), sources: map[Source]*waiters{}}
}

// Acquire waits for a place. It returns the error of ctx if ctx is done first.
func (t *Turns[Source]) Acquire(ctx context.Context, source Source) error {
	place := make(chan struct{})
	t.mu.Lock()
	of := t.sources[source]
	if of == nil {
		of = &waiters{}
		t.sources[source] = of
	}
	of.queue = append(of.queue, place)
	t.grant()
	t.mu.Unlock()
	select {
	case <-place:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(of.queue, place)
	if i < 0 {
		return nil // it got the place meanwhile
	}
	of.queue = slices.Delete(of.queue, i, i+1)
	t.forget(source)
	return ctx.Err()
}

// Release returns a place.
func (t *Turns[Source]) Release(source Source) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.used--
	t.sources[source].used--
	t.forget(source)
	t.grant()
}

// forget removes a source that holds no place and waits for none.
func (t *Turns[Source]) forget(source Source) {
	if of := t.sources[source]; of.used == 0 && len(of.queue) == 0 {
		delete(t.sources, source)
	}
}

// grant gives the free places away. Next is the source whose last turn was the longest ago.
func (t *Turns[Source]) grant() {
	for t.used < t.places {
		var next *waiters
		for _, of := range t.sources {
			if len(of.queue) > 0 && of.used < t.each && (next == nil || of.served < next.served) {
				next = of
			}
		}
		if next == nil {
			return
		}
		t.used++
		t.served++
		next.used, next.served = next.used+1, t.served
		close(next.queue[0])
		next.queue = slices.Delete(next.queue, 0, 1)
	}
}

// InUse returns the number of places in use.
func (t *Turns[Source]) InUse() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.used
}
