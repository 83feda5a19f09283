package main

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/weft-automation/weft/internal/platform/postgres"
)

// floorPool returns a pool on the floor's own database, opened at the first call.
func (r *rig) floorPool(ctx context.Context) (*pgxpool.Pool, error) {
	if r.floorDB != nil {
		return r.floorDB, nil
	}
	dsn, err := r.database(ctx, "floor")
	if err != nil {
		return nil, err
	}
	pool, err := postgres.Open(ctx, dsn, "bench", postgres.Owner, 80)
	if err != nil {
		return nil, err
	}
	if _, err := pool.Exec(ctx, "CREATE TABLE rows (id uuid PRIMARY KEY, status text NOT NULL, body json)"); err != nil {
		pool.Close()
		return nil, fmt.Errorf("prepare the floor: %w", err)
	}
	r.floorDB = pool
	return pool, nil
}

const floorBody = `{"module":"RANDOM_UUID","input":{},"config":{}}`

// commits returns a load of the bare database: each client inserts a row and commits, and with two
// also updates it in a second commit.
func (r *rig) commits(ctx context.Context, clients int, two bool) load {
	return func() (sample, error) {
		pool, err := r.floorPool(ctx)
		if err != nil {
			return sample{}, err
		}
		conns := make([]*pgxpool.Conn, clients)
		for i := range conns {
			if conns[i], err = pool.Acquire(ctx); err != nil {
				return sample{}, err
			}
			defer conns[i].Release()
		}
		return closedLoop(ctx, clients, r.Length, func(ctx context.Context, client int) error {
			id, err := uuid.NewV7()
			if err != nil {
				return err
			}
			if _, err := conns[client].Exec(ctx, "INSERT INTO rows (id, status, body) VALUES ($1, 'CREATED', $2)", id, floorBody); err != nil || !two {
				return err
			}
			_, err = conns[client].Exec(ctx, "UPDATE rows SET status = 'COMPLETED' WHERE id = $1", id)
			return err
		})
	}
}

// noop is a job that does nothing.
type noop struct {
	Number int `json:"number"`
}

// Kind is the job's name in the queue.
func (noop) Kind() string { return "noop" }

const drained = 20_000 // jobs or executions in one measurement

// riverDrains measures how fast River completes queued no-op jobs, from its start to the last
// completion.
func (r *rig) riverDrains(ctx context.Context) (float64, error) {
	pool, err := r.floorPool(ctx)
	if err != nil {
		return 0, err
	}
	client, ended, err := riverOfNoops(ctx, pool)
	if err != nil {
		return 0, err
	}
	const batch = 5000
	for first := 0; first < drained; first += batch {
		jobs := make([]river.InsertManyParams, batch)
		for i := range jobs {
			jobs[i].Args = noop{Number: first + i}
		}
		if _, err := client.InsertManyFast(ctx, jobs); err != nil {
			return 0, fmt.Errorf("insert no-op jobs: %w", err)
		}
	}
	began := time.Now()
	if err := client.Start(ctx); err != nil {
		return 0, fmt.Errorf("start River: %w", err)
	}
	defer client.Stop(context.WithoutCancel(ctx)) //nolint:errcheck // no jobs are left
	for range drained {
		select {
		case <-ended:
		case <-time.After(time.Minute):
			return 0, fmt.Errorf("the queue did not drain %d no-op jobs", drained)
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	return drained / time.Since(began).Seconds(), nil
}

func riverOfNoops(ctx context.Context, pool *pgxpool.Pool) (*river.Client[pgx.Tx], <-chan *river.Event, error) {
	driver := riverpgxv5.New(pool)
	migrator, err := rivermigrate.New(driver, nil)
	if err != nil {
		return nil, nil, err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return nil, nil, fmt.Errorf("migrate the floor's queue: %w", err)
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(context.Context, *river.Job[noop]) error { return nil }))
	client, err := river.NewClient(driver, &river.Config{
		Workers: workers, Logger: silent,
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 1000, FetchCooldown: time.Millisecond}},
	})
	if err != nil {
		return nil, nil, fmt.Errorf("create the floor's queue: %w", err)
	}
	ended, _ := client.SubscribeConfig(&river.SubscribeConfig{
		Kinds: []river.EventKind{river.EventKindJobCompleted}, ChanSize: 2 * drained,
	})
	return client, ended, nil
}
