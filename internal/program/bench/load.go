package bench

import (
	"context"
	"slices"
	"sync"
	"time"
)

// sample is the result of one run under load.
type sample struct {
	count   int
	elapsed time.Duration
	sorted  []time.Duration // durations of the operations
}

func (s sample) rate() float64 { return float64(s.count) / s.elapsed.Seconds() }

func (s sample) p50() float64 { return milliseconds(percentile(s.sorted, 0.50)) }

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// closedLoop lets clients repeat an operation until the time is over. The first error stops the run.
func closedLoop(ctx context.Context, clients int, length time.Duration, operation func(ctx context.Context, client int) error) (sample, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	took := make([][]time.Duration, clients)
	var all sync.WaitGroup
	began := time.Now()
	for client := range clients {
		all.Go(func() {
			last := time.Now()
			for last.Sub(began) < length && ctx.Err() == nil {
				if err := operation(ctx, client); err != nil {
					cancel(err)
					return
				}
				now := time.Now()
				took[client] = append(took[client], now.Sub(last))
				last = now
			}
		})
	}
	all.Wait()
	s := sample{elapsed: time.Since(began), sorted: slices.Concat(took...)}
	s.count = len(s.sorted)
	slices.Sort(s.sorted)
	return s, context.Cause(ctx)
}

// times calls operation n times, with one goroutine per client, and passes the index.
func times(ctx context.Context, clients, n int, operation func(ctx context.Context, client, index int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	indexes := make(chan int)
	var all sync.WaitGroup
	for client := range clients {
		all.Go(func() {
			for index := range indexes {
				if err := operation(ctx, client, index); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	for index := range n {
		select {
		case indexes <- index:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
	}
	close(indexes)
	all.Wait()
	return context.Cause(ctx)
}

// alternate measures floor and ours alternately. A first warm-up round is discarded.
func alternate(runs int, floor, ours func() (float64, error)) (floors, others []float64, err error) {
	for run := range runs + 1 {
		f, err := floor()
		if err != nil {
			return nil, nil, err
		}
		o, err := ours()
		if err != nil {
			return nil, nil, err
		}
		if run > 0 {
			floors, others = append(floors, f), append(others, o)
		}
	}
	return floors, others, nil
}
