package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/local/devdb"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// database selects the database of commands that work on the server's side.
type database struct {
	configured
	DatabaseURL string `name:"database-url" placeholder:"URL" default:"${database_url}" help:"PostgreSQL of the service ($$DATABASE_URL)."`
	DataDir     string `name:"data-dir" placeholder:"DIR" default:"${data_dir}" help:"Data folder of weft dev. Without a database URL, the private PostgreSQL in this folder is used (${default})."`
}

// privateDatabase is the name of weft dev's database.
const privateDatabase = "weft"

func (d database) privateFolder() string { return filepath.Join(d.DataDir, "postgres") }

// open returns a pool on a database with the correct schema. If a private PostgreSQL is not
// running, open starts it, and done stops it.
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
		return "", nil, fmt.Errorf("no database found: set DATABASE_URL, or set --data-dir to the data folder of a `weft dev` (%s contains none)", d.DataDir)
	}
	server, err := devdb.Start(ctx, devdb.Config{Dir: d.privateFolder()})
	if err != nil {
		return "", nil, fmt.Errorf("start the private PostgreSQL: %w", err)
	}
	return server.DSN(privateDatabase), func() {
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
		defer cancel()
		_ = server.Stop(ctx) // a killed server recovers at its next start
	}, nil
}

// noWorkspace is the error for an unknown workspace name or ID.
type noWorkspace string

func (n noWorkspace) Error() string { return fmt.Sprintf("workspace %q not found", string(n)) }

// findWorkspace returns the ID of the workspace with that name or ID. It returns noWorkspace if the
// workspace does not exist.
func findWorkspace(ctx context.Context, conn postgres.DB, nameOrID string) (uuid.UUID, error) {
	row, err := db.New().WorkspaceGetByName(ctx, conn, nameOrID)
	if err == nil {
		return row.ID, nil
	}
	if id, malformed := uuid.Parse(nameOrID); postgres.NotFound(err) && malformed == nil {
		if _, err = db.New().WorkspaceGet(ctx, conn, id); err == nil {
			return id, nil
		}
	}
	if postgres.NotFound(err) {
		return uuid.Nil, noWorkspace(nameOrID)
	}
	return uuid.Nil, fmt.Errorf("find workspace %q: %w", nameOrID, err)
}
