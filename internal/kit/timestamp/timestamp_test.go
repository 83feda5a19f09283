package timestamp_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/weft-automation/weft/internal/kit/timestamp"
)

func TestMarshalWritesUTCWithThreeDecimals(t *testing.T) {
	plusTwo := time.FixedZone("", 2*60*60)
	for _, c := range []struct {
		name string
		in   time.Time
		want string
	}{
		{"whole second", time.Date(2026, 11, 21, 10, 15, 30, 0, time.UTC), `"2026-11-21T10:15:30.000Z"`},
		{"milliseconds", time.Date(2026, 11, 21, 10, 15, 30, 120_000_000, time.UTC), `"2026-11-21T10:15:30.120Z"`},
		{"cut, not rounded", time.Date(2026, 12, 31, 23, 59, 59, 999_999_999, time.UTC), `"2026-12-31T23:59:59.999Z"`},
		{"another zone", time.Date(2026, 11, 21, 1, 0, 0, 0, plusTwo), `"2026-11-20T23:00:00.000Z"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := json.Marshal(timestamp.Of(c.in))
			if err != nil || string(got) != c.want {
				t.Fatalf("got %s, %v; want %s", got, err, c.want)
			}
		})
	}
}

func TestMarshalRejectsYearsOfFiveDigits(t *testing.T) {
	if got, err := json.Marshal(timestamp.Of(time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC))); err == nil {
		t.Fatalf("got %s, want an error", got)
	}
}

func TestUnmarshalReadsWhatMarshalWrote(t *testing.T) {
	var got struct {
		At   timestamp.Time  `json:"at"`
		None *timestamp.Time `json:"none"`
	}
	if err := json.Unmarshal([]byte(`{"at":"2026-11-21T12:15:30.12+02:00","none":null}`), &got); err != nil {
		t.Fatal(err)
	}
	if got.At.String() != "2026-11-21T10:15:30.120Z" || got.None != nil {
		t.Fatalf("got %s, %v", got.At, got.None)
	}
	for _, bad := range []string{`"yesterday"`, `1`, `""`} {
		if err := json.Unmarshal([]byte(bad), &got.At); err == nil {
			t.Errorf("%s was accepted", bad)
		}
	}
}

func TestOfPointerKeepsNil(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	if timestamp.OfPointer(nil) != nil || !timestamp.OfPointer(&now).Std().Equal(now) {
		t.Fatal("nil must stay nil, a time must stay itself")
	}
}

// The examples are from RFC 3339, section 5.8. The other cases follow sections 4.3 and 5.6.
func TestParseReadsRFC3339AndNothingElse(t *testing.T) {
	for text, want := range map[string]string{
		"1985-04-12T23:20:50.52Z": "1985-04-12T23:20:50.520Z", "1996-12-19T16:39:57-08:00": "1996-12-20T00:39:57.000Z", "1937-01-01T12:00:27.87+00:20": "1937-01-01T11:40:27.870Z",
		"1990-12-31T23:59:60Z": "1991-01-01T00:00:00.000Z", "1990-12-31T15:59:60-08:00": "1991-01-01T00:00:00.000Z",
		"1985-04-12t23:20:50.52z": "1985-04-12T23:20:50.520Z", "1985-04-12T23:20:50.52-00:00": "1985-04-12T23:20:50.520Z",
	} {
		if at, err := timestamp.Parse(text); err != nil || timestamp.Of(at).String() != want {
			t.Errorf("%s: %s, %v; want %s", text, timestamp.Of(at), err, want)
		}
	}
	for _, text := range []string{
		"", "Z", "today", "2026-12-24", "2026-12-24T18:00Z", "2026-12-24 18:00:00Z", "2026-12-24T8:00:00Z", "2026-12-24T18:00:00,5Z", "2026-12-24T18:00:00+24:00", "2026-12-24T18:00:00+01:60", "2026-12-24T18:00:00+0100",
		"2026-02-30T00:00:00Z", "2026-12-24T24:00:00Z", "2026-12-24T18:00:60Z", "2026-12-24T18:00:00Z ", "2026-12-24T18:00:00.Z",
	} {
		if at, err := timestamp.Parse(text); err == nil {
			t.Errorf("%q is read as %s", text, at)
		}
	}
}

// FuzzParse checks that a parsed time, written and parsed again, is the same.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"1990-12-31T23:59:60Z", "1985-04-12t23:20:50.52z", "0000-01-01T00:00:00-23:59", "9999-12-31T23:59:59.999999999+14:00"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		at, err := timestamp.Parse(text)
		if err != nil {
			return
		}
		if at.UTC().Year() < 0 || at.UTC().Year() > 9999 {
			return // the year differs in UTC
		}
		again, err := timestamp.Parse(at.UTC().Format(time.RFC3339Nano))
		if err != nil || !again.Equal(at) {
			t.Errorf("%q is %s, and that %s, %v", text, at, again, err)
		}
	})
}
