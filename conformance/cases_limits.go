package conformance

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/gen/api"
)

var workspaces = []probe.Need{probe.NeedWorkspace}

var limitCases = []Case{
	{Part: "8.1, 4.1.3, D6.fields", Name: "limits/200 what is left after reads and submits", Run: limitCosts, Needs: workspaces},
	{Part: "8.1, D6.fields", Name: "limits/200 every signed operation counts as the contract says", Run: limitFields, Needs: []probe.Need{probe.NeedWorkspace, probe.NeedNear}},
	{Part: "8.2, 7.429, D6.retry, D6.second", Name: "RL03 who waits as Retry-After says is let in", Run: limitObeyed, Needs: workspaces},
	{Part: "D6.refused, D6.fields, 8.2", Name: "RL07 refused requests cost nothing, and the fields agree", Run: limitRefused, Needs: workspaces},
	{Part: "8.workspace", Name: "limits/429 is for all keys of the workspace, and leaves other workspaces as they are", Run: limitWorkspaces, Needs: workspaces},
	{Part: "8.3", Name: "limits/429 comes before what a call costs", Run: limitBalance, Needs: workspaces},
	{Part: "D6.refused, D1.8.order", Name: "RL06 strangers do not use a workspace's limits up", Run: limitStrangers, Needs: workspaces},
	{Part: "D6.waits", Name: "RL09 calls that wait inline", Run: limitWaits, Needs: []probe.Need{probe.NeedWorkspace, probe.NeedNear}},
	{Part: "8.1, D6.streams", Name: "RL09 open streams", Run: limitStreams, Needs: []probe.Need{probe.NeedWorkspace, probe.NeedNear}},
}

const limitsPath = "/v1/sdk/limits"

// customer creates a workspace with a plan, and returns how to sign as it.
func customer(t *probe.Trial, plan string) probe.Signing { return withCredit(t, plan, 1000) }

func withCredit(t *probe.Trial, plan string, credits int) probe.Signing {
	return on(t, probe.Terms{Plan: plan, Paid: credits})
}

// on creates a workspace with these terms, and returns how to sign as it.
func on(t *probe.Trial, terms probe.Terms) probe.Signing {
	credentials, err := t.Target().NewWorkspace(t.Context(), terms)
	t.NoError("make a workspace", err)
	return probe.Signing{As: &credentials}
}

var rateItem = regexp.MustCompile(`^"(second|hour)"((?:;[a-z]=[0-9]+)+)$`)

// rates reads one of the fields: name, then parameter.
func rates(t *probe.Trial, answer probe.Answer, field string) map[string]map[string]int {
	items := map[string]map[string]int{}
	for item := range strings.SplitSeq(answer.Header.Get(field), ", ") {
		match := rateItem.FindStringSubmatch(item)
		t.Check(match != nil, "%s: %q", field, answer.Header.Get(field))
		items[match[1]] = map[string]int{}
		for parameter := range strings.SplitSeq(match[2][1:], ";") {
			n, err := strconv.Atoi(parameter[2:])
			t.NoError(field, err)
			items[match[1]][parameter[:1]] = n
		}
	}
	return items
}

// retryAfter returns the Retry-After of a rejected request.
func retryAfter(t *probe.Trial, answer probe.Answer) time.Duration {
	text := answer.Header.Get("Retry-After")
	t.Check(text != "", "there is no Retry-After")
	seconds, err := strconv.Atoi(text)
	if err != nil {
		t.Decided("D6.retry", false, "Retry-After %q is not in seconds", text)
		return time.Second
	}
	t.Check(seconds >= 1, "Retry-After %d", seconds)
	return time.Duration(seconds) * time.Second
}

func submit(t *probe.Trial, call probe.Call, as probe.Signing) probe.Request {
	return probe.Request{Method: http.MethodPost, Path: probe.Components, Body: t.JSON(call), Sign: as}
}

// quiet waits until the workspace's bucket is full again.
func quiet(t *probe.Trial) { wait(t, 1100*time.Millisecond) }

func wait(t *probe.Trial, d time.Duration) {
	select {
	case <-time.After(d):
	case <-t.Context().Done():
		t.Fatalf("the case's time is up")
	}
}

