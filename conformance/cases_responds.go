package conformance

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/gen/api"
)

var respondCases = []Case{
	{Part: "D8.15.hooks", Name: "hooks/200 every setting of a hook is shown", Run: hookShown},
	{Part: "D8.15.once", Name: "hooks/200, 400 repeats by a field of the body, and by the signed text", Run: deliveriesOfFields},
	{Part: "D8.15.challenge", Name: "hooks/200, 400, 401, 404 handshakes start no run", Run: handshakesAnswered},
	{Part: "D8.15.hooks, D3.table", Name: "hooks/200, 500 a hook that responds", Run: deliveriesAnswered},
}

// shownHook is a hook with the fields that the settings cases check.
type shownHook struct {
	ID           string
	Path         string
	Respond      *bool
	Headers      []string
	Verification json.RawMessage
	Refusals     []map[string]any
}

func hookShown(t *probe.Trial) {
	workflow := create(t, drawn("shown")).ID
	const before = "the-secret-before-the-rotation-32"
	for _, c := range []struct {
		body object
		want object // verification
	}{
		{
			object{"headers": []string{"X-Gitlab-Token"}, "respond": true, "verification": object{"preset": "slack", "secret": hookSecret, "previousSecret": before, "toleranceSeconds": 600}},
			object{
				"preset": "slack", "scheme": "timestampedHmac", "header": "X-Slack-Signature", "prefix": "v0=", "algorithm": "sha256", "encoding": "hex", "deliveryHeader": nil,
				"deliveryField": "/event_id", "handshake": []string{"urlVerification"}, "signedText": "v0:{timestamp}:{body}", "timestampHeader": "X-Slack-Request-Timestamp",
				"toleranceSeconds": 600, "hasPreviousSecret": true, "formField": "payload",
			},
		},
		{
			object{"headers": []string{}, "respond": true, "verification": object{
				"scheme": "timestampedHmac", "secret": hex.EncodeToString([]byte(hookSecret)), "secretEncoding": "hex", "header": "X-Mac", "algorithm": "sha512", "encoding": "base64url",
				"signedText": "{id}:{timestamp}:{body}", "element": "v1", "timestampElement": "t", "idHeader": "X-Id", "deliveryHeader": "X-Key", "acceptRepeatedBodies": true,
				"verifyToken": verifyToken, "handshake": []string{"validationToken", "urlVerification"},
			}},
			object{
				"scheme": "timestampedHmac", "header": "X-Mac", "prefix": "", "algorithm": "sha512", "encoding": "base64url", "deliveryHeader": "X-Key", "acceptRepeatedBodies": true,
				"secretEncoding": "hex", "signedText": "{id}:{timestamp}:{body}", "element": "v1", "timestampElement": "t", "idHeader": "X-Id", "toleranceSeconds": 300,
				"hasVerifyToken": true, "handshake": []string{"validationToken", "urlVerification"},
			},
		},
	} {
		request := probe.Request{Method: http.MethodPost, Path: hooks, Body: t.JSON(having(c.body, "workflowId", workflow)), Header: http.Header{"Idempotency-Key": {unique()}}}
		shows := func(what string, raw []byte, refusals int) (hook shownHook) {
			t.NoError(what, json.Unmarshal(raw, &hook))
			t.Check(!strings.Contains(string(raw), hookSecret) && !strings.Contains(string(raw), before) && !strings.Contains(string(raw), verifyToken), "a secret is shown: %s", raw)
			alike(t, what+": verification", hook.Verification, c.want)
			t.Check(hook.Respond != nil && *hook.Respond, "%s: %s", what, raw)
			same(t, what+": headers", hook.Headers, c.body["headers"])
			t.Equal(what+": refusals", len(hook.Refusals), refusals)
			for _, one := range hook.Refusals {
				at, _ := one["at"].(string)
				t.Check(len(one) == 3 && len(at) == len("2026-11-21T10:15:30.120Z") && one["reason"] == "missing_signature" && one["count"] == 1.0, "%s: %s", what, raw)
			}
			return hook
		}
		hook := shows("created", t.Do(request).Body, 0)
		t.Problem(t.Do(probe.Request{Method: http.MethodPost, Path: hook.Path, Body: []byte("{}"), Unsigned: true}), http.StatusUnauthorized, "UNAUTHORIZED")
		t.Until("the hook shows the rejection", 10*time.Second, func() bool { return getHook(t, hook.ID).RefusalCount == 1 })
		shows("created again", t.Do(request).Body, 1)
		shows("read", t.Get(hookPath(hook.ID)).Body, 1)
		var page struct{ Data []json.RawMessage }
		t.NoError("list", json.Unmarshal(t.Get(hooks+"?workflowId="+workflow).Body, &page))
		t.Equal("hooks", len(page.Data), 1)
		shows("listed", page.Data[0], 0)
		shows("replaced", strictly(t, http.MethodPut, hookPath(hook.ID), object{"name": "since"}).Body, 1)
		shows("deleted", t.Do(deleted(hookPath(hook.ID))).Body, 1)
	}
}

