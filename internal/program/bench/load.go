package main

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
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

// load is a run under load that can be repeated.
type load func() (sample, error)

// measure returns a function that runs the load and returns a value of its sample.
func (l load) measure(value func(sample) float64) func() (float64, error) {
	return func() (float64, error) {
		s, err := l()
		if err != nil {
			return 0, err
		}
		return value(s), nil
	}
}

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
	workers, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	for client := range clients {
		workers.Go(func() error {
			for ctx.Err() == nil {
				index := int(next.Add(1)) - 1
				if index >= n {
					return nil
				}
				if err := operation(ctx, client, index); err != nil {
					return err
				}
			}
			return context.Cause(ctx)
		})
	}
	return workers.Wait()
}

// alternate measures floor and ours alternately. A first warm-up round is discarded.
func alternate(runs int, floor, ours func() (float64, error)) (series, error) {
	var s series
	for run := range runs + 1 {
		f, err := floor()
		if err != nil {
			return series{}, err
		}
		o, err := ours()
		if err != nil {
			return series{}, err
		}
		if run > 0 {
			s.floor, s.ours = append(s.floor, f), append(s.ours, o)
		}
	}
	return s, nil
}

// compare measures a value of a floor and of a load alternately.
func (r *rig) compare(floor, ours load, value func(sample) float64) ([]series, error) {
	s, err := alternate(r.Runs, floor.measure(value), ours.measure(value))
	return []series{s}, err
}
