//go:build linux

// Package pgtest provides tests with a real PostgreSQL: a new migrated database, or a transaction
// that is rolled back.
//
// The server is $WEFT_TEST_DATABASE_URL, or a private one that all test processes of a user share.
// The private server stops soon after the last process exits. Without PostgreSQL a test fails; it
// is never skipped. Only test files may import this package.
package pgtest

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// templateLock is the advisory lock under which one process creates the template.
const templateLock = 0x70677465 // "pgte"

// prefix starts the names of test databases. The creation time follows, which identifies the
// databases of killed runs.
const prefix = "weft_test_"

// stale is the age at which a test database is no longer in use.
const stale = 2 * time.Hour

// source is the server and the template, found once in each test process.
var source = sync.OnceValues(func() (from struct{ dsn, template string }, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if from.dsn = os.Getenv("WEFT_TEST_DATABASE_URL"); from.dsn == "" {
		if from.dsn, err = join(ctx); err != nil {
			return from, fmt.Errorf("start a PostgreSQL for the tests: %w", err)
		}
	}
	from.template, err = makeTemplate(ctx, from.dsn)
	return from, err
})

// shared is the database for the rolled-back transactions of this process.
var shared = sync.OnceValues(func() (string, error) { return clone(context.Background()) })

// DSN creates a new, migrated database and returns its address. The database is dropped when the test
// ends, even if there are connections.
func DSN(t testing.TB) string {
	t.Helper()
	dsn, err := clone(t.Context())
	if err != nil {
		t.Fatalf("test database: %v", err)
	}
	t.Cleanup(func() {
		if err := drop(context.Background(), dsn); err != nil {
			t.Errorf("drop the test database: %v", err)
		}
	})
	return dsn
}

// DB creates a new, migrated database and returns a pool on it, which is closed when the test ends.
// The test fails if it has not released all connections when it ends.
func DB(t testing.TB) *pgxpool.Pool {
	t.Helper()
	return Pool(t, 0)
}

// Pool is like DB, with at most conns connections, for tests of concurrency. If conns is 0, the
// limit is pgxpool's default, the number of cores.
func Pool(t testing.TB, conns int32) *pgxpool.Pool {
	t.Helper()
	pool, err := postgres.Open(context.Background(), DSN(t), "test", postgres.Owner, conns)
	if err != nil {
		t.Fatalf("test database: %v", err)
	}
	t.Cleanup(func() {
		closed := make(chan struct{})
		go func() { pool.Close(); close(closed) }()
		ctx, cancel := waittest.CleanupContext(t)
		defer cancel()
		select {
		case <-closed:
		case <-ctx.Done():
			t.Errorf("%d connections were not released", pool.Stat().AcquiredConns())
		}
	})
	return pool
}

// Tx starts a transaction that is rolled back when the test ends. The tests of a process share the
// database, so a test may wait for uncommitted rows of a different test.
func Tx(t testing.TB) pgx.Tx {
	t.Helper()
	dsn, err := shared()
	if err != nil {
		t.Fatalf("test database: %v", err)
	}
	conn, err := postgres.Connect(t.Context(), dsn, "test")
	if err != nil {
		t.Fatalf("test transaction: %v", err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatalf("test transaction: %v", err)
	}
	return tx
}

// ServerDSN returns the address of the server itself, for tests that create and disrupt databases.
func ServerDSN(t testing.TB) string {
	t.Helper()
	from, err := source()
	if err != nil {
		t.Fatalf("test database: %v", err)
	}
	return from.dsn
}

// clone copies the template.
func clone(ctx context.Context) (string, error) {
	from, err := source()
	if err != nil {
		return "", err
	}
	name := fmt.Sprintf("%s%d_%s", prefix, time.Now().Unix(), strings.ToLower(rand.Text()[:10]))
	err = admin(ctx, from.dsn, func(conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, fmt.Sprintf("CREATE DATABASE %s TEMPLATE %s STRATEGY file_copy", name, from.template)); err != nil {
			return err
		}
		_, err := conn.Exec(ctx, "REVOKE TEMPORARY ON DATABASE "+name+" FROM PUBLIC") // a copy has the default privileges of a new database
		return err
	})
	if err != nil {
		return "", fmt.Errorf("copy the template: %w", err)
	}
	return inDatabase(from.dsn, name)
}

// drop drops the database at dsn.
func drop(ctx context.Context, dsn string) error {
	from, err := source()
	if err != nil {
		return err
	}
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return err
	}
	return admin(ctx, from.dsn, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "DROP DATABASE IF EXISTS "+config.Database+" WITH (FORCE)")
		return err
	})
}

// makeTemplate creates one migrated database for each state of the migrations. The database gets
// its final name once it is complete.
func makeTemplate(ctx context.Context, dsn string) (string, error) {
	fingerprint, err := postgres.Fingerprint()
	if err != nil {
		return "", err
	}
	name := "weft_template_" + fingerprint
	err = admin(ctx, dsn, func(conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", templateLock); err != nil {
			return err
		}
		if err := sweep(ctx, conn); err != nil {
			return err
		}
		var exists bool
		err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", name).Scan(&exists)
		if err != nil || exists {
			return err
		}
		draft := name + "_draft"
		for _, sql := range []string{"DROP DATABASE IF EXISTS " + draft + " WITH (FORCE)", "CREATE DATABASE " + draft} {
			if _, err := conn.Exec(ctx, sql); err != nil {
				return err
			}
		}
		if err := migrate(ctx, dsn, draft); err != nil {
			return err
		}
		// Nobody can connect to it any more, because a database with connections cannot be copied.
		for _, sql := range []string{"ALTER DATABASE " + draft + " ALLOW_CONNECTIONS false", "ALTER DATABASE " + draft + " RENAME TO " + name} {
			if _, err := conn.Exec(ctx, sql); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("create the template database: %w", err)
	}
	return name, nil
}

func migrate(ctx context.Context, server, database string) error {
	dsn, err := inDatabase(server, database)
	if err != nil {
		return err
	}
	pool, err := postgres.OpenWithoutTimeouts(ctx, dsn, "test", postgres.Owner, 0)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := postgres.Migrate(ctx, pool); err != nil {
		return err
	}
	// Drop the weekly partitions that no test uses. They would slow down copying, and the planning
	// of each statement.
	for _, sql := range []string{
		"UPDATE partition_weeks SET final_since = 'epoch' WHERE week < week_of(now()) - interval '7 days'",
		"SELECT drop_partitions(week, interval '7 days') FROM partition_weeks WHERE final_since = 'epoch'",
	} {
		if _, err := pool.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

// sweep drops the databases of killed runs.
func sweep(ctx context.Context, conn *pgx.Conn) error {
	rows, err := conn.Query(ctx, `SELECT datname FROM pg_database WHERE datname LIKE $1
		AND split_part(datname, '_', 3)::bigint < $2`, prefix+"%", time.Now().Add(-stale).Unix())
	if err != nil {
		return err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, err := conn.Exec(ctx, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)"); err != nil {
			return err
		}
	}
	return nil
}

// admin calls fn in a short session, so that no connection stays open between tests.
func admin(ctx context.Context, dsn string, fn func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return fn(conn)
}

// inDatabase returns the address of a different database of the same server.
func inDatabase(dsn, database string) (string, error) {
	if !strings.Contains(dsn, "://") {
		return dsn + " dbname=" + database, nil
	}
	address, err := url.Parse(dsn)
	if err != nil {
		return "", fmt.Errorf("WEFT_TEST_DATABASE_URL is not a PostgreSQL address")
	}
	address.Path = "/" + database
	return address.String(), nil
}
