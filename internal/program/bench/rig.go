package bench

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weft-automation/weft/internal/local/devdb"
)

// rig is what the measurements stand on: a PostgreSQL, a folder, and the
// processes of Weft that are running now.
type rig struct {
	Options
	dir     string
	server  *devdb.Server // nil when the PostgreSQL is somebody else's
	base    string        // its address
	version string
	made    []string // databases
	spawned int

	floorDB  *pgxpool.Pool
	floorWeb *floorServer
	one      *deployment // API and workers in one process
	split    *deployment // an API process, workers apart
}

func newRig(ctx context.Context, o Options) (_ *rig, err error) {
	r := &rig{Options: o}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	if o.Profile != "" {
		if err := os.MkdirAll(o.Profile, 0o755); err != nil {
			return nil, err
		}
	}
	// The server's own account must reach its folder.
	if r.dir, err = os.MkdirTemp("", "weft-bench-"); err != nil {
		return nil, err
	}
	if err := os.Chmod(r.dir, 0o755); err != nil {
		return nil, err
	}
	if r.base = o.DatabaseURL; r.base == "" {
		if err := r.startPostgreSQL(ctx); err != nil {
			return nil, err
		}
	}
	conn, err := r.admin(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if err := conn.QueryRow(ctx, "SHOW server_version").Scan(&r.version); err != nil {
		return nil, fmt.Errorf("ask PostgreSQL for its version: %w", err)
	}
	return r, nil
}

// startPostgreSQL starts a private server with the settings of weft dev. It
// also keeps commit times, which P9 and P16 are measured by.
func (r *rig) startPostgreSQL(ctx context.Context) (err error) {
	r.say("starting a private PostgreSQL in %s", r.dir)
	r.server, err = devdb.Start(ctx, devdb.Config{
		Dir: filepath.Join(r.dir, "postgres"), Settings: map[string]string{"track_commit_timestamp": "on"},
	})
	if err != nil {
		return fmt.Errorf("start the private PostgreSQL: %w", err)
	}
	r.base = r.server.DSN("postgres")
	return nil
}

func (r *rig) admin(ctx context.Context) (*pgx.Conn, error) {
	conn, err := pgx.Connect(ctx, r.base)
	if err != nil {
		return nil, fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	return conn, nil
}

// database makes an empty database and gives its address.
func (r *rig) database(ctx context.Context, purpose string) (string, error) {
	address, err := url.Parse(r.base)
	if err != nil || address.Scheme == "" {
		return "", errors.New("the address of the database must be of the form postgres://HOST/NAME")
	}
	conn, err := r.admin(ctx)
	if err != nil {
		return "", err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	name := fmt.Sprintf("weft_bench_%s_%d", purpose, time.Now().UnixNano())
	if _, err := conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()); err != nil {
		return "", fmt.Errorf("make database %s: %w", name, err)
	}
	r.made = append(r.made, name)
	address.Path = "/" + name
	return address.String(), nil
}

// quiet stops every process of Weft, for figures that need the machine alone.
func (r *rig) quiet() {
	r.one.stop()
	r.split.stop()
	r.one, r.split = nil, nil
}

func (r *rig) close() {
	r.quiet()
	if r.floorWeb != nil {
		r.floorWeb.stop()
	}
	if r.floorDB != nil {
		r.floorDB.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if r.server != nil {
		if err := r.server.Stop(ctx); err != nil {
			r.say("the private PostgreSQL did not stop in order: %v", err)
		}
	} else {
		r.dropDatabases(ctx)
	}
	if r.dir != "" {
		if err := os.RemoveAll(r.dir); err != nil {
			r.say("the temporary folder stays: %v", err)
		}
	}
}

func (r *rig) dropDatabases(ctx context.Context) {
	if len(r.made) == 0 {
		return
	}
	conn, err := r.admin(ctx)
	if err != nil {
		r.say("databases stay: %v: %v", r.made, err)
		return
	}
	defer conn.Close(ctx)
	for _, name := range r.made {
		if _, err := conn.Exec(ctx, "DROP DATABASE IF EXISTS "+pgx.Identifier{name}.Sanitize()+" WITH (FORCE)"); err != nil {
			r.say("database %s stays: %v", name, err)
		}
	}
}
