package conformance

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/gen/api"
)

var replayCases = []Case{
	{
		Part: "4.4, 6.3.replay, 6.3.progress, D5.8", Name: "replay/200 delivers what had failed",
		Run: replayFailed, Needs: near,
	},
	{
		Part: "4.4.idempotent, D4.6.unchanged", Name: "CB08 100 replays at once are one delivery",
		Run: replayMany, Needs: near,
	},
	{
		Part: "D4.6.unchanged, D4.6.force", Name: "CB08 100 replays of a delivered callback send nothing, force sends one",
		Run: replayDelivered, Needs: near,
	},
	{
		Part: "D4.6.now, D4.6.unchanged", Name: "replay/200 a retry that waits for its time is sent now",
		Run: replayWaiting, Needs: []probe.Need{probe.NeedNear, probe.NeedPause},
	},
	{Part: "4.4.callbackUrl, D4.6.conflicts", Name: "CB09 replay/409 NO_CALLBACK", Run: replayNoCallback},
	{Part: "D4.6.conflicts", Name: "CB09 replay/409 EXECUTION_NOT_FINISHED", Run: replayUnfinished, Needs: near},
	{
		Part: "7.callback, 2.2.lastError", Name: "replay/200 the record of a delivery that failed",
		Run: replayRecord, Needs: near,
	},
	{Part: "3.1.failed, 6.3.terminal", Name: "replay/200 the record of a failed execution", Run: replayFailedExecution, Needs: near},
}

var callbackRuleCases = []Case{
	{Part: "D5.5", Name: "CB10 forms of callbackUrl that are refused", Run: urlForms},
	{Part: "D5.5", Name: "CB11 addresses that are not public are refused", Run: urlAddresses},
	{Part: "D5.5", Name: "CB16 odd spellings of an address are refused", Run: urlSpellings},
	{Part: "D5.6", Name: "CB18 callbackHeaders that are refused", Run: headerRules},
}

// replay replays a callback; query is "" or "?force=true".
func replay(t *probe.Trial, id, query string) api.ComponentExecution {
	answer := t.Do(probe.Request{Method: http.MethodPost, Path: probe.Execution(id) + "/replay-callback" + query})
	e := probe.Decode[api.ComponentExecution](t, answer)
	t.Equal("id", e.ID.String(), id)
	sound(t, e)
	return e
}

func replayFailed(t *probe.Trial) {
	receiver := t.Receiver(secret, probe.Reply{Status: 410}, probe.Reply{Status: 204})
	id := gone(t, receiver, secret)
	completedUUID(t, replay(t, id, ""))
	receiver.Next()
	e := delivered(t, id)
	t.Equal("attemptCount", e.Callback.AttemptCount, int32(2))
	page := attempts(t, id)
	t.Equal("attempts", len(page.Data), 2)
	last, first := page.Data[0], page.Data[1]
	t.Check(last.Attempt == 2 && last.Delivered && isNull(last.Error) && *last.HTTPStatus == 204, "attempt 2: %s", t.JSON(last))
	t.Check(first.Attempt == 1 && !first.Delivered && *first.HTTPStatus == 410, "attempt 1: %s", t.JSON(first))
	fault := callbackError(t, first.Error)
	t.Check(fault.Class == "status" && fault.Message != "" && *fault.HTTPStatus == 410, "attempt 1: %s", first.Error)
	limited := probe.Decode[api.CallbackAttemptPage](t, t.Get(probe.Execution(id)+"/callback-attempts?limit=1"))
	t.Check(limited.HasMore && limited.NextCursor != nil && len(limited.Data) == 1, "a page of one: %s", t.JSON(limited))
	rest := probe.Decode[api.CallbackAttemptPage](t, t.Get(probe.Execution(id)+"/callback-attempts?limit=1&cursor="+*limited.NextCursor))
	t.Check(!rest.HasMore && rest.NextCursor == nil && len(rest.Data) == 1 && rest.Data[0].Attempt == 1, "the next page: %s", t.JSON(rest))
}

func replayMany(t *probe.Trial) {
	hold := make(chan struct{})
	receiver := t.Receiver("", probe.Reply{Status: 410}, probe.Reply{Status: 204, Hold: hold})
	id := gone(t, receiver, "")
	var done atomic.Int32
	t.Parallel(100, func(int) {
		replay(t, id, "")
		if done.Add(1) == 100 {
			close(hold)
		}
	})
	receiver.Next()
	e := delivered(t, id)
	t.Equal("attemptCount", e.Callback.AttemptCount, int32(2))
	// A delivery that a replay had queued would arrive before the forced one.
	replay(t, id, "?force=true")
	receiver.Next()
	attempted(t, id, 3)
	t.Equal("deliveries", receiver.Received(), 3)
}

