package conformance

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/gen/api"
)

var near = []probe.Need{probe.NeedNear}

var attemptCases = []Case{
	{
		Part: "4.1.attempts, D4.2.backoff, D4.1.states, 8.6.attempts",
		Name: "EX13 attempts 3, two failures then success", Run: attemptsSucceed, Needs: near,
	},
	{
		Part: "3.1.failed, 4.1.attempts, D3.execution",
		Name: "EX13 attempts 3, three failures", Run: attemptsExhausted, Needs: near,
	},
	{Part: "4.1.attempts", Name: "attempts/1 is the default", Run: attemptsDefault, Needs: near},
	{Part: "D4.2.retryAfter", Name: "attempts/the Retry-After of the upstream", Run: attemptsRetryAfter, Needs: near},
	{Part: "D4.2.timeout", Name: "attempts/each attempt has the timeout of its component", Run: attemptsTimed, Needs: near},
	{Part: "D4.2.permanent", Name: "attempts/an error that is not retryable ends it at once", Run: attemptsPermanent, Needs: near},
}

var waitCases = []Case{
	{Part: "4.1.waitForMs, 8.6.waitForMs", Name: "EX22 waitForMs 0, 1, 15000, 15001, -1", Run: waitBounds, Needs: near},
	{Part: "D4.3.hangup", Name: "EX22 a caller who hangs up", Run: waitHangup, Needs: near},
	{Part: "4.1.2", Name: "EX22 200 waiters at once keep nobody else waiting", Run: waitMany, Needs: near},
}

var statusCases = []Case{
	{Part: "4.2, D4.1.states", Name: "get/200 the record while it executes and when it ended", Run: statusProgress, Needs: near},
	{Part: "4.2, 2.1.status, 2.1.output", Name: "get/200 a completed execution", Run: statusCompleted},
	{Part: "4.2, 2.1.error, 7.failed", Name: "get/200 a failed execution", Run: statusFailed, Needs: near},
	{Part: "D1.2.404", Name: "get/404 malformed and unknown ids", Run: statusUnknown},
	{Part: "D1.2.404", Name: "get/404 ids of another workspace", Run: statusForeign, Needs: []probe.Need{probe.NeedForeign}},
}

// tally is an upstream that records the time of each request.
type tally struct {
	mu      sync.Mutex
	times   []time.Time
	handler http.HandlerFunc
}

func (u *tally) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u.mu.Lock()
	u.times = append(u.times, time.Now())
	u.mu.Unlock()
	u.handler(w, r)
}

func (u *tally) asked() []time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.times
}

// backoff checks that the delays between attempts are 1 s and 2 s, within 20 %. A tolerance allows
// for the network and a busy machine.
func backoff(t *probe.Trial, times []time.Time, tardy time.Duration) {
	for i, planned := range []time.Duration{time.Second, 2 * time.Second} {
		delay := times[i+1].Sub(times[i])
		t.Check(delay >= planned*8/10-50*time.Millisecond && delay <= t.Limit(planned*12/10+1500*time.Millisecond+tardy),
			"the delay before attempt %d was %v, planned %v", i+2, delay, planned)
	}
}

func attemptsSucceed(t *probe.Trial) {
	tardy := tardiness(t)
	upstream := &tally{handler: answering(503, 503, 200)}
	call := probe.Fetch(t.Upstream(upstream.ServeHTTP))
	call.Attempts = 3
	e := t.Execute(call)
	t.Until("the second attempt", 10*time.Second, func() bool { return len(upstream.asked()) >= 1 })
	between := t.Record(e.ID.String())
	t.Check(between.Status != "CREATED" || len(upstream.asked()) == 0, "CREATED after the first attempt began")
	final := t.Final(e.ID.String())
	sound(t, final)
	t.Equal("status", string(final.Status), "COMPLETED")
	t.Equal("requests", len(upstream.asked()), 3)
	backoff(t, upstream.asked(), tardy())
}

func attemptsExhausted(t *probe.Trial) {
	tardy := tardiness(t)
	upstream := &tally{handler: answering(503)}
	call := probe.Fetch(t.Upstream(upstream.ServeHTTP)).Waiting(15000)
	call.Attempts = 3
	e := t.Execute(call)
	sound(t, e)
	upstreamFailure(t, e, 3)
	t.Equal("requests", len(upstream.asked()), 3)
	backoff(t, upstream.asked(), tardy())
}

