//go:build linux

package postgres_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/weft-automation/weft/internal/local/pgtest"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// queue queues SQL without rows.
func queue(t *testing.T, b *postgres.Batch, sql string, args ...any) {
	t.Helper()
	if _, err := b.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

// raised returns a condition on errors with this SQLSTATE.
func raised(code string) func(error) bool {
	return func(err error) bool { return postgres.Raised(err, code) }
}

// The statements of AtCommit and all statements before them are committed together or not at all.
func TestStatementsAtCommitAreCommittedWithTheRest(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	if _, err := pool.Exec(t.Context(), "CREATE TABLE lines (place serial, n integer PRIMARY KEY)"); err != nil {
		t.Fatal(err)
	}
	const insert, must = "INSERT INTO lines (n) VALUES ($1)", "-- name: Demand :exec\nSELECT must($1 = 2, 'WF001')"
	refused := errors.New("refused")
	type line struct {
		sql string
		n   int
	}
	for name, c := range map[string]struct {
		now      error
		swallow  bool // a statement fails before the commit, and its error is ignored
		atCommit []line
		kept     string
		fits     func(err error) bool
	}{
		"no statement":         {kept: "1"},
		"one":                  {atCommit: []line{{insert, 2}}, kept: "1 2"},
		"several, in order":    {atCommit: []line{{insert, 3}, {insert, 2}}, kept: "1 3 2"},
		"an error before":      {now: refused, atCommit: []line{{insert, 2}}, fits: func(err error) bool { return errors.Is(err, refused) }},
		"the second violates":  {atCommit: []line{{insert, 2}, {insert, 2}, {insert, 3}}, fits: raised("23505")},
		"a condition holds":    {atCommit: []line{{must, 2}, {insert, 2}}, kept: "1 2"},
		"a condition fails":    {atCommit: []line{{insert, 2}, {must, 1}, {insert, 3}}, fits: raised("WF001")},
		"the error has a name": {atCommit: []line{{must, 1}}, fits: func(err error) bool { return strings.HasPrefix(err.Error(), "Demand: ERROR: ") }},
		"an ignored error": {swallow: true, fits: func(err error) bool {
			return err != nil && err.Error() == "commit failed: the server replied ROLLBACK"
		}},
		"an ignored error before a statement": {swallow: true, atCommit: []line{{insert, 2}}, fits: raised("25P02")},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := pool.Exec(t.Context(), "TRUNCATE lines"); err != nil {
				t.Fatal(err)
			}
			err := postgres.InTx(t.Context(), pool, nil, func(tx *postgres.Tx) error {
				for _, l := range c.atCommit {
					queue(t, tx.AtCommit(), l.sql, l.n)
				}
				if _, err := tx.Exec(t.Context(), insert, 1); err != nil {
					return err
				}
				if c.swallow {
					_, _ = tx.Exec(t.Context(), insert, 1)
				}
				return c.now
			})
			if c.fits == nil && err != nil || c.fits != nil && !c.fits(err) {
				t.Errorf("error %v", err)
			}
			var kept string
			if err := pool.QueryRow(t.Context(), "SELECT COALESCE(string_agg(n::text, ' ' ORDER BY place), '') FROM lines").Scan(&kept); err != nil || kept != c.kept {
				t.Errorf("%q is stored, want %q (%v)", kept, c.kept, err)
			}
		})
	}
}

