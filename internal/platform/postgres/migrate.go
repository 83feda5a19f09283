package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/weft-automation/weft/internal/kit/wait"
	"github.com/weft-automation/weft/internal/platform/postgres/migrations"
)

// RiverSchema is the schema of River's tables.
const RiverSchema = "river"

// migrationLock is the advisory lock that a process holds while it migrates.
const migrationLock = 0x77656674 // "weft"

// expands is the first line of a migration that only adds to the schema, so that earlier
// binaries still work afterwards.
const expands = "-- expand\n"

type migration struct {
	number int
	name   string
	sql    string
}

// Migrate brings the schema to the version that this binary expects: Weft's own migrations
// first, then River's. Many processes may call Migrate at once; if migrations are due, one
// process applies them and the others wait. It returns an error if the schema is newer than the
// binary, unless the newer migrations only expanded the schema. The pool must be from
// OpenWithoutTimeouts.
func Migrate(ctx context.Context, pool *pgxpool.Pool) error {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("connect for migration: %w", err)
	}
	defer conn.Release()
	if nothingToMigrate(ctx, conn) {
		return nil
	}
	if err := lockForMigration(ctx, conn.Conn()); err != nil {
		return fmt.Errorf("lock for migration: %w", err)
	}
	defer func() {
		// Only a session without the lock may return to the pool.
		if _, err := conn.Exec(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock_all()"); err != nil {
			_ = conn.Conn().Close(context.WithoutCancel(ctx))
		}
	}()
	if err := migrateOwn(ctx, conn.Conn()); err != nil {
		return err
	}
	if err := completeIndexes(ctx, conn.Conn()); err != nil {
		return err
	}
	if err := migrateRiver(ctx, pool); err != nil {
		return err
	}
	return setRights(ctx, conn.Conn())
}

