package callback

import (
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weft-automation/weft/internal/egress"
)

// throttled is how long to leave a receiver alone that said "too many" or did
// not answer in time, as far as the schedule allows.
const throttled = 60 * time.Second

// DefaultSchedule is the delay before each attempt, as Standard Webhooks lists
// them (decisions 5.3). Its length is the number of attempts.
func DefaultSchedule() []time.Duration {
	return []time.Duration{
		0, 5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour,
		5 * time.Hour, 10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
	}
}

// next says how long to wait after the given number of attempts, the last of
// which ended in out; false when there is no further attempt. random is
// uniform in [0, 1).
//
// The planned delay is spread over -20 % to +10 %: what is missing to +20 % is
// left to the queue, which may be late but never early. A wish of the receiver
// (Retry-After, or the rest it needs after a 429 or a timeout) is granted
// between once and twice the planned delay.
func next(schedule []time.Duration, attempts int, out outcome, random float64) (time.Duration, bool) {
	if out.delivered() || out.status == http.StatusGone || out.class == classSecrets || attempts >= len(schedule) {
		return 0, false
	}
	planned := schedule[attempts]
	wish := out.retryAfter
	if wish == 0 && (out.status == http.StatusTooManyRequests || out.class == egress.ClassTimeout) {
		wish = throttled
	}
	if wish > 0 {
		granted := min(max(wish, planned), 2*planned)
		return min(granted+spread(planned, 0.1*random), 2*planned), true
	}
	return spread(planned, 0.8+0.3*random), true
}

func spread(d time.Duration, factor float64) time.Duration {
	return time.Duration(float64(d) * factor)
}

// retryAfter reads a Retry-After header: seconds or an HTTP date. What is
// neither, or lies in the past, is 0.
func retryAfter(header http.Header, now time.Time) time.Duration {
	text := strings.TrimSpace(header.Get("Retry-After"))
	if text == "" {
		return 0
	}
	if !slices.ContainsFunc([]byte(text), func(c byte) bool { return c < '0' || c > '9' }) {
		seconds, err := strconv.ParseInt(text, 10, 64)
		if err != nil || seconds > math.MaxInt64/int64(time.Second) {
			return math.MaxInt64 // more digits than a number holds: as long as allowed
		}
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}
