package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weft-automation/weft/internal/devdb"
	"github.com/weft-automation/weft/internal/postgres"
)

// database is which database a command of the server's side works on.
type database struct {
	DatabaseURL string `name:"database-url" placeholder:"URL" default:"${database_url}" help:"PostgreSQL of the service ($$DATABASE_URL)."`
	DataDir     string `name:"data-dir" placeholder:"DIR" default:"${data_dir}" help:"Data folder of weft dev, whose private PostgreSQL is used when there is no URL (${default})."`
}

// privateDatabase is the name of the database of weft dev.
const privateDatabase = "weft"

func (d database) privateFolder() string { return filepath.Join(d.DataDir, "postgres") }

// open gives a pool on a database with the right schema. A private PostgreSQL
// that nobody runs is started, and stopped by done.
func (d database) open(ctx context.Context) (pool *pgxpool.Pool, done func(), err error) {
	dsn, stop, err := d.dsn(ctx)
	if err != nil {
		return nil, nil, err
	}
	pool, err = postgres.Open(ctx, dsn, "cli", postgres.Owner, 2)
	if err != nil {
		stop()
		return nil, nil, err
	}
	if err := postgres.CheckSchema(ctx, pool); err != nil {
		pool.Close()
		stop()
		return nil, nil, err
	}
	return pool, func() { pool.Close(); stop() }, nil
}

func (d database) dsn(ctx context.Context) (dsn string, stop func(), err error) {
	if d.DatabaseURL != "" {
		return d.DatabaseURL, func() {}, nil
	}
	if dsn, ok := devdb.Running(d.privateFolder(), privateDatabase); ok {
		return dsn, func() {}, nil
	}
	if _, err := os.Stat(d.privateFolder()); errors.Is(err, fs.ErrNotExist) {
		return "", nil, fmt.Errorf("there is no database: set DATABASE_URL, or name the data folder of a `weft dev` with --data-dir (%s holds none)", d.DataDir)
	}
	server, err := devdb.Start(ctx, devdb.Config{Dir: d.privateFolder()})
	if err != nil {
		return "", nil, fmt.Errorf("start the private PostgreSQL: %w", err)
	}
	return server.DSN(privateDatabase), func() {
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
		defer cancel()
		_ = server.Stop(ctx) // a server that was cut off recovers at its next start
	}, nil
}
