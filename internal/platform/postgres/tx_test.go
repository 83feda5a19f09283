//go:build linux

package postgres_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/internal/local/pgtest"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// The functions of Last and all statements before them are committed together or not at all.
func TestLastStatementsAreCommittedWithTheRest(t *testing.T) {
	pool := pgtest.DB(t)
	if _, err := pool.Exec(t.Context(), "CREATE TABLE lines (n integer PRIMARY KEY)"); err != nil {
		t.Fatal(err)
	}
	refused := errors.New("refused")
	insert := func(n int) func(tx pgx.Tx) error {
		return func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), "INSERT INTO lines VALUES ($1)", n)
			return err
		}
	}
	for name, c := range map[string]struct {
		now  error
		last []func(tx pgx.Tx) error
		kept int
		fits func(err error) bool
	}{
		"no last function":    {kept: 1},
		"one":                 {last: []func(pgx.Tx) error{insert(2)}, kept: 2},
		"several, in order":   {last: []func(pgx.Tx) error{insert(2), insert(3)}, kept: 3},
		"an error before":     {now: refused, last: []func(pgx.Tx) error{insert(2)}, fits: func(err error) bool { return errors.Is(err, refused) }},
		"the second violates": {last: []func(pgx.Tx) error{insert(2), insert(2)}, fits: func(err error) bool { return postgres.Raised(err, "23505") }},
		"one raises": {last: []func(pgx.Tx) error{insert(2), func(tx pgx.Tx) error {
			var whole bool
			return tx.QueryRow(t.Context(), "SELECT must(1 = 2, 'WF001')").Scan(&whole)
		}}, fits: func(err error) bool { return postgres.Raised(err, "WF001") }},
		"one without a statement": {last: []func(pgx.Tx) error{func(pgx.Tx) error { return nil }, insert(2)}, kept: 2},
		"one without a statement that fails": {last: []func(pgx.Tx) error{insert(2), func(pgx.Tx) error { return refused }},
			fits: func(err error) bool { return errors.Is(err, refused) }},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := pool.Exec(t.Context(), "TRUNCATE lines"); err != nil {
				t.Fatal(err)
			}
			err := postgres.InTx(t.Context(), pool, func(tx *postgres.Tx) error {
				if err := insert(1)(tx); err != nil {
					return err
				}
				for _, f := range c.last {
					tx.Last(f)
				}
				return c.now
			})
			if c.fits == nil && err != nil || c.fits != nil && !c.fits(err) {
				t.Errorf("error %v", err)
			}
			var kept int
			if err := pool.QueryRow(t.Context(), "SELECT count(*) FROM lines").Scan(&kept); err != nil || kept != c.kept {
				t.Errorf("%d lines, want %d (%v)", kept, c.kept, err)
			}
		})
	}
}

// A transaction starts with its first statement, regardless of the method that runs the
// statement, and is rolled back after any error.
func TestATransactionStartsWithItsFirstStatement(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	if _, err := pool.Exec(t.Context(), "CREATE TABLE lines (n integer PRIMARY KEY)"); err != nil {
		t.Fatal(err)
	}
	const insert, twice = "INSERT INTO lines VALUES (1), (2) RETURNING n", "INSERT INTO lines VALUES (1), (1) RETURNING n"
	ways := map[string]func(tx *postgres.Tx, sql string) error{
		"Exec": func(tx *postgres.Tx, sql string) error {
			_, err := tx.Exec(t.Context(), sql)
			return err
		},
		"Query": func(tx *postgres.Tx, sql string) error {
			rows, err := tx.Query(t.Context(), sql)
			if err != nil {
				return err
			}
			_, err = pgx.CollectRows(rows, pgx.RowTo[int])
			return err
		},
		"QueryRow": func(tx *postgres.Tx, sql string) error {
			var n int
			return tx.QueryRow(t.Context(), sql).Scan(&n)
		},
		"Together": func(tx *postgres.Tx, sql string) error {
			ask := func(sql string) func(tx pgx.Tx) error {
				return func(tx pgx.Tx) error {
					_, err := tx.Exec(t.Context(), sql)
					return err
				}
			}
			return tx.Together(t.Context(), ask("SELECT 1"), ask(sql))
		},
	}
	refused := errors.New("refused")
	for name, ask := range ways {
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
			err := postgres.InTx(t.Context(), pool, func(tx *postgres.Tx) error {
				if err := ask(tx, c.sql); err != nil {
					return err
				}
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
	if err := postgres.InTx(t.Context(), pool, func(*postgres.Tx) error { return nil }); err != nil {
		t.Errorf("a transaction without statements: %v", err)
	}
}
