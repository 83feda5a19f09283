package egress

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// RetryAfter returns the delay of a response's Retry-After header, in seconds or as an HTTP date
// relative to now. It returns 0 for a header that is missing, invalid or in the past, and the
// largest duration for a number that is too large.
func RetryAfter(header http.Header, now time.Time) time.Duration {
	text := strings.TrimSpace(header.Get("Retry-After"))
	if at, err := http.ParseTime(text); err == nil {
		return max(at.Sub(now), 0)
	}
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return 0
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seconds > math.MaxInt64/int64(time.Second) {
		return math.MaxInt64
	}
	return time.Duration(seconds) * time.Second
}