// timed returns a delivery that is signed as those of Slack.
func timed(path string, at time.Time, body string) probe.Request {
	seconds := strconv.FormatInt(at.Unix(), 10)
	return probe.Request{Method: http.MethodPost, Path: path, Body: []byte(body), Unsigned: true, Header: http.Header{
		"Content-Type": {"application/json"}, "X-Slack-Request-Timestamp": {seconds},
		"X-Slack-Signature": {"v0=" + hex.EncodeToString(mac(sha256.New, hookSecret, []byte("v0:"+seconds+":"+body)))},
	}}
}

func deliveriesOfFields(t *probe.Trial) {
	slack, now := hooked(t, object{"preset": "slack", "secret": hookSecret}), time.Now()
	event := func(id, text string) string { return `{"event_id":"` + id + `","text":"` + text + `"}` }
	one, other := unique(), unique()
	first := taken(t, timed(slack.Path, now, event(one, "a")))
	answer := t.Do(timed(slack.Path, now.Add(time.Second), event(one, "b")))
	t.Equal("Idempotent-Replayed", answer.Header.Get("Idempotent-Replayed"), "true")
	t.Equal("the run of the same ID", probe.Decode[api.DeliveryResult](t, answer).RunID, first.RunID)
	t.Check(taken(t, timed(slack.Path, now, event(other, "a"))).RunID != first.RunID, "another ID starts no run")
	// Slack's commands have no event_id: the signed text, with its timestamp, identifies them.
	command := taken(t, timed(slack.Path, now, `{"command":"/weather"}`))
	t.Equal("the same text", taken(t, timed(slack.Path, now, `{"command":"/weather"}`)).RunID, command.RunID)
	t.Check(taken(t, timed(slack.Path, now.Add(time.Second), `{"command":"/weather"}`)).RunID != command.RunID, "the command again starts no run")

	signed := func(path, body string) probe.Request { return delivering(path, unique(), []byte(body)) }
	pointed := hooked(t, object{"secret": hookSecret, "header": "X-Hub-Signature-256", "prefix": "sha256=", "deliveryField": "/events/0/a~1b"})
	first = taken(t, signed(pointed.Path, `{"events":[{"a/b":7}]}`))
	t.Equal("the same number", taken(t, signed(pointed.Path, `{"events":[{"a/b":7}],"more":1}`)).RunID, first.RunID)
	for _, body := range []string{`{"events":[]}`, `{"events":[{"a/b":""}]}`, `{"events":[{"a/b":{}}]}`, `"text"`} {
		p := t.Problem(t.Do(signed(pointed.Path, body)), http.StatusBadRequest, "INVALID_INPUT")
		t.Equal("pointers", probe.Pointers(p), []string{"/body/events/0/a~1b"})
	}
	workflow := slack.WorkflowID.String()
	for pointer, verification := range map[string]object{
		"/verification/deliveryField": having(signing(), "deliveryField", "/id"),
		"/verification/handshake":     {"preset": "slack", "secret": hookSecret, "handshake": []string{"validationToken"}},
		"/verification/handshake/0":   {"header": "X-Mac", "secret": hookSecret, "handshake": []string{"zoom"}},
	} {
		p := t.Problem(t.Post(hooks, object{"workflowId": workflow, "verification": verification}), http.StatusBadRequest, "INVALID_INPUT")
		t.Equal("pointers", probe.Pointers(p), []string{pointer})
	}
	for _, pointer := range []string{"id", "/a~2", "/a/"} {
		p := t.Problem(t.Post(hooks, object{"workflowId": workflow, "verification": object{"header": "X-Mac", "secret": hookSecret, "deliveryField": pointer}}), http.StatusBadRequest, "INVALID_INPUT")
		t.Equal("pointers", probe.Pointers(p), []string{"/verification/deliveryField"})
	}
}

