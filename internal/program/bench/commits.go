package main

import (
	"context"
	"fmt"
	"time"
)

// statsDelay is how late PostgreSQL may count a commit of a session that has become idle
// (PGSTAT_IDLE_INTERVAL, plus a second).
const statsDelay = 11 * time.Second

// inlineCommits counts commits under the load of P2.
func (r *rig) inlineCommits(ctx context.Context, d *deployment) ([]series, error) {
	return r.commitsOf(ctx, d, r.inlineLoad(ctx, d, 64, noEffect))
}

// commitsOfOneClient counts commits under the loads of P1 and P6.
func (r *rig) commitsOfOneClient(ctx context.Context, d *deployment) ([]series, error) {
	run, err := r.rowLoad(ctx, d, noEffect)
	if err != nil {
		return nil, err
	}
	return r.commitsOf(ctx, d, r.inlineLoad(ctx, d, 1, noEffect), run)
}

// commitsOf returns how many commits of the whole service each operation of the loads needs. The
// commits of an idle service in the same time are subtracted. A count is hardly noisy, so each load
// runs once.
func (r *rig) commitsOf(ctx context.Context, d *deployment, loads ...load) ([]series, error) {
	if _, err := d.committed(ctx); err != nil {
		return nil, err
	}
	idle, err := d.committed(ctx)
	if err != nil {
		return nil, err
	}
	var results []series
	for _, l := range loads {
		s, err := l()
		if err != nil {
			return nil, err
		}
		all, err := d.committed(ctx)
		if err != nil {
			return nil, err
		}
		idled := idle * (statsDelay + s.elapsed).Seconds() / statsDelay.Seconds()
		results = append(results, series{ours: []float64{(all - idled) / float64(s.count)}})
	}
	return results, nil
}

// committed returns the number of commits since its last call, the counting of which takes statsDelay.
func (d *deployment) committed(ctx context.Context) (float64, error) {
	if err := pause(ctx, statsDelay); err != nil {
		return 0, err
	}
	var total float64
	err := d.pool.QueryRow(ctx, "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()").Scan(&total)
	if err != nil {
		return 0, fmt.Errorf("count commits: %w", err)
	}
	defer func() { d.commits = total }()
	return total - d.commits, nil
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
