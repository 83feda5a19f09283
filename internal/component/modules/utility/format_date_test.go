package utility

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/componenttest"
)

func formatted(t *testing.T, text string, milliseconds int64) string {
	t.Helper()
	seconds := milliseconds / 1000
	if milliseconds%1000 < 0 {
		seconds--
	}
	quoted, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(`{"formatted":%s,"unixMilliseconds":%d,"unixSeconds":%d}`, quoted, milliseconds, seconds)
}

// The examples in RFC 3339, section 5.8, with their times in UTC.
func TestFormatDateAcceptsRFC3339(t *testing.T) {
	t.Parallel()
	bench := componenttest.New(t, formatDate{})
	for _, c := range []struct {
		timestamp, utc string
		milliseconds   int64
	}{
		{"1985-04-12T23:20:50.52Z", "1985-04-12T23:20:50.520Z", 482196050520},
		{"1996-12-19T16:39:57-08:00", "1996-12-20T00:39:57.000Z", 851042397000},
		{"1990-12-31T23:59:60Z", "1991-01-01T00:00:00.000Z", 662688000000},
		{"1990-12-31T15:59:60-08:00", "1991-01-01T00:00:00.000Z", 662688000000},
		{"1937-01-01T12:00:27.87+00:20", "1937-01-01T11:40:27.870Z", -1041337172130},
		// Section 5.6: t and z may be lower case; section 4.3: -00:00 is an unknown local offset.
		{"1985-04-12t23:20:50.52z", "1985-04-12T23:20:50.520Z", 482196050520},
		{"1985-04-12T23:20:50.52-00:00", "1985-04-12T23:20:50.520Z", 482196050520},
		{"1985-04-12T23:20:50.5299999999999Z", "1985-04-12T23:20:50.529Z", 482196050529},
	} {
		gives(t, bench, "FORMAT_DATE", object(t, "timestamp", c.timestamp, "format", "%Y-%m-%dT%H:%M:%S.%LZ"), formatted(t, c.utc, c.milliseconds))
	}
}

func TestFormatDateAcceptsUnixTime(t *testing.T) {
	t.Parallel()
	bench := componenttest.New(t, formatDate{})
	// IEEE Std 1003.1, Seconds Since the Epoch; 1234567890 and 2^31 are well known.
	for input, want := range map[string]string{
		`{"timestamp":0}`:                                     formatted(t, "1970-01-01T00:00:00+00:00", 0),
		`{"timestamp":1234567890}`:                            formatted(t, "2009-02-13T23:31:30+00:00", 1234567890000),
		`{"timestamp":"1234567890"}`:                          formatted(t, "2009-02-13T23:31:30+00:00", 1234567890000),
		`{"timestamp":1234567890123,"unit":"milliseconds"}`:   formatted(t, "2009-02-13T23:31:30+00:00", 1234567890123),
		`{"timestamp":"1234567890123","unit":"milliseconds"}`: formatted(t, "2009-02-13T23:31:30+00:00", 1234567890123),
		`{"timestamp":2147483648}`:                            formatted(t, "2038-01-19T03:14:08+00:00", 2147483648000),
		`{"timestamp":1e9}`:                                   formatted(t, "2001-09-09T01:46:40+00:00", 1000000000000),
		`{"timestamp":-1,"unit":"milliseconds"}`:              formatted(t, "1969-12-31T23:59:59+00:00", -1),
		`{"timestamp":-62167219200}`:                          formatted(t, "0000-01-01T00:00:00+00:00", -62167219200000),
		`{"timestamp":253402300799}`:                          formatted(t, "9999-12-31T23:59:59+00:00", 253402300799000),
	} {
		gives(t, bench, "FORMAT_DATE", input, want)
	}
}

