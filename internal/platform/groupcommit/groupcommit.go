// Package groupcommit merges concurrent writes into shared commits, because a commit costs more
// than a write.
//
// Writes that queue while a commit is in progress go out with the next one. There is no timer: a
// single write leaves at once, and batches grow under load. It knows nothing of SQL. The one
// invariant: every accepted item gets exactly one answer, and one bad item never fails the others.
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
	// ErrClosed is the answer to an item that comes after Close.
	ErrClosed = errors.New("group commit is closed")
	// ErrFull is the answer to an item that finds too many others before it.
	ErrFull = errors.New("group commit is full")

	errWithdrawn = errors.New("taken back before it was on its way")
)

// Unwritten reports whether err, of Do, says that the item was not written. Of any
// other error nobody knows: the commit may have come through.
func Unwritten(err error) bool {
	return errors.Is(err, ErrClosed) || errors.Is(err, ErrFull) || errors.Is(err, errWithdrawn)
}

// Group merges items of type In, each answered by an Out.
type Group[In, Out any] struct {
	options   Options[In]
	transient func(error) bool
	flush     func(ctx context.Context, items []In) ([]Out, error)

	mu      sync.Mutex
	queue   []*item[In, Out]
	bytes   int // of what is queued
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

// Options bound a Group. Zero fields mean the defaults.
type Options[In any] struct {
	Flushers int           // commits under way at once: 1, which makes for the largest batches
	Max      int           // items in one commit: 128
	Timeout  time.Duration // for one commit: 10 s
	Weigh    func(In) int  // bytes of an item; nil: items weigh nothing
	MaxBytes int           // in one commit, a single item aside: 8 MiB
	MaxQueue int           // bytes that may wait: 64 MiB
	MaxWait  int           // items that may wait: 10,000
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

// New makes a group whose flush writes all items in one transaction and answers
// each, in their order. When flush fails for several items, they are tried one
// by one, unless transient says that the failure is not theirs.
func New[In, Out any](options Options[In], transient func(error) bool, flush func(ctx context.Context, items []In) ([]Out, error)) *Group[In, Out] {
	options = options.withDefaults()
	return &Group[In, Out]{options: options, transient: transient, flush: flush, idle: options.Flushers}
}

// Do writes one item with the next commit and returns its answer. When ctx ends
// before the item is on its way, it is not written; from then on Do waits for
// the commit whatever becomes of ctx. ErrFull and ErrClosed: it is not written.
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

// withdraw takes an item back unless it is on its way.
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

// Close refuses further items and returns when all accepted ones are answered.
func (g *Group[In, Out]) Close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.running.Wait()
}

// run writes batches until nothing is queued. Its context is no caller's: a
// batch belongs to many.
func (g *Group[In, Out]) run() {
	defer g.running.Done()
	for {
		batch := g.take()
		if batch == nil {
			return
		}
		g.write(batch)
	}
}

// take removes the next batch from the queue; nil ends the flusher.
func (g *Group[In, Out]) take() []*item[In, Out] {
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
		err = fmt.Errorf("group commit of %d items gave %d answers", len(ins), len(outs))
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
