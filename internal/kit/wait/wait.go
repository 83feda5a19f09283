// Package wait waits between attempts, and for work in flight to finish.
package wait

import (
	"context"
	"sync"
	"time"
)

// For waits for d. It returns the error of ctx if that ends first.
func For(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// Backoff waits 50 ms at first, then each time twice as long, up to a second.
type Backoff struct{ delay time.Duration }

// Wait waits before the next attempt. It returns the error of ctx if that ends first.
func (b *Backoff) Wait(ctx context.Context) error {
	b.delay = min(max(2*b.delay, 50*time.Millisecond), time.Second)
	return For(ctx, b.delay)
}

// Drain returns when the work of a group has finished. It calls stop if ctx ends before.
func Drain(ctx context.Context, group *sync.WaitGroup, stop func()) {
	defer context.AfterFunc(ctx, stop)()
	group.Wait()
}
