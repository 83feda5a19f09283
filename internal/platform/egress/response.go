package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"time"
)

const (
	smallResponse = 64 << 10         // responses up to this size are not counted
	block         = 64 << 10         // a larger response must receive this many bytes in each progressTime
	progressTime  = 10 * time.Second // see block
	busyPatience  = 20 * time.Second // how long to wait for a slot
)

// sizes are the classes of larger responses: the largest size of the class, and how many responses
// of the class this process holds at once. Together the classes bound the memory: 32 MiB, 32 MiB
// and, at 5 MiB a response, 40 MiB.
var sizes = []struct {
	bytes int64
	slots int
}{{256 << 10, 128}, {1 << 20, 32}, {math.MaxInt64, 8}}

// ErrBusy reports that a response could not be read because the process, or the
// tenant, holds too many large responses.
var ErrBusy = errors.New("too many large responses in flight")

var errStalled = fmt.Errorf("the response stalled: %w", context.DeadlineExceeded)

// budget bounds how many responses of each class are in memory. It is shared fairly: a tenant
// may use all slots of the first half of a class, and one slot of the second half, so that one
// tenant always leaves room for others.
//
// A growing response acquires a slot of the next class before it releases its own slot. It waits
// for larger responses only, so growing responses do not deadlock.
type budget struct {
	mu    sync.Mutex
	held  []int
	by    []map[string]int // of each tenant
	freed chan struct{}    // closed at the next release
}

func newBudget() *budget {
	b := &budget{freed: make(chan struct{})}
	for range sizes {
		b.held = append(b.held, 0)
		b.by = append(b.by, map[string]int{})
	}
	return b
}

// acquire acquires a slot of a class. If no slot becomes free within busyPatience, it returns
// ErrBusy.
func (b *budget) acquire(ctx context.Context, class int, tenant string) error {
	patience := time.NewTimer(busyPatience)
	defer patience.Stop()
	for {
		b.mu.Lock()
		held, by, slots := b.held[class], b.by[class], sizes[class].slots
		if held < slots/2 || held < slots && by[tenant] == 0 {
			b.held[class]++
			by[tenant]++
			b.mu.Unlock()
			return nil
		}
		freed := b.freed
		b.mu.Unlock()
		select {
		case <-freed:
		case <-patience.C:
			return ErrBusy
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// release returns a slot of a class.
func (b *budget) release(class int, tenant string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held[class]--
	if b.by[class][tenant]--; b.by[class][tenant] == 0 {
		delete(b.by[class], tenant)
	}
	close(b.freed)
	b.freed = make(chan struct{})
}

// tenancy is the value that WithTenant puts into a context.
type tenancy struct {
	ctx  context.Context // of the whole attempt
	name string
}

type tenancyKey struct{}

// WithTenant returns a context whose requests count for a tenant. Their responses count until ctx
// is done, because the caller processes them until then.
func WithTenant(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, tenancyKey{}, &tenancy{ctx: ctx, name: name})
}

// bounded reads at most left bytes of a response. Beyond left bytes it fails instead of
// returning EOF, so that a truncated response is never mistaken for a complete response. A
// response that isn't small acquires a slot of its class, and is cancelled if it stalls.
type bounded struct {
	io.ReadCloser
	left   int64
	budget *budget
	owner  *tenancy // nil: the slot is released by Close
	ctx    context.Context
	cancel context.CancelCauseFunc // cancels the exchange

	read  int64
	due   int64       // bytes that must have been read when stall fires
	stall *time.Timer // nil: the response is still small

	mu       sync.Mutex
	class    int // 0: small; otherwise 1 + the index of its class in sizes
	released bool
}

func (b *bounded) Read(p []byte) (int, error) {
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	if int64(n) > b.left {
		n = int(b.left)
		b.left = 0
		return n, ErrTooLarge
	}
	b.left -= int64(n)
	b.read += int64(n)
	for b.read > b.limit() {
		if failed := b.grow(); failed != nil {
			return n, failed
		}
	}
	if b.stall != nil && b.read >= b.due {
		b.due = b.read + block
		b.stall.Reset(progressTime)
	}
	return n, err
}

// Close ends the exchange.
func (b *bounded) Close() error {
	if b.stall != nil {
		b.stall.Stop()
	}
	if b.owner == nil {
		b.release()
	}
	err := b.ReadCloser.Close()
	b.cancel(nil)
	return err
}

// limit returns how many bytes a response of the current class may have.
func (b *bounded) limit() int64 {
	if b.class == 0 {
		return smallResponse
	}
	return sizes[b.class-1].bytes
}

// grow moves the response to the next class.
func (b *bounded) grow() error {
	if b.stall == nil {
		b.stall = time.AfterFunc(progressTime, func() { b.cancel(errStalled) })
		if b.owner != nil {
			context.AfterFunc(b.owner.ctx, b.release)
		}
	}
	b.stall.Stop() // the time spent waiting for a slot isn't the upstream's fault
	if err := b.budget.acquire(b.ctx, b.class, b.tenant()); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.released {
		b.budget.release(b.class, b.tenant())
		return context.Canceled
	}
	if b.class > 0 {
		b.budget.release(b.class-1, b.tenant())
	}
	b.class++
	b.due = 0
	return nil
}

func (b *bounded) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.released && b.class > 0 {
		b.budget.release(b.class-1, b.tenant())
	}
	b.released = true
}

func (b *bounded) tenant() string {
	if b.owner == nil {
		return ""
	}
	return b.owner.name
}
