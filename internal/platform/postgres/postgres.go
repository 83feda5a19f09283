// Package postgres connects to PostgreSQL: it opens pools, applies migrations, defines the
// interface DB and interprets errors.
//
// It knows nothing of the domain. The one invariant: a session that Open or Connect returns has
// the role, the time zone and the timeouts of this package, even through a connection pooler.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	pgxuuid "github.com/vgarvardt/pgx-google-uuid/v5"
)

// DB is what a service needs of the database. *pgxpool.Pool and pgx.Tx satisfy
// it, so a whole service can run inside one transaction.
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

// Role is under whose rights the sessions of a pool work. What the roles may do
// is in the migrations.
type Role string

const (
	Owner  Role = ""            // of the tables: migrations, tests
	API    Role = "weft_api"    // requests: only the rows of the workspaces in Scope
	System Role = "weft_system" // the engine and the upkeep: rows of all workspaces
)

// Open makes a pool of at most maxConns connections (0: pgxpool's own default)
// whose sessions are named for the part of the service that uses them, and have
// the rights of role. It does not connect yet.
func Open(ctx context.Context, dsn, name string, role Role, maxConns int32) (*pgxpool.Pool, error) {
	return open(ctx, dsn, name, role, maxConns, nil)
}

// OpenUnhurried is Open for those whose statements may take long, each of which
// they bound themselves: migrations and the queue's own upkeep.
func OpenUnhurried(ctx context.Context, dsn, name string, role Role, maxConns int32) (*pgxpool.Pool, error) {
	return open(ctx, dsn, name, role, maxConns, map[string]string{"statement_timeout": "0", "lock_timeout": "0"})
}

// pingAfter is how long a connection may have been idle to be used without a ping. It is
// more than the second that the pool would take, for what is asked every second.
const pingAfter = 1500 * time.Millisecond

func open(ctx context.Context, dsn, name string, role Role, maxConns int32, settings map[string]string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("read the database address: %w", hideDSN(err))
	}
	if maxConns > 0 {
		config.MaxConns = maxConns
	}
	config.MaxConnIdleTime = 5 * time.Minute
	config.HealthCheckPeriod = 30 * time.Second
	config.ShouldPing = func(_ context.Context, conn pgxpool.ShouldPingParams) bool { return conn.IdleDuration > pingAfter }
	Session(config.ConnConfig, name)
	maps.Copy(config.ConnConfig.RuntimeParams, settings)
	if role != Owner {
		// As a startup parameter: RESET ROLE returns to it.
		config.ConnConfig.RuntimeParams["role"] = string(role)
	}
	if role == API {
		config.PrepareConn = enterScope
	}
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		if err := setUp(ctx, conn); err != nil {
			return err
		}
		conn.TypeMap().RegisterType(&pgtype.Type{
			Name: "timestamptz", OID: pgtype.TimestamptzOID,
			Codec: &pgtype.TimestamptzCodec{ScanLocation: time.UTC},
		})
		pgxuuid.Register(conn.TypeMap())
		return nil
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	return pool, nil
}

// hideDSN drops the address itself, which holds a password, from a parse error.
func hideDSN(err error) error {
	if parse, ok := errors.AsType[*pgconn.ParseConfigError](err); ok {
		if cause := errors.Unwrap(parse); cause != nil {
			return cause
		}
		return errors.New("it is not a PostgreSQL address")
	}
	return err
}
