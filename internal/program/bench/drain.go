package bench

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

func (r *rig) drainRate(ctx context.Context) ([]Result, error) {
	d, err := r.separateProcesses(ctx, 1, slots)
	if err != nil {
		return nil, err
	}
	request := d.execute("RANDOM_UUID", "{}", "{}", "")
	floor, ours, err := alternate(r.Runs, func() (float64, error) { return r.riverDrains(ctx) }, func() (float64, error) {
		return d.drain(ctx, drained, request)
	})
	if err != nil {
		return nil, err
	}
	return []Result{Figure{
		ID: "P4", Name: "draining 20,000 queued executions, one worker process", Unit: "/s", Floor: "River draining no-op jobs",
		Better: Higher, First: 0.05, Goal: 0.40,
	}.result(floor, ours)}, nil
}

// callbackRate replays the callbacks of finished executions, so that only deliveries are measured.
func (r *rig) callbackRate(ctx context.Context) ([]Result, error) {
	const n = 5000
	d, err := r.separateProcesses(ctx, 1, slots)
	if err != nil {
		return nil, err
	}
	receiver, err := newReceiver()
	if err != nil {
		return nil, err
	}
	defer receiver.close()
	delivered := receiver.expect(n)
	ids, err := d.submit(ctx, n, d.withCallback(receiver))
	if err != nil {
		return nil, err
	}
	if err := await(ctx, delivered, "the first deliveries"); err != nil {
		return nil, err
	}
	floor, ours, err := alternate(r.Runs, rateOf(func() (sample, error) { return r.posts(ctx) }), func() (float64, error) {
		return d.replay(ctx, ids, receiver)
	})
	if err != nil {
		return nil, err
	}
	return []Result{Figure{
		ID: "P5", Name: "callbacks delivered, one worker process", Unit: "/s", Floor: "signed POSTs by Go's client",
		Better: Higher, First: 0.15, Goal: 0.50,
	}.result(floor, ours).with(fmt.Sprintf("%d forced replays queued while the queue was paused", n))}, nil
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

// twoWorkers compares two worker processes with one.
func (r *rig) twoWorkers(ctx context.Context) ([]Result, error) {
	upstream, err := newUpstream()
	if err != nil {
		return nil, err
	}
	defer upstream.close()
	const few = 20    // slots, so that waiting limits a process
	const busy = 3000 // executions: enough for the start of a process not to matter
	cases := []struct {
		figure Figure
		n      int
		slots  int
		body   func(d *deployment) *call
	}{
		{Figure{ID: "P13a", Name: "two workers, CPU-bound (HASH of 64 KiB), against one", First: 0.95, Goal: 0.95}, busy, slots,
			func(d *deployment) *call {
				input := `{"algorithm":"keccak256","data":"` + strings.Repeat("0123456789abcdef", 4<<10) + `"}`
				return d.execute("HASH", input, "{}", "")
			}},
		{Figure{ID: "P13b", Name: "two workers, I/O-bound (API_CALL of 100 ms), against one", First: 1.6, Goal: 1.9}, 600, few,
			func(d *deployment) *call {
				return d.execute("API_CALL", `{"headers":{}}`, `{"method":"GET","apiUrl":"`+upstream.slowURL()+`"}`, "")
			}},
	}
	var results []Result
	for _, c := range cases {
		with := func(workers int) func() (float64, error) {
			return func() (float64, error) {
				d, err := r.separateProcesses(ctx, workers, c.slots)
				if err != nil {
					return 0, err
				}
				return d.drain(ctx, c.n, c.body(d))
			}
		}
		one, two, err := alternate(r.Runs, with(1), with(2))
		if err != nil {
			return results, err
		}
		c.figure.Unit, c.figure.Floor, c.figure.Better = "/s", "one worker process", Higher
		results = append(results, c.figure.result(one, two))
	}
	return results, nil
}
