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

// Tx is a transaction with few round trips. BEGIN is sent with the first statement, and the last
// statements are sent with COMMIT. So the locks of the last statements are held only for the
// duration of the commit, even if this process is busy.
type Tx struct {
	pgx.Tx // unstarted before the first statement
	conn   *pgx.Conn
	last   []func(tx pgx.Tx) error
}

// Last defers f until the commit. f may run one statement, which is sent together with COMMIT.
// To abort the transaction, the statement must raise an error itself: when f receives the
// result, the transaction is already committed. Functions run in the order of the calls to Last.
func (tx *Tx) Last(f func(tx pgx.Tx) error) { tx.last = append(tx.last, f) }

// Together runs functions with one statement each and sends their statements in one round trip.
// It returns the first error. No statement may depend on the result of another.
func (tx *Tx) Together(ctx context.Context, fs ...func(tx pgx.Tx) error) error {
	return tx.send(ctx, fs, false)
}

// InTx is like pgx.BeginFunc, but for a Tx: it calls f and commits, together with the functions
// that f passed to Last; or it rolls back and returns the first error. If the commit is in doubt,
// it returns a DoubtError. The first statement of f must use Exec, Query, QueryRow or Together.
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
	if len(tx.last) == 0 {
		return doubt(tx.conn, tx.Commit(ctx))
	}
	return doubt(tx.conn, tx.send(ctx, tx.last, true))
}

var errClosed = fmt.Errorf("commit: %w", pgconn.ErrConnClosed)

// send runs functions with one statement each and sends their statements in one round trip. It
// starts the transaction if it hasn't started yet, and commits the transaction if commit is set.
func (tx *Tx) send(ctx context.Context, fs []func(tx pgx.Tx) error, commit bool) (err error) {
	var batch pgx.Batch
	_, begins := tx.Tx.(unstarted)
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
			return errors.New("a function for Last or Together ran a second statement")
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
		err = fmt.Errorf("commit failed: the server replied %s", tag)
	}
	return err
}

// begun continues with the transaction that the results start with.
func (tx *Tx) begun(answers pgx.BatchResults) error {
	tx.Tx = answers.Tx()
	_, err := answers.Exec()
	return err
}

// part is the transaction as seen by a function of Last or Together: its statement is added to
// the batch, and the function continues when the result has arrived.
type part struct {
	pgx.Tx
	resume  func() (struct{}, bool)
	stop    func()
	wait    func(struct{}) bool
	batch   *pgx.Batch
	answers pgx.BatchResults
	err     error
}

// errDropped is returned to a function whose statement was not run.
var errDropped = errors.New("the transaction was aborted before this statement")

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
