package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/gen/api"
)

var callbackCases = []Case{
	{
		Part: "4.1.callbackUrl, 4.1.callbackSecret, 4.1.callbackHeaders, 5.3.header, 5.3.raw, 6.3.terminal, 6.3.payload, " +
			"6.3.signature, 6.3.id, 6.3.headers, 6.3.progress, 2.2.signatureAlgorithm, 2.2.headerNames, 2.2.values, " +
			"2.2.lastAttemptAt, 2.2.deliveredAt, 2.2.attemptCount, D5.1.post, D5.4.webhook, D5.4.id, D5.7.echo",
		Name: "CB22 a signed callback of COMPLETED", Run: callbackSigned, Needs: near,
	},
	{
		Part: "2.2.signed, 6.3.signature, 6.3.terminal, D5.1.post, D5.4.id, 6.3.payload",
		Name: "callback/an unsigned one of FAILED", Run: callbackFailed, Needs: near,
	},
	{Part: "D1.6.traceparent", Name: "callback/traceparent is passed on", Run: callbackTraced, Needs: near},
	{Part: "D5.2.success", Name: "CB01 200, 201, 204 and 299 are a delivery", Run: callbackSuccesses, Needs: near},
	{
		Part: "7.callback, 2.2.lastError, D5.2.redirect, D5.3.retry",
		Name: "CB01 301, 307, 400, 404 and 500 are a failure", Run: callbackFailures, Needs: near,
	},
	{Part: "D5.2.redirect", Name: "CB14 a redirect is not followed", Run: callbackRedirect, Needs: near},
	{Part: "D5.3.410", Name: "CB04 410 ends the attempts", Run: callbackGone, Needs: near},
	{Part: "D5.1.frozen, D5.3.retry", Name: "CB05 five attempts carry the same bytes", Run: callbackFrozen, Needs: near},
	{
		Part: "D5.3.exhausted, D5.8", Name: "CB02 the attempts end with the schedule", Run: callbackExhausted,
		Needs: []probe.Need{probe.NeedNear, probe.NeedSchedule},
	},
	{Part: "D5.2.answer, D5.8", Name: "CB17 nothing of the receiver's answer is kept", Run: callbackCanary, Needs: near},
	{Part: "D5.3.slow", Name: "callback/a receiver that does not answer delays no other", Run: callbackSlow, Needs: near},
	{Part: "4.1.callbackSecret, 5.3.raw", Name: "CB23 secrets of one byte, of 4 KiB, and beyond ASCII", Run: callbackSecrets, Needs: near},
}

// prompt is the time within which a callback or a stream reports a change, even on a busy
// machine.
const prompt = 8 * time.Second

const secret = "3f6c1c1f8e0c4c0f9a3d0f0b6b1f5d2e"

// called returns the call with a callback to the receiver.
func called(call probe.Call, r *probe.Receiver, secret string) probe.Call {
	call.CallbackURL = r.URL
	if secret != "" {
		call.CallbackSecret = secret
	}
	return call
}

// delivered waits until the record shows the delivery.
func delivered(t *probe.Trial, id string) api.ComponentExecution {
	return t.Eventually(id, "delivered", func(e api.ComponentExecution) bool { return e.Callback.DeliveredAt != nil })
}

// toTheNext returns the longest time between a failed attempt and the next attempt, at most ten
// seconds.
func toTheNext(t *probe.Trial) time.Duration {
	schedule := t.Target().Schedule
	if len(schedule) < 2 {
		return time.Second
	}
	return min(schedule[1]*13/10+time.Second, 10*time.Second)
}

// attempted waits until the record shows this number of attempts.
func attempted(t *probe.Trial, id string, attempts int32) api.ComponentExecution {
	e := t.Eventually(id, fmt.Sprintf("after %d attempts", attempts), func(e api.ComponentExecution) bool {
		return e.Callback.AttemptCount >= attempts
	})
	t.Equal("attemptCount", e.Callback.AttemptCount, attempts)
	return e
}

