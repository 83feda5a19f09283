package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/wait"
)

// DoubtError reports a commit in doubt: COMMIT was sent, but the connection broke before its
// response arrived. The transaction may be committed, be rolled back, or still be committing.
// BeginFunc, InTx and Write return a DoubtError only if the commit is in doubt. Unavailable returns
// true for it.
type DoubtError struct {
	Err     error
	backend uint32 // PID of the server process that may still commit; 0: unknown
}

func (e *DoubtError) Error() string { return fmt.Sprintf("commit in doubt: %v", e.Err) }

func (e *DoubtError) Unwrap() error { return e.Err }

// doubt returns the error of a commit as a DoubtError if the commit is in doubt. The connection must
// have been open before. pgx closes it if a response is missing, or if the server terminates the
// session. After any other error it stays open, and the error is the server's response.
// pgconn.SafeToRetry doesn't help: pgx also returns "conn closed" for a response that was lost.
func doubt(conn *pgx.Conn, err error) error {
	if err == nil || !conn.IsClosed() {
		return err
	}
	e := &DoubtError{Err: err}
	if conn.PgConn().CustomData()[markKey] == nil { // a pooler returns its own PIDs
		e.backend = conn.PgConn().PID()
	}
	return e
}

// OutcomeUnknown returns err as an UNAVAILABLE with reason outcome_unknown if it is a DoubtError. The
// response has the ID of what the transaction may have created in the named field. OutcomeUnknown
// returns any other error unchanged.
func OutcomeUnknown(err error, field string, id uuid.UUID) error {
	_, inDoubt := errors.AsType[*DoubtError](err)
	if _, refused := errors.AsType[*fault.Error](err); refused || !inDoubt {
		return err
	}
	return fault.OutcomeUnknown(err, map[string]any{field: id})
}

// BeginFunc is like pgx.BeginFunc, but returns a DoubtError if the commit is in doubt. If db is a
// transaction, BeginFunc uses a savepoint, which is never in doubt.
func BeginFunc(ctx context.Context, db DB, f func(tx pgx.Tx) error) error {
	committing := false
	err := Write(ctx, db, func(conn DB) error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			err := f(tx)
			committing = err == nil && !tx.Conn().IsClosed()
			return err
		})
	})
	if e, ok := errors.AsType[*DoubtError](err); ok && !committing {
		return e.Err // the connection broke before COMMIT
	}
	return err
}

// Write calls f, which runs one statement that writes and is its own transaction. It returns a
// DoubtError if that commit is in doubt. If db is a transaction, the statement becomes a part of it
// and is never in doubt.
func Write(ctx context.Context, db DB, f func(conn DB) error) error {
	pool, ok := db.(*pgxpool.Pool)
	if !ok {
		return f(db)
	}
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	return doubt(conn.Conn(), f(conn))
}

// resolveTimeout limits how long Resolve checks. It is longer than a server needs to notice that a
// client has disconnected, and to finish its commit.
const resolveTimeout = 4 * time.Second

// Resolve finds out whether a commit in doubt succeeded. find reads a row that only this transaction
// writes, and returns pgx.ErrNoRows or NOT_FOUND if the row is missing.
//
// Resolve returns nil if the transaction is committed, and the cause of the DoubtError if it is not
// committed and never will be. If Resolve cannot find out, or if err is not a DoubtError, it returns
// err. Resolve uses new connections, and continues if ctx is done, because ctx may have caused the
// doubt.
func Resolve(ctx context.Context, db DB, err error, find func(ctx context.Context) error) error {
	e, ok := errors.AsType[*DoubtError](err)
	if !ok {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resolveTimeout)
	defer cancel()
	var backoff wait.Backoff
	for {
		// A missing row proves nothing while the server process may still commit, so check that first.
		ended := e.ended(ctx, db)
		missing := find(ctx)
		if missing == nil {
			return nil
		}
		if ended && (NotFound(missing) || fault.CodeOf(missing) == fault.NotFound) {
			return e.Err
		}
		if backoff.Wait(ctx) != nil {
			return err
		}
	}
}

// ended reports whether the server process that may commit is known to have ended. Each role may see
// the PIDs of all server processes.
func (e *DoubtError) ended(ctx context.Context, db DB) (ended bool) {
	if e.backend == 0 {
		return false
	}
	err := db.QueryRow(ctx, "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1)", int64(e.backend)).Scan(&ended)
	return ended && err == nil
}
