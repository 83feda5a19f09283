// Package groupcommit merges concurrent writes into shared commits, because a commit costs more than
// a write.
//
// Writes that arrive during a commit are written with the next commit. No timer is needed: a single
// write is written at once, and batches grow under load. The package doesn't use SQL. Every accepted
// item gets exactly one result, and an invalid item never fails the others.
package groupcommit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
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
	transient func(error) bool
	flush     func(ctx context.Context, items []In) ([]Out, error)

	mu      sync.Mutex
	queue   []*item[In, Out]
	bytes   int // of the queued items
	idle    int // flushers that may still be started
	closed  bool
	running sync.WaitGroup
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

// New returns a group whose flush writes all items in one transaction and returns a result for
// each, in their order. If flush fails for several items, they are written one by one, unless
// transient reports that the items did not cause the failure.
func New[In, Out any](options Options[In], transient func(error) bool, flush func(ctx context.Context, items []In) ([]Out, error)) *Group[In, Out] {
	options = options.withDefaults()
	return &Group[In, Out]{options: options, transient: transient, flush: flush, idle: options.Flushers}
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
	if len(g.queue) > 0 && (len(g.queue) >= g.options.MaxWait || g.bytes+own.weight > g.options.MaxQueue) {
		return ErrFull
	}
	g.queue = append(g.queue, own)
	g.bytes += own.weight
	if g.idle > 0 {
		g.idle--
		g.running.Add(1)
		go g.run()
	}
	return nil
}

// withdraw removes an item from the queue, unless its write has started.
func (g *Group[In, Out]) withdraw(own *item[In, Out]) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if own.taken {
		return false
	}
	for i, queued := range g.queue {
		if queued == own {
			g.queue = append(g.queue[:i:i], g.queue[i+1:]...)
			g.bytes -= own.weight
			break
		}
	}
	return true
}

// Close rejects further items and returns when all accepted items have their result.
func (g *Group[In, Out]) Close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.running.Wait()
}

// run writes batches until the queue is empty. It doesn't use the context of a caller, because a
// batch has several callers.
func (g *Group[In, Out]) run() {
	defer g.running.Done()
	for {
		batch := g.nextBatch()
		if batch == nil {
			return
		}
		g.write(batch)
	}
}

// nextBatch removes the next batch from the queue. If the queue is empty it returns nil, which
// stops the flusher.
func (g *Group[In, Out]) nextBatch() []*item[In, Out] {
	g.mu.Lock()
	defer g.mu.Unlock()
	n, bytes := 0, 0
	for n < len(g.queue) && n < g.options.Max && (n == 0 || bytes+g.queue[n].weight <= g.options.MaxBytes) {
		g.queue[n].taken = true
		bytes += g.queue[n].weight
		n++
	}
	if n == 0 {
		g.queue = nil
		g.idle++
		return nil
	}
	batch := g.queue[:n:n]
	g.queue = g.queue[n:]
	g.bytes -= bytes
	return batch
}

func (g *Group[In, Out]) write(batch []*item[In, Out]) {
	ins := make([]In, len(batch))
	for i, it := range batch {
		ins[i] = it.in
	}
	ctx, cancel := context.WithTimeout(context.Background(), g.options.Timeout)
	outs, err := g.flush(ctx, ins)
	cancel()
	if err == nil && len(outs) != len(ins) {
		err = fmt.Errorf("group commit of %d items returned %d results", len(ins), len(outs))
	}
	if err != nil && len(batch) > 1 && !g.transient(err) {
		for i := range batch {
			g.write(batch[i : i+1])
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
