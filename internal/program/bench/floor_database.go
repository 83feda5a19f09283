package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weft-automation/weft/internal/kit/uuid7"
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
			id, err := uuid7.New()
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
