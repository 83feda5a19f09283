package ratelimit

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/weft-automation/weft/internal/account/plan"
)

var epoch = time.Date(2026, 11, 21, 12, 0, 0, 123_456_000, time.UTC)

// planLimits returns the limits of the plans that have some.
func planLimits() map[plan.Name]Limits {
	all := map[plan.Name]Limits{}
	for _, name := range plan.Names() {
		if terms := name.Terms(); terms.RPS != plan.None {
			all[name] = Limits{RPS: terms.RPS, RPH: terms.RPH}
		}
	}
	return all
}

// passed is an admitted request.
type passed struct {
	at   time.Time
	cost int
}

// mostWithin returns the highest number of requests admitted in any interval of length t. Both
// ends of the interval are included.
func mostWithin(all []passed, t time.Duration) int {
	most, sum, first := 0, 0, 0
	for _, p := range all {
		sum += p.cost
		for p.at.Sub(all[first].at) > t {
			sum -= all[first].cost
			first++
		}
		most = max(most, sum)
	}
	return most
}

// For each plan and kind of traffic, the test sends more requests than allowed for a minute. The
// soft limit must hold in every interval, and no allowed request may be rejected.
func TestRL01SoftLimit(t *testing.T) {
	for name, limits := range planLimits() {
		for kind, traffic := range map[string]func(*rand.Rand) (time.Duration, int){
			"reads":     func(*rand.Rand) (time.Duration, int) { return 3 * time.Millisecond, 1 },
			"submits":   func(*rand.Rand) (time.Duration, int) { return 7 * time.Millisecond, 2 },
			"both":      func(r *rand.Rand) (time.Duration, int) { return time.Duration(r.IntN(9e6)), 1 + r.IntN(2) },
			"in floods": func(r *rand.Rand) (time.Duration, int) { return time.Duration(r.IntN(50) / 49 * 250e6), 1 + r.IntN(2) },
		} {
			t.Run(fmt.Sprintf("%s/%s", name, kind), func(t *testing.T) {
				random := rand.New(rand.NewPCG(1, uint64(limits.RPS)))
				var u usage
				var all []passed
				total := 0
				for now := epoch; now.Sub(epoch) <= time.Minute; {
					apart, cost := traffic(random)
					now = now.Add(apart)
					if now.Sub(epoch) > time.Minute {
						break
					}
					if u.take(now, cost, limits).Allowed {
						all = append(all, passed{now, cost})
						total += cost
					}
				}
				for _, long := range []time.Duration{0, time.Millisecond, 200 * time.Millisecond, time.Second, 1500 * time.Millisecond, 10 * time.Second, time.Minute} {
					if got, most := mostWithin(all, long), float64(limits.RPS)*(long.Seconds()+1); float64(got) > most {
						t.Errorf("%d requests within %v, of at most %v", got, long, most)
					}
				}
				if want := float64(limits.RPS) * 61; float64(total) < want*0.98 || float64(total) > want*1.02 {
					t.Errorf("%d requests in a minute, want %v", total, want)
				}
			})
		}
	}
}

// The bucket always holds at least the cost of one submit.
func TestRL01OneASecondLetsASubmitIn(t *testing.T) {
	limits := Limits{RPS: 1, RPH: 1}
	var u usage
	if d := u.take(epoch, 2, limits); !d.Allowed || d.PolicyField() != `"second";q=2;w=2, "hour";q=2;w=3600` {
		t.Errorf("a submit: %+v, %s", d, d.PolicyField())
	}
	if d := u.take(epoch, 1, limits); d.Allowed || d.Violated != Hour {
		t.Errorf("one more: %+v", d)
	}
}