func handshakesAnswered(t *probe.Trial) {
	const markup = `<script>alert("é")</script>`
	slack := hooked(t, object{"preset": "slack", "secret": hookSecret})
	graph := hooked(t, having(signing(), "handshake", []string{"validationToken"}))
	for _, hook := range []api.Hook{slack, graph} {
		strictly(t, http.MethodPut, hookPath(hook.ID.String()), object{"status": "PAUSED"}) // a paused hook answers too
	}
	quoted := t.JSON(markup)
	challenge := timed(slack.Path, time.Now(), `{"token":"x","challenge":`+string(quoted)+`,"type":"url_verification"}`)
	validation := graph.Path + "?validationToken=" + url.QueryEscape(markup)
	for _, request := range []probe.Request{challenge, {Path: validation, Unsigned: true}, {Method: http.MethodPost, Path: validation, Unsigned: true}} {
		answer := t.Do(request)
		t.Check(answer.Status == http.StatusOK && string(answer.Body) == markup, "%d %s", answer.Status, answer.Body)
		t.Equal("Content-Type", answer.Header.Get("Content-Type"), "text/plain; charset=utf-8")
		t.Equal("X-Content-Type-Options", answer.Header.Get("X-Content-Type-Options"), "nosniff")
	}
	without := t.Problem(t.Do(timed(slack.Path, time.Now(), `{"type":"url_verification"}`)), http.StatusBadRequest, "INVALID_INPUT")
	t.Equal("pointers", probe.Pointers(without), []string{"/body/challenge"})
	challenge.Header.Del("X-Slack-Signature")
	t.Problem(t.Do(challenge), http.StatusUnauthorized, "UNAUTHORIZED")
	t.Problem(t.Do(probe.Request{Method: http.MethodPost, Path: validation, Body: []byte("{}"), Unsigned: true}), http.StatusUnauthorized, "UNAUTHORIZED")
	for _, path := range []string{slack.Path + "?validationToken=x", "/v1/hooks/0193f1c0-0000-7000-8000-000000000009?validationToken=x"} {
		t.Problem(t.Do(probe.Request{Path: path, Unsigned: true}), http.StatusNotFound, "NOT_FOUND")
	}
	t.Problem(t.Do(probe.Request{Method: http.MethodPost, Path: slack.Path + "?validationToken=x", Unsigned: true}), http.StatusUnauthorized, "UNAUTHORIZED")
	long := graph.Path + "?validationToken=" + strings.Repeat("x", 4096)
	t.Equal("4 KiB", len(t.Do(probe.Request{Path: long, Unsigned: true}).Body), 4096)
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		for _, path := range []string{long + "x", graph.Path + "?validationToken=", validation + "&validationToken=x"} {
			p := t.Problem(t.Do(probe.Request{Method: method, Path: path, Unsigned: true}), http.StatusBadRequest, "INVALID_INPUT")
			t.Equal("pointers", probe.Pointers(p), []string{"/query/validationToken"})
		}
	}
	page := probe.Decode[api.WorkflowRunPage](t, t.Get(runs+"?workflowId="+graph.WorkflowID.String()))
	t.Equal("runs", len(page.Data), 0)
	strictly(t, http.MethodPut, hookPath(graph.ID.String()), object{"status": "ACTIVE"})
	request := delivering(graph.Path+"?validationToken=x&a=1", unique(), []byte(`{}`))
	t.Equal("the query", string(givenTo(t, taken(t, request)).Query), `{"a":"1"}`)
}

