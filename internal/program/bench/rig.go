package main

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

// rig is the environment of the measurements: a PostgreSQL, a folder, and the running processes of
// Weft.
type rig struct {
	Options
	dir     string
	server  *devdb.Server // nil if the PostgreSQL is not private
	base    string        // the server's address
	version string
	made    []string // databases created
	spawned int

	upstream *upstream
	floorDB  *pgxpool.Pool
	floorWeb *floorServer
	one      *deployment // the running one
}

func newRig(ctx context.Context, o Options) (_ *rig, err error) {
	r := &rig{Options: o}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	// The server's user must be able to enter the folder.
	if r.dir, err = os.MkdirTemp("", "weft-bench-"); err != nil {
		return nil, err
	}
	if err := os.Chmod(r.dir, 0o755); err != nil {
		return nil, err
	}
	if r.upstream, err = newUpstream(); err != nil {
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

// startPostgreSQL starts a private server with the settings of weft dev.
func (r *rig) startPostgreSQL(ctx context.Context) (err error) {
	r.logf("starting a private PostgreSQL in %s", r.dir)
	r.server, err = devdb.Start(ctx, devdb.Config{Dir: filepath.Join(r.dir, "postgres")})
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

// database creates an empty database and returns its address.
func (r *rig) database(ctx context.Context, purpose string) (string, error) {
	address, err := url.Parse(r.base)
	if err != nil || address.Scheme == "" {
		return "", errors.New("the database URL must have the form postgres://HOST/NAME")
	}
	conn, err := r.admin(ctx)
	if err != nil {
		return "", err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	name := fmt.Sprintf("weft_bench_%s_%d", purpose, time.Now().UnixNano())
	if _, err := conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()); err != nil {
		return "", fmt.Errorf("create database %s: %w", name, err)
	}
	r.made = append(r.made, name)
	address.Path = "/" + name
	return address.String(), nil
}

// stopServices stops all processes of Weft, for figures that need an otherwise idle machine.
func (r *rig) stopServices() {
	r.one.stop()
	r.one = nil
}

func (r *rig) close() {
	r.stopServices()
	if r.floorWeb != nil {
		r.floorWeb.stop()
	}
	if r.upstream != nil {
		_ = r.upstream.server.Close()
	}
	if r.floorDB != nil {
		r.floorDB.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if r.server != nil {
		if err := r.server.Stop(ctx); err != nil {
			r.logf("the private PostgreSQL did not stop cleanly: %v", err)
		}
	} else {
		r.dropDatabases(ctx)
	}
	if r.dir != "" {
		if err := os.RemoveAll(r.dir); err != nil {
			r.logf("the temporary folder was not removed: %v", err)
		}
	}
}

func (r *rig) dropDatabases(ctx context.Context) {
	if len(r.made) == 0 {
		return
	}
	conn, err := r.admin(ctx)
	if err != nil {
		r.logf("databases %v were not dropped: %v", r.made, err)
		return
	}
	defer conn.Close(ctx)
	for _, name := range r.made {
		if _, err := conn.Exec(ctx, "DROP DATABASE IF EXISTS "+pgx.Identifier{name}.Sanitize()+" WITH (FORCE)"); err != nil {
			r.logf("database %s was not dropped: %v", name, err)
		}
	}
}