// Queries in a batch see what the statements before them have written. Their rows are available
// after the batch was sent, or after the commit for AtCommit.
func TestABatchReturnsTheRowsOfItsQueries(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	type both struct {
		N    int64
		Text *string
	}
	type params struct {
		From int32
		Text string
	}
	const numbers = "SELECT n, CASE WHEN n > 1 THEN $2::text END FROM lines WHERE n >= $1 ORDER BY n"
	var early postgres.Batch
	var rows, none *postgres.Rows[both]
	var counts *postgres.Rows[int]
	var times *postgres.Rows[time.Time]
	err := postgres.InTx(t.Context(), pool, nil, func(tx *postgres.Tx) error {
		queue(t, &early, "CREATE TABLE lines (n bigint)")
		if err := tx.Send(t.Context(), &early); err != nil {
			return err
		}
		var b postgres.Batch
		queue(t, &b, "INSERT INTO lines VALUES (1)")
		counts = postgres.Returning[int](&b, "SELECT count(*) FROM lines", struct{}{})
		queue(t, &b, "INSERT INTO lines VALUES (2), ($1)", 3)
		rows = postgres.Returning[both](&b, numbers, params{From: 1, Text: "x"})
		none = postgres.Returning[both](&b, numbers, params{From: 4})
		if err := tx.Send(t.Context(), &b); err != nil {
			return err
		}
		times = postgres.Returning[time.Time](tx.AtCommit(), "SELECT now()", struct{}{})
		unread(t, times)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if all := rows.All(); len(all) != 3 || all[0] != (both{N: 1}) || all[1].N != 2 || *all[2].Text != "x" {
		t.Errorf("rows %+v", all)
	}
	if n, err := counts.One(); n != 1 || err != nil {
		t.Errorf("the second statement counted %d rows, %v", n, err)
	}
	if _, err := none.One(); len(none.All()) != 0 || !postgres.NotFound(err) {
		t.Errorf("no rows: %v", err)
	}
	if at, err := times.One(); at.IsZero() || err != nil {
		t.Errorf("the time of the commit: %v, %v", at, err)
	}
}

// unread demands that rows cannot be read yet.
func unread[T any](t *testing.T, rows *postgres.Rows[T]) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Error("rows were read before the batch was sent")
		}
	}()
	_, _ = rows.One()
}

// The first error of a batch is returned, and the rows after it stay unread.
func TestABatchStopsAtItsFirstError(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	var broken, after *postgres.Rows[int]
	err := postgres.InTx(t.Context(), pool, nil, func(tx *postgres.Tx) error {
		var b postgres.Batch
		queue(t, &b, "CREATE TABLE lines (n integer)")
		broken = postgres.Returning[int](&b, "-- name: Divide :one\nSELECT 1 / $1::integer", struct{ By int }{0})
		after = postgres.Returning[int](&b, "SELECT 1", struct{}{})
		return tx.Send(t.Context(), &b)
	})
	if !postgres.Raised(err, "22012") || !strings.HasPrefix(err.Error(), "Divide: ") {
		t.Errorf("error %v", err)
	}
	unread(t, broken)
	unread(t, after)
	if _, err := pool.Exec(t.Context(), "SELECT FROM lines"); !postgres.Raised(err, "42P01") {
		t.Errorf("the table was kept: %v", err)
	}
}

// A batch queues statements, whose rows can only be read with Returning.
func TestABatchRejectsQueriesThatReturnRowsAtOnce(t *testing.T) {
	var b postgres.Batch
	rows, err := b.Query(t.Context(), "SELECT 1")
	if err == nil {
		rows.Close()
		t.Error("Query was accepted")
	}
	var n int
	if err := b.QueryRow(t.Context(), "SELECT 1").Scan(&n); err == nil {
		t.Error("QueryRow was accepted")
	}
}

// A batch holds values only. A function would run later, when what it reads may have changed.
func TestABatchHoldsNoFunction(t *testing.T) {
	var look func(of reflect.Type, path string)
	look = func(of reflect.Type, path string) {
		switch of.Kind() {
		case reflect.Func, reflect.Chan:
			t.Errorf("%s is a %s", path, of.Kind())
		case reflect.Slice, reflect.Pointer, reflect.Array:
			look(of.Elem(), path)
		case reflect.Struct:
			for i := range of.NumField() {
				look(of.Field(i).Type, path+"."+of.Field(i).Name)
			}
		}
	}
	look(reflect.TypeFor[postgres.Batch](), "Batch")
	look(reflect.TypeFor[postgres.Rows[int]](), "Rows")
}