func deliveriesAnswered(t *probe.Trial) {
	responding := func(body object) api.Hook {
		return makeHook(t, object{"workflowId": create(t, body).ID, "verification": signing(), "respond": true})
	}
	hook := responding(sketch([]object{use("start", "ON_WEBHOOK"), use("answer", "RESPOND")}, []string{"start next answer"}, "start.body answer.body"))
	t.Check(hook.Respond != nil && *hook.Respond && hook.Warnings != nil && len(*hook.Warnings) == 0, "%s", t.JSON(hook))
	request := delivering(hook.Path, unique(), []byte(`{"n":12345678901234567890}`))
	answer := t.Do(request)
	t.Check(answer.Status == http.StatusOK, "%d %s", answer.Status, answer.Body)
	t.Equal("the answer", strings.TrimSpace(string(answer.Body)), `{"body":{"n":12345678901234567890}}`)
	t.Equal("Content-Type", answer.Header.Get("Content-Type"), "application/json")
	t.Equal("X-Content-Type-Options", answer.Header.Get("X-Content-Type-Options"), "nosniff")
	again := t.Do(request)
	t.Equal("the repeat", string(again.Body), string(answer.Body))
	t.Equal("Idempotent-Replayed", again.Header.Get("Idempotent-Replayed"), "true")

	// The first and its repeats wait for the same run.
	late := responding(sketch([]object{use("start", "ON_WEBHOOK"), set("delay", "DELAY", object{"durationMs": 1000}), use("answer", "RESPOND")},
		[]string{"start next delay", "delay next answer"}, "start.body answer.body"))
	request = delivering(late.Path, unique(), []byte(`{"late":true}`))
	bodies := make([]string, 3)
	t.Parallel(len(bodies), func(i int) { bodies[i] = strings.TrimSpace(string(t.Do(request).Body)) })
	for _, body := range bodies {
		t.Equal("one of three at once", body, `{"body":{"late":true}}`)
	}

	failing := responding(sketch([]object{use("start", "ON_WEBHOOK"), set("end", "FAIL", object{"code": "STOPPED", "message": "a detail for the owner"})}, []string{"start next end"}))
	request = delivering(failing.Path, unique(), []byte(`{}`))
	for range 2 {
		answer := t.Do(request)
		p := t.Problem(answer, http.StatusInternalServerError, "RUN_FAILED")
		t.Check(p.RunID != nil && !p.Retryable && !strings.Contains(string(answer.Body), "detail for"), "%s", answer.Body)
		finished(t, p.RunID.String(), "FAILED")
	}

	plain := responding(sketch([]object{use("start", "ON_WEBHOOK")}, nil))
	t.Check(plain.Warnings != nil && len(*plain.Warnings) == 1 && (*plain.Warnings)[0].Code == "NO_RESPOND" && (*plain.Warnings)[0].Pointer == "/respond", "%s", t.JSON(plain))
	result := taken(t, delivering(plain.Path, unique(), []byte(`{}`)))
	t.Check(result.Finished != nil && *result.Finished && result.JobID != "", "%s", t.JSON(result))
	finished(t, result.RunID.String(), "COMPLETED")
	silent := probe.Decode[api.Hook](t, strictly(t, http.MethodPut, hookPath(plain.ID.String()), object{"respond": false}))
	t.Check(silent.Respond == nil && len(*silent.Warnings) == 0, "%s", t.JSON(silent))
	result = taken(t, delivering(plain.Path, unique(), []byte(`{"n":2}`)))
	t.Check(result.Finished == nil, "%s", t.JSON(result))
}
