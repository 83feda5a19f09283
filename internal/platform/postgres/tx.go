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

// Tx is a transaction that takes few trips: it begins with its first statement, and its
// last statements travel with its commit: what they lock is held no longer than the commit
// itself takes, however busy this process is.
type Tx struct {
	pgx.Tx // unbegun before the first statement
	conn   *pgx.Conn
	last   []func(tx pgx.Tx) error
}

// Last has f's one statement leave with the commit. What it finds wrong the
// statement must raise itself, which ends the transaction: when f sees the answer,
// the commit is made. Those before in the order of Last are answered before.
func (tx *Tx) Last(f func(tx pgx.Tx) error) { tx.last = append(tx.last, f) }

// Together has the one statement of each of fs leave in one trip, and returns their first
// error. None may depend on the answer to one before.
func (tx *Tx) Together(ctx context.Context, fs ...func(tx pgx.Tx) error) error {
	return tx.send(ctx, fs, false)
}

// InTx is pgx.BeginFunc for a Tx: it commits what f did and what f left to be done
// last, or rolls back and returns the first error. The first statement of f must be asked
// by Exec, Query or QueryRow, or be among those of Together.
func InTx(ctx context.Context, pool *pgxpool.Pool, f func(tx *Tx) error) (err error) {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	tx := &Tx{conn: conn.Conn()}
	tx.Tx = unbegun{of: tx}
	defer func() {
		if err == nil {
			return
		}
		if undo := tx.Rollback(ctx); undo != nil && !errors.Is(undo, pgx.ErrTxClosed) {
			// As pgx.BeginFunc: nobody may go on with a transaction half done.
			_ = conn.Conn().Close(ctx)
		}
	}()
	if err := f(tx); err != nil {
		return err
	}
	if len(tx.last) == 0 {
		return tx.Commit(ctx)
	}
	return tx.send(ctx, tx.last, true)
}

// send has the one statement of each of fs leave in one trip, with the beginning of the
// transaction before and its commit behind where that is due.
func (tx *Tx) send(ctx context.Context, fs []func(tx pgx.Tx) error, commit bool) (err error) {
	var batch pgx.Batch
	_, begins := tx.Tx.(unbegun)
	if begins {
		batch.BeginTx(pgx.TxOptions{})
	}
	parts := make([]*part, len(fs))
	for i, f := range fs {
		p := &part{Tx: tx.Tx, batch: &batch}
		p.resume, p.stop = iter.Pull(func(yield func(struct{}) bool) {
			p.wait = yield
			p.err = f(p)
		})
		defer p.stop()
		if _, asks := p.resume(); !asks && p.err != nil {
			return p.err
		}
		parts[i] = p
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
	for _, p := range parts {
		p.answers = answers
		if _, again := p.resume(); again {
			return errors.New("what is sent with others has a second statement")
		}
		if p.err != nil {
			return p.err
		}
	}
	if !commit {
		return nil
	}
	tag, err := answers.Exec()
	if err == nil && tag.String() != "COMMIT" {
		err = fmt.Errorf("the commit was answered with %s", tag)
	}
	return err
}

// begun goes on with the transaction that answers begin with.
func (tx *Tx) begun(answers pgx.BatchResults) error {
	tx.Tx = answers.Tx()
	_, err := answers.Exec()
	return err
}

// part is the transaction as a function whose statement is sent with others sees it: the
// statement is put into the batch, and the function goes on when its answer is there.
type part struct {
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

func (p *part) send(sql string, args []any) error {
	p.batch.Queue(sql, args...)
	if !p.wait(struct{}{}) || p.answers == nil {
		return errDropped
	}
	return nil
}

func (p *part) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if err := p.send(sql, args); err != nil {
		return pgconn.CommandTag{}, err
	}
	return p.answers.Exec()
}

func (p *part) Query(_ context.Context, sql string, args ...any) (pgx.Rows, error) {
	if err := p.send(sql, args); err != nil {
		return nil, err
	}
	return p.answers.Query()
}

func (p *part) QueryRow(_ context.Context, sql string, args ...any) pgx.Row {
	if err := p.send(sql, args); err != nil {
		return failedRow{err}
	}
	return p.answers.QueryRow()
}

type failedRow struct{ err error }

func (r failedRow) Scan(...any) error { return r.err }
