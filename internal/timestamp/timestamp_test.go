package timestamp_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/weft-automation/weft/internal/timestamp"
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

func TestMarshalRefusesYearsWithoutForm(t *testing.T) {
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
			t.Errorf("%s was read", bad)
		}
	}
}

func TestOfPointerKeepsNil(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	if timestamp.OfPointer(nil) != nil || !timestamp.OfPointer(&now).Std().Equal(now) {
		t.Fatal("nil must stay nil, a time must stay itself")
	}
}