// replayWaiting replays before the first long delay of the schedule has passed.
func replayWaiting(t *probe.Trial) {
	failures, delay := t.Target().Pause()
	replies := make([]probe.Reply, failures)
	for i := range replies {
		replies[i].Status = 500
	}
	hold := make(chan struct{})
	receiver := t.Receiver(secret, append(replies, probe.Reply{Status: 204, Hold: hold})...)
	id := t.Execute(called(probe.RandomUUID(), receiver, secret)).ID.String()
	first := receiver.Next()
	for range failures - 1 {
		receiver.Next()
	}
	failed := attempted(t, id, int32(failures))
	replay(t, id, "")
	sent := receiver.Next()
	t.Equal("webhook-id", sent.Header.Get("Webhook-Id"), first.Header.Get("Webhook-Id"))
	t.Parallel(5, func(int) { t.Equal("the record while it is sent", replay(t, id, ""), failed) })
	close(hold)
	e := delivered(t, id)
	t.Equal("attemptCount", e.Callback.AttemptCount, int32(failures+1))
	t.Equal("deliveries", receiver.Received(), failures+1)
	early := e.Callback.LastAttemptAt.Std().Sub(failed.Callback.LastAttemptAt.Std())
	t.Soon(early, delay*8/10, "the retry came %v after the attempt before, planned %v", early, delay)
}

func replayDelivered(t *probe.Trial) {
	receiver := t.Receiver("")
	id := t.Execute(called(probe.RandomUUID(), receiver, "")).ID.String()
	receiver.Next()
	before := delivered(t, id)
	t.Parallel(100, func(int) { t.Equal("record", replay(t, id, ""), before) })
	t.Parallel(1, func(int) { t.Equal("record", replay(t, id, "?force=false"), before) })
	replay(t, id, "?force=true")
	receiver.Next()
	after := attempted(t, id, 2)
	t.Equal("deliveredAt", after.Callback.DeliveredAt, before.Callback.DeliveredAt)
	t.Equal("deliveries", receiver.Received(), 2)
}

func replayNoCallback(t *probe.Trial) {
	e := t.Execute(probe.RandomUUID().Waiting(15000))
	for _, query := range []string{"", "?force=true"} {
		answer := t.Do(probe.Request{Method: http.MethodPost, Path: probe.Execution(e.ID.String()) + "/replay-callback" + query})
		t.Problem(answer, http.StatusConflict, "NO_CALLBACK")
	}
	answer := t.Do(probe.Request{Method: http.MethodPost, Path: probe.Execution(e.ID.String()) + "/replay-callback?force=perhaps"})
	p := t.Problem(answer, http.StatusBadRequest, "INVALID_INPUT")
	t.Equal("pointers", probe.Pointers(p), []string{"/query/force"})
	page := attempts(t, e.ID.String())
	t.Check(len(page.Data) == 0 && !page.HasMore && page.NextCursor == nil, "attempts without a callback: %s", t.JSON(page))
}

func replayUnfinished(t *probe.Trial) {
	url, letGo, _ := held(t)
	receiver := t.Receiver("")
	id := t.Execute(called(probe.Fetch(url), receiver, "")).ID.String()
	answer := t.Do(probe.Request{Method: http.MethodPost, Path: probe.Execution(id) + "/replay-callback"})
	p := t.Problem(answer, http.StatusConflict, "EXECUTION_NOT_FINISHED")
	t.Equal("retryable", p.Retryable, true)
	letGo()
	receiver.Next()
}

func replayRecord(t *probe.Trial) {
	failedDelivery(t, probe.Reply{Status: 410}, func(fault api.CallbackError) bool {
		return fault.Class == "status" && fault.HTTPStatus != nil && *fault.HTTPStatus == 410 && fault.Message != ""
	})
	failedDelivery(t, probe.Reply{Close: true}, func(fault api.CallbackError) bool {
		return fault.Class == "connection" && fault.Reason != nil && *fault.Reason != "" && fault.HTTPStatus == nil
	})
}

// failedDelivery checks the records of an execution whose first delivery failed.
func failedDelivery(t *probe.Trial, first probe.Reply, as func(api.CallbackError) bool) {
	hold := make(chan struct{})
	receiver := t.Receiver("", first, probe.Reply{Status: 204, Hold: hold})
	key := http.Header{"Idempotency-Key": {unique()}}
	request := probe.Request{Method: http.MethodPost, Path: probe.Components, Header: key, Body: t.JSON(called(probe.RandomUUID(), receiver, ""))}
	id := probe.Decode[api.ComponentExecution](t, t.Do(request)).ID.String()
	receiver.Next()
	attempted(t, id, 1)
	t.Check(as(callbackError(t, attempts(t, id).Data[0].Error)), "the attempt does not have the error")
	// The delivery of the replay is in flight, so every record still shows the failure.
	for _, e := range []api.ComponentExecution{
		replay(t, id, ""), t.Record(id), probe.Decode[api.ComponentExecution](t, t.Do(request)), probe.Decode[api.ComponentExecution](t, canceling(t, id, "")),
	} {
		completedUUID(t, e)
		t.Check(as(callbackError(t, e.Callback.LastError)), "lastError %s", e.Callback.LastError)
		t.Check(e.Callback.LastAttemptAt != nil && e.Callback.AttemptCount == 1, "callback %s", t.JSON(e.Callback))
	}
	close(hold)
	delivered(t, id)
}

