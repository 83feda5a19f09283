package postgres

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Batch is an ordered list of complete statements, which are sent in one round trip. No statement
// may depend on the rows of another. To abort the transaction, a statement must raise an error.
// An error names the query that failed.
//
// A Batch is a DBTX of package db for queries that return nothing (:exec): the generated method
// queues the statement and always returns nil. Use Returning for queries that return rows. A Batch
// is sent once.
type Batch struct{ statements []statement }

type statement struct {
	sql  string
	args []any
	rows receiver // nil: the statement returns nothing
}

// receiver receives the rows of a statement.
type receiver interface{ receive(rows pgx.Rows) error }

// Exec queues a statement.
func (b *Batch) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	b.statements = append(b.statements, statement{sql: sql, args: args})
	return pgconn.CommandTag{}, nil
}

var errRowsInBatch = errors.New("a Batch returns no rows immediately; queue the query with postgres.Returning")

// Query returns an error.
func (b *Batch) Query(context.Context, string, ...any) (pgx.Rows, error) { return nil, errRowsInBatch }

// QueryRow returns a row with an error.
func (b *Batch) QueryRow(context.Context, string, ...any) pgx.Row { return failedRow{errRowsInBatch} }

type failedRow struct{ err error }

func (r failedRow) Scan(...any) error { return r.err }

// Rows are the rows of a query in a Batch.
type Rows[T any] struct {
	all      []T
	received bool
}

// Returning queues a query of package db. The arguments of the query are the fields of params, in
// their order. Columns are decoded into the fields of T in their order, or into T if T is not a struct.
func Returning[T any](b *Batch, sql string, params any) *Rows[T] {
	fields := reflect.ValueOf(params)
	args := make([]any, fields.NumField())
	for i := range args {
		args[i] = fields.Field(i).Interface()
	}
	rows := &Rows[T]{}
	b.statements = append(b.statements, statement{sql: sql, args: args, rows: rows})
	return rows
}

// All returns the rows. It panics if the statement hasn't succeeded.
func (r *Rows[T]) All() []T {
	if !r.received {
		panic("postgres: the rows of a Batch were read before it was sent")
	}
	return r.all
}

// One returns the first row, or pgx.ErrNoRows if there are no rows. It panics like All.
func (r *Rows[T]) One() (row T, err error) {
	if len(r.All()) == 0 {
		return row, pgx.ErrNoRows
	}
	return r.all[0], nil
}

func (r *Rows[T]) receive(rows pgx.Rows) (err error) {
	var row T
	if _, isTime := any(row).(time.Time); isTime || reflect.TypeFor[T]().Kind() != reflect.Struct {
		r.all, err = pgx.CollectRows(rows, pgx.RowTo[T])
	} else {
		r.all, err = pgx.CollectRows(rows, pgx.RowToStructByPos[T])
	}
	r.received = err == nil
	return err
}

// finish receives the result of the statement.
func (s statement) finish(answers pgx.BatchResults) (err error) {
	if s.rows == nil {
		_, err = answers.Exec()
	} else {
		rows, _ := answers.Query() // rows has the error
		err = s.rows.receive(rows)
	}
	// The SQL of a query of package db starts with "-- name: RunFold :exec".
	if comment, named := strings.CutPrefix(s.sql, "-- name: "); named && err != nil {
		name, _, _ := strings.Cut(comment, " ")
		return fmt.Errorf("%s: %w", name, err)
	}
	return err
}