func callbackSigned(t *probe.Trial) {
	receiver := t.Receiver(secret)
	call := called(probe.RandomUUID(), receiver, secret)
	call.CallbackHeaders = map[string]string{"Authorization": "Bearer 7d0f4f0e", "X-Order": "4711 a,b"}
	began := time.Now()
	created := t.Execute(call)
	t.Equal("status", string(created.Status), "CREATED")
	t.Equal("attemptCount", created.Callback.AttemptCount, int32(0))
	signedObject(t, created.Callback, receiver.URL)

	d := receiver.Next()
	t.Soon(d.At.Sub(began), prompt, "the callback came after %v", d.At.Sub(began))
	t.Equal("Authorization", d.Header.Get("Authorization"), "Bearer 7d0f4f0e")
	t.Equal("X-Order", d.Header.Get("X-Order"), "4711 a,b")
	t.Equal("Content-Type", d.Header.Get("Content-Type"), "application/json")
	sound(t, d.Record)
	completedUUID(t, d.Record)
	t.Equal("id", d.Record.ID, created.ID)
	t.Equal("createdAt", d.Record.CreatedAt, created.CreatedAt)
	frozen := d.Record.Callback
	t.Check(frozen.AttemptCount == 0 && frozen.LastAttemptAt == nil && frozen.DeliveredAt == nil && isNull(frozen.LastError), "the body knows of its own delivery: %s", t.JSON(frozen))
	signedObject(t, d.Record.Callback, receiver.URL)

	final := delivered(t, created.ID.String())
	t.Equal("attemptCount", final.Callback.AttemptCount, int32(1))
	t.Equal("output", string(final.Output), string(d.Record.Output))
	t.Equal("updatedAt", final.UpdatedAt, d.Record.UpdatedAt)
	t.Check(final.Callback.LastAttemptAt != nil && isNull(final.Callback.LastError), "callback %s", t.JSON(final.Callback))
	signedObject(t, final.Callback, receiver.URL)
	for _, path := range []string{"", "/callback-attempts"} {
		body := string(t.Get(probe.Execution(created.ID.String()) + path).Body)
		t.Check(!strings.Contains(body, "7d0f4f0e") && !strings.Contains(body, "4711 a"), "the value of a header is echoed: %s", body)
		t.Decided("D5.7.echo", !strings.Contains(body, secret), "a secret is echoed: %s", body)
	}
	t.Equal("deliveries", receiver.Received(), 1)
}

func signedObject(t *probe.Trial, c api.ComponentExecutionCallback, url string) {
	t.Check(c.URL != nil && *c.URL == url, "callback.url is not %s", url)
	t.Check(c.Signed && c.SignatureAlgorithm != nil && string(*c.SignatureAlgorithm) == "hmac-sha256-v1", "callback %s", t.JSON(c))
	t.Equal("headerNames", c.HeaderNames, []string{"Authorization", "X-Order"})
}

func callbackFailed(t *probe.Trial) {
	receiver := t.Receiver("")
	e := t.Execute(called(probe.Fetch(t.Upstream(answering(503))), receiver, "").Waiting(15000))
	upstreamFailure(t, e, 1)
	d := receiver.Next()
	sound(t, d.Record)
	upstreamFailure(t, d.Record, 1)
	t.Equal("error", string(d.Record.Error), string(e.Error))
	for _, c := range []api.ComponentExecutionCallback{e.Callback, d.Record.Callback, delivered(t, e.ID.String()).Callback} {
		t.Check(c.URL != nil && *c.URL == receiver.URL, "callback.url is not %s", receiver.URL)
		t.Check(!c.Signed && c.SignatureAlgorithm == nil && len(c.HeaderNames) == 0, "callback %s", t.JSON(c))
	}
}

func callbackTraced(t *probe.Trial) {
	receiver := t.Receiver("")
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	submitted := t.Do(probe.Request{
		Method: http.MethodPost, Path: probe.Components, Body: t.JSON(called(probe.RandomUUID(), receiver, "")),
		Header: http.Header{"Traceparent": {"00-" + trace + "-00f067aa0ba902b7-01"}},
	})
	t.Equal("status", submitted.Status, http.StatusOK)
	got := receiver.Next().Header.Get("Traceparent")
	t.Check(strings.HasPrefix(got, "00-"+trace+"-"), "traceparent %q", got)
}

