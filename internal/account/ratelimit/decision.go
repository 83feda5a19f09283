package ratelimit

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Policy names a limit on requests.
type Policy string

// The limits on requests.
const (
	Second Policy = "requests_per_second"
	Hour   Policy = "requests_per_hour"
)

// Decision is the decision on a request, and what remains of the limits.
type Decision struct {
	Allowed  bool
	Wait     time.Duration // until the request would be admitted if no other request arrives
	Violated Policy        // the limit that a refused request has to wait for
	Second   Quota
	Hour     Quota

	limits  Limits
	charged charge // the charge that Refund refunds
	leased  charge // requests that the node may admit in addition to this one
}

// Quota is what remains of a limit.
type Quota struct {
	Remaining int
	Reset     time.Duration // until more remains
}

// RetryAfter returns the wait of a refused request in whole seconds, rounded up.
func (d Decision) RetryAfter() int { return max(1, seconds(d.Wait)) }

// Limits returns the limits in force at the decision.
func (d Decision) Limits() Limits { return d.limits }

// PolicyField returns the header field RateLimit-Policy: each limit with the seconds in which
// it refills. It is empty if there are no limits.
func (d Decision) PolicyField() string {
	var items []string
	if d.limits.RPS != 0 {
		items = append(items, fmt.Sprintf(`"second";q=%d;w=%d`, d.limits.second(), ceilDiv(d.limits.second(), int64(d.limits.RPS))))
	}
	if d.limits.RPH != 0 {
		items = append(items, fmt.Sprintf(`"hour";q=%d;w=%d`, d.limits.hour(), window))
	}
	return strings.Join(items, ", ")
}

// Field returns the header field RateLimit: what remains of each limit. It omits reset times
// later than retryAfter, which would contradict the response's Retry-After. 0 means that the
// response has no Retry-After.
func (d Decision) Field(retryAfter int) string {
	var items []string
	item := func(name string, q Quota) {
		text := fmt.Sprintf(`"%s";r=%d`, name, max(0, q.Remaining))
		if t := seconds(q.Reset); retryAfter == 0 || t <= retryAfter {
			text += fmt.Sprintf(";t=%d", t)
		}
		items = append(items, text)
	}
	if d.limits.RPS != 0 {
		item("second", d.Second)
	}
	if d.limits.RPH != 0 {
		item("hour", d.Hour)
	}
	return strings.Join(items, ", ")
}

// withMore returns the decision with n more requests remaining.
func (d Decision) withMore(n int64) Decision {
	d.Second.Remaining = min(d.Second.Remaining+int(n), int(d.limits.second()))
	d.Hour.Remaining = min(d.Hour.Remaining+int(n), int(d.limits.hour()))
	return d
}

func seconds(d time.Duration) int { return int(math.Ceil(d.Seconds())) }
