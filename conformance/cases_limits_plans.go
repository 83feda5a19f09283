package conformance

import (
	"net/http"
	"sync"
	"time"

	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/gen/api"
)

var planLimitCases = []Case{
	{Part: "8.plan, D6.second, D6.hour, D6.waits", Name: "limits/200 the limits of each plan", Run: limitPlans, Needs: workspaces},
	{Part: "8.plan, 8.custom, 8.2, 7.429, D6.second", Name: "limits/429 beyond the soft limit of each plan", Run: limitSoft, Needs: workspaces},
	{Part: "8.2, 7.429, 8.1, 8.custom, D6.hour, D6.retry, D6.refused", Name: "limits/429 beyond the hard limit", Run: limitHard, Needs: workspaces},
}

func limitPlans(t *probe.Trial) {
	for plan, want := range map[string]struct{ rps, rph, waits, streams int32 }{
		"starter": {5, 9_000, 40, 10}, "growth": {10, 18_000, 80, 50}, "professional": {25, 45_000, 200, 500},
	} {
		answer := t.Do(probe.Request{Path: limitsPath, Sign: customer(t, plan)})
		got := probe.Decode[api.Limits](t, answer)
		t.Equal("plan", string(got.Plan), plan)
		t.Equal("limits of "+plan,
			[]int32{*got.RequestsPerSecond.Limit, *got.RequestsPerHour.Limit, *got.Streams.Limit}, []int32{want.rps, want.rph, want.streams})
		t.Decided("D6.waits", *got.InlineWaits.Limit == want.waits, "inlineWaits of %s: got %d, want %d", plan, *got.InlineWaits.Limit, want.waits)
		t.Equal("what is left", []int32{*got.RequestsPerSecond.Remaining, *got.RequestsPerHour.Remaining, got.InlineWaits.Open, got.Streams.Open},
			[]int32{want.rps - 1, want.rph - 1, 0, 0})
		policy := rates(t, answer, "RateLimit-Policy")
		t.Equal("RateLimit-Policy", policy, map[string]map[string]int{
			"second": {"q": int(want.rps), "w": 1}, "hour": {"q": int(want.rph), "w": 3600},
		})
	}
	answer := t.Do(probe.Request{Path: limitsPath, Sign: customer(t, "enterprise")})
	got := probe.Decode[api.Limits](t, answer)
	t.Check(got.RequestsPerSecond.Limit == nil && got.RequestsPerHour.Remaining == nil && got.InlineWaits.Limit == nil && got.Streams.Limit == nil,
		"the default limits of enterprise are not empty: %s", answer.Body)
	t.Equal("RateLimit-Policy of enterprise", answer.Header.Get("RateLimit-Policy"), "")
}

// limitSoft exceeds the rate of a workspace of each plan. RL03 does so for Starter.
func limitSoft(t *probe.Trial) {
	bounds := []struct {
		terms  probe.Terms
		policy string
		holds  int     // requests at once
		rate   float64 // requests a second
		hour   int
	}{
		{probe.Terms{Plan: "growth"}, `"second";q=10;w=1, "hour";q=18000;w=3600`, 10, 10, 18_000},
		{probe.Terms{Plan: "professional"}, `"second";q=25;w=1, "hour";q=45000;w=3600`, 25, 25, 45_000},
		{probe.Terms{Plan: "enterprise", RPS: new(int32(7)), RPH: new(int32(700))}, `"second";q=7;w=1, "hour";q=700;w=3600`, 7, 7, 700},
		{probe.Terms{Plan: "enterprise", RPS: new(int32(1)), RPH: new(int32(90))}, `"second";q=2;w=2, "hour";q=90;w=3600`, 2, 1, 90},
	}
	t.Parallel(len(bounds), func(i int) {
		b := bounds[i]
		as := on(t, b.terms)
		allowed, took := rush(t, as, b.policy)
		most := float64(b.holds) + b.rate*took.Seconds() + 1
		t.Check(allowed >= b.holds && float64(allowed) <= most, "%s let %d in within %v", b.policy, allowed, took)
		wait(t, time.Duration(float64(b.holds)/b.rate*float64(time.Second))+100*time.Millisecond)
		left := rates(t, t.Do(probe.Request{Path: limitsPath, Sign: as}), "RateLimit")
		t.Equal("left of "+b.policy+" when it is whole again", []int{left["second"]["r"], left["hour"]["r"]}, []int{b.holds - 1, b.hour - allowed - 1})
	})
}

// rush sends requests in parallel until every sender has had a request rejected. It returns the
// number of accepted requests and the duration.
func rush(t *probe.Trial, as probe.Signing, policy string) (allowed int, took time.Duration) {
	var mu sync.Mutex
	start := time.Now()
	t.Parallel(6, func(int) {
		for {
			answer := t.Do(probe.Request{Path: limitsPath, Sign: as, Unchecked: true, Once: true})
			t.Equal("RateLimit-Policy", answer.Header.Get("RateLimit-Policy"), policy)
			if answer.Status != http.StatusOK {
				refusal(t, answer, "requests_per_second")
				return
			}
			mu.Lock()
			allowed++
			mu.Unlock()
		}
	})
	return allowed, time.Since(start)
}

// refusal returns the 429 of a rate limit, and the time until a request would be accepted.
func refusal(t *probe.Trial, answer probe.Answer, reason string) time.Duration {
	p := t.Problem(answer, http.StatusTooManyRequests, "RATE_LIMITED")
	t.Equal("reason", probe.Reason(p), reason)
	t.Equal("retryable", p.Retryable, true)
	return retryAfter(t, answer)
}

// limitHard exhausts an hourly limit of six requests. The limit was agreed for the workspace,
// because no plan has a limit low enough for a case to reach.
func limitHard(t *probe.Trial) {
	as := on(t, probe.Terms{Plan: "growth", RPH: new(int32(6))})
	first := time.Now()
	look, execute := probe.Request{Path: limitsPath, Sign: as, Once: true}, submit(t, probe.RandomUUID(), as)
	execute.Once = true
	for _, step := range []struct {
		request probe.Request
		status  int
		left    int
	}{
		{execute, 200, 4},
		{execute, 200, 2},
		{look, 200, 1},
		{execute, 429, 1}, // one request is left, and this operation counts as two
		{look, 200, 0},
		{look, 429, 0},
		{execute, 429, 0},
	} {
		answer := t.Do(step.request)
		t.Equal("status", answer.Status, step.status)
		t.Equal("RateLimit-Policy", answer.Header.Get("RateLimit-Policy"), `"second";q=10;w=1, "hour";q=6;w=3600`)
		left := rates(t, answer, "RateLimit")
		t.Equal("left of the hour", left["hour"]["r"], step.left)
		if step.status == http.StatusOK {
			continue
		}
		t.Check(left["second"]["r"] > 0, "the second is used up too: %v", left)
		pause := refusal(t, answer, "requests_per_hour")
		// Until the first request is an hour old, to the second.
		t.Check(pause >= time.Hour-time.Since(first) && pause <= time.Hour+time.Second, "Retry-After %v", pause)
	}
	limits := probe.Decode[api.Limits](t, t.Do(probe.Request{Path: limitsPath, Sign: on(t, probe.Terms{Plan: "growth", RPH: new(int32(6))})}))
	t.Equal("left to another workspace", *limits.RequestsPerHour.Remaining, int32(5))
}