func callbackSuccesses(t *probe.Trial) {
	statuses := []int{200, 201, 204, 299}
	t.Parallel(len(statuses), func(i int) {
		receiver := t.Receiver("", probe.Reply{Status: statuses[i]})
		id := t.Execute(called(probe.RandomUUID(), receiver, "")).ID.String()
		e := delivered(t, id)
		t.Equal("attemptCount", e.Callback.AttemptCount, int32(1))
		page := attempts(t, id)
		t.Equal("attempts", len(page.Data), 1)
		t.Equal("httpStatus", *page.Data[0].HTTPStatus, int32(statuses[i]))
		if i == 0 { // wait until the next attempt would be due if this attempt had failed
			wait(t, toTheNext(t))
		}
		t.Equal("deliveries", receiver.Received(), 1)
	})
}

func attempts(t *probe.Trial, id string) api.CallbackAttemptPage {
	return probe.Decode[api.CallbackAttemptPage](t, t.Get(probe.Execution(id)+"/callback-attempts"))
}

func callbackError(t *probe.Trial, raw json.RawMessage) api.CallbackError {
	var fault api.CallbackError
	t.NoError("lastError", json.Unmarshal(raw, &fault))
	return fault
}

func callbackFailures(t *probe.Trial) {
	statuses := []int{301, 307, 400, 404, 500}
	t.Parallel(len(statuses), func(i int) {
		// A delivery that fails once succeeds at the second attempt.
		hold := make(chan struct{})
		receiver := t.Receiver("", probe.Reply{Status: statuses[i]}, probe.Reply{Status: 204, Hold: hold})
		id := t.Execute(called(probe.RandomUUID(), receiver, "")).ID.String()
		receiver.Next()
		first := attempted(t, id, 1)
		t.Check(first.Callback.DeliveredAt == nil, "delivered by a %d", statuses[i])
		fault := callbackError(t, first.Callback.LastError)
		t.Equal("class", fault.Class, map[bool]string{true: "redirect", false: "status"}[statuses[i] < 400])
		t.Check(fault.Message != "", "lastError without a message")
		t.Check(fault.HTTPStatus != nil && *fault.HTTPStatus == int32(statuses[i]), "lastError %s", first.Callback.LastError)
		receiver.Next()
		close(hold)
		second := delivered(t, id)
		t.Equal("attemptCount", second.Callback.AttemptCount, int32(2))
		t.Equal("deliveries", receiver.Received(), 2)
		t.Check(isNull(second.Callback.LastError), "lastError after the delivery: %s", second.Callback.LastError)
	})
}

func callbackRedirect(t *probe.Trial) {
	other := t.Receiver("")
	receiver := t.Receiver("", probe.Reply{Status: 302, Header: map[string]string{"Location": other.URL}}, probe.Reply{Status: 410})
	id := t.Execute(called(probe.RandomUUID(), receiver, "")).ID.String()
	receiver.Next()
	receiver.Next()
	attempted(t, id, 2)
	t.Equal("requests to the other place", other.Received(), 0)
}

// gone returns an execution whose receiver responded with 410, so that only a replay sends the
// callback again.
func gone(t *probe.Trial, receiver *probe.Receiver, secret string) string {
	id := t.Execute(called(probe.RandomUUID(), receiver, secret)).ID.String()
	receiver.Next()
	e := attempted(t, id, 1)
	t.Check(e.Callback.DeliveredAt == nil, "delivered by a 410")
	return id
}

func callbackGone(t *probe.Trial) {
	receiver := t.Receiver("", probe.Reply{Status: 410}, probe.Reply{Status: 204})
	id := gone(t, receiver, "")
	// Remaining attempts would arrive before the attempt of the replay.
	replay(t, id, "")
	receiver.Next()
	e := delivered(t, id)
	t.Equal("attemptCount", e.Callback.AttemptCount, int32(2))
	t.Equal("deliveries", receiver.Received(), 2)
}

