package callback

import (
	"math"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/weft-automation/weft/internal/platform/egress"
)

func TestCB02EveryDelayOfTheScheduleIsUsedOnce(t *testing.T) {
	schedule := DefaultSchedule()
	want := []time.Duration{
		5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour,
		10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
	}
	down := outcome{class: egress.ClassRefused}
	for seed := range uint64(1000) {
		random := rand.New(rand.NewPCG(seed, 1))
		for i, planned := range want {
			delay, more := next(schedule, i+1, down, random.Float64())
			if !more || delay < planned*8/10 || delay > planned*12/10 {
				t.Fatalf("seed %d: after attempt %d %s, planned %s", seed, i+1, delay, planned)
			}
		}
		if delay, more := next(schedule, 10, down, random.Float64()); more {
			t.Fatalf("an eleventh attempt after %s", delay)
		}
	}
	if schedule[0] != 0 || len(schedule) != 10 {
		t.Fatal("the first of ten attempts is made at once")
	}
}

func TestCB03RetryAfterIsHonouredBetweenOnceAndTwiceThePlannedDelay(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	planned := 5 * time.Minute
	for value, c := range map[string]struct{ low, high time.Duration }{
		"1":                             {planned, planned * 11 / 10},
		"300":                           {planned, planned * 11 / 10},
		"400":                           {400 * time.Second, 430 * time.Second},
		"3600":                          {2 * planned, 2 * planned},
		"1000000000":                    {2 * planned, 2 * planned},
		"99999999999999999999999":       {2 * planned, 2 * planned},
		"Sat, 21 Nov 2026 12:07:00 GMT": {7 * time.Minute, 7*time.Minute + 30*time.Second},
		"Sat, 21 Nov 2026 11:07:00 GMT": {planned * 8 / 10, planned * 12 / 10},
		"-5":                            {planned * 8 / 10, planned * 12 / 10},
		"1e9":                           {planned * 8 / 10, planned * 12 / 10},
		"0":                             {planned * 8 / 10, planned * 12 / 10},
		"soon":                          {planned * 8 / 10, planned * 12 / 10},
		"":                              {planned * 8 / 10, planned * 12 / 10},
	} {
		wish := egress.RetryAfter(http.Header{"Retry-After": {value}}, now)
		for seed := range uint64(100) {
			delay, more := next(DefaultSchedule(), 2, outcome{status: 503, class: egress.ClassStatus, retryAfter: wish}, rand.New(rand.NewPCG(seed, 2)).Float64())
			if !more || delay < c.low || delay > c.high {
				t.Errorf("Retry-After %q: %s, want %s to %s", value, delay, c.low, c.high)
				break
			}
		}
	}
}

func TestCB03After429OrATimeoutTheDelayIsAMinuteWithinTheSchedule(t *testing.T) {
	for _, out := range []outcome{{status: 429, class: egress.ClassStatus}, {class: egress.ClassTimeout}} {
		for _, c := range []struct{ planned, low, high time.Duration }{
			{5 * time.Second, 10 * time.Second, 10 * time.Second},
			{40 * time.Second, 60 * time.Second, 64 * time.Second},
			{5 * time.Minute, 5 * time.Minute, 330 * time.Second},
			{time.Millisecond, 2 * time.Millisecond, 2 * time.Millisecond},
		} {
			delay, _ := next([]time.Duration{0, c.planned}, 1, out, 0.99)
			if delay < c.low || delay > c.high {
				t.Errorf("%+v planned %s: %s", out, c.planned, delay)
			}
		}
	}
}

func TestCB04GoneEndsTheSchedule(t *testing.T) {
	if delay, more := next(DefaultSchedule(), 1, outcome{status: http.StatusGone, class: egress.ClassStatus}, 0.5); more {
		t.Errorf("another attempt after %s", delay)
	}
	if _, more := next(DefaultSchedule(), 1, outcome{status: 200}, 0.5); more {
		t.Error("another attempt after a delivery")
	}
	if _, more := next(DefaultSchedule(), math.MaxInt32, outcome{class: egress.ClassDNS}, 0.5); more {
		t.Error("another attempt after the end")
	}
}
