package callback

import (
	"net/http"
	"time"

	"github.com/weft-automation/weft/internal/platform/egress"
)

// throttled is the delay after a receiver responded with 429 or timed out, as far as the schedule
// allows.
const throttled = 60 * time.Second

// DefaultSchedule returns the delay before each attempt, as recommended by Standard Webhooks
// (decisions 5.3). Its length is the number of attempts.
func DefaultSchedule() []time.Duration {
	return []time.Duration{
		0, 5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour,
		5 * time.Hour, 10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
	}
}

// next returns the delay after the specified number of attempts. out is the outcome of the last
// attempt. next returns false if there is no further attempt. random is uniform in [0, 1).
//
// The planned delay is varied by -20 % to +10 %. The queue may add the rest up to +20 %: it can be
// late but never early. A delay requested by the receiver (Retry-After, or throttled after a 429
// or a timeout) is limited to between one and two times the planned delay.
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