// lockForMigration polls for the lock instead of waiting in one statement, because a concurrent
// index build waits for all statements that started earlier.
func lockForMigration(ctx context.Context, conn *pgx.Conn) error {
	for {
		var locked bool
		if err := conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", migrationLock).Scan(&locked); err != nil || locked {
			return err
		}
		if err := wait.For(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

func migrateOwn(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, `CREATE TABLE IF NOT EXISTS schema_migrations (
		number integer PRIMARY KEY, name text NOT NULL, checksum text NOT NULL,
		applied_at timestamptz NOT NULL DEFAULT now(), expand boolean NOT NULL DEFAULT false)`)
	if err == nil {
		err = addExpand(ctx, conn)
	}
	if err != nil {
		return fmt.Errorf("create the table of migrations: %w", err)
	}
	want, err := embedded()
	if err != nil {
		return err
	}
	have, err := applied(ctx, conn, want)
	if err != nil {
		return err
	}
	for _, m := range want[have:] {
		if err := m.apply(ctx, conn); err != nil {
			return fmt.Errorf("apply migration %s: %w", m.name, err)
		}
	}
	return nil
}

// addExpand adds the column to a table of migrations from an earlier version. It first checks
// whether the column exists, because ALTER TABLE blocks all readers of the table.
func addExpand(ctx context.Context, conn *pgx.Conn) error {
	var there bool
	err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_attribute
		WHERE attrelid = 'schema_migrations'::regclass AND attname = 'expand' AND NOT attisdropped)`).Scan(&there)
	if err != nil || there {
		return err
	}
	_, err = conn.Exec(ctx, "ALTER TABLE schema_migrations ADD COLUMN expand boolean NOT NULL DEFAULT false")
	return err
}

func (m migration) apply(ctx context.Context, conn *pgx.Conn) error {
	return withLockTimeout(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, m.sql); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "INSERT INTO schema_migrations (number, name, checksum, expand) VALUES ($1, $2, $3, $4)",
			m.number, m.name, m.checksum(), strings.HasPrefix(m.sql, expands))
		return err
	})
}

// withLockTimeout makes one change. It waits at most two seconds for a table that is in use,
// because all later statements on the table queue behind the change, and then retries. It also
// retries after a deadlock with other sessions.
func withLockTimeout(ctx context.Context, conn *pgx.Conn, change func(pgx.Tx) error) error {
	for tries := 1; ; tries++ {
		err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "SET LOCAL lock_timeout = '2s'"); err != nil {
				return err
			}
			return change(tx)
		})
		if e, ok := errors.AsType[*pgconn.PgError](err); !ok || e.Code != "55P03" && e.Code != "40P01" || tries == 30 {
			return err
		}
		if err := wait.For(ctx, time.Second); err != nil {
			return err
		}
	}
}

func migrateRiver(ctx context.Context, pool *pgxpool.Pool) error {
	if _, err := pool.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS "+RiverSchema); err != nil {
		return fmt.Errorf("create the queue's schema: %w", err)
	}
	migrator, err := riverMigrator(pool)
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return fmt.Errorf("migrate the queue: %w", err)
	}
	return trimRiver(ctx, pool)
}

// trimRiver drops River's indexes on the content of jobs. Weft doesn't search for jobs by their
// content, and maintaining the indexes would slow down every insert. River doesn't need these
// indexes.
func trimRiver(ctx context.Context, pool *pgxpool.Pool) error {
	for _, index := range []string{"river_job_args_index", "river_job_metadata_index"} {
		if _, err := pool.Exec(ctx, "DROP INDEX CONCURRENTLY IF EXISTS "+pgx.Identifier{RiverSchema, index}.Sanitize()); err != nil {
			return fmt.Errorf("drop the queue's unused indexes: %w", err)
		}
	}
	return nil
}

// CheckSchema checks that the database has the schema of this binary, or a later schema that was
// only expanded. It checks both Weft's schema and River's. The error says which side is older
// and what to do.
func CheckSchema(ctx context.Context, pool *pgxpool.Pool) error {
	if upToDate(ctx, pool) {
		return nil
	}
	want, err := embedded()
	if err != nil {
		return err
	}
	var exists bool
	if err := pool.QueryRow(ctx, "SELECT to_regclass('schema_migrations') IS NOT NULL").Scan(&exists); err != nil {
		return fmt.Errorf("read the schema's version: %w", err)
	}
	have := 0
	if exists {
		if have, err = applied(ctx, pool, want); err != nil {
			return err
		}
	}
	if have < len(want) {
		return fmt.Errorf("the database is at schema version %d, this binary needs %d: run `weft migrate`", have, len(want))
	}
	migrator, err := riverMigrator(pool)
	if err != nil {
		return err
	}
	result, err := migrator.Validate(ctx, nil)
	if err != nil {
		return fmt.Errorf("read the queue's schema version: %w", err)
	}
	if !result.OK {
		return fmt.Errorf("the queue's schema is not up to date (%s): run `weft migrate`", strings.Join(result.Messages, "; "))
	}
	return nil
}

func newerSchema(have, want int) error {
	return fmt.Errorf("the database is at schema version %d, but this binary supports only version %d: use a newer binary", have, want)
}

func riverMigrator(pool *pgxpool.Pool) (*rivermigrate.Migrator[pgx.Tx], error) {
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{
		Schema: RiverSchema, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, fmt.Errorf("prepare the queue's migrations: %w", err)
	}
	return migrator, nil
}

// applied returns how many of the binary's migrations the database has. It returns an error if a
// migration of the database has different content, or if the database is newer and not all newer
// migrations are expansions.
func applied(ctx context.Context, conn interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}, want []migration) (int, error) {
	rows, err := conn.Query(ctx, `SELECT number, checksum, COALESCE((to_jsonb(m) ->> 'expand')::boolean, false)
		FROM schema_migrations m ORDER BY number`)
	if err != nil {
		return 0, fmt.Errorf("read the schema's version: %w", err)
	}
	type done struct {
		Number   int
		Checksum string
		Expand   bool
	}
	have, err := pgx.CollectRows(rows, pgx.RowToStructByPos[done])
	if err != nil {
		return 0, fmt.Errorf("read the schema's version: %w", err)
	}
	if n := len(have); n > 0 && slices.ContainsFunc(have, func(m done) bool { return m.Number > len(want) && !m.Expand }) {
		return 0, newerSchema(have[n-1].Number, len(want))
	}
	have = have[:min(len(have), len(want))]
	for i, m := range have {
		if m.Number != i+1 || m.Checksum != want[i].checksum() {
			return 0, fmt.Errorf("the database was created by another build of Weft: its migration %d differs from this binary's; use that build, or a new database", i+1)
		}
	}
	return len(have), nil
}

// checksum identifies the content of a migration.
func (m migration) checksum() string {
	sum := sha256.Sum256([]byte(m.sql))
	return hex.EncodeToString(sum[:8])
}

// embedded returns the migrations in order. It returns an error unless they are numbered
// 1, 2, 3 and so on.
func embedded() ([]migration, error) {
	names, err := fs.Glob(migrations.Files, "*.sql")
	if err != nil {
		return nil, err
	}
	list := make([]migration, 0, len(names))
	for i, path := range names {
		name := strings.TrimSuffix(path, ".sql")
		number, err := strconv.Atoi(strings.SplitN(name, "_", 2)[0])
		if err != nil || number != i+1 {
			return nil, errors.New("migration " + name + " is out of order")
		}
		sql, err := migrations.Files.ReadFile(path)
		if err != nil {
			return nil, err
		}
		list = append(list, migration{number: number, name: name, sql: string(sql)})
	}
	return list, nil
}
