// Package postgres connects to PostgreSQL: it opens pools, applies migrations, defines the
// interface DB and interprets errors.
//
// It doesn't depend on the domain. A session from Open or Connect has the role, the time zone
// and the timeouts of this package, even through a connection pooler.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	pgxuuid "github.com/vgarvardt/pgx-google-uuid/v5"

	"github.com/weft-automation/weft/internal/kit/wait"
)

// DB is the part of the database that services need. *pgxpool.Pool and pgx.Tx implement it, so a
// whole service can run inside one transaction.
type DB interface {
	Begin(ctx context.Context) (pgx.Tx, error)
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

var (
	_ DB = (*pgxpool.Pool)(nil)
	_ DB = (pgx.Tx)(nil)
)

// Role is the database role of a pool's sessions. Migrations set the rights of the roles.
type Role string

// The roles.
const (
	Owner  Role = ""            // of the tables: migrations, tests
	API    Role = "weft_api"    // requests: only the rows of the workspaces in the Scope
	System Role = "weft_system" // the engine and the upkeep: rows of all workspaces
)

// Open returns a pool of at most maxConns connections (0: the default of pgxpool) whose
// sessions have the given role. name is the part of the service that uses the pool; it
// appears in application_name. The pool uses only sessions that every gate admits. Open doesn't
// connect yet.
func Open(ctx context.Context, dsn, name string, role Role, maxConns int32, gates ...Gate) (*pgxpool.Pool, error) {
	return open(ctx, dsn, name, role, maxConns, nil, gates)
}

// OpenWithoutTimeouts is Open for callers with long statements, which must bound their own
// statements: migrations and the maintenance of the queue.
func OpenWithoutTimeouts(ctx context.Context, dsn, name string, role Role, maxConns int32, gates ...Gate) (*pgxpool.Pool, error) {
	return open(ctx, dsn, name, role, maxConns, map[string]string{"statement_timeout": "0", "lock_timeout": "0"}, gates)
}

// Gate returns an error if a pool must not use a new session on this server. It may use the
// session, which is closed after an error. Unavailable returns true for the error of a call that
// needed the session.
type Gate func(ctx context.Context, session *pgx.Conn, on Server) error

// Server is the database of a session and the history of its server. The functions place_of_database,
// timeline_of_database and recovered_position describe the fields.
type Server struct {
	Place     string
	Timeline  int32
	Recovered int64
}

var errGate = errors.New("the new database session was refused")

// pingAfter is the idle time after which a connection of role API is pinged before use. It is
// longer than pgxpool's second, so that queries that run every second cause no pings. Other
// connections are pinged after upkeepPingAfter, because work is retried and must be cheap while the
// service is idle.
const (
	pingAfter       = 1500 * time.Millisecond
	upkeepPingAfter = 10 * time.Second
)

func open(ctx context.Context, dsn, name string, role Role, maxConns int32, settings map[string]string, gates []Gate) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("read the database address: %w", hideDSN(err))
	}
	if maxConns > 0 {
		config.MaxConns = maxConns
	}
	config.MaxConnIdleTime = 5 * time.Minute
	config.HealthCheckPeriod = 30 * time.Second
	ping := upkeepPingAfter
	if role == API {
		ping = pingAfter
	}
	config.ShouldPing = func(_ context.Context, conn pgxpool.ShouldPingParams) bool { return conn.IdleDuration > ping }
	Session(config.ConnConfig, name)
	maps.Copy(config.ConnConfig.RuntimeParams, settings)
	if role != Owner {
		// The role is set as a startup parameter, so that RESET ROLE returns to this role.
		config.ConnConfig.RuntimeParams["role"] = string(role)
	}
	if role == API {
		config.PrepareConn = enterScope
	}
	connects := connects{free: int(config.MaxConns)}
	config.BeforeConnect = func(context.Context, *pgx.ConnConfig) error { return connects.start() }
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		on, err := setUp(ctx, conn, len(gates) > 0)
		if err != nil {
			return err
		}
		conn.TypeMap().RegisterType(&pgtype.Type{
			Name: "timestamptz", OID: pgtype.TimestamptzOID,
			Codec: &pgtype.TimestamptzCodec{ScanLocation: time.UTC},
		})
		pgxuuid.Register(conn.TypeMap())
		for _, admit := range gates {
			if err := admit(ctx, conn, on); err != nil {
				return fmt.Errorf("%w: %w", errGate, err)
			}
		}
		connects.succeeded()
		return nil
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	return pool, nil
}

// connects limits how often a pool tries to connect to a server that refuses or doesn't answer.
// Otherwise each request would make another attempt.
type connects struct {
	free int // attempts that are made at once: as many as the pool may have in progress

	mu       sync.Mutex
	attempts int // since the last success
	backoff  wait.Backoff
	next     time.Time // of the next attempt, once free attempts were made
}

var errRefused = errors.New("the last connections to PostgreSQL failed; the next attempt follows within a second")

// start returns errRefused if more attempts than can be in progress were made since the last
// success, so that some have failed, and the delay since the last of them isn't over.
func (c *connects) start() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.attempts >= c.free {
		now := time.Now()
		if now.Before(c.next) {
			return errRefused
		}
		c.next = now.Add(c.backoff.Next())
	}
	c.attempts++
	return nil
}

func (c *connects) succeeded() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.attempts, c.next = 0, time.Time{}
	c.backoff.Reset()
}

// hideDSN removes the address, which may contain a password, from a parse error.
func hideDSN(err error) error {
	if parse, ok := errors.AsType[*pgconn.ParseConfigError](err); ok {
		if cause := errors.Unwrap(parse); cause != nil {
			return cause
		}
		return errors.New("not a valid PostgreSQL address")
	}
	return err
}
