// Package groupcommit merges concurrent writes into shared commits.
//
// Whatever queues while one commit is on its way goes out with the next. There
// is no timer: alone, a write leaves at once; under load the batches grow by
// themselves. It knows nothing of SQL. The one invariant: every accepted item
// gets exactly one answer, and one bad item never fails the others.
package groupcommit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrClosed is the answer to an item that comes after Close.
var ErrClosed = errors.New("group commit is closed")

// Group merges items of type In, each answered by an Out.
type Group[In, Out any] struct {
	flush   func(ctx context.Context, items []In) ([]Out, error)
	max     int
	timeout time.Duration

	mu      sync.Mutex
	queue   []*item[In, Out]
	flusher int // flushers that may still be started
	closed  bool
	running sync.WaitGroup
}

type item[In, Out any] struct {
	in   In
	out  Out
	err  error
	done chan struct{}
}

// Options bound a Group.
type Options struct {
	Flushers int           // commits under way at once; default 2
	Max      int           // items in one commit; default 128
	Timeout  time.Duration // for one commit; default 15 s
}

// New makes a group whose flush writes all items in one transaction and answers
// each, in their order. When flush fails for several items, they are tried one
// by one, unless transient says that the failure is not theirs.
func New[In, Out any](options Options, transient func(error) bool, flush func(ctx context.Context, items []In) ([]Out, error)) *Group[In, Out] {
	g := &Group[In, Out]{max: 128, timeout: 15 * time.Second, flusher: 2}
	if options.Max > 0 {
		g.max = options.Max
	}
	if options.Timeout > 0 {
		g.timeout = options.Timeout
	}
	if options.Flushers > 0 {
		g.flusher = options.Flushers
	}
	g.flush = func(ctx context.Context, items []In) ([]Out, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.timeout)
		defer cancel()
		outs, err := flush(ctx, items)
		if err == nil && len(outs) != len(items) {
			err = fmt.Errorf("group commit of %d items gave %d answers", len(items), len(outs))
		}
		if err != nil && len(items) > 1 && transient(err) {
			err = &transientError{err}
		}
		return outs, err
	}
	return g
}

// transientError marks a failure that no item caused.
type transientError struct{ error }

func (e *transientError) Unwrap() error { return e.error }

// Do writes one item with the next commit and returns its answer. It waits for
// the commit whatever becomes of ctx: what was queued is written.
func (g *Group[In, Out]) Do(ctx context.Context, in In) (Out, error) {
	own := &item[In, Out]{in: in, done: make(chan struct{})}
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return own.out, ErrClosed
	}
	g.queue = append(g.queue, own)
	if g.flusher > 0 {
		g.flusher--
		g.running.Add(1)
		go g.run(context.WithoutCancel(ctx))
	}
	g.mu.Unlock()
	<-own.done
	return own.out, own.err
}

// Close refuses further items and returns when all accepted ones are answered.
func (g *Group[In, Out]) Close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.running.Wait()
}

// run writes batches until nothing is queued.
func (g *Group[In, Out]) run(ctx context.Context) {
	defer g.running.Done()
	for {
		g.mu.Lock()
		if len(g.queue) == 0 {
			g.flusher++
			g.mu.Unlock()
			return
		}
		n := min(len(g.queue), g.max)
		batch := g.queue[:n:n]
		g.queue = g.queue[n:]
		g.mu.Unlock()
		g.write(ctx, batch)
	}
}

func (g *Group[In, Out]) write(ctx context.Context, batch []*item[In, Out]) {
	ins := make([]In, len(batch))
	for i, it := range batch {
		ins[i] = it.in
	}
	outs, err := g.flush(ctx, ins)
	if err != nil && len(batch) > 1 {
		if _, transient := errors.AsType[*transientError](err); !transient {
			for i := range batch {
				g.write(ctx, batch[i:i+1])
			}
			return
		}
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