func limitCosts(t *probe.Trial) {
	as := customer(t, "professional")
	hour := 45_000
	for i, c := range []struct {
		request probe.Request
		status  int
		cost    int
	}{
		{probe.Request{Path: limitsPath, Sign: as}, 200, 1},
		{submit(t, probe.RandomUUID(), as), 200, 2},
		{probe.Request{Path: probe.Executions, Sign: as}, 200, 1},
		{probe.Request{Path: probe.Components, Sign: as}, 200, 1},
		{probe.Request{Path: probe.Components + "/RANDOM_UUID", Sign: as}, 200, 1},
		// Errors count too, and their responses show the limits.
		{probe.Request{Path: probe.Execution("0193f1c0-0000-7000-8000-000000000000"), Sign: as}, 404, 1},
		{probe.Request{Method: http.MethodPost, Path: probe.Components, Body: []byte("{"), Sign: as}, 400, 2},
		{probe.Request{Path: probe.Executions + "?limit=0", Sign: as}, 400, 1},
		{probe.Request{Path: limitsPath, Sign: as, Header: http.Header{"Accept": {"text/html"}}}, 406, 1},
	} {
		answer := t.Do(c.request)
		t.Equal("status", answer.Status, c.status)
		hour -= c.cost
		left := rates(t, answer, "RateLimit")
		t.Equal(fmt.Sprintf("left of the hour after request %d", i+1), left["hour"]["r"], hour)
		t.Check(left["second"]["r"] >= 0 && left["second"]["r"] <= 25-c.cost, "left of the second: %d", left["second"]["r"])
	}
	limits := probe.Decode[api.Limits](t, t.Do(probe.Request{Path: limitsPath, Sign: as}))
	t.Equal("requestsPerHour.remaining", *limits.RequestsPerHour.Remaining, int32(hour-1))
	open := t.Get("/healthz")
	t.Equal("RateLimit of an open operation", open.Header.Get("RateLimit")+open.Header.Get("RateLimit-Policy"), "")
}

// limitFields sends every signed operation.
func limitFields(t *probe.Trial) {
	as := customer(t, "professional")
	requests, before := signed(t, called(probe.RandomUUID(), t.Receiver(""), ""), as)
	hour := 45_000 - before // for what they are about
	for _, request := range requests {
		answer := t.Do(request)
		t.Check(answer.Status == http.StatusOK, "%s %s: %d %s", request.Method, request.Path, answer.Status, answer.Body)
		t.Equal("RateLimit-Policy", answer.Header.Get("RateLimit-Policy"), `"second";q=25;w=1, "hour";q=45000;w=3600`)
		cost := 1
		if request.Method == http.MethodPost && request.Path == probe.Components {
			cost = 2
		}
		hour -= cost
		left := rates(t, answer, "RateLimit")
		t.Equal("left of the hour after "+request.Method+" "+request.Path, left["hour"]["r"], hour)
		t.Check(len(left) == 2 && left["second"]["r"] <= 25-cost, "RateLimit %v", left)
	}
}

// limitObeyed is rejected twenty times, and accepted each time after it has waited.
func limitObeyed(t *probe.Trial) {
	as := customer(t, "starter")
	request := submit(t, probe.RandomUUID(), as)
	request.Once = true
	for range 20 {
		answer := t.Do(request)
		for range 20 {
			if answer.Status != http.StatusOK {
				break
			}
			answer = t.Do(request)
		}
		p := t.Problem(answer, http.StatusTooManyRequests, "RATE_LIMITED")
		t.Equal("reason", probe.Reason(p), "requests_per_second")
		t.Equal("retryable", p.Retryable, true)
		pause := retryAfter(t, answer)
		t.Decided("D6.retry", pause == time.Second, "Retry-After: got %v, want 1 s", pause)
		wait(t, pause)
		answer = t.Do(request)
		t.Check(answer.Status == http.StatusOK, "refused after Retry-After: %d %s", answer.Status, answer.Body)
	}
}

func limitRefused(t *probe.Trial) {
	as := customer(t, "starter")
	request := probe.Request{Path: limitsPath, Sign: as, Once: true}
	allowed, refused := 0, 0
	for range 40 {
		answer := t.Do(request)
		left := rates(t, answer, "RateLimit")
		if answer.Status == http.StatusOK {
			allowed++
			continue
		}
		refused++
		t.Problem(answer, http.StatusTooManyRequests, "RATE_LIMITED")
		t.Equal("left of the second", left["second"]["r"], 0)
		for name, item := range left {
			at, present := item["t"]
			t.Check(!present || time.Duration(at)*time.Second <= retryAfter(t, answer), "%s: t=%d and Retry-After %v", name, at, retryAfter(t, answer))
		}
		t.Check(answer.Header.Get("RateLimit-Policy") != "", "a refusal without RateLimit-Policy")
	}
	t.Check(refused > 0, "40 requests and no limit")
	quiet(t)
	answer := t.Do(request)
	hour := rates(t, answer, "RateLimit")["hour"]["r"]
	t.Decided("D6.refused", hour == 9000-allowed-1, "left of the hour: got %d, want %d", hour, 9000-allowed-1)
	t.Equal("left of the second", rates(t, answer, "RateLimit")["second"]["r"], 4)
}

