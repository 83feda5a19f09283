package expression_test

import (
	"encoding/json"
	"testing"

	"github.com/weft-automation/weft/internal/component/expression"
	"github.com/weft-automation/weft/internal/local/pgtest"
)

// inZones is what PostgreSQL makes of times around changes of the clocks, and of others. It takes a time
// that occurs twice for the later one, and plus for the earlier one, so these are left out.
const inZones = `
SELECT to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS at, zone, n, unit,
	to_char(added AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS added,
	to_char(date_trunc(unit, at, zone) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS start,
	to_char(at AT TIME ZONE zone, 'YYYY-MM-DD HH24:MI:SS') AS text
FROM (SELECT *, ((at AT TIME ZONE zone) + n * ('1 ' || unit)::interval) AT TIME ZONE zone AS added
	FROM unnest('{Europe/Berlin,America/New_York,America/St_Johns,Asia/Kolkata,Asia/Kathmandu,Australia/Lord_Howe,Pacific/Apia,America/Sao_Paulo,UTC}'::text[]) AS zone,
		unnest('{day,week,month,year}'::text[]) AS unit, unnest('{-13,-1,0,1,5}'::int[]) AS n,
		generate_series('2011-01-31 23:30:00.5Z'::timestamptz, '2016-03-01Z', '1583 hours 20 minutes') AS at) AS computed
WHERE (added - interval '1 hour') AT TIME ZONE zone <> added AT TIME ZONE zone AND (added - interval '30 minutes') AT TIME ZONE zone <> added AT TIME ZONE zone`

func TestTimesInZonesAreThoseOfPostgreSQL(t *testing.T) {
	t.Parallel()
	program, err := expression.Compile(`[plus(at, n, unit, zone), startOf(at, unit, zone), format(at, "%Y-%m-%d %H:%M:%S", zone)]`)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := pgtest.Tx(t).Query(t.Context(), inZones)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	count := 0
	for ; rows.Next(); count++ {
		var (
			at, zone, unit string
			n              int64
			want           [3]string
		)
		if err := rows.Scan(&at, &zone, &n, &unit, &want[0], &want[1], &want[2]); err != nil {
			t.Fatal(err)
		}
		got, err := program.Run(map[string]any{"at": at, "zone": zone, "unit": unit, "n": n})
		text, _ := json.Marshal(got)
		if wanted, _ := json.Marshal(want); err != nil || string(text) != string(wanted) {
			t.Errorf("%s %+d %s in %s: got %s, %v, want %s", at, n, unit, zone, text, err, wanted)
		}
	}
	if rows.Err() != nil || count < 3000 {
		t.Errorf("%d times, %v", count, rows.Err())
	}
}