func replayFailedExecution(t *probe.Trial) {
	receiver := t.Receiver("")
	e := t.Execute(called(probe.Fetch(t.Upstream(answering(503))), receiver, "").Waiting(15000))
	receiver.Next()
	delivered(t, e.ID.String())
	upstreamFailure(t, replay(t, e.ID.String(), ""), 1)
}

// refusedURL submits a callbackUrl that must be rejected and not be echoed.
func refusedURL(t *probe.Trial, url string) {
	call := probe.RandomUUID()
	call.CallbackURL = url
	p := invalid(t, string(t.JSON(call)), "/callbackUrl")
	t.Check(!strings.Contains(string(t.JSON(p)), "echo-canary"), "the URL %q is echoed", url)
}

func urlForms(t *probe.Trial) {
	for _, url := range []string{
		"", "hooks", "/relative/echo-canary", "//hooks.example.org/", "ftp://hooks.example.org/", "javascript:alert(1)",
		"https://", "https:///echo-canary", "https://user:pass@hooks.example.org/", "https://user@hooks.example.org/",
		"http://8.8.8.8/echo-canary", "https://8.8.8.8:22/", "https://hooks.example.org/#echo-canary", "https://hooks.example.org/#", "https://hooks.example.org/a\nb",
		"https://hooks.example.org/a\tb", "https://hooks.example.org/ b", "https://[::1%25eth0]/", "https://[::1/",
		"https://hooks.example.org:0/", "https://hooks.example.org:65536/", "https://hooks.example.org:x/",
		"https://hooks.example.org/" + strings.Repeat("x", 2048), "https://" + strings.Repeat("x.", 200) + "org/",
	} {
		refusedURL(t, url)
	}
}

func urlAddresses(t *probe.Trial) {
	for _, address := range []string{
		"0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "168.63.129.16", "169.254.169.254", "172.16.0.1", "192.0.0.192",
		"192.0.2.1", "192.88.99.1", "192.168.1.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "240.0.0.1",
		"255.255.255.255", "[::]", "[::ffff:10.0.0.1]", "[::10.0.0.1]", "[64:ff9b::10.0.0.1]", "[64:ff9b:1::1]", "[100::1]",
		"[2001::1]", "[2001:db8::1]", "[2002:a00:1::1]", "[3fff::1]", "[5f00::1]", "[fc00::1]", "[fe80::1]", "[fec0::1]", "[ff02::1]",
	} {
		refusedURL(t, "https://"+address+"/echo-canary")
	}
}

func urlSpellings(t *probe.Trial) {
	for _, host := range []string{"2130706433", "0177.0.0.1", "0x7f000001", "127.1", "①②⑦.⓪.⓪.①", "0x7f.1", "hooks.example.org."} {
		refusedURL(t, "https://"+host+"/echo-canary")
	}
}

func headerRules(t *probe.Trial) {
	refused := func(headers map[string]string) api.Problem {
		call := probe.RandomUUID()
		call.CallbackURL, call.CallbackHeaders = "https://hooks.example.org/", headers
		p := invalid(t, string(t.JSON(call)))
		for _, pointer := range probe.Pointers(p) {
			t.Check(strings.HasPrefix(pointer, "/callbackHeaders"), "%v: a fault at %s", headers, pointer)
		}
		t.Check(len(p.Errors) > 0 && !strings.Contains(string(t.JSON(p)), "value-canary"), "%v: %s", headers, t.JSON(p))
		return p
	}
	for _, name := range []string{
		"Host", "Content-Length", "Content-Type", "Transfer-Encoding", "Connection", "Keep-Alive", "Upgrade", "Te", "Trailer",
		"Expect", "Cookie", "Accept-Encoding", "User-Agent", "Proxy-Authorization", "X-Svc-Signature", "X-Svc-Anything",
		"webhook-id", "X-Forwarded-For",
	} {
		for _, spelling := range []string{name, strings.ToLower(name), upper(name), strings.ReplaceAll(name, "-", "_")} {
			refused(map[string]string{spelling: "value-canary"})
		}
	}
	for _, name := range []string{"", "X Y", "X:Y", "X\r\nY", "Ä", strings.Repeat("x", 65)} {
		refused(map[string]string{name: "value-canary"})
	}
	for _, value := range []string{"value-canary\r\nX: y", "value-canary\n", "value-canary\x00", "value-canary\x7f", "value-canary-ä",
		"value-canary" + strings.Repeat("v", 4096)} {
		refused(map[string]string{"X-A": value})
	}
	refused(map[string]string{"X-A": "value-canary", "x-a": "value-canary"})
	many := map[string]string{}
	for i := range 21 {
		many[fmt.Sprint("X-", i)] = "value-canary"
	}
	refused(many)
	large := strings.Repeat("v", 4000)
	refused(map[string]string{"X-A": large, "X-B": large, "X-C": large})
}