func limitWorkspaces(t *probe.Trial) {
	flooded, other := customer(t, "starter"), customer(t, "starter")
	second := anotherKey(t, *flooded.As)
	hour := func(as probe.Signing) int {
		return rates(t, t.Do(probe.Request{Path: limitsPath, Sign: as}), "RateLimit")["hour"]["r"]
	}
	left := hour(flooded)
	t.Equal("left of the hour after a request of another key", hour(second), left-1)
	// The keys alternate, so neither alone exceeds the limit.
	var refused [2]bool
	for i := range 60 {
		as := []probe.Signing{flooded, second}[i%2]
		refused[i%2] = refused[i%2] || t.Do(probe.Request{Path: limitsPath, Sign: as, Once: true}).Status == http.StatusTooManyRequests
	}
	t.Equal("which keys were refused in 60 requests", refused, [2]bool{true, true})
	answer := t.Do(probe.Request{Path: limitsPath, Sign: other})
	t.Equal("left to another workspace", []int{rates(t, answer, "RateLimit")["second"]["r"], rates(t, answer, "RateLimit")["hour"]["r"]}, []int{4, 8999})
}

// anotherKey returns another key of the workspace, created by its owner.
func anotherKey(t *probe.Trial, of probe.Credentials) probe.Signing {
	made := probe.Decode[api.CreatedAPIKey](t, t.Do(probe.Request{
		Method: http.MethodPost, Path: probe.Workspace(of.WorkspaceID) + "/api-keys", Bearer: t.SignInAs(of),
		Body: t.JSON(map[string]any{"label": "another", "allowedWorkflowIds": []string{}}),
	}))
	of.APIKey, of.APISecret = made.APIKey, made.APISecret
	return probe.Signing{As: &of}
}

// limitBalance checks that the rate limit rejects requests with and without credits
// alike.
func limitBalance(t *probe.Trial) {
	for credits, other := range map[int]int{1000: http.StatusOK, 0: http.StatusPaymentRequired} {
		as := withCredit(t, "starter", credits)
		limited := 0
		request := submit(t, probe.RandomUUID(), as)
		request.Once = true
		for range 30 {
			answer := t.Do(request)
			if answer.Status == http.StatusTooManyRequests {
				limited++
				continue
			}
			t.Equal("status below the limit", answer.Status, other)
		}
		t.Check(limited > 0, "30 submits with %d credits and no limit", credits)
	}
}

func limitStrangers(t *probe.Trial) {
	as := customer(t, "starter")
	stranger := as
	stranger.Method = "PUT"
	hour := rates(t, t.Do(probe.Request{Path: limitsPath, Sign: as}), "RateLimit")["hour"]["r"]
	for range 200 {
		answer := t.Do(probe.Request{Path: limitsPath, Sign: stranger})
		t.Equal("status", answer.Status, http.StatusUnauthorized)
		t.Equal("what a stranger learns", answer.Header.Get("RateLimit")+answer.Header.Get("RateLimit-Policy"), "")
	}
	quiet(t)
	left := rates(t, t.Do(probe.Request{Path: limitsPath, Sign: as}), "RateLimit")
	t.Equal("left of the hour", left["hour"]["r"], hour-1)
	t.Equal("left of the second", left["second"]["r"], 4)
}