// In 100,000 random histories of a workspace, a client is rejected and then is the only client.
// It must be admitted after Retry-After, which must be the shortest sufficient delay.
func TestRL03WhoObeysRetryAfterIsLetIn(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 3))
	refused := map[Policy]int{}
	for sequence := range 100_000 {
		limits := Limits{RPS: 1 + random.IntN(40), RPH: 1 + random.IntN(60)}
		switch random.IntN(4) {
		case 0:
			limits.RPS = 0
		case 1:
			limits.RPH = 0
		}
		var u usage
		now := epoch.Add(time.Duration(random.IntN(2e9)).Truncate(time.Microsecond))
		if limits.none() {
			continue
		}
		for range random.IntN(40) {
			now = now.Add([]time.Duration{0, 1, 17, 1000, 400_000, 40_000_000}[random.IntN(6)] * time.Duration(random.IntN(10)) * time.Microsecond)
			cost := 1 + random.IntN(2)
			d := u.take(now, cost, limits)
			if d.Allowed {
				continue
			}
			refused[d.Violated]++
			checkWait(t, u, d, now, cost, limits)
			if t.Failed() {
				t.Fatalf("sequence %d, limits %+v, cost %d: %+v, state %+v", sequence, limits, cost, d, u)
			}
		}
	}
	if refused[Second] < 10_000 || refused[Hour] < 10_000 {
		t.Errorf("refused: %v", refused)
	}
}

// checkWait checks a rejection: the same request is still rejected a microsecond before the wait
// is over, and admitted when the wait is over.
func checkWait(t *testing.T, u usage, d Decision, now time.Time, cost int, limits Limits) {
	t.Helper()
	try := func(wait time.Duration) bool {
		alone := clone(u)
		return alone.take(now.Add(wait), cost, limits).Allowed
	}
	header := time.Duration(d.RetryAfter()) * time.Second
	switch {
	case try(d.Wait - time.Microsecond):
		t.Error("a shorter wait would have been enough")
	case !try(d.Wait) || !try(header):
		t.Error("a client that waited for Retry-After was refused")
	case header < time.Second || header > d.Wait+time.Second:
		t.Errorf("Retry-After %v for a wait of %v", header, d.Wait)
	case d.Second.Remaining < 0 || d.Hour.Remaining < 0:
		t.Error("less than nothing is left")
	case d.Violated == Second && d.Second.Reset > d.Wait || d.Violated == Hour && d.Hour.Reset > d.Wait:
		t.Error("more is there after the wait only")
	}
}

// A lone client that waits for Retry-After is never refused twice in a row.
func TestRL03ALoneClientIsLetInAThousandTimes(t *testing.T) {
	for name, limits := range planLimits() {
		var u usage
		now := epoch
		for refusals := 0; refusals < 1000; {
			now = now.Add(time.Millisecond)
			d := u.take(now, 2, limits)
			if d.Allowed {
				continue
			}
			refusals++
			now = now.Add(time.Duration(d.RetryAfter()) * time.Second)
			if again := u.take(now, 2, limits); !again.Allowed {
				t.Fatalf("%s: refused after Retry-After %d: %+v", name, d.RetryAfter(), again)
			}
		}
	}
}

// The store's clock jumps. No client may be locked out for longer than a window, and at most a
// full bucket may be admitted.
func TestRL05ClockJumps(t *testing.T) {
	limits := Limits{RPS: 5, RPH: 9000}
	for _, jump := range []time.Duration{-time.Hour, time.Hour, -48 * time.Hour} {
		var u usage
		for range 5 {
			u.take(epoch, 1, limits)
		}
		now := epoch.Add(jump)
		got := 0
		for range 20 {
			if u.take(now, 1, limits).Allowed {
				got++
			}
		}
		if most := map[bool]int{true: limits.RPS}[jump > 0]; got > most {
			t.Errorf("%v: %d more at once, of at most %d", jump, got, most)
		}
		if d := u.take(now, 1, limits); d.Wait > time.Second {
			t.Errorf("%v: a wait of %v", jump, d.Wait)
		}
		if d := u.take(now.Add(time.Second), 1, limits); !d.Allowed {
			t.Errorf("%v: refused a second later", jump)
		}
		var spent usage
		spent.add(charge{epoch.UnixMicro(), int64(limits.RPH)}, limits)
		if d := spent.take(epoch.Add(jump), 1, limits); jump < 0 && (d.Allowed || d.Wait > (window+1)*time.Second) {
			t.Errorf("%v after a spent hour: %+v", jump, d)
		}
	}
}

