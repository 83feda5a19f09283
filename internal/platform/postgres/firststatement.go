package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

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
	if err := u.of.begun(answers); err != nil {
		_ = answers.Close() // says the same
		_ = answers.Close() // returns the same error
	}
	return answers, nil
}

func (u unstarted) Exec(ctx context.Context, sql string, args ...any) (tag pgconn.CommandTag, err error) {
	answers, err := u.begin(ctx, sql, args)
	if err != nil {
		return tag, err
	}
	tag, err = answers.Exec()
	if end := answers.Close(); err == nil {
		err = end
	}
	return tag, err
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

// Commit and Rollback do nothing, because the transaction wasn't started.
func (unstarted) Commit(context.Context) error   { return nil }
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
