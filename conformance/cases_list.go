package conformance

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/gen/api"
)

var idempotencyCases = []Case{
	{Part: "D1.7.replay, D1.7.wait", Name: "EX15 a repeat renders the present record", Run: repeatSame, Needs: near},
	{Part: "D1.7.mismatch", Name: "EX15 the same key with another body", Run: repeatOther},
	{Part: "D1.7.inflight", Name: "EX15 the same key at once", Run: repeatAtOnce},
	{Part: "D1.7.refused", Name: "EX15 a refused request leaves no row", Run: repeatRefused},
	{Part: "D1.7.scope", Name: "EX15 the same key in two workspaces", Run: repeatForeign, Needs: []probe.Need{probe.NeedForeign}},
}

var listCases = []Case{
	{Part: "D1.5.limit", Name: "list/200 limit", Run: listLimit},
	{Part: "D1.5.limit, D1.5.cursor", Name: "list/400 limit and cursor out of range", Run: listRefused},
	{Part: "D1.5.cursor, D1.5.order, D1.5.stable", Name: "list/200 pages are stable under inserts", Run: listStable},
	{Part: "D1.5.order", Name: "list/200 executions of every kind", Run: listKinds, Needs: []probe.Need{probe.NeedNear, probe.NeedForeign}},
}

// unique returns a random string that was never used.
func unique() string { return rand.Text() }

// upper returns a string in upper case.
func upper(text string) string { return strings.ToUpper(text) }

// keyed returns an execution request with an Idempotency-Key.
func keyed(t *probe.Trial, key string, call probe.Call) probe.Request {
	return probe.Request{
		Method: http.MethodPost, Path: probe.Components, Body: t.JSON(call), Header: http.Header{"Idempotency-Key": {key}},
	}
}

func repeatSame(t *probe.Trial) {
	url, letGo, asked := held(t)
	request := keyed(t, unique()+" ~!", probe.Fetch(url).Waiting(1))
	answer := t.Do(request)
	t.Equal("Idempotent-Replayed of the first", answer.Header.Get("Idempotent-Replayed"), "")
	first := probe.Decode[api.ComponentExecution](t, answer)
	t.Until("the upstream is asked", 20*time.Second, asked)
	again := func() api.ComponentExecution {
		answer := t.Do(request)
		t.Equal("Idempotent-Replayed of a repeat", answer.Header.Get("Idempotent-Replayed"), "true")
		e := probe.Decode[api.ComponentExecution](t, answer)
		t.Equal("id", e.ID, first.ID)
		return e
	}
	t.Check(!again().Status.Terminal(), "final before the end")
	letGo()
	t.Final(first.ID.String())
	t.Equal("status", string(again().Status), "COMPLETED")
	// A repeated request waits for its own waitForMs.
	second, release, reached := held(t)
	long := keyed(t, unique(), probe.Fetch(second).Waiting(15000))
	t.Parallel(3, func(i int) {
		if i == 2 {
			defer release()
			t.Until("the upstream is asked", 20*time.Second, reached)
			return
		}
		answer := t.Do(long)
		for answer.Status == http.StatusConflict { // the other request is being accepted
			answer = t.Do(long)
		}
		t.Equal("status", string(probe.Decode[api.ComponentExecution](t, answer).Status), "COMPLETED")
	})
}

func repeatOther(t *probe.Trial) {
	key := unique()
	t.Equal("status", t.Do(keyed(t, key, probe.RandomUUID())).Status, http.StatusOK)
	invalid, elsewhere := probe.RandomUUID(), probe.RandomUUID()
	invalid.Attempts, elsewhere.CallbackURL = 9, "ftp://example.com/"
	for _, call := range []probe.Call{
		probe.RandomUUID().Waiting(5), {Module: "HASH", Input: map[string]any{"data": ""}, Config: map[string]any{}}, invalid, elsewhere,
	} {
		p := t.Problem(t.Do(keyed(t, key, call)), http.StatusConflict, "IDEMPOTENCY_MISMATCH")
		t.Equal("retryable", p.Retryable, false)
	}
	t.Equal("status", t.Do(keyed(t, key, probe.RandomUUID())).Status, http.StatusOK)
}

