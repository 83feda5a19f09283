// Package wait waits between attempts, and for work in flight to finish.
package wait

import (
	"context"
	"math/rand/v2"
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

// Backoff waits up to 50 ms at first, then each time twice as long, up to maxDelay. Each delay is
// shortened by up to a half, at random, so that processes do not retry in step.
type Backoff struct {
	delay time.Duration
	last  time.Time // when the last wait ended
}

const maxDelay = time.Second

// Next returns the delay before the next attempt.
func (b *Backoff) Next() time.Duration {
	b.delay = min(max(2*b.delay, 50*time.Millisecond), maxDelay)
	return b.delay - rand.N(b.delay/2)
}

// Reset makes the next delay the shortest one.
func (b *Backoff) Reset() { b.delay = 0 }

// Wait waits before the next attempt. If ctx is done first, it returns the error of ctx. If the
// caller worked for longer than the longest delay since the last wait, Wait resets the backoff.
func (b *Backoff) Wait(ctx context.Context) error {
	if !b.last.IsZero() && time.Since(b.last) > maxDelay {
		b.Reset()
	}
	err := For(ctx, b.Next())
	b.last = time.Now()
	return err
}

// Drain returns when the work of a group has finished. If ctx is done before that, Drain calls
// stop.
func Drain(ctx context.Context, group *sync.WaitGroup, stop func()) {
	defer context.AfterFunc(ctx, stop)()
	group.Wait()
}
