// Package budget limits the amounts that are in use at the same time, such as bytes or connections,
// in total and for each source (a client address, a workspace).
//
// It stores only sources with a reservation, so the budget also bounds its own memory.
package budget

import "sync"

// Budget counts the amounts that sources hold. It is safe for concurrent use.
type Budget[Source comparable] struct {
	total, each int64

	mu   sync.Mutex
	held int64
	by   map[Source]int64
}

// New returns a Budget with a total for all sources and a maximum for each source. The share of
// a source shrinks in proportion to the amounts of other sources, so that a few sources can't
// use up the total.
func New[Source comparable](total, each int64) *Budget[Source] {
	return &Budget[Source]{total: total, each: each, by: make(map[Source]int64)}
}

// Reserve reserves n for the source. If that would exceed the total or the source's share, it
// reserves nothing and returns false. A source that holds nothing may exceed its share, because
// otherwise an amount larger than the share could never be reserved.
func (b *Budget[Source]) Reserve(source Source, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if held := b.by[source]; b.held+n > b.total || held > 0 && held+n > b.share(held) {
		return false
	}
	b.add(source, n)
	return true
}

// Add counts n for the source, even beyond its share. It is for amounts that can no longer be
// refused.
func (b *Budget[Source]) Add(source Source, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.add(source, n)
}

// Release returns n that the source reserved or added.
func (b *Budget[Source]) Release(source Source, n int64) { b.Add(source, -n) }

func (b *Budget[Source]) add(source Source, n int64) {
	b.held += n
	if b.by[source] += n; b.by[source] == 0 {
		delete(b.by, source)
	}
}

// Held returns the sum of the amounts that all sources hold.
func (b *Budget[Source]) Held() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held
}

// Full reports whether the source has used up its share. A source that holds nothing is not
// full.
func (b *Budget[Source]) Full(source Source) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	held := b.by[source]
	return held > 0 && held >= b.share(held)
}

// share returns how much a source may hold that currently holds held.
func (b *Budget[Source]) share(held int64) int64 {
	free := max(0, b.total-(b.held-held)) // that the other sources don't hold
	return int64(float64(free) * float64(b.each) / float64(b.total))
}
