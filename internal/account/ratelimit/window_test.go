package ratelimit

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// clone returns a copy that shares nothing with u.
func clone(u usage) usage {
	u.slots = slices.Clone(u.slots)
	return u
}

// exactWindow is a sliding window that remembers each request.
type exactWindow struct {
	width time.Duration
	all   []passed
	sum   int
}

// used returns the requests at most width before now.
func (w *exactWindow) used(now time.Time) int {
	for len(w.all) > 0 && now.Sub(w.all[0].at) > w.width {
		w.sum -= w.all[0].cost
		w.all = w.all[1:]
	}
	return w.sum
}

func (w *exactWindow) add(p passed) {
	w.all = append(w.all, p)
	w.sum += p.cost
}

// longer is an hour and 1 %.
const longer = time.Hour * 101 / 100

// arrivals are patterns of requests: each returns the time to the next request.
var arrivals = map[string]func(r *rand.Rand, limits Limits, n int) time.Duration{
	"evenly, half more than the limit": func(_ *rand.Rand, limits Limits, _ int) time.Duration {
		return 2 * time.Hour / 3 / time.Duration(limits.RPH)
	},
	"at random, twice the limit": func(r *rand.Rand, limits Limits, _ int) time.Duration {
		return time.Duration(r.ExpFloat64() * float64(time.Hour) / float64(2*limits.RPH))
	},
	"a flood": func(_ *rand.Rand, limits Limits, _ int) time.Duration {
		return 10 * time.Minute / time.Duration(limits.RPH)
	},
	"bursts at random": func(r *rand.Rand, limits Limits, n int) time.Duration {
		if n%max(1, limits.RPH/10) != 0 {
			return time.Millisecond
		}
		return time.Duration(r.IntN(int(10 * time.Minute)))
	},
	"the whole limit at once, again after a little more than an hour": func(r *rand.Rand, limits Limits, n int) time.Duration {
		if n%limits.RPH != 0 {
			return time.Microsecond
		}
		return time.Hour + time.Duration(r.IntN(int(time.Minute)))
	},
	"pairs around the border of a slot": func(_ *rand.Rand, _ Limits, n int) time.Duration {
		return []time.Duration{slotWidth*time.Second - time.Millisecond, time.Millisecond}[n%2]
	},
}

// The hard limit is compared with an exact sliding window. No hour exceeds the limit, and a request
// is rejected only if it would exceed the limit in an exact window that is 1 % longer. Retry-After
// is never too short, and exceeds the Retry-After of an exact window by at most 1 % of the hour.
func TestRL04HardLimitAgainstTheExactWindow(t *testing.T) {
	for name, next := range arrivals {
		for _, limits := range []Limits{{RPH: 2}, {RPH: 60}, {RPH: 9000}, {RPS: 5, RPH: 9000}, {RPS: 25, RPH: 45_000}} {
			t.Run(fmt.Sprintf("%s/%d an hour, %d a second", name, limits.RPH, limits.RPS), func(t *testing.T) {
				random := rand.New(rand.NewPCG(4, uint64(limits.RPH)))
				var u usage
				hour, late := exactWindow{width: time.Hour}, exactWindow{width: longer}
				now := epoch.Add(time.Duration(random.IntN(int(time.Minute))))
				for n := 0; n < 100_000 && now.Sub(epoch) < 12*time.Hour; n++ {
					now = now.Add(next(random, limits, n)).Truncate(time.Microsecond)
					cost := 1 + random.IntN(2)
					d := u.take(now, cost, limits)
					switch {
					case d.Allowed:
						hour.add(passed{now, cost})
						late.add(passed{now, cost})
						if got := hour.used(now); got > limits.RPH {
							t.Fatalf("%d requests within an hour", got)
						}
					case d.Violated == Hour:
						if got := late.used(now); got+cost <= limits.RPH {
							t.Fatalf("refused, with %d requests within %v", got, longer)
						}
						if n%97 == 0 {
							checkRetryAfter(t, u, d, hour, now, cost, limits)
						}
					}
				}
			})
		}
	}
}

// checkRetryAfter checks a refusal by the hard limit.
func checkRetryAfter(t *testing.T, u usage, d Decision, hour exactWindow, now time.Time, cost int, limits Limits) {
	t.Helper()
	header := time.Duration(d.RetryAfter()) * time.Second
	alone := clone(u)
	if again := alone.take(now.Add(header), cost, limits); !again.Allowed {
		t.Fatalf("refused after Retry-After %v: %+v", header, again)
	}
	over, exact := hour.used(now)+cost-limits.RPH, time.Duration(0)
	for _, p := range hour.all {
		if over <= 0 {
			break
		}
		over -= p.cost
		exact = p.at.Add(hour.width).Sub(now)
	}
	if header < exact || header > exact+longer-time.Hour+time.Second {
		t.Fatalf("Retry-After %v for an exact wait of %v", header, exact)
	}
}

// Under constant load the limiter admits 99 % of the requests that an exact window admits.
func TestRL04ConstantPressureWastesLittle(t *testing.T) {
	for _, limits := range []Limits{{RPH: 60}, {RPH: 9000}, {RPH: 45_000}} {
		var u usage
		exact := exactWindow{width: time.Hour}
		got, want := 0, 0
		apart := 2 * time.Hour / 3 / time.Duration(limits.RPH)
		for now := epoch; now.Sub(epoch) < 20*time.Hour; now = now.Add(apart) {
			if u.take(now, 1, limits).Allowed {
				got++
			}
			if exact.used(now) < limits.RPH {
				exact.add(passed{now, 1})
				want++
			}
		}
		if got > want || float64(got) < 0.99*float64(want) {
			t.Errorf("%d requests were let in, of %d by the exact window", got, want)
		}
	}
}