func attemptsDefault(t *probe.Trial) {
	upstream := &tally{handler: answering(503)}
	e := t.Execute(probe.Fetch(t.Upstream(upstream.ServeHTTP)).Waiting(15000))
	upstreamFailure(t, e, 1)
	t.Equal("requests", len(upstream.asked()), 1)
}

func attemptsRetryAfter(t *probe.Trial) {
	answer := answering(429, 503, 200)
	asked := []func() string{
		func() string { return "3" },
		func() string { return time.Now().Add(4 * time.Second).UTC().Format(http.TimeFormat) }, // in whole seconds, so 3 at least
		func() string { return "" },
	}
	upstream := &tally{}
	upstream.handler = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", asked[min(len(upstream.asked()), len(asked))-1]())
		answer(w, r)
	}
	call := probe.Fetch(t.Upstream(upstream.ServeHTTP)).Waiting(15000)
	call.Attempts = 3
	e := t.Final(t.Execute(call).ID.String())
	t.Equal("status", string(e.Status), "COMPLETED")
	times := upstream.asked()
	t.Equal("requests", len(times), 3)
	for i := range times[1:] {
		delay := times[i+1].Sub(times[i])
		t.Check(delay >= 3*time.Second-50*time.Millisecond, "attempt %d came %v after one that was answered with a Retry-After of 3 s", i+2, delay)
	}
}

// attemptsTimed calls an upstream that never responds. The second attempt must have the full timeout.
func attemptsTimed(t *probe.Trial) {
	const timeout = 500 * time.Millisecond
	upstream := &tally{handler: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }}
	call := probe.Fetch(t.Upstream(upstream.ServeHTTP)).Waiting(15000)
	call.Attempts, call.Config["timeoutMs"] = 2, timeout.Milliseconds()
	e := t.Final(t.Execute(call).ID.String())
	fault := executionError(t, e.Error)
	t.Check(fault.Code == "TIMEOUT" && fault.Retryable && fault.Attempt == 2, "the error is %s", e.Error)
	t.Equal("requests", len(upstream.asked()), 2)
	// Two attempts, and the delay of 1 s between them, minus its jitter of 20 %.
	took := e.UpdatedAt.Std().Sub(e.CreatedAt.Std())
	t.Check(took >= 2*timeout+800*time.Millisecond-10*time.Millisecond, "two attempts of %v took %v", timeout, took)
	// A component that waits for 1 h may have another minute to report that the wait is over.
	const longest = time.Hour + time.Minute
	for _, c := range catalogue(t) {
		t.Check(c.TimeoutMs <= longest.Milliseconds() || !slices.Contains(c.ExecutionModes, "COMPONENT"), "%s has a timeout of %d ms", c.Module, c.TimeoutMs)
	}
}

func attemptsPermanent(t *probe.Trial) {
	upstream := &tally{handler: answering(404)}
	call := probe.Fetch(t.Upstream(upstream.ServeHTTP)).Waiting(15000)
	call.Attempts = 3
	call.Config["expectStatus"] = 200
	e := t.Execute(call)
	t.Equal("status", string(e.Status), "FAILED")
	fault := executionError(t, e.Error)
	t.Equal("error.retryable", fault.Retryable, false)
	t.Equal("error.attempt", fault.Attempt, int32(1))
	t.Equal("requests", len(upstream.asked()), 1)
}

// held starts an upstream that responds once it is released. It is released at the end of the trial
// at the latest.
func held(t *probe.Trial) (url string, letGo func(), asked func() bool) {
	release := make(chan struct{})
	letGo = sync.OnceFunc(func() { close(release) })
	t.Cleanup(letGo)
	upstream := &tally{handler: func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
		answering(200)(w, r)
	}}
	url = t.Upstream(upstream.ServeHTTP)
	return url, letGo, func() bool { return len(upstream.asked()) > 0 }
}

func waitBounds(t *probe.Trial) {
	url, letGo, _ := held(t)
	for _, ms := range []int{0, 1} {
		answer := t.Post(probe.Components, probe.Fetch(url).Waiting(ms))
		e := probe.Decode[api.ComponentExecution](t, answer)
		sound(t, e)
		t.Check(!e.Status.Terminal(), "waitForMs %d: %s before the end", ms, e.Status)
		t.Soon(answer.Took, 5*time.Second, "waitForMs %d took %v", ms, answer.Took)
	}
	letGo()
	answer := t.Post(probe.Components, probe.RandomUUID().Waiting(15000))
	completedUUID(t, probe.Decode[api.ComponentExecution](t, answer))
	t.Soon(answer.Took, 10*time.Second, "waitForMs 15000 took %v for a component that is quick", answer.Took)
	for _, ms := range []int{-1, 15001} {
		invalid(t, fmt.Sprintf(`{"module":"RANDOM_UUID","input":{},"config":{},"waitForMs":%d}`, ms), "/waitForMs")
	}
}

