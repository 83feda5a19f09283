//go:build linux

package postgres_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weft-automation/weft/internal/local/pgtest"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// writes are the functions that report a commit in doubt. f runs in the transaction, after the
// statement that inserts the mark.
var writes = map[string]func(ctx context.Context, pool *pgxpool.Pool, mark uuid.UUID, f func(conn *pgx.Conn)) error{
	"BeginFunc": func(ctx context.Context, pool *pgxpool.Pool, mark uuid.UUID, f func(conn *pgx.Conn)) error {
		return postgres.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, insertMark, mark)
			f(tx.Conn())
			return err
		})
	},
	"InTx": func(ctx context.Context, pool *pgxpool.Pool, mark uuid.UUID, f func(conn *pgx.Conn)) error {
		return postgres.InTx(ctx, pool, nil, func(tx *postgres.Tx) error {
			_, err := tx.Exec(ctx, insertMark, mark)
			f(tx.Conn())
			return err
		})
	},
	"Write": func(ctx context.Context, pool *pgxpool.Pool, mark uuid.UUID, _ func(conn *pgx.Conn)) error {
		return postgres.Write(ctx, pool, func(conn postgres.DB) error {
			_, err := conn.Exec(ctx, insertMark, mark)
			return err
		})
	},
}

const insertMark = "INSERT INTO marks VALUES ($1)"

// marks returns a pool on a database with a table of marks, and its address.
func marks(t *testing.T) (pool *pgxpool.Pool, dsn string) {
	t.Helper()
	dsn = pgtest.DSN(t)
	pool = openOn(t, dsn)
	if _, err := pool.Exec(t.Context(), "CREATE TABLE marks (mark uuid PRIMARY KEY)"); err != nil {
		t.Fatal(err)
	}
	return pool, dsn
}

func openOn(t *testing.T, dsn string) *pgxpool.Pool {
	t.Helper()
	pool, err := postgres.Open(t.Context(), dsn, "test", postgres.Owner, 4)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// resolve returns the error of postgres.Resolve, and how often the mark was read.
func resolve(t *testing.T, pool *pgxpool.Pool, err error, mark uuid.UUID) (resolved error, reads int) {
	t.Helper()
	resolved = postgres.Resolve(t.Context(), pool, err, func(ctx context.Context) error {
		reads++
		var found uuid.UUID
		return pool.QueryRow(ctx, "SELECT mark FROM marks WHERE mark = $1", mark).Scan(&found)
	})
	return resolved, reads
}

func inDoubt(err error) bool {
	_, ok := errors.AsType[*postgres.DoubtError](err)
	return ok
}

func TestACommitWhoseResponseIsLostIsFound(t *testing.T) {
	t.Parallel()
	_, dsn := marks(t)
	for name, write := range writes {
		t.Run(name, func(t *testing.T) {
			c := pgtest.NewCutter(t, dsn)
			pool, mark := openOn(t, c.DSN), uuid.New()
			response := "COMMIT\x00"
			if name == "Write" {
				response = "INSERT 0 1\x00"
			}
			c.Lose(pgtest.Loss{Request: string(mark[:]), Response: []string{response}})
			err := write(t.Context(), pool, mark, func(*pgx.Conn) {})
			if !c.Lost() || !inDoubt(err) || !postgres.Unavailable(err) {
				t.Fatalf("returned %v, want a DoubtError; lost: %v", err, c.Lost())
			}
			if err, _ := resolve(t, pool, err, mark); err != nil {
				t.Error(err)
			}
		})
	}
}

// If the server process has ended, a missing row proves that the transaction is not committed. Behind
// a pooler the PID of that process is unknown, so the transaction might still commit.
func TestACommitThatNeverReachedTheServerIsRefutedUnlessThereIsAPooler(t *testing.T) {
	t.Parallel()
	direct, dsn := marks(t)
	pooled := openOn(t, pgtest.NewPooler(t, dsn, pgtest.PoolSessions).DSN)
	for name, c := range map[string]struct {
		pool    *pgxpool.Pool
		unknown bool
	}{
		"direct": {direct, false},
		"pooler": {pooled, true},
	} {
		for _, way := range []string{"BeginFunc", "InTx"} {
			t.Run(name+", "+way, func(t *testing.T) {
				t.Parallel()
				mark := uuid.New()
				err := writes[way](t.Context(), c.pool, mark, func(conn *pgx.Conn) { terminate(t, direct, conn) })
				if !inDoubt(err) {
					t.Fatalf("returned %v, want a DoubtError", err)
				}
				resolved, reads := resolve(t, c.pool, err, mark)
				if resolved == nil || inDoubt(resolved) != c.unknown || c.unknown && reads < 2 {
					t.Errorf("resolved to %v after %d reads", resolved, reads)
				}
			})
		}
	}
}

// terminate ends the server process of a connection, and returns when it has ended. The client does
// not notice.
func terminate(t *testing.T, on *pgxpool.Pool, conn *pgx.Conn) {
	var pid int
	if err := conn.QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&pid); err != nil {
		t.Error(err)
		return
	}
	if _, err := on.Exec(t.Context(), "SELECT pg_terminate_backend($1, 60000)", pid); err != nil {
		t.Error(err)
	}
}

func TestAFailureBeforeTheCommitIsNotInDoubt(t *testing.T) {
	t.Parallel()
	pool, _ := marks(t)
	refused := errors.New("refused")
	broken := func(conn *pgx.Conn) error { return errors.Join(refused, conn.Close(t.Context())) }
	for name, err := range map[string]error{
		"BeginFunc": postgres.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error { return broken(tx.Conn()) }),
		"InTx": postgres.InTx(t.Context(), pool, nil, func(tx *postgres.Tx) error {
			_, err := tx.Exec(t.Context(), "SELECT")
			return errors.Join(err, broken(tx.Conn()))
		}),
		"BeginFunc, not reported by f": postgres.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			_ = broken(tx.Conn())
			return nil
		}),
		"InTx, not reported by f": postgres.InTx(t.Context(), pool, nil, func(tx *postgres.Tx) error {
			_, err := tx.Exec(t.Context(), "SELECT")
			_ = broken(tx.Conn())
			return err
		}),
	} {
		if err == nil || inDoubt(err) {
			t.Errorf("%s: returned %v", name, err)
		}
	}
}