// A plan change takes effect immediately, and grants or removes no more than the plans differ.
func TestRL12StateOutlivesAChangeOfPlan(t *testing.T) {
	var u usage
	for range 25 {
		u.take(epoch, 1, Limits{RPS: 25, RPH: 45_000})
	}
	if d := u.take(epoch, 1, Limits{RPS: 5, RPH: 9_000}); d.Allowed || d.Wait > 200*time.Millisecond {
		t.Errorf("after a lowering: %+v", d)
	}
	if d := u.take(epoch, 1, Limits{RPS: 25, RPH: 45_000}); !d.Allowed {
		t.Errorf("after a raise: %+v", d)
	}
	if d := u.take(epoch, 1, Limits{RPH: 20}); d.Allowed || d.Violated != Hour || d.Hour.Remaining != 0 {
		t.Errorf("with less an hour than was used: %+v", d)
	}
}

func TestARefundIsAsIfNothingHadBeen(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 5))
	limits := Limits{RPS: 10, RPH: 10_000}
	for range 1000 {
		var u, plain usage
		now := epoch
		for range 100 {
			now = now.Add(time.Duration(random.IntN(500)) * time.Millisecond)
			d := u.take(now, 2, limits)
			if d.Allowed && random.IntN(2) == 0 {
				now = now.Add(time.Duration(random.IntN(1000)) * time.Millisecond)
				u.advance(now, limits)
				u.add(charge{d.charged.at, -d.charged.n}, limits)
				continue
			}
			if got := plain.take(now, 2, limits); got.Allowed != d.Allowed || got.Wait != d.Wait {
				t.Fatalf("%+v, and without the refunds %+v", d, got)
			}
			if u.sum != plain.sum || u.debt != plain.debt {
				t.Fatalf("%+v, and without the refunds %+v", u, plain)
			}
		}
	}
}

// Requests that were admitted without the store are charged there as if the store had decided
// them.
func TestRL10CatchingUpIsAsIfNothingHadBeen(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 9))
	limits := Limits{RPS: 5, RPH: 60}
	for range 1000 {
		var told, plain usage
		var owed []charge
		now := epoch
		for range 60 {
			now = now.Add(time.Duration(random.IntN(700)) * time.Millisecond)
			d := plain.take(now, 1+random.IntN(2), limits)
			if d.Allowed {
				owed = append(owed, d.charged)
			}
			if random.IntN(8) == 0 {
				told.catchUp(owed, now, limits)
				owed = nil
				told.advance(now, limits)
				if !reflect.DeepEqual(told, plain) {
					t.Fatalf("%+v, want %+v", told, plain)
				}
			}
		}
	}
}

func TestRL07FieldsAgreeWithTheDecision(t *testing.T) {
	limits := Limits{RPS: 5, RPH: 9000}
	for _, c := range []struct {
		name       string
		used       int
		retryAfter int
		want       string
	}{
		{"the first", 1, 0, `"second";r=4;t=1, "hour";r=8999;t=3601`},
		{"the last", 5, 0, `"second";r=0;t=1, "hour";r=8995;t=3601`},
		{"one too many", 6, 1, `"second";r=0;t=1, "hour";r=8995`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var u usage
			var d Decision
			for range c.used {
				d = u.take(epoch, 1, limits)
			}
			if got := d.Field(c.retryAfter); got != c.want {
				t.Errorf("RateLimit: %s", got)
			}
			if got, want := d.PolicyField(), `"second";q=5;w=1, "hour";q=9000;w=3600`; got != want {
				t.Errorf("RateLimit-Policy: %s", got)
			}
			if d.Allowed != (c.retryAfter == 0) {
				t.Errorf("%+v", d)
			}
		})
	}
	if d := (Decision{Allowed: true}); d.Field(0) != "" || d.PolicyField() != "" {
		t.Errorf("without limits: %q %q", d.Field(0), d.PolicyField())
	}
}
