package egress

import (
	"math"
	"net/http"
	"testing"
	"time"
)

func TestRetryAfterReadsSecondsAndDates(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"7": 7 * time.Second, " 120 ": 2 * time.Minute, "0": 0, "9223372036": 9223372036 * time.Second,
		"9223372037": math.MaxInt64, "99999999999999999999999": math.MaxInt64,
		"Sat, 21 Nov 2026 12:07:00 GMT": 7 * time.Minute, "Saturday, 21-Nov-26 12:07:00 GMT": 7 * time.Minute, "Sat Nov 21 12:07:00 2026": 7 * time.Minute,
		"Sat, 21 Nov 2026 11:07:00 GMT": 0,
		"":                              0, "-5": 0, "+5": 0, "1e9": 0, "1.5": 0, "soon": 0, "7, 8": 0,
	} {
		if got := RetryAfter(http.Header{"Retry-After": {value}}, now); got != want {
			t.Errorf("%q: %s, want %s", value, got, want)
		}
	}
	if got := RetryAfter(nil, now); got != 0 {
		t.Errorf("no header: %s", got)
	}
}
