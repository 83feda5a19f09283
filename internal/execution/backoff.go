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

// maxRetryAfter is the longest delay before the next attempt that an upstream can request.
const maxRetryAfter = time.Hour

// nextAttempt returns the delay after the n-th failed attempt: the longer of the backoff and the
// delay that the upstream requested.
func nextAttempt(n int, asked time.Duration) time.Duration {
	return max(backoff(n), min(asked, maxRetryAfter))
}
