//go:build linux

package postgres_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/internal/postgres"
	"github.com/weft-automation/weft/internal/postgres/pgtest"
)

// What is done last commits with all before it, or none of it does.
func TestWhatIsLastGoesWithTheCommit(t *testing.T) {
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
		"nothing last":        {kept: 1},
		"one":                 {last: []func(pgx.Tx) error{insert(2)}, kept: 2},
		"several, in order":   {last: []func(pgx.Tx) error{insert(2), insert(3)}, kept: 3},
		"an error before":     {now: refused, last: []func(pgx.Tx) error{insert(2)}, fits: func(err error) bool { return errors.Is(err, refused) }},
		"the second violates": {last: []func(pgx.Tx) error{insert(2), insert(2)}, fits: func(err error) bool { return postgres.Raised(err, "23505") }},
		"one raises": {last: []func(pgx.Tx) error{insert(2), func(tx pgx.Tx) error {
			var whole bool
			return tx.QueryRow(t.Context(), "SELECT must(1 = 2, 'WF001')").Scan(&whole)
		}}, fits: func(err error) bool { return postgres.Raised(err, "WF001") }},
		"one that asks nothing": {last: []func(pgx.Tx) error{func(pgx.Tx) error { return nil }, insert(2)}, kept: 2},
		"one that asks nothing and fails": {last: []func(pgx.Tx) error{insert(2), func(pgx.Tx) error { return refused }},
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