// limitWaits fills the limit of a workspace with inline waits. Further calls are accepted and
// return immediately.
func limitWaits(t *probe.Trial) {
	as := on(t, probe.Terms{Plan: "enterprise", Paid: 1000, Waits: new(int32(3))})
	flow := flowOf(t, as)
	url, letGo, _ := held(t)
	var waiters sync.WaitGroup
	faults := make([]error, 3)
	for i := range faults {
		waiters.Go(func() {
			faults[i] = probe.Caught(func() {
				t.Equal("a call that waits", t.Do(submit(t, probe.Fetch(url).Waiting(15000), as)).Status, http.StatusOK)
			})
		})
	}
	finish := sync.OnceFunc(func() {
		letGo()
		waiters.Wait()
		for _, err := range faults {
			t.NoError("a call that waits", err)
		}
	})
	defer finish()
	waiting := func() api.OpenLimit {
		return probe.Decode[api.Limits](t, t.Do(probe.Request{Path: limitsPath, Sign: as})).InlineWaits
	}
	t.Until("3 wait", 12*time.Second, func() bool { return waiting().Open == 3 })
	t.Equal("the limit", *waiting().Limit, int32(3))
	answer := t.Do(submit(t, probe.Fetch(url).Waiting(15000), as))
	e := probe.Decode[api.ComponentExecution](t, answer)
	t.Check(!e.Completed && !e.Status.Terminal(), "the record of a call beyond the limit: %s", answer.Body)
	t.Soon(answer.Took, 10*time.Second, "a call beyond the limit was answered after %v", answer.Took)
	trigger := probe.Request{Method: http.MethodPost, Path: workflowPath(flow), Body: []byte(`{"waitForMs":15000}`), Sign: as}
	triggered := probe.Decode[api.TriggerResult](t, t.Do(trigger))
	t.Check(triggered.Run != nil && triggered.Run.ID == triggered.RunID, "a trigger beyond the limit has no record of the run")
	t.Equal("calls that wait", waiting().Open, int32(3))
	finish()
	t.Until("there is room", 12*time.Second, func() bool { return waiting().Open == 0 })
	completedUUID(t, probe.Decode[api.ComponentExecution](t, t.Do(submit(t, probe.RandomUUID().Waiting(15000), as))))
}

func limitStreams(t *probe.Trial) {
	as := customer(t, "starter")
	url, letGo, _ := held(t)
	defer letGo()
	id := probe.Decode[api.ComponentExecution](t, t.Do(submit(t, probe.Fetch(url), as))).ID.String()
	request := probe.Request{Path: probe.Execution(id) + "/stream", Sign: as}
	var streams []*probe.Stream
	hour := 9_000 - 2
	left := func(header http.Header) int { return rates(t, probe.Answer{Header: header}, "RateLimit")["hour"]["r"] }
	for i := range 10 {
		if i%4 == 2 {
			quiet(t)
		}
		stream := t.StreamOf(request)
		_, ok := stream.Next()
		t.Check(ok, "a stream ended")
		hour--
		t.Equal("left of the hour after a stream was opened", left(stream.Header), hour)
		streams = append(streams, stream)
	}
	quiet(t)
	limits := probe.Decode[api.Limits](t, t.Do(probe.Request{Path: limitsPath, Sign: as}))
	t.Equal("streams.open", limits.Streams.Open, int32(10))
	beyond := request
	beyond.Once = true
	answer := t.Do(beyond)
	p := t.Problem(answer, http.StatusTooManyRequests, "RATE_LIMITED")
	t.Equal("reason", probe.Reason(p), "streams")
	retryAfter(t, answer)
	t.Equal("left of the hour after one that was refused", left(answer.Header), hour-1)
	streams[0].Close()
	t.Until("a stream that was closed makes room", 20*time.Second, func() bool {
		wait(t, 300*time.Millisecond)
		return probe.Decode[api.Limits](t, t.Do(probe.Request{Path: limitsPath, Sign: as})).Streams.Open < 10
	})
	quiet(t)
	_, ok := t.StreamOf(request).Next()
	t.Check(ok, "no stream after one was closed")
	// Waits for runs count too.
	trigger := probe.Request{Method: http.MethodPost, Path: workflowPath(flowOf(t, as)), Sign: as}
	run := probe.Decode[api.TriggerResult](t, t.Do(trigger)).RunID.String()
	quiet(t)
	p = t.Problem(t.Do(probe.Request{Path: runPath(run) + "/stream", Sign: as, Once: true}), http.StatusTooManyRequests, "RATE_LIMITED")
	t.Equal("reason", probe.Reason(p), "streams")
}

// flowOf creates a workflow in a workspace with the limits of its plan.
func flowOf(t *probe.Trial, as probe.Signing) string {
	wait := set("wait", "WAIT_FOR_SIGNAL", object{"name": "go", "timeoutMs": 60_000})
	body := t.JSON(sketch([]object{use("start", "ON_API_CALLED"), wait}, []string{"start next wait"}))
	return decodeWorkflow(t, t.Do(probe.Request{Method: http.MethodPost, Path: workflows, Body: body, Sign: as})).ID
}
