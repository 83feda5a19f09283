// Package groupcommit merges concurrent writes into shared commits, because a commit costs more than
// a write.
//
// Writes that arrive during a commit are written with the next commit. No timer is needed: a single
// write is written at once, and batches grow under load. The package doesn't use SQL. Every accepted
// item gets exactly one result, and an invalid item never fails the others.
//
// Items may have owners, whose rows the commit locks. If somebody else holds the row of an owner, the
// owner's items leave the shared commits and wait for the row apart.
package groupcommit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
)

var (
	// ErrClosed is returned for an item that arrives after Close.
	ErrClosed = errors.New("group commit is closed")
	// ErrFull is returned for an item when too many others are queued.
	ErrFull = errors.New("group commit queue is full")

	errWithdrawn = errors.New("withdrawn before the write started")
)

// Unwritten reports whether err, returned by Do, means that the item was not written. After any
// other error the item may have been committed.
func Unwritten(err error) bool {
	return errors.Is(err, ErrClosed) || errors.Is(err, ErrFull) || errors.Is(err, errWithdrawn)
}

// Group merges items of type In. Each has a result of type Out.
type Group[In, Out any] struct {
	options   Options[In]
	owners    Owners[In]
	transient func(error) bool
	flush     Flush[In, Out]

	mu      sync.Mutex
	shared  queue[In, Out]
	apart   map[uuid.UUID]*queue[In, Out] // of owners whose rows are held
	places  chan struct{}                 // limits the owners whose rows are waited for at the same time
	idle    int                           // flushers that may still be started
	closed  bool
	running sync.WaitGroup
}

// Flush writes items in one transaction and returns a result for each, in their order. If shared is
// set, the items may have several owners, and Flush must not wait long for a row that is held: it
// returns an error from which Owners.Held reads the owners of such rows, and writes nothing. If
// shared is not set, all items have the same owner, and Flush waits for its row.
type Flush[In, Out any] func(ctx context.Context, items []In, shared bool) ([]Out, error)

// queue holds items that are not being written.
type queue[In, Out any] struct {
	items []*item[In, Out]
	bytes int
}

type item[In, Out any] struct {
	in     In
	weight int
	taken  bool
	out    Out
	err    error
	done   chan struct{}
}

// Options are the limits of a Group. Zero fields mean the defaults.
type Options[In any] struct {
	Flushers int           // concurrent commits: 1, which makes the largest batches
	Max      int           // items in one commit: 128
	Timeout  time.Duration // for one commit: 10 s
	Weigh    func(In) int  // bytes of an item; nil: items weigh nothing
	MaxBytes int           // in one commit of several items: 8 MiB
	MaxQueue int           // queued bytes: 64 MiB
	MaxWait  int           // queued items: 10,000
}

// Owners are the owners of the items of a Group.
type Owners[In any] struct {
	Of   func(In) uuid.UUID
	Held func(error) []uuid.UUID // owners whose rows were held when a Flush failed with this error
}

// apartAtOnce is how many owners are waited for at the same time. Each wait holds a connection.
const apartAtOnce = 2

func (o Options[In]) withDefaults() Options[In] {
	if o.Weigh == nil {
		o.Weigh = func(In) int { return 0 }
	}
	o.Flushers = cmp.Or(o.Flushers, 1)
	o.Max = cmp.Or(o.Max, 128)
	o.MaxBytes = cmp.Or(o.MaxBytes, 8<<20)
	o.MaxQueue = cmp.Or(o.MaxQueue, 64<<20)
	o.MaxWait = cmp.Or(o.MaxWait, 10_000)
	o.Timeout = cmp.Or(o.Timeout, 10*time.Second)
	return o
}

// New returns a group that writes with flush, which writes all items in one transaction and returns a
// result for each, in their order. If flush fails for several items, they are written one by one,
// unless transient reports that the items did not cause the failure.
func New[In, Out any](options Options[In], transient func(error) bool, flush func(ctx context.Context, items []In) ([]Out, error)) *Group[In, Out] {
	owners := Owners[In]{Of: func(In) uuid.UUID { return uuid.Nil }, Held: func(error) []uuid.UUID { return nil }}
	return NewOwned(options, owners, transient, func(ctx context.Context, items []In, _ bool) ([]Out, error) { return flush(ctx, items) })
}

// NewOwned is like New, for items with owners.
func NewOwned[In, Out any](options Options[In], owners Owners[In], transient func(error) bool, flush Flush[In, Out]) *Group[In, Out] {
	options = options.withDefaults()
	return &Group[In, Out]{
		options: options, owners: owners, transient: transient, flush: flush, idle: options.Flushers,
		apart: map[uuid.UUID]*queue[In, Out]{}, places: make(chan struct{}, apartAtOnce),
	}
}