// A transaction starts with its first batch, and is rolled back after any error.
func TestATransactionStartsWithItsFirstBatch(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	if _, err := pool.Exec(t.Context(), "CREATE TABLE lines (n integer PRIMARY KEY)"); err != nil {
		t.Fatal(err)
	}
	const insert, twice = "INSERT INTO lines VALUES (1), (2) RETURNING n", "INSERT INTO lines VALUES (1), (1) RETURNING n"
	ways := map[string]func(sql string, f func(tx *postgres.Tx) error) error{
		"after an empty batch": func(sql string, f func(tx *postgres.Tx) error) error {
			return postgres.InTx(t.Context(), pool, nil, func(tx *postgres.Tx) error {
				if _, err := tx.Exec(t.Context(), sql); err != nil {
					return err
				}
				return f(tx)
			})
		},
		"in the first batch": func(sql string, f func(tx *postgres.Tx) error) error {
			var first postgres.Batch
			queue(t, &first, "SELECT 1")
			queue(t, &first, sql)
			return postgres.InTx(t.Context(), pool, &first, f)
		},
		"in a later batch": func(sql string, f func(tx *postgres.Tx) error) error {
			return postgres.InTx(t.Context(), pool, nil, func(tx *postgres.Tx) error {
				var b postgres.Batch
				queue(t, &b, sql)
				if err := tx.Send(t.Context(), &b); err != nil {
					return err
				}
				return f(tx)
			})
		},
	}
	refused := errors.New("refused")
	for name, insertIn := range ways {
		for _, c := range []struct {
			what, sql string
			then      error
			kept      int
			fits      func(err error) bool
		}{
			{"commits", insert, nil, 2, func(err error) bool { return err == nil }},
			{"is rolled back after a later error", insert, refused, 0, func(err error) bool { return errors.Is(err, refused) }},
			{"is rolled back after its own error", twice, nil, 0, func(err error) bool { return postgres.Raised(err, "23505") }},
		} {
			if _, err := pool.Exec(t.Context(), "TRUNCATE lines"); err != nil {
				t.Fatal(err)
			}
			seen := 0
			err := insertIn(c.sql, func(tx *postgres.Tx) error {
				if err := tx.QueryRow(t.Context(), "SELECT count(*) FROM lines").Scan(&seen); err != nil {
					return err
				}
				return c.then
			})
			if !c.fits(err) {
				t.Errorf("%s %s: %v", name, c.what, err)
			}
			var kept int
			if err := pool.QueryRow(t.Context(), "SELECT count(*) FROM lines").Scan(&kept); err != nil || kept != c.kept || seen < kept {
				t.Errorf("%s %s: %d lines, %d seen inside, want %d (%v)", name, c.what, kept, seen, c.kept, err)
			}
		}
	}
	if err := postgres.InTx(t.Context(), pool, nil, func(*postgres.Tx) error { return nil }); err != nil {
		t.Errorf("a transaction without statements: %v", err)
	}
}

// Commit is a transaction in one round trip: all statements of the batch are committed, or none.
func TestABatchIsCommittedAsAWhole(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	if _, err := pool.Exec(t.Context(), "CREATE TABLE lines (n integer PRIMARY KEY)"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		second, kept int
		fits         func(err error) bool
	}{{1, 0, raised("23505")}, {2, 2, func(err error) bool { return err == nil }}} {
		var b postgres.Batch
		queue(t, &b, "INSERT INTO lines VALUES (1)")
		queue(t, &b, "INSERT INTO lines VALUES ($1)", c.second)
		if err := postgres.Commit(t.Context(), pool, &b); !c.fits(err) {
			t.Errorf("the second line is %d: %v", c.second, err)
		}
		var kept int
		if err := pool.QueryRow(t.Context(), "SELECT count(*) FROM lines").Scan(&kept); err != nil || kept != c.kept {
			t.Errorf("the second line is %d: %d lines are kept, %v", c.second, kept, err)
		}
	}
}