// The expected strings are from GNU date (coreutils 9) for the same conversions, with its %3N for
// %L.
func TestFormatDateSupportsStrftimeConversions(t *testing.T) {
	t.Parallel()
	bench := componenttest.New(t, formatDate{})
	for _, c := range []struct{ timestamp, zone, format, want string }{
		{"2026-01-04T08:05:09.007Z", "Europe/Berlin", "%Y|%y|%m|%B|%b|%d|%e|%j|%A|%a|%u|%w|%G|%V|%F", "2026|26|01|January|Jan|04| 4|004|Sunday|Sun|7|0|2026|01|2026-01-04"},
		{"2026-01-04T08:05:09.007Z", "Europe/Berlin", "%H|%I|%p|%M|%S|%L|%T|%R|%z|%:z|%Z|%s|%%", "09|09|AM|05|09|007|09:05:09|09:05|+0100|+01:00|CET|1767513909|%"},
		{"2021-01-03T12:00:00Z", "UTC", "%G-W%V-%u", "2020-W53-7"},
		{"2024-12-30T00:00:00Z", "UTC", "%G-W%V-%u %j", "2025-W01-1 365"},
		{"2024-12-31T23:30:00Z", "Asia/Kolkata", "%F %T %:z %j", "2025-01-01 05:00:00 +05:30 001"},
		{"2026-07-01T00:15:00Z", "America/New_York", "%A, %e %B %Y, %I:%M %p %Z", "Tuesday, 30 June 2026, 08:15 PM EDT"},
		{"2026-07-01T12:00:00Z", "UTC", "%I %p", "12 PM"},
		{"2026-07-01T00:00:00Z", "UTC", "%I %p", "12 AM"},
		{"2026-07-01T00:00:00Z", "UTC", "no conversion, 2006 Jan _2 PM MST \u00e9", "no conversion, 2006 Jan _2 PM MST \u00e9"},
		{"0001-01-01T00:00:00Z", "UTC", "%Y %G", "0001 0001"},
		{"9999-12-31T23:59:59Z", "America/New_York", "%Y %G", "9999 9999"},
		{"9999-12-31T23:59:59-10:00", "Pacific/Honolulu", "%Y", "9999"},
		{"2026-07-01T00:00:00Z", "UTC", "", ""},
	} {
		output, failed := bench.Run(t, "FORMAT_DATE", object(t, "timestamp", c.timestamp, "timeZone", c.zone, "format", c.format), `{}`)
		var got struct{ Formatted string }
		if failed != nil || json.Unmarshal(output, &got) != nil || got.Formatted != c.want {
			t.Errorf("%s %s %s: got %q, want %q, %v", c.timestamp, c.zone, c.format, got.Formatted, c.want, failed)
		}
	}
}

// The test compares time zones with a different implementation: Intl of Node, with ICU's tables.
// Later tables don't change the rules for these years.
func TestFormatDateMatchesJavaScript(t *testing.T) {
	t.Parallel()
	zones := []string{"UTC", "Europe/Berlin", "America/New_York", "America/Sao_Paulo", "Asia/Kolkata", "Asia/Tokyo", "Australia/Lord_Howe", "Pacific/Auckland", "Africa/Johannesburg", "America/St_Johns"}
	random := rand.New(rand.NewPCG(4, 2028))
	cases := make([][]string, 5_000)
	for i := range cases {
		const from, to = 315532800000, 1704067200000 // 1980 to 2023
		cases[i] = []string{"date", strconv.FormatInt(from+random.Int64N(to-from), 10), zones[random.IntN(len(zones))]}
	}
	for i, want := range independent(t, cases) {
		input := object(t, "timestamp", cases[i][1], "unit", "milliseconds", "timeZone", cases[i][2], "format", "%A %d %B %Y %T %:z")
		result, err := formatDate{}.Run(t.Context(), component.Call{Input: json.RawMessage(input)})
		var got struct{ Formatted string }
		if err != nil || json.Unmarshal(result.Output, &got) != nil || got.Formatted != want {
			t.Errorf("%s: got %q, want %q, %v", input, got.Formatted, want, err)
		}
	}
}

