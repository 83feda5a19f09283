package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Tx is a transaction with few round trips. BEGIN is sent with the first statement, and the
// statements of AtCommit are sent with COMMIT. So the locks of these statements are held only for
// the duration of the commit, even if this process is busy.
type Tx struct {
	pgx.Tx   // unstarted before the first statement
	conn     *pgx.Conn
	atCommit Batch
}

// AtCommit returns the batch that is sent together with COMMIT.
func (tx *Tx) AtCommit() *Batch { return &tx.atCommit }

// Send runs the statements of a batch in one round trip. It returns the first error.
func (tx *Tx) Send(ctx context.Context, b *Batch) error { return tx.send(ctx, b, false) }

// InTx is like pgx.BeginFunc, but for a Tx: it calls f and commits, together with the statements
// of AtCommit; or it rolls back and returns the first error. If the commit is in doubt, it returns
// a DoubtError. The first statement of f must use Exec, Query, QueryRow or Send.
func InTx(ctx context.Context, pool *pgxpool.Pool, f func(tx *Tx) error) (err error) {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	tx := &Tx{conn: conn.Conn()}
	tx.Tx = unstarted{of: tx}
	defer func() {
		if err == nil {
			return
		}
		if undo := tx.Rollback(ctx); undo != nil && !errors.Is(undo, pgx.ErrTxClosed) {
			// Like pgx.BeginFunc: a connection with an unfinished transaction must not be reused.
			_ = conn.Conn().Close(ctx)
		}
	}()
	if err := f(tx); err != nil {
		return err
	}
	if tx.conn.IsClosed() {
		return errClosed
	}
	if !tx.started() && len(tx.atCommit.statements) == 0 {
		return nil
	}
	return doubt(tx.conn, tx.send(ctx, &tx.atCommit, true))
}

var errClosed = fmt.Errorf("commit: %w", pgconn.ErrConnClosed)

// send runs the statements of a batch in one round trip. It starts the transaction if it hasn't
// started yet, and commits the transaction if commit is set.
func (tx *Tx) send(ctx context.Context, b *Batch, commit bool) (err error) {
	var batch pgx.Batch
	begins := !tx.started()
	if begins {
		batch.BeginTx(pgx.TxOptions{})
	}
	for _, s := range b.statements {
		batch.Queue(s.sql, s.args...)
	}
	if commit {
		batch.Queue("COMMIT")
	}
	answers := tx.conn.SendBatch(ctx, &batch)
	defer func() {
		if end := answers.Close(); err == nil {
			err = end
		}
	}()
	if begins {
		if err := tx.begun(answers); err != nil {
			return err
		}
	}
	for _, s := range b.statements {
		if err := s.finish(answers); err != nil {
			return err
		}
	}
	if !commit {
		return nil
	}
	tag, err := answers.Exec()
	if err == nil && tag.String() != "COMMIT" {
		err = fmt.Errorf("commit failed: the server replied %s", tag)
	}
	return err
}

func (tx *Tx) started() bool {
	_, not := tx.Tx.(unstarted)
	return !not
}

// begun continues with the transaction that the results start with.
func (tx *Tx) begun(answers pgx.BatchResults) error {
	tx.Tx = answers.Tx()
	_, err := answers.Exec()
	return err
}

// unstarted is a transaction before its first statement, which is sent together with BEGIN.
type unstarted struct {
	pgx.Tx // nil: all methods that are used are defined in this file
	of     *Tx
}

// begin sends BEGIN and the first statement. The results start with that statement's.
func (u unstarted) begin(ctx context.Context, sql string, args []any) (pgx.BatchResults, error) {
	var batch pgx.Batch
	batch.BeginTx(pgx.TxOptions{})
	batch.Queue(sql, args...)
	answers := u.of.conn.SendBatch(ctx, &batch)
	err := u.of.begun(answers)
	if err != nil {
		_ = answers.Close() // returns the same error
	}
	return answers, err
}

func (u unstarted) Exec(ctx context.Context, sql string, args ...any) (tag pgconn.CommandTag, err error) {
	rows, err := u.Query(ctx, sql, args...)
	if err != nil {
		return tag, err
	}
	rows.Close()
	return rows.CommandTag(), rows.Err()
}

func (u unstarted) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	answers, err := u.begin(ctx, sql, args)
	if err != nil {
		return nil, err
	}
	rows, err := answers.Query()
	if err != nil {
		_ = answers.Close() // returns the same error
		return nil, err
	}
	return &firstRows{Rows: rows, answers: answers}, nil
}

func (u unstarted) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	answers, err := u.begin(ctx, sql, args)
	if err != nil {
		return failedRow{err}
	}
	return firstRow{answers}
}

// Rollback does nothing, because the transaction wasn't started.
func (unstarted) Rollback(context.Context) error { return nil }

// Conn returns the connection of the transaction.
func (u unstarted) Conn() *pgx.Conn { return u.of.conn }

// firstRows are the rows of a first statement. The connection becomes free when the rows are
// read or closed.
type firstRows struct {
	pgx.Rows
	answers pgx.BatchResults
	err     error
}

func (r *firstRows) Next() bool {
	more := r.Rows.Next()
	if !more {
		r.Close()
	}
	return more
}

func (r *firstRows) Close() {
	r.Rows.Close()
	if end := r.answers.Close(); r.err == nil {
		r.err = end
	}
}

func (r *firstRows) Err() error {
	if err := r.Rows.Err(); err != nil {
		return err
	}
	return r.err
}

// firstRow is the row of a first statement.
type firstRow struct{ answers pgx.BatchResults }

func (r firstRow) Scan(into ...any) error {
	err := r.answers.QueryRow().Scan(into...)
	if end := r.answers.Close(); err == nil {
		err = end
	}
	return err
}
