package postgres_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/internal/component/expression"
	"github.com/weft-automation/weft/internal/kit/timestamp"
	"github.com/weft-automation/weft/internal/local/pgtest"
)

// PostgreSQL has its own time zone database and arithmetic, so it is a reference for plus, startOf, date and
// format around the days on which clocks change.
func TestExpressionsCalculateWithZonesAsPostgreSQLDoes(t *testing.T) {
	t.Parallel()
	db, err := pgx.Connect(t.Context(), pgtest.DSN(t))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(t.Context())
	query := func(sql string, args ...any) []any {
		rows, err := db.Query(t.Context(), sql, args...)
		if err != nil {
			t.Fatal(err)
		}
		values, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) ([]any, error) { return row.Values() })
		if err != nil {
			t.Fatal(err)
		}
		return values[0]
	}
	run := func(text string, values map[string]any) any {
		program, err := expression.Compile(text)
		if err != nil {
			t.Fatal(err)
		}
		value, err := program.Run(values)
		if err != nil {
			t.Fatal(text, values, err)
		}
		return value
	}
	days := map[string][]string{
		"Europe/Berlin":       {"2026-03-29", "2026-10-25"},
		"America/New_York":    {"2026-03-08", "2026-11-01"},
		"Australia/Lord_Howe": {"2026-04-05", "2026-10-04"}, // by half an hour
		"America/Sao_Paulo":   {"2018-11-04", "2018-02-18"}, // at midnight
	}
	for zone, changes := range days {
		for _, day := range changes {
			noon, err := time.Parse(time.DateOnly, day)
			if err != nil {
				t.Fatal(err)
			}
			for at := noon.Add(-36 * time.Hour); at.Before(noon.Add(48 * time.Hour)); at = at.Add(29 * time.Minute) {
				values := map[string]any{"at": timestamp.Of(at).String(), "zone": zone, "wall": at.Format("2006-01-02T15:04:05")}
				for _, unit := range []string{"hour", "day", "week", "month", "year"} {
					for _, n := range []int64{-1, 1, 2} {
						values["n"], values["unit"] = n, unit
						want := query("SELECT (($1::timestamptz AT TIME ZONE $2) + make_interval(years => $3, months => $4, weeks => $5, days => $6)) AT TIME ZONE $2 + make_interval(hours => $7)",
							at, zone, when(unit, "year", n), when(unit, "month", n), when(unit, "week", n), when(unit, "day", n), when(unit, "hour", n))[0].(time.Time)
						if unit == "hour" {
							want = at.Add(time.Duration(n) * time.Hour)
						}
						if got := run("plus(at, n, unit, zone)", values); got != timestamp.Of(want).String() {
							t.Fatalf("%s plus %d %s in %s is %v, PostgreSQL has %s", at, n, unit, zone, got, want)
						}
					}
				}
				row := query("SELECT date_trunc('hour', $1::timestamptz, $2), date_trunc('day', $1::timestamptz, $2), date_trunc('week', $1::timestamptz, $2), date_trunc('month', $1::timestamptz, $2), date_trunc('year', $1::timestamptz, $2), $3::timestamp AT TIME ZONE $2, to_char($1::timestamptz AT TIME ZONE $2, 'YYYY-MM-DD HH24:MI:SS IYYY IW ID DDD')",
					at, zone, at)
				for i, text := range []string{`startOf(at, "hour", zone)`, `startOf(at, "day", zone)`, `startOf(at, "week", zone)`, `startOf(at, "month", zone)`, `startOf(at, "year", zone)`, `date(wall, zone)`} {
					if got, want := run(text, values), row[i].(time.Time); got != timestamp.Of(want).String() {
						t.Fatalf("%s of %s in %s is %v, PostgreSQL has %s", text, at, zone, got, want)
					}
				}
				if got := run(`format(at, "%F %T %G %V %u %j", zone)`, values); got != row[6] {
					t.Fatalf("%s in %s is %v, PostgreSQL has %v", at, zone, got, row[6])
				}
			}
		}
	}
}

func when(unit, wanted string, n int64) int64 {
	if unit == wanted {
		return n
	}
	return 0
}
