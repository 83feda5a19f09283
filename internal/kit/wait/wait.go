// Package wait waits between attempts, and for work in flight to finish.
package wait

import (
	"context"
	"sync"
	"time"
)

// For waits for d. If ctx is done first, it returns the error of ctx.
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

// Wait waits before the next attempt. If ctx is done first, it returns the error of ctx.
func (b *Backoff) Wait(ctx context.Context) error {
	b.delay = min(max(2*b.delay, 50*time.Millisecond), time.Second)
	return For(ctx, b.delay)
}

// Drain returns when the work of a group has finished. If ctx is done before that, Drain calls
// stop.
func Drain(ctx context.Context, group *sync.WaitGroup, stop func()) {
	defer context.AfterFunc(ctx, stop)()
	group.Wait()
}
