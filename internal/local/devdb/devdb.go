//go:build linux

// Package devdb runs the private PostgreSQL of `weft dev` and of the tests: it finds the programs,
// creates the data folder, starts the server on a Unix socket and stops it.
//
// Package devdb does not depend on Weft's schema and migrations. Invariant: At most one server
// serves a folder, and the server stops with the process that started it, even if that process is
// killed. The data folder is never incomplete: a new one is renamed into place once it is complete.
package devdb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/internal/local/sidecar"
)

// superuser is the role that initdb creates. The mode of the socket's folder keeps other users out.
const superuser = "postgres"

// The signals that shut down PostgreSQL.
const (
	fast      = syscall.SIGINT  // rolls back open transactions
	immediate = syscall.SIGQUIT // the next start recovers
)

// Config holds the settings of a server.
type Config struct {
	// Dir is the server's folder, with data, lock, log and, if its path is short enough, the
	// socket. Start creates the folder if necessary.
	Dir string
	// Volatile trades durability for speed. Only tests set it.
	Volatile bool
	// Settings are added to the default settings and override them.
	Settings map[string]string
	// Log receives warnings and slow steps; nil discards them.
	Log *slog.Logger

	search *search // tests replace the search for PostgreSQL
}

// Server is a running PostgreSQL. It stops with the process that started it.
type Server struct {
	home   *folder
	socket string
	proc   *sidecar.Process
	log    *slog.Logger
}

// Start starts the PostgreSQL in cfg.Dir and returns once it accepts connections.
//
// The caller must stop the server. Errors are meant for the user: they say that PostgreSQL is
// missing, or that the folder is in use or of a different version, or contain the last lines of the
// server's log.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.search == nil {
		cfg.search = machine(cfg.Log)
	}
	home, err := openFolder(cfg.Dir, cfg.Log)
	if err != nil {
		return nil, err
	}
	server, err := home.start(ctx, cfg)
	if err != nil {
		return nil, errors.Join(err, home.unlock())
	}
	return server, nil
}

// start starts a server that accepts connections, in a locked folder.
func (f *folder) start(ctx context.Context, cfg Config) (*Server, error) {
	version, err := f.version()
	if err != nil {
		return nil, err
	}
	bin, err := cfg.search.find(ctx, version, f.account)
	if err != nil {
		return nil, err
	}
	if version == 0 {
		if err := f.initialise(ctx, bin, cfg.Volatile); err != nil {
			return nil, err
		}
	}
	if err := f.clearLeftovers(ctx); err != nil {
		return nil, err
	}
	socket, err := f.socketFolder()
	if err != nil {
		return nil, err
	}
	args := []string{"-D", f.data(), "-k", socket}
	for name, value := range settings(cfg) {
		args = append(args, "-c", name+"="+value)
	}
	proc, err := f.spawn(filepath.Join(bin, "postgres"), args, fast)
	if err != nil {
		return nil, err
	}
	server := &Server{home: f, socket: socket, proc: proc, log: cfg.Log}
	if err := server.awaitReady(ctx); err != nil {
		cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		proc.Stop(cleanup, fast, immediate)
		return nil, err
	}
	return server, nil
}

// settings returns the server's settings. They are passed at each start rather than stored, so that
// old folders get new settings too.
//
// Everything else has PostgreSQL's default, as on a server that Weft does not own: a setting that
// speeds Weft up here would hide that Weft is slow there. What Weft needs, its sessions set
// (platform/postgres).
func settings(cfg Config) map[string]string {
	all := map[string]string{
		// The server is private, and this process owns its output.
		"listen_addresses":        "",
		"unix_socket_permissions": "0700",
		"cluster_name":            "weft",
		"log_timezone":            "UTC",
		"log_destination":         "stderr",
		"logging_collector":       "off",
		// Several processes of Weft may use the server. The README lists the connections of each.
		"max_connections": "200",
	}
	if cfg.Volatile { // only for the speed of tests, of which hundreds share a server
		all["fsync"], all["synchronous_commit"], all["full_page_writes"] = "off", "off", "off"
		all["wal_level"], all["max_wal_senders"] = "minimal", "0"
		all["max_connections"] = "400"
	}
	for name, value := range cfg.Settings {
		all[name] = value
	}
	return all
}

// DSN returns the connection string of a database, as the superuser.
func (s *Server) DSN(database string) string { return dsnOf(s.socket, database) }

// Done returns a channel that is closed once the server has exited.
func (s *Server) Done() <-chan struct{} { return s.proc.Done() }

// Pid returns the process ID of the postmaster.
func (s *Server) Pid() int { return s.proc.Pid() }

// CreateDatabase creates a database if it does not exist.
func (s *Server) CreateDatabase(ctx context.Context, name string) error {
	conn, err := pgx.Connect(ctx, s.DSN("postgres"))
	if err != nil {
		return fmt.Errorf("connect to the private PostgreSQL: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var exists bool
	if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", name).Scan(&exists); err != nil {
		return fmt.Errorf("check for database %s: %w", name, err)
	}
	if exists {
		return nil
	}
	if _, err := conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()); err != nil {
		return fmt.Errorf("create database %s: %w", name, err)
	}
	return nil
}

// Stop stops the server: the server rolls back open transactions and flushes its data. If ctx is
// done before the server has exited, Stop kills the server. The next start then recovers, and no
// data is lost.
func (s *Server) Stop(ctx context.Context) error {
	s.proc.Stop(ctx, fast, immediate)
	if s.socket != s.home.dir {
		os.Remove(s.socket)
	}
	return s.home.unlock()
}

// awaitReady waits until the server accepts connections, including recovery after a crash. It reads
// the server's status file instead of connecting.
func (s *Server) awaitReady(ctx context.Context) error {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		if status, err := os.ReadFile(filepath.Join(s.home.data(), "postmaster.pid")); err == nil && hasStatus(status, "ready") {
			return nil
		}
		select {
		case <-s.proc.Done():
			return fmt.Errorf("PostgreSQL did not start; the end of %s:\n%s", logFile(s.home.dir), logTail(s.home.dir))
		case <-ctx.Done():
			return fmt.Errorf("PostgreSQL did not become ready: %w", ctx.Err())
		case <-tick.C:
		}
	}
}

// hasStatus reports whether the last line of postmaster.pid is the given status.
func hasStatus(pidFile []byte, status string) bool {
	lines := bytes.Split(bytes.TrimSpace(pidFile), []byte("\n"))
	return len(lines) == statusLine && string(bytes.TrimSpace(lines[statusLine-1])) == status
}

// statusLine is the number of the line of postmaster.pid that contains the status. It is the last
// line written.
const statusLine = 8
