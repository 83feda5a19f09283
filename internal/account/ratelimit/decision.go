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

// Decision is what became of a request, and what is left.
type Decision struct {
	Allowed  bool
	Wait     time.Duration // until the same would be let in, if nothing else comes
	Violated Policy        // of a refusal: the limit that makes it wait
	Second   Quota
	Hour     Quota

	limits  Limits
	charged charge // what a refund takes back
	lease   charge // what the node may let in beyond it
}

// Quota is what is left of a limit.
type Quota struct {
	Remaining int
	Reset     time.Duration // until there is more of it
}

// RetryAfter is the whole seconds of a refusal's wait, never too few.
func (d Decision) RetryAfter() int { return max(1, seconds(d.Wait)) }

// Limits are those that the decision was made by.
func (d Decision) Limits() Limits { return d.limits }

// PolicyField is the field RateLimit-Policy: the limits, and the seconds that
// each needs to be whole again. Without limits it is empty.
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

// Field is the field RateLimit: what is left of each limit. Retry-After must not
// be contradicted: in an answer that has it, a later time is left out.
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

// refunded is the decision after what it charged was given back.
func (d Decision) refunded() Decision {
	d.Second.Remaining = min(d.Second.Remaining+int(d.charged.n), int(d.limits.second()))
	d.Hour.Remaining = min(d.Hour.Remaining+int(d.charged.n), int(d.limits.hour()))
	d.charged = charge{}
	return d
}

func seconds(d time.Duration) int { return int(math.Ceil(d.Seconds())) }
