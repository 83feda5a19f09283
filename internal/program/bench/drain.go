package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/weft-automation/weft/internal/execution"
	"github.com/weft-automation/weft/internal/execution/callback"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// slots is the default of weft work.
const slots = 100

// queue returns a client that can pause the queue of a deployment until there is enough work.
func (d *deployment) queue() (*river.Client[pgx.Tx], error) {
	return river.NewClient(riverpgxv5.New(d.pool), &river.Config{Schema: postgres.RiverSchema, Logger: silent})
}

// hold pauses a queue. The returned function resumes it and returns the database's time just before.
func (d *deployment) hold(ctx context.Context, name string) (release func() (time.Time, error), err error) {
	queue, err := d.queue()
	if err != nil {
		return nil, err
	}
	if err := queue.QueuePause(ctx, name, nil); err != nil {
		return nil, fmt.Errorf("pause the queue %s: %w", name, err)
	}
	return func() (time.Time, error) {
		var now time.Time
		if err := d.pool.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&now); err != nil {
			return now, err
		}
		if err := queue.QueueResume(ctx, name, nil); err != nil {
			return now, fmt.Errorf("resume the queue %s: %w", name, err)
		}
		return now, nil
	}, nil
}

// drain submits n executions while the queue is paused, resumes it, and returns how many executions
// became final per second.
func (d *deployment) drain(ctx context.Context, n int, request *call) (float64, error) {
	release, err := d.hold(ctx, execution.Queue)
	if err != nil {
		return 0, err
	}
	if _, err := d.submit(ctx, n, request); err != nil {
		return 0, err
	}
	began, err := release()
	if err != nil {
		return 0, err
	}
	if err := d.settled(ctx); err != nil {
		return 0, err
	}
	var ended int
	var last *time.Time
	var failed int
	err = d.pool.QueryRow(ctx, `SELECT count(*), max(finished_at), count(*) FILTER (WHERE status = 'FAILED')
		FROM component_executions WHERE finished_at > $1`, began).Scan(&ended, &last, &failed)
	if err != nil {
		return 0, fmt.Errorf("read when executions finished: %w", err)
	}
	if failed > 0 || ended < n*9/10 {
		return 0, fmt.Errorf("only %d of %d executions finished after the queue was resumed, %d failed", ended, n, failed)
	}
	return float64(ended) / last.Sub(began).Seconds(), nil
}

func (r *rig) drainRate(ctx context.Context) ([]series, error) {
	d, err := r.separateProcesses(ctx, 1, slots)
	if err != nil {
		return nil, err
	}
	s, err := alternate(r.Runs, func() (float64, error) { return r.riverDrains(ctx) }, func() (float64, error) {
		return d.drain(ctx, drained, d.execute(noEffect(nil), ""))
	})
	return []series{s}, err
}

// replayed is the number of callbacks in a measurement of callbackRate.
const replayed = 5000

// callbackRate replays the callbacks of finished executions, so that only deliveries are measured.
func (r *rig) callbackRate(ctx context.Context) ([]series, error) {
	d, err := r.separateProcesses(ctx, 1, slots)
	if err != nil {
		return nil, err
	}
	receiver, err := newReceiver()
	if err != nil {
		return nil, err
	}
	defer receiver.close()
	delivered := receiver.expect(replayed)
	ids, err := d.submit(ctx, replayed, d.withCallback(receiver))
	if err != nil {
		return nil, err
	}
	if err := await(ctx, delivered, "the first deliveries"); err != nil {
		return nil, err
	}
	s, err := alternate(r.Runs, r.posts(ctx).measure(sample.rate), func() (float64, error) { return d.replay(ctx, ids, receiver) })
	return []series{s}, err
}

func (d *deployment) replay(ctx context.Context, ids []string, receiver *receiver) (float64, error) {
	// A delivery of the previous round that is not recorded yet would make a replay fail.
	err := d.until(ctx, "deliveries to be recorded", "SELECT NOT EXISTS (SELECT FROM callbacks WHERE state IN ('PENDING', 'QUEUED'))")
	if err != nil {
		return 0, err
	}
	release, err := d.hold(ctx, callback.Queue)
	if err != nil {
		return 0, err
	}
	const clients = 64
	wires, err := dialAll(ctx, d.addr, clients)
	if err != nil {
		return 0, err
	}
	defer closeAll(wires)
	delivered := receiver.expect(len(ids))
	err = times(ctx, clients, len(ids), func(_ context.Context, client, index int) error {
		target := "/v1/sdk/components/executions/" + ids[index] + "/replay-callback?force=true"
		_, err := wires[client].do(d.call(http.MethodPost, target, "").request())
		return err
	})
	if err != nil {
		return 0, err
	}
	began, err := release()
	if err != nil {
		return 0, err
	}
	if err := await(ctx, delivered, "deliveries"); err != nil {
		return 0, err
	}
	return float64(len(ids)) / receiver.lastAt().Sub(began).Seconds(), nil
}

func await(ctx context.Context, done <-chan struct{}, what string) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(2 * time.Minute):
		return fmt.Errorf("waited too long for %s", what)
	}
}

// twoWorkers compares two worker processes with one, with a CPU-bound and an I/O-bound component.
func (r *rig) twoWorkers(ctx context.Context) ([]series, error) {
	const few = 20 // slots, so that waiting limits a process
	hash := step{"HASH", `{"algorithm":"keccak256","data":"` + strings.Repeat("0123456789abcdef", 4<<10) + `"}`, "{}"}
	var results []series
	for _, c := range []struct {
		step     step
		n, slots int
	}{
		{hash, 3000, slots}, // enough for the start of a process not to matter
		{r.upstream.apiCall("/slow"), 600, few},
	} {
		with := func(workers int) func() (float64, error) {
			return func() (float64, error) {
				d, err := r.separateProcesses(ctx, workers, c.slots)
				if err != nil {
					return 0, err
				}
				return d.drain(ctx, c.n, d.execute(c.step, ""))
			}
		}
		s, err := alternate(r.Runs, with(1), with(2))
		if err != nil {
			return nil, err
		}
		results = append(results, s)
	}
	return results, nil
}