func callbackFrozen(t *probe.Trial) {
	receiver := t.Receiver(secret, probe.Reply{Status: 410}, probe.Reply{Status: 410}, probe.Reply{Status: 410},
		probe.Reply{Status: 410}, probe.Reply{Status: 200})
	id := t.Execute(called(probe.RandomUUID(), receiver, secret)).ID.String()
	first := receiver.Next()
	for n := int32(1); n < 5; n++ {
		attempted(t, id, n)
		replay(t, id, "")
		d := receiver.Next()
		t.Check(bytes.Equal(d.Body, first.Body), "attempt %d has other bytes", n+1)
		for _, name := range []string{"X-Svc-Signature", "X-Svc-Execution-Id", "Webhook-Id"} {
			t.Equal(name, d.Header.Get(name), first.Header.Get(name))
		}
		t.Check(d.Header.Get("Webhook-Timestamp") >= first.Header.Get("Webhook-Timestamp"), "webhook-timestamp goes back")
	}
	t.Equal("attemptCount", delivered(t, id).Callback.AttemptCount, int32(5))
}

func callbackExhausted(t *probe.Trial) {
	schedule := t.Target().Schedule
	receiver := t.Receiver("", probe.Reply{Status: 500})
	id := t.Execute(called(probe.RandomUUID(), receiver, "")).ID.String()
	for range schedule {
		receiver.Next()
	}
	e := attempted(t, id, int32(len(schedule)))
	t.Check(e.Callback.DeliveredAt == nil && e.Status == "COMPLETED", "after the last attempt: %s", t.JSON(e))
	page := attempts(t, id)
	t.Equal("attempts", len(page.Data), len(schedule))
	t.Equal("deliveries", receiver.Received(), len(schedule))
	for i, a := range page.Data { // newest first
		n := len(schedule) - i
		t.Equal("attempt", a.Attempt, int32(n))
		t.Check(!a.Delivered && a.DurationMs >= 0 && callbackError(t, a.Error).Class == "status", "attempt %s", t.JSON(a))
		if i == 0 {
			continue
		}
		delay := page.Data[i-1].StartedAt.Std().Sub(a.StartedAt.Std())
		t.Check(delay >= schedule[n]*8/10-10*time.Millisecond, "attempt %d came %v after the one before, planned %v", n+1, delay, schedule[n])
	}
}

func callbackCanary(t *probe.Trial) {
	receiver := t.Receiver("", probe.Reply{Status: 410, Body: "canary-a81f", Header: map[string]string{"X-Canary": "canary-a81f"}})
	id := gone(t, receiver, "")
	for _, path := range []string{"", "/callback-attempts", "/stream"} {
		answer := t.Get(probe.Execution(id) + path)
		t.Check(!strings.Contains(string(answer.Body), "canary"), "%s shows it: %s", path, answer.Body)
	}
	page := attempts(t, id)
	t.Check(len(page.Data) == 1 && *page.Data[0].HTTPStatus == 410 && !page.HasMore && page.NextCursor == nil, "attempts %s", t.JSON(page))
}

func callbackSlow(t *probe.Trial) {
	hold := make(chan struct{})
	slow := t.Receiver("", probe.Reply{Status: 204, Hold: hold})
	for range 3 {
		t.Execute(called(probe.RandomUUID(), slow, ""))
	}
	slow.Next()
	quick := t.Receiver("")
	e := t.Execute(called(probe.RandomUUID(), quick, ""))
	quick.Next()
	delivered(t, e.ID.String())
	t.Check(slow.Received() <= 3, "%d deliveries to the slow receiver", slow.Received())
	close(hold)
}

func callbackSecrets(t *probe.Trial) {
	secrets := []string{"k", strings.Repeat("s", 4096), "schlüssel-🔑"}
	t.Parallel(len(secrets), func(i int) {
		receiver := t.Receiver(secrets[i])
		e := t.Execute(called(probe.RandomUUID(), receiver, secrets[i]))
		t.Check(e.Callback.Signed, "not signed")
		receiver.Next() // verifies the signature
	})
	call := `{"module":"RANDOM_UUID","input":{},"config":{},"callbackUrl":"https://hooks.example.org/","callbackSecret":%q}`
	invalid(t, fmt.Sprintf(call, ""), "/callbackSecret")
	invalid(t, fmt.Sprintf(call, strings.Repeat("s", 4097)), "/callbackSecret")
	invalid(t, `{"module":"RANDOM_UUID","input":{},"config":{},"callbackSecret":"s","callbackHeaders":{"X-A":"1"}}`, "/callbackSecret", "/callbackHeaders")
}
