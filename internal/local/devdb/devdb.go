//go:build linux

// Package devdb runs the private PostgreSQL of `weft dev` and of the tests: it finds the binaries,
// creates the data folder, starts the server on a Unix socket and stops it.
//
// It knows nothing of Weft's schema or migrations. The one invariant: at most one server serves a
// folder, and it never outlives the process that started it, however that process ends. The data
// folder is never half made: it is renamed into place once it is complete.
package devdb

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/internal/local/sidecar"
)

// superuser is the role that initdb makes; the socket's folder mode is what
// keeps others out.
const superuser = "postgres"

// How PostgreSQL is told to shut down.
const (
	fast      = syscall.SIGINT  // open transactions are rolled back
	immediate = syscall.SIGQUIT // the next start recovers
)

// Config says where the server lives and how careful it is.
type Config struct {
	// Dir is the server's own folder (made if absent): data, lock, log and, if
	// its path is short enough, the socket.
	Dir string
	// Volatile trades durability for speed: tests only.
	Volatile bool
	// Settings are added to the server's own, and win over them.
	Settings map[string]string
	// Log hears what takes long or is surprising; nil is silent.
	Log *slog.Logger

	search *search // tests stand in for the machine's PostgreSQL
}

// Server is a running PostgreSQL. It belongs to the process that started it.
type Server struct {
	home   *folder
	socket string
	proc   *sidecar.Process
	log    *slog.Logger
}

// Start brings up the PostgreSQL of cfg.Dir and returns once it takes
// connections.
//
// Out: a server that must be stopped. Errors are texts for a person: no
// PostgreSQL to be found, the folder in use or of another version, the server's
// own last words.
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

// start goes from a locked folder to a server that answers.
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
	for name, value := range settings(cfg, bin) {
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
		proc.End(cleanup, fast, immediate)
		return nil, err
	}
	return server, nil
}

// settings are given on each start rather than kept in the folder, so that an
// old folder runs like a new one.
func settings(cfg Config, bin string) map[string]string {
	all := map[string]string{
		"listen_addresses":                    "",
		"unix_socket_permissions":             "0700",
		"cluster_name":                        "weft",
		"timezone":                            "UTC",
		"log_timezone":                        "UTC",
		"log_destination":                     "stderr",
		"logging_collector":                   "off",
		"max_connections":                     "200",
		"shared_buffers":                      "256MB",
		"max_wal_size":                        "4GB",
		"wal_compression":                     compression(bin),
		"checkpoint_timeout":                  "15min",
		"random_page_cost":                    "1.1",
		"jit":                                 "off", // its compile time exceeds our queries' run time
		"max_parallel_workers_per_gather":     "0",   // and /dev/shm is small in containers
		"max_locks_per_transaction":           "128", // partitions take one each
		"autovacuum_naptime":                  "15s", // queue tables die fast
		"autovacuum_vacuum_scale_factor":      "0.05",
		"idle_in_transaction_session_timeout": "60s",
		"fsync":                               "on",
	}
	if cfg.Volatile {
		all["fsync"], all["synchronous_commit"], all["full_page_writes"] = "off", "off", "off"
		all["wal_level"], all["max_wal_senders"] = "minimal", "0"
		all["max_connections"], all["shared_buffers"] = "400", "128MB"
	}
	for name, value := range cfg.Settings {
		all[name] = value
	}
	return all
}

// compression is the quickest that the server was built with: an unknown one
// would stop its start.
func compression(bin string) string {
	program, err := elf.Open(filepath.Join(bin, "postgres"))
	if err != nil {
		return "on"
	}
	defer program.Close()
	libraries, err := program.ImportedLibraries()
	if err == nil && slices.ContainsFunc(libraries, func(name string) bool { return strings.HasPrefix(name, "liblz4") }) {
		return "lz4"
	}
	return "on"
}

// DSN is the connection string of one of the server's databases, for the
// superuser.
func (s *Server) DSN(database string) string { return dsnOf(s.socket, database) }

// Done is closed when the server has ended, asked or unasked.
func (s *Server) Done() <-chan struct{} { return s.proc.Done() }

// Pid is the process id of the postmaster.
func (s *Server) Pid() int { return s.proc.Pid() }

// CreateDatabase makes a database unless it is there.
func (s *Server) CreateDatabase(ctx context.Context, name string) error {
	conn, err := pgx.Connect(ctx, s.DSN("postgres"))
	if err != nil {
		return fmt.Errorf("connect to the private PostgreSQL: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var exists bool
	if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", name).Scan(&exists); err != nil {
		return fmt.Errorf("look for database %s: %w", name, err)
	}
	if exists {
		return nil
	}
	if _, err := conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()); err != nil {
		return fmt.Errorf("create database %s: %w", name, err)
	}
	return nil
}

// Stop ends the server: open transactions are rolled back, data is flushed. When
// ctx ends first, the server is cut off, which costs the next start a recovery
// and no data.
func (s *Server) Stop(ctx context.Context) error {
	s.proc.End(ctx, fast, immediate)
	if s.socket != s.home.dir {
		os.Remove(s.socket)
	}
	return s.home.unlock()
}

// awaitReady returns once the server takes connections, which after a crash includes
// its recovery. It asks nothing of the server, which says so in its own file.
func (s *Server) awaitReady(ctx context.Context) error {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		if status, err := os.ReadFile(filepath.Join(s.home.data(), "postmaster.pid")); err == nil && says(status, "ready") {
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

// says reports whether the last line of postmaster.pid is a status.
func says(pidFile []byte, status string) bool {
	lines := bytes.Split(bytes.TrimSpace(pidFile), []byte("\n"))
	return len(lines) == statusLine && string(bytes.TrimSpace(lines[statusLine-1])) == status
}

// statusLine is how many lines postmaster.pid has once the last, its status, is there.
const statusLine = 8