func TestFormatDateErrorNamesField(t *testing.T) {
	t.Parallel()
	bench := componenttest.New(t, formatDate{})
	refuses(t, bench, "FORMAT_DATE", `{}`, "/input/timestamp", "is required")
	for _, text := range []string{
		"", "today", "2026-12-24", "2026-12-24T18:00:00", "2026-12-24 18:00:00Z", "2026-12-24T18:00Z", "2026-02-30T00:00:00Z", "2026-13-01T00:00:00Z", "2026-12-24T24:00:00Z",
		"2026-12-24T18:00:60Z", "2026-12-24T18:00:00,5Z", "2026-12-24T18:00:00+24:00", "2026-12-24T18:00:00+01:60", "2026-12-24T18:00:00+0100", "2026-12-24T8:00:00Z", "1.5", "0x10", "+5", "--5", " 5",
	} {
		refuses(t, bench, "FORMAT_DATE", object(t, "timestamp", text), "/input/timestamp", "RFC 3339", "Unix time")
	}
	refuses(t, bench, "FORMAT_DATE", `{"timestamp":1.5}`, "/input/timestamp", "must be an integer or a string", "number")
	refuses(t, bench, "FORMAT_DATE", `{"timestamp":true}`, "/input/timestamp", "must be an integer or a string", "boolean")
	refuses(t, bench, "FORMAT_DATE", `{"timestamp":1e300}`, "/input/timestamp", "at most 253402300799999")
	refuses(t, bench, "FORMAT_DATE", `{"timestamp":"99999999999999999999"}`, "/input/timestamp", "years 0 to 9999")
	// Milliseconds interpreted as seconds.
	refuses(t, bench, "FORMAT_DATE", `{"timestamp":1798135200000}`, "timestamp", "years 0 to 9999", "unit")
	refuses(t, bench, "FORMAT_DATE", `{"timestamp":"9999-12-31T23:59:59Z","timeZone":"Asia/Tokyo"}`, "timeZone", "year 10000", "years 0 to 9999")
	refuses(t, bench, "FORMAT_DATE", `{"timestamp":"0000-01-01T00:00:00Z","timeZone":"America/New_York"}`, "timeZone", "year -1", "years 0 to 9999")
	refuses(t, bench, "FORMAT_DATE", `{"timestamp":"9999-12-31T23:59:60Z"}`, "timestamp", "years 0 to 9999")
	refuses(t, bench, "FORMAT_DATE", `{"timestamp":0,"unit":"minutes"}`, "/input/unit", "must be one of", `"minutes"`)
	for _, zone := range []string{"", "Local", "Mars/Olympus", "../etc/passwd", "/etc/localtime", "+01:00", "europe berlin"} {
		refuses(t, bench, "FORMAT_DATE", object(t, "timestamp", "0", "timeZone", zone), "/input/timeZone", "IANA", "Europe/Berlin")
	}
	for format, place := range map[string]string{"%Q": "position 1", "at %H:%": "position 7", "\u00e9%Ey": "position 2", "%:H": "position 1", "%é": "position 1", "%Y %x": "position 4"} {
		refuses(t, bench, "FORMAT_DATE", object(t, "timestamp", "0", "format", format), "/input/format", "conversions", place)
	}
	refuses(t, bench, "FORMAT_DATE", object(t, "timestamp", "0", "format", strings.Repeat("a", 257)), "/input/format", "at most 256 characters")
}

func FuzzFormatDate(f *testing.F) {
	f.Add("1990-12-31T23:59:60Z", "Europe/Berlin", "%A %e %:z %%")
	f.Add("-62167219200", "UTC", "%G-W%V-%u")
	f.Add("253402300799", "Asia/Tokyo", "%")
	bench := componenttest.New(f, formatDate{})
	f.Fuzz(func(t *testing.T, timestamp, zone, format string) {
		output, failed := bench.Run(t, "FORMAT_DATE", object(t, "timestamp", timestamp, "timeZone", zone, "format", format), `{}`)
		if failed != nil {
			if failed.Code != component.CodeInvalidInput {
				t.Error(failed)
			}
			return
		}
		// Parsing the default format returns the same time.
		plain, failed := bench.Run(t, "FORMAT_DATE", object(t, "timestamp", timestamp), `{}`)
		if failed != nil {
			return // its UTC year is out of range
		}
		var first, again struct {
			Formatted   string
			UnixSeconds int64
		}
		if err := json.Unmarshal(plain, &first); err != nil {
			t.Fatal(err)
		}
		back, failed := bench.Run(t, "FORMAT_DATE", object(t, "timestamp", first.Formatted), `{}`)
		if failed != nil || json.Unmarshal(back, &again) != nil || again != first {
			t.Errorf("%s: %s, then %s, %v (%s)", timestamp, plain, back, failed, output)
		}
	})
}
