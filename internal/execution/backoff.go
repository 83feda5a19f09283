package execution

import (
	"math/rand/v2"
	"time"
)

// backoff returns the shortest delay after the n-th failed attempt: 1 s x 2^(n-1), +/- 20 %
// (decisions 4.2).
func backoff(n int) time.Duration {
	planned := float64(time.Second << (n - 1))
	return time.Duration(planned * (0.8 + 0.4*rand.Float64()))
}

// maxRetryAfter is the longest time that an upstream can put off the next attempt.
const maxRetryAfter = time.Hour

// nextAttempt returns the delay after the n-th failed attempt: the backoff, or the time that the
// upstream asked for if that is longer.
func nextAttempt(n int, asked time.Duration) time.Duration {
	return max(backoff(n), min(asked, maxRetryAfter))
}