func repeatAtOnce(t *probe.Trial) {
	var inFlight atomic.Int32
	for round := 0; round < 50 && inFlight.Load() == 0; round++ {
		request := keyed(t, unique(), probe.RandomUUID())
		ids := make([]string, 16)
		t.Parallel(len(ids), func(i int) {
			answer := t.Do(request)
			if answer.Status == http.StatusOK {
				ids[i] = probe.Decode[api.ComponentExecution](t, answer).ID.String()
				return
			}
			p := t.Problem(answer, http.StatusConflict, "IDEMPOTENCY_IN_FLIGHT")
			t.Equal("retryable", p.Retryable, true)
			t.Equal("Retry-After", answer.Header.Get("Retry-After"), "1")
			inFlight.Add(1)
		})
		ids = append(ids, probe.Decode[api.ComponentExecution](t, t.Do(request)).ID.String())
		slices.Sort(ids)
		ids = slices.DeleteFunc(slices.Compact(ids), func(id string) bool { return id == "" })
		t.Equal("executions made", len(ids), 1)
	}
	t.Check(inFlight.Load() > 0, "800 repeats at once, and none met the first one under way")
}

func repeatRefused(t *probe.Trial) {
	key := unique()
	bad := keyed(t, key, probe.Call{Module: "HASH", Input: map[string]any{}, Config: map[string]any{}})
	t.Problem(t.Do(bad), http.StatusUnprocessableEntity, "INVALID_INPUT")
	t.Problem(t.Do(keyed(t, key, probe.Call{Module: "NO_SUCH_MODULE", Input: map[string]any{}, Config: map[string]any{}})), http.StatusBadRequest, "INVALID_INPUT")
	stale := keyed(t, key, probe.RandomUUID())
	stale.Sign.Timestamp = "5"
	refuse(t, stale, "timestamp_expired")
	answer := t.Do(keyed(t, key, probe.RandomUUID()))
	t.Equal("status", answer.Status, http.StatusOK)
	t.Equal("Idempotent-Replayed", answer.Header.Get("Idempotent-Replayed"), "")
}

func repeatForeign(t *probe.Trial) {
	request := keyed(t, unique(), probe.RandomUUID())
	own := probe.Decode[api.ComponentExecution](t, t.Do(request))
	request.Sign.As = t.Target().Foreign
	answer := t.Do(request)
	t.Equal("Idempotent-Replayed", answer.Header.Get("Idempotent-Replayed"), "")
	t.Check(probe.Decode[api.ComponentExecution](t, answer).ID != own.ID, "another workspace's key was found")
}

func list(t *probe.Trial, query string) api.ComponentExecutionPage {
	page := probe.Decode[api.ComponentExecutionPage](t, t.Get(probe.Executions+query))
	t.Equal("hasMore", page.HasMore, page.NextCursor != nil)
	newer := "g"
	for _, e := range page.Data {
		sound(t, e)
		t.Check(e.ID.String() < newer, "%s is not older than %s", e.ID, newer)
		newer = e.ID.String()
	}
	return page
}

func listLimit(t *probe.Trial) {
	t.Parallel(25, func(int) { t.Execute(probe.RandomUUID()) })
	t.Equal("the default", len(list(t, "").Data), 20)
	t.Equal("limit=1", len(list(t, "?limit=1").Data), 1)
	t.Equal("limit=25", len(list(t, "?limit=25").Data), 25)
	t.Check(len(list(t, "?limit=100").Data) >= 25, "limit=100 gives less than there is")
}

