package cron_test

import (
	"archive/zip"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weft-automation/weft/internal/kit/cron"
	"github.com/weft-automation/weft/internal/kit/waittest"
)

// expressions are compared in each time zone. Many of the expressions match times at which
// clocks change.
var expressions = []string{
	"*/5 * * * *", "0 * * * *", "30 * * * *", "0 0 * * *", "30 0 * * *", "15 1 * * *", "30 2 * * *", "45 2 * * *", "59 23 * * *", "0 2 28 3 *",
	"0 9 * * MON-FRI", "0 0 * * 7", "0 0 1 * *", "0 0 13 * 5", "0 12 1-7 * MON", "0 0 29 2 *", "*/20 0-3 * 3,4,10,NOV SAT-SUN", "0 0 31 * ?",
	"5-55/10 22-23 */2 * SAT", "30 1 25-31 MAR,OCT 5-7",
}

// transitions are zones whose clocks change at midnight, by 30 minutes, by two hours, or more
// than twice a year.
var transitions = []string{
	"Asia/Beirut", "Africa/Cairo", "Australia/Lord_Howe", "America/Havana", "America/Santiago", "Antarctica/Troll", "Africa/Casablanca",
	"Pacific/Chatham", "Europe/Berlin", "Asia/Kathmandu", "UTC",
}

// The second implementation steps through every minute of UTC and asks Go for the wall-clock
// time in the zone. The soak test covers ten years of the zones below and of a tenth of the other
// zones of the time zone database. The seed in the log, as WEFT_SEED, draws the same zones again.
func TestTimesEqualAnEnumerationOfEveryMinute(t *testing.T) {
	t.Parallel()
	zones, years := transitions, 1
	if waittest.Timed() {
		zones, years = append(slices.Clone(transitions), tenth(t, everyZone(t))...), 10
	}
	for _, zone := range zones {
		t.Run(zone, func(t *testing.T) {
			t.Parallel()
			from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			compare(t, zone, from, from.AddDate(years, 0, 0))
		})
	}
	t.Logf("%d zones, %d expressions, %d years each", len(zones), len(expressions), years)
}

// In 2011, Samoa skipped 30 December. In the years around 2011, other zones changed their offset
// by 30 minutes or at midnight.
func TestTimesEqualAnEnumerationWhereADayIsMissing(t *testing.T) {
	t.Parallel()
	for _, zone := range []string{"Pacific/Apia", "America/Caracas", "America/Sao_Paulo"} {
		from := time.Date(2011, 1, 1, 0, 0, 0, 0, time.UTC)
		compare(t, zone, from, from.AddDate(1, 1, 0))
	}
}

// compare reports the first difference of each expression.
func compare(t *testing.T, name string, from, until time.Time) {
	t.Helper()
	zone, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	schedules, next := make([]*cron.Schedule, len(expressions)), make([]time.Time, len(expressions))
	for i, expression := range expressions {
		if schedules[i], err = cron.Parse(expression, name); err != nil {
			t.Fatalf("%s: %v", expression, err)
		}
		next[i] = schedules[i].Next(from.Add(-time.Second))
	}
	different := make([]bool, len(expressions))
	differs := func(i int, want string) {
		if !different[i] {
			t.Errorf("%q in %s: the next time is %s, want %s", expressions[i], name, next[i].In(zone), want)
		}
		different[i] = true
	}
	day := -1
	var today uint32 // the expressions that match this day, one bit each
	for at := from; at.Before(until); at = at.Add(time.Minute) {
		shown := at.In(zone)
		hour, minute, _ := shown.Clock()
		if shown.Day() != day {
			day, today = shown.Day(), 0
			for i, expression := range expressions {
				if matchesDay(expression, shown) {
					today |= 1 << i
				}
			}
		}
		for matching := today & byMinute[hour*60+minute]; matching != 0; matching &= matching - 1 {
			i := bits.TrailingZeros32(matching)
			if !next[i].Equal(at) {
				differs(i, shown.String())
			}
			next[i] = schedules[i].Next(at)
		}
	}
	for i := range expressions {
		if !next[i].IsZero() && next[i].Before(until) {
			differs(i, "none before "+until.String())
		}
	}
}

// byMinute holds, for each minute of a day, the expressions that match it, one bit each.
var byMinute = func() (table [24 * 60]uint32) {
	for i, expression := range expressions {
		fields := strings.Fields(expression)
		for at := range table {
			if allows(fields[0], at%60, 59) && allows(fields[1], at/60, 23) {
				table[at] |= 1 << i
			}
		}
	}
	return table
}()

// matchesDay reads the three fields of an expression that select days.
func matchesDay(expression string, at time.Time) bool {
	fields := strings.Fields(expression)
	names := strings.NewReplacer("MAR", "3", "OCT", "10", "NOV", "11", "MON", "1", "FRI", "5", "SAT", "6", "SUN", "7", "?", "*")
	for i := range fields {
		fields[i] = names.Replace(fields[i])
	}
	if !allows(fields[3], int(at.Month()), 12) {
		return false
	}
	weekday := int(at.Weekday())
	byDay, byWeekday := allows(fields[2], at.Day(), 31), allows(fields[4], weekday, 6) || weekday == 0 && allows(fields[4], 7, 7)
	if fields[2] == "*" || fields[4] == "*" {
		return byDay && byWeekday
	}
	return byDay || byWeekday
}

// allows reports whether a field without names matches a number.
func allows(field string, n, highest int) bool {
	for element := range strings.SplitSeq(field, ",") {
		span, by, stepped := strings.Cut(element, "/")
		low, high, ranged := strings.Cut(span, "-")
		switch {
		case span == "*":
			low, high = "0", strconv.Itoa(highest)
			if field == "*/2" && highest == 31 {
				low = "1"
			}
		case !ranged:
			high = low
		}
		first, _ := strconv.Atoi(low)
		last, _ := strconv.Atoi(high)
		step := 1
		if stepped {
			step, _ = strconv.Atoi(by)
		}
		if n >= first && n <= last && (n-first)%step == 0 {
			return true
		}
	}
	return false
}

// tenth returns a tenth of the zones, drawn by $WEFT_SEED or by a random seed.
func tenth(t *testing.T, zones []string) (drawn []string) {
	t.Helper()
	seed := rand.Uint64()
	if text := os.Getenv("WEFT_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("WEFT_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for _, i := range random.Perm(len(zones))[:len(zones)/10] {
		if !slices.Contains(transitions, zones[i]) {
			drawn = append(drawn, zones[i])
		}
	}
	return drawn
}

// everyZone returns one name for each zone of Go's copy of the time zone database. Names with
// the same data count as the same zone.
func everyZone(t *testing.T) (names []string) {
	t.Helper()
	root, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	archive, err := zip.OpenReader(filepath.Join(strings.TrimSpace(string(root)), "lib", "time", "zoneinfo.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = archive.Close() }()
	seen := map[uint32]bool{}
	for _, file := range archive.File {
		if !strings.HasSuffix(file.Name, "/") && !seen[file.CRC32] {
			seen[file.CRC32] = true
			names = append(names, file.Name)
		}
	}
	if len(names) < 300 || len(archive.File) < 500 {
		t.Fatal(fmt.Sprint("only these zones: ", names))
	}
	return names
}