func waitHangup(t *probe.Trial) {
	url, letGo, asked := held(t)
	request := probe.Request{
		Method: http.MethodPost, Path: probe.Components, Body: t.JSON(probe.Fetch(url).Waiting(15000)),
		Header: http.Header{"Idempotency-Key": {unique()}},
	}
	ctx, hangUp := context.WithCancel(t.Context())
	t.Parallel(2, func(i int) {
		if i == 0 {
			_, err := t.Try(ctx, request)
			t.Check(err != nil, "an answer before the end")
			return
		}
		defer hangUp()
		t.Until("the upstream is asked", 20*time.Second, asked)
	})
	letGo()
	e := probe.Decode[api.ComponentExecution](t, t.Do(request))
	t.Equal("status", string(e.Status), "COMPLETED")
}

func waitMany(t *probe.Trial) {
	url, letGo, asked := held(t)
	t.Parallel(201, func(i int) {
		if i < 200 {
			e := t.Execute(probe.Fetch(url).Waiting(15000))
			t.Equal("status", string(e.Status), "COMPLETED")
			return
		}
		defer letGo()
		t.Until("the upstream is asked", 20*time.Second, asked)
		for range 20 {
			answer := t.Get(probe.Executions + "?limit=1")
			t.Equal("status", answer.Status, http.StatusOK)
			t.Soon(answer.Took, 5*time.Second, "a reader waited %v", answer.Took)
		}
	})
}

func statusProgress(t *probe.Trial) {
	url, letGo, asked := held(t)
	id := t.Execute(probe.Fetch(url)).ID.String()
	t.Until("the upstream is asked", 20*time.Second, asked)
	during := t.Eventually(id, "EXECUTING", func(e api.ComponentExecution) bool { return e.Status == "EXECUTING" })
	sound(t, during)
	letGo()
	final := t.Final(id)
	sound(t, final)
	t.Equal("status", string(final.Status), "COMPLETED")
}

func statusCompleted(t *probe.Trial) {
	id := t.Execute(probe.RandomUUID()).ID.String()
	final := t.Final(id)
	sound(t, final)
	completedUUID(t, final)
	noCallback(t, final.Callback)
}

func statusFailed(t *probe.Trial) {
	id := t.Execute(probe.Fetch(t.Upstream(answering(503)))).ID.String()
	final := t.Final(id)
	sound(t, final)
	upstreamFailure(t, final, 1)
}

// byID lists the operations on one execution.
func byID(id string) []probe.Request {
	return []probe.Request{
		{Path: probe.Execution(id)},
		{Path: probe.Execution(id) + "/stream"},
		{Path: probe.Execution(id) + "/callback-attempts"},
		{Method: http.MethodPost, Path: probe.Execution(id) + "/replay-callback"},
	}
}

// absent checks that no operation finds an execution.
func absent(t *probe.Trial, id string) {
	for _, request := range byID(id) {
		p := t.Problem(t.Do(request), http.StatusNotFound, "NOT_FOUND")
		t.Equal("retryable", p.Retryable, false)
	}
}

func statusUnknown(t *probe.Trial) {
	for _, id := range []string{
		"0193f1c0-0000-7000-8000-000000000000", "nope", "0", "-", "0193f1c0-0000-7000-8000-00000000000",
		"0193F1C0-0000-7000-8000-000000000000", "%7B0193f1c0-0000-7000-8000-000000000000%7D",
		"0193f1c000007000800000000000000a", "urn:uuid:0193f1c0-0000-7000-8000-000000000000",
	} {
		absent(t, id)
	}
}

func statusForeign(t *probe.Trial) {
	foreign := t.Target().Foreign
	answer := t.Do(probe.Request{
		Method: http.MethodPost, Path: probe.Components, Body: t.JSON(probe.RandomUUID()), Sign: probe.Signing{As: foreign},
	})
	id := probe.Decode[api.ComponentExecution](t, answer).ID.String()
	absent(t, id)
	own := t.Do(probe.Request{Path: probe.Execution(id), Sign: probe.Signing{As: foreign}})
	t.Equal("the owner's status", own.Status, http.StatusOK)
}