func listRefused(t *probe.Trial) {
	for _, query := range []string{"limit=0", "limit=101", "limit=-1", "limit=x", "limit=", "limit=1.5", "limit=1&limit=2", "limit=99999999999999999999"} {
		p := t.Problem(t.Get(probe.Executions+"?"+query), http.StatusBadRequest, "INVALID_INPUT")
		t.Equal(query, slices.Compact(probe.Pointers(p)), []string{"/query/limit"})
	}
	both := t.Problem(t.Get(probe.Executions+"?limit=0&cursor=zz"), http.StatusBadRequest, "INVALID_INPUT")
	t.Equal("both faults", slices.Compact(probe.Pointers(both)), []string{"/query/cursor", "/query/limit"})
	attempts := probe.Execution(t.Execute(probe.RandomUUID()).ID.String()) + "/callback-attempts"
	for _, query := range []string{"?limit=0", "?cursor=x"} {
		t.Problem(t.Get(attempts+query), http.StatusBadRequest, "INVALID_INPUT")
	}
	for _, query := range []string{"cursor=", "cursor=x", "cursor=AAAA", "cursor=%20", "cursor=" + strings.Repeat("A", 600)} {
		p := t.Problem(t.Get(probe.Executions+"?"+query), http.StatusBadRequest, "INVALID_INPUT")
		t.Equal(query, slices.Compact(probe.Pointers(p)), []string{"/query/cursor"})
	}
}

func listStable(t *probe.Trial) {
	var own []string
	for range 7 {
		own = append(own, t.Execute(probe.RandomUUID()).ID.String())
	}
	slices.Reverse(own) // newest first
	var seen []string
	all := map[string]bool{}
	query := "?limit=2"
	for pages := 0; ; pages++ {
		t.Check(pages < 2000, "the list has no end")
		page := list(t, query)
		for _, e := range page.Data {
			id := e.ID.String()
			t.Check(!all[id], "%s is on two pages", id)
			all[id] = true
			if slices.Contains(own, id) {
				seen = append(seen, id)
			}
		}
		if len(seen) == len(own) || page.NextCursor == nil {
			break
		}
		t.Execute(probe.RandomUUID()) // moves nothing on the pages to come
		query = "?limit=2&cursor=" + *page.NextCursor
	}
	t.Equal("our executions, newest first", fmt.Sprint(seen), fmt.Sprint(own))
}

// listKinds uses the second workspace, in which no other case creates executions, so that its own
// executions are on the first page.
func listKinds(t *probe.Trial) {
	receiver, hold := t.Receiver(secret, probe.Reply{Status: 410}), make(chan struct{})
	defer close(hold)
	closing := t.Receiver("", probe.Reply{Close: true}, probe.Reply{Status: 204, Hold: hold})
	made := map[string]probe.Call{
		"completed": called(probe.RandomUUID(), receiver, secret), "failed": probe.Fetch(t.Upstream(answering(503))), "closed": called(probe.RandomUUID(), closing, ""),
	}
	ids := map[string]string{}
	as := probe.Signing{As: t.Target().Foreign}
	for name, call := range made {
		answer := t.Do(probe.Request{Method: http.MethodPost, Path: probe.Components, Body: t.JSON(call.Waiting(15000)), Sign: as})
		ids[name] = probe.Decode[api.ComponentExecution](t, answer).ID.String()
	}
	receiver.Next()
	closing.Next()
	found := map[string]api.ComponentExecution{}
	t.Until("the list shows the attempt", 20*time.Second, func() bool {
		page := probe.Decode[api.ComponentExecutionPage](t, t.Do(probe.Request{Path: probe.Executions + "?limit=100", Sign: as}))
		for _, e := range page.Data {
			for name, id := range ids {
				if e.ID.String() == id {
					sound(t, e)
					found[name] = e
				}
			}
		}
		return found["completed"].Callback.AttemptCount == 1 && found["closed"].Callback.AttemptCount == 1 && len(found) == 3
	})
	completedUUID(t, found["completed"])
	upstreamFailure(t, found["failed"], 1)
	t.Equal("lastError.class", callbackError(t, found["completed"].Callback.LastError).Class, "status")
	fault := callbackError(t, found["closed"].Callback.LastError)
	t.Check(fault.Class == "connection" && fault.Reason != nil && *fault.Reason == "unanswered", "lastError %s", found["closed"].Callback.LastError)
}
