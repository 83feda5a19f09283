package postgres

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Tx is a transaction whose last statements travel with its commit, in one trip:
// what they lock is held no longer than the commit itself takes, however busy this
// process is.
type Tx struct {
	pgx.Tx
	last []func(tx pgx.Tx) error
}

// Last has f's one statement leave with the commit. What it finds wrong the
// statement must raise itself, which ends the transaction: when f sees the answer,
// the commit is made. Those before in the order of Last are answered before.
func (tx *Tx) Last(f func(tx pgx.Tx) error) { tx.last = append(tx.last, f) }

// InTx is pgx.BeginFunc for a Tx: it commits what f did and what f left to be done
// last, or rolls back and returns the first error.
func InTx(ctx context.Context, pool *pgxpool.Pool, f func(tx *Tx) error) (err error) {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	inner, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	tx := &Tx{Tx: inner}
	defer func() {
		if err == nil {
			return
		}
		if undo := inner.Rollback(ctx); undo != nil && !errors.Is(undo, pgx.ErrTxClosed) {
			// As pgx.BeginFunc: nobody may go on with a transaction half done.
			_ = conn.Conn().Close(ctx)
		}
	}()
	if err := f(tx); err != nil {
		return err
	}
	return tx.commit(ctx, conn.Conn())
}

// commit sends what is last and the commit.
func (tx *Tx) commit(ctx context.Context, conn *pgx.Conn) (err error) {
	if len(tx.last) == 0 {
		return tx.Commit(ctx)
	}
	var batch pgx.Batch
	last := make([]*lastly, len(tx.last))
	for i, f := range tx.last {
		l := &lastly{Tx: tx.Tx, batch: &batch}
		l.resume, l.stop = iter.Pull(func(yield func(struct{}) bool) {
			l.wait = yield
			l.err = f(l)
		})
		defer l.stop()
		if _, asks := l.resume(); !asks && l.err != nil {
			return l.err
		}
		last[i] = l
	}
	batch.Queue("COMMIT")
	answers := conn.SendBatch(ctx, &batch)
	defer func() {
		if end := answers.Close(); err == nil {
			err = end
		}
	}()
	for _, l := range last {
		l.answers = answers
		if _, again := l.resume(); again {
			return errors.New("what is done last has a second statement")
		}
		if l.err != nil {
			return l.err
		}
	}
	tag, err := answers.Exec()
	if err == nil && tag.String() != "COMMIT" {
		err = fmt.Errorf("the commit was answered with %s", tag)
	}
	return err
}

// lastly is the transaction as a function given to Last sees it: the statement is
// put into the batch, and the function goes on when its answer is there.
type lastly struct {
	pgx.Tx
	resume  func() (struct{}, bool)
	stop    func()
	wait    func(struct{}) bool
	batch   *pgx.Batch
	answers pgx.BatchResults
	err     error
}

// errDropped ends a function whose transaction goes no further.
var errDropped = errors.New("the transaction ended before its last statements")

func (l *lastly) send(sql string, args []any) error {
	l.batch.Queue(sql, args...)
	if !l.wait(struct{}{}) || l.answers == nil {
		return errDropped
	}
	return nil
}

func (l *lastly) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if err := l.send(sql, args); err != nil {
		return pgconn.CommandTag{}, err
	}
	return l.answers.Exec()
}

func (l *lastly) Query(_ context.Context, sql string, args ...any) (pgx.Rows, error) {
	if err := l.send(sql, args); err != nil {
		return nil, err
	}
	return l.answers.Query()
}

func (l *lastly) QueryRow(_ context.Context, sql string, args ...any) pgx.Row {
	if err := l.send(sql, args); err != nil {
		return failedRow{err}
	}
	return l.answers.QueryRow()
}

type failedRow struct{ err error }

func (r failedRow) Scan(...any) error { return r.err }