// Do writes one item with the next commit and returns its result. If ctx is done before the write
// starts, the item is not written. Once the write has started, Do waits for the commit even if
// ctx is done. If Do returns ErrFull or ErrClosed, the item was not written.
func (g *Group[In, Out]) Do(ctx context.Context, in In) (Out, error) {
	own := &item[In, Out]{in: in, weight: g.options.Weigh(in), done: make(chan struct{})}
	if err := g.enqueue(own); err != nil {
		return own.out, err
	}
	select {
	case <-own.done:
		return own.out, own.err
	case <-ctx.Done():
	}
	if g.withdraw(own) {
		return own.out, fmt.Errorf("%w: %w", errWithdrawn, ctx.Err())
	}
	<-own.done
	return own.out, own.err
}

func (g *Group[In, Out]) enqueue(own *item[In, Out]) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return ErrClosed
	}
	to, apart := g.apart[g.owners.Of(own.in)]
	if !apart {
		to = &g.shared
	}
	if len(to.items) > 0 && (len(to.items) >= g.options.MaxWait || to.bytes+own.weight > g.options.MaxQueue) {
		return ErrFull
	}
	to.add(own)
	if !apart && g.idle > 0 {
		g.idle--
		g.running.Go(g.run)
	}
	return nil
}

// withdraw removes an item from its queue, unless its write has started.
func (g *Group[In, Out]) withdraw(own *item[In, Out]) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if own.taken {
		return false
	}
	if !g.shared.remove(own) {
		g.apart[g.owners.Of(own.in)].remove(own)
	}
	return true
}

func (q *queue[In, Out]) add(it *item[In, Out]) {
	it.taken = false
	q.items = append(q.items, it)
	q.bytes += it.weight
}

// remove removes an item and reports whether the queue contained it.
func (q *queue[In, Out]) remove(it *item[In, Out]) bool {
	i := slices.Index(q.items, it)
	if i < 0 {
		return false
	}
	q.items = slices.Delete(q.items, i, i+1)
	q.bytes -= it.weight
	return true
}

// take removes the next batch from the queue. It returns nil if the queue is empty.
func (q *queue[In, Out]) take(most, mostBytes int) []*item[In, Out] {
	n, bytes := 0, 0
	for n < len(q.items) && n < most && (n == 0 || bytes+q.items[n].weight <= mostBytes) {
		q.items[n].taken = true
		bytes += q.items[n].weight
		n++
	}
	batch := slices.Clone(q.items[:n])
	q.items = slices.Delete(q.items, 0, n)
	q.bytes -= bytes
	return batch
}

// Close rejects further items and returns when all accepted items have their result.
func (g *Group[In, Out]) Close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.running.Wait()
}

// run writes batches until the shared queue is empty. It doesn't use the context of a caller, because
// a batch has several callers.
func (g *Group[In, Out]) run() {
	for {
		g.mu.Lock()
		batch := g.shared.take(g.options.Max, g.options.MaxBytes)
		if len(batch) == 0 {
			g.idle++
		}
		g.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		g.write(batch, true)
	}
}

// runApart writes the items of an owner whose row is held, until the queue is empty.
func (g *Group[In, Out]) runApart(owner uuid.UUID) {
	g.places <- struct{}{}
	defer func() { <-g.places }()
	for {
		g.mu.Lock()
		batch := g.apart[owner].take(g.options.Max, g.options.MaxBytes)
		if len(batch) == 0 {
			delete(g.apart, owner)
		}
		g.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		g.write(batch, false)
	}
}

// setAside moves the items of these owners to their own queues, and returns the other items.
func (g *Group[In, Out]) setAside(batch []*item[In, Out], owners []uuid.UUID) (others []*item[In, Out]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, it := range batch {
		owner := g.owners.Of(it.in)
		if !slices.Contains(owners, owner) {
			others = append(others, it)
			continue
		}
		if g.apart[owner] == nil {
			g.apart[owner] = &queue[In, Out]{}
			g.running.Go(func() { g.runApart(owner) })
		}
		g.apart[owner].add(it)
	}
	return others
}

func (g *Group[In, Out]) write(batch []*item[In, Out], shared bool) {
	if len(batch) == 0 {
		return
	}
	ins := make([]In, len(batch))
	for i, it := range batch {
		ins[i] = it.in
	}
	ctx, cancel := context.WithTimeout(context.Background(), g.options.Timeout)
	outs, err := g.flush(ctx, ins, shared)
	cancel()
	if err == nil && len(outs) != len(ins) {
		err = fmt.Errorf("group commit of %d items returned %d results", len(ins), len(outs))
	}
	if shared && err != nil {
		if held := g.owners.Held(err); len(held) > 0 {
			g.write(g.setAside(batch, held), true)
			return
		}
	}
	if err != nil && len(batch) > 1 && !g.transient(err) {
		for i := range batch {
			g.write(batch[i:i+1], shared)
		}
		return
	}
	for i, it := range batch {
		if err != nil {
			it.err = err
		} else {
			it.out = outs[i]
		}
		close(it.done)
	}
}
