package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Tx is a transaction with few round trips. BEGIN is sent with the first batch, and the statements of
// AtCommit are sent with COMMIT. So the locks of these statements are held only for the duration of
// the commit, even if this process is busy.
type Tx struct {
	pgx.Tx
	conn     *pgx.Conn
	atCommit Batch
}

// AtCommit returns the batch that is sent together with COMMIT.
func (tx *Tx) AtCommit() *Batch { return &tx.atCommit }

// Send runs the statements of a batch in one round trip, or in none if there are no statements. It
// returns the first error.
func (tx *Tx) Send(ctx context.Context, b *Batch) error {
	if len(b.statements) == 0 {
		return nil
	}
	return tx.send(ctx, b, false, false)
}

// Commit runs the statements of a batch as a transaction, in one round trip. It returns the first
// error, or a DoubtError if the commit is in doubt.
func Commit(ctx context.Context, pool *pgxpool.Pool, b *Batch) error {
	return onConn(ctx, pool, func(tx *Tx) error { return doubt(tx.conn, tx.send(ctx, b, true, true)) })
}

// InTx is like pgx.BeginFunc, but for a Tx: it runs the statements of first, which may be nil, in the
// round trip of BEGIN, calls f, and commits, together with the statements of AtCommit; or it rolls
// back and returns the first error. If the commit is in doubt, it returns a DoubtError.
func InTx(ctx context.Context, pool *pgxpool.Pool, first *Batch, f func(tx *Tx) error) error {
	return onConn(ctx, pool, func(tx *Tx) error {
		if first == nil {
			first = &Batch{}
		}
		if err := tx.send(ctx, first, true, false); err != nil {
			return err
		}
		if err := f(tx); err != nil {
			return err
		}
		if tx.conn.IsClosed() {
			return errClosed
		}
		return doubt(tx.conn, tx.send(ctx, &tx.atCommit, false, true))
	})
}

var errClosed = fmt.Errorf("commit: %w", pgconn.ErrConnClosed)

// onConn calls f with a transaction of a connection, and rolls it back if f fails.
func onConn(ctx context.Context, pool *pgxpool.Pool, f func(tx *Tx) error) (err error) {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	tx := &Tx{conn: conn.Conn()}
	defer func() {
		if err == nil || tx.Tx == nil {
			return
		}
		if undo := tx.Rollback(ctx); undo != nil && !errors.Is(undo, pgx.ErrTxClosed) {
			// Like pgx.BeginFunc: a connection with an unfinished transaction must not be reused.
			_ = conn.Conn().Close(ctx)
		}
	}()
	return f(tx)
}

// send runs the statements of a batch in one round trip. It begins the transaction if begin is set,
// and commits it if commit is set.
func (tx *Tx) send(ctx context.Context, b *Batch, begin, commit bool) (err error) {
	var batch pgx.Batch
	if begin {
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
	if begin {
		tx.Tx = answers.Tx()
		if _, err := answers.Exec(); err != nil {
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
