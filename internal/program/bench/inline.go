package bench

import (
	"bytes"
	"context"
	"fmt"
	"time"
)

// inline returns a request that waits for its result.
func (d *deployment) inline() *call {
	return d.execute("RANDOM_UUID", "{}", "{}", `,"waitForMs":15000`)
}

// completed checks that the response contains the result.
func completed(answer []byte) error {
	if !bytes.Contains(answer, []byte(`"completed":true`)) {
		return fmt.Errorf("an inline execution did not complete: %s", answer)
	}
	return nil
}

func (r *rig) inlineLoad(ctx context.Context, d *deployment, clients int) (sample, error) {
	request := d.inline()
	return r.load(ctx, d.addr, clients, func(int) *call { return request }, completed)
}

func (r *rig) inlineLatency(ctx context.Context) ([]Result, error) {
	d, err := r.singleProcess(ctx)
	if err != nil {
		return nil, err
	}
	cost := &meter{rig: r, d: d}
	floor, ours, err := alternate(r.Runs, p50Of(func() (sample, error) { return r.commits(ctx, 1, false) }),
		p50Of(cost.around(func() (sample, error) { return r.inlineLoad(ctx, d, 1) })))
	if err != nil {
		return nil, err
	}
	return []Result{Figure{
		ID: "P1", Name: "RANDOM_UUID inline, 1 client: p50", Unit: "ms", Floor: "one commit, p50",
		Better: Lower, First: 18, Goal: 5,
	}.result(floor, ours).with(cost.String())}, nil
}

func (r *rig) inlineRate(ctx context.Context) ([]Result, error) {
	d, err := r.singleProcess(ctx)
	if err != nil {
		return nil, err
	}
	cost := &meter{rig: r, d: d}
	floor, ours, err := alternate(r.Runs, rateOf(func() (sample, error) { return r.commits(ctx, 64, true) }),
		rateOf(cost.around(func() (sample, error) { return r.inlineLoad(ctx, d, 64) })))
	if err != nil {
		return nil, err
	}
	return []Result{Figure{
		ID: "P2", Name: "RANDOM_UUID inline, 64 clients", Unit: "/s", Floor: "two commits at 64",
		Better: Higher, First: 0.08, Goal: 0.60,
	}.result(floor, ours).with(cost.String())}, nil
}

func p50Of(measure func() (sample, error)) func() (float64, error) {
	return func() (float64, error) {
		s, err := measure()
		return s.p50(), err
	}
}

func rateOf(measure func() (sample, error)) func() (float64, error) {
	return func() (float64, error) {
		s, err := measure()
		return s.rate(), err
	}
}

// statsDelay is how late PostgreSQL may count a commit of a session that has become idle
// (PGSTAT_IDLE_INTERVAL, plus a second).
const statsDelay = 11 * time.Second

// inlineCommits counts the commits of the whole service under the load of P2, less those of an idle
// service.
func (r *rig) inlineCommits(ctx context.Context) ([]Result, error) {
	d, err := r.singleProcess(ctx)
	if err != nil {
		return nil, err
	}
	counts := make([]float64, 0, 3)
	var s sample
	for step := range 3 {
		if step == 2 {
			if s, err = r.inlineLoad(ctx, d, 64); err != nil {
				return nil, err
			}
		}
		if err := pause(ctx, statsDelay); err != nil {
			return nil, err
		}
		var commits float64
		err := d.pool.QueryRow(ctx, "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()").Scan(&commits)
		if err != nil {
			return nil, fmt.Errorf("count commits: %w", err)
		}
		counts = append(counts, commits)
	}
	idle := (counts[1] - counts[0]) / statsDelay.Seconds()
	made := counts[2] - counts[1] - idle*(statsDelay+s.elapsed).Seconds()
	return []Result{Figure{
		ID: "P15", Name: "PostgreSQL commits for each inline execution, 64 clients", Unit: "commits",
		Better: Lower, First: 4, Goal: 0.20,
	}.result(nil, []float64{made / float64(s.count)})}, nil
}

func pause(ctx context.Context, length time.Duration) error {
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (r *rig) submitRate(ctx context.Context) ([]Result, error) {
	d, err := r.singleProcess(ctx)
	if err != nil {
		return nil, err
	}
	cost := &meter{rig: r, d: d}
	floor, ours, err := alternate(r.Runs, rateOf(func() (sample, error) { return r.commits(ctx, 64, false) }), rateOf(cost.around(r.submitting(ctx, d))))
	if err != nil {
		return nil, err
	}
	return []Result{Figure{
		ID: "P3", Name: "submit without waiting, 64 clients", Unit: "/s", Floor: "one commit at 64",
		Better: Higher, First: 0.10, Goal: 0.40,
	}.result(floor, ours).with(cost.String() + ", its run included")}, nil
}

// submitting returns the load of P3. Each run waits until all accepted executions have finished, so
// that they don't disturb the next measurement.
func (r *rig) submitting(ctx context.Context, d *deployment) func() (sample, error) {
	request := d.execute("RANDOM_UUID", "{}", "{}", "")
	return func() (sample, error) {
		s, err := r.load(ctx, d.addr, 64, func(int) *call { return request }, nil)
		if err != nil {
			return s, err
		}
		return s, d.settled(ctx)
	}
}

func (r *rig) readRate(ctx context.Context) ([]Result, error) {
	d, err := r.singleProcess(ctx)
	if err != nil {
		return nil, err
	}
	cost := &meter{rig: r, d: d}
	floor, ours, err := alternate(r.Runs, rateOf(func() (sample, error) { return r.echoes(ctx, 64) }), rateOf(cost.around(r.reading(ctx, d))))
	if err != nil {
		return nil, err
	}
	catalogue := d.call("GET", "/v1/sdk/components/RANDOM_UUID", "")
	bare, err := r.load(ctx, d.addr, 64, func(int) *call { return catalogue }, nil)
	if err != nil {
		return nil, err
	}
	return []Result{Figure{
		ID: "P10", Name: "signed GET of an execution, 64 clients", Unit: "/s", Floor: "signed echo without a database",
		Better: Higher, First: 0.30, Goal: 0.70,
	}.result(floor, ours).with(fmt.Sprintf(
		"the same service answers %s/s signed GETs of a catalogue entry, which need no database; %s", number(bare.rate()), cost))}, nil
}

// reading returns a load that reads executions one after the other, so that caching one row does
// not help.
func (r *rig) reading(ctx context.Context, d *deployment) func() (sample, error) {
	var requests []*call
	return func() (sample, error) {
		if requests == nil {
			ids, err := d.submit(ctx, 1000, d.inline())
			if err != nil {
				return sample{}, err
			}
			for _, id := range ids {
				requests = append(requests, d.call("GET", "/v1/sdk/components/executions/"+id, ""))
			}
		}
		return r.load(ctx, d.addr, 64, func(n int) *call { return requests[n%len(requests)] }, nil)
	}
}
