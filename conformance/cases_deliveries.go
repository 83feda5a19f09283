package conformance

import (
	"bytes"
	"compress/gzip"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/gen/api"
)

var deliveryCases = []Case{
	{Part: "D8.15.hooks, D8.15.once, D8.7.run", Name: "hooks/200 deliveries begin runs, each once", Run: deliveriesBegin},
	{Part: "D8.15.once", Name: "hooks/200 a hook that accepts repeated bodies", Run: bodiesRepeated},
	{Part: "D8.15.verified", Name: "hooks/200 in every encoding, and by Standard Webhooks", Run: deliveriesEncoded},
	{Part: "D8.15.hooks, C.ON_WEBHOOK", Name: "hooks/200 what a run is given of a delivery", Run: deliveriesGiven},
	{Part: "D8.15.hooks, C.ON_WEBHOOK", Name: "hooks/200 what cannot be stored is replaced", Run: deliveriesReplaced},
	{Part: "D8.15.hooks, C.ON_WEBHOOK", Name: "hooks/200, 400, 415 forms, the query and listed headers", Run: deliveriesOfForms},
	{Part: "D8.15.verified, D8.15.hooks", Name: "hooks/200, 400, 401 presets, timestamps, two secrets and tokens", Run: deliveriesOfPresets},
	{Part: "D8.15.verified, D1.2.404", Name: "hooks/401, 404 what is not signed, and what is nowhere", Run: deliveriesRefused},
	{Part: "D8.15.hooks, D1.1.size", Name: "hooks/400, 406, 413, 415 the form of a delivery", Run: deliveryForm},
	{Part: "D8.15.hooks, D8.7.conflict", Name: "hooks/409 a hook or a workflow that begins nothing now", Run: deliveryConflicts},
	{Part: "D8.15.hooks, D7.3", Name: "hooks/402 no credits for a delivery", Run: deliveryUnpaid, Needs: workspaces},
	{Part: "D8.15.hooks, 8.2, D6.refused", Name: "hooks/429 deliveries share the limits, strangers have no part in them", Run: deliveryLimits, Needs: workspaces},
}

func mac(algorithm func() hash.Hash, secret string, body []byte) []byte {
	h := hmac.New(algorithm, []byte(secret))
	h.Write(body)
	return h.Sum(nil)
}

// delivering returns a delivery that is signed in the same way as GitHub's deliveries.
func delivering(path, delivery string, body []byte) probe.Request {
	return probe.Request{Method: http.MethodPost, Path: path, Body: body, Unsigned: true, Header: http.Header{
		"X-Hub-Signature-256": {"sha256=" + hex.EncodeToString(mac(sha256.New, hookSecret, body))}, "X-Github-Delivery": {delivery},
	}}
}

// hooked creates a workflow that outputs the delivery, and a hook for the workflow.
func hooked(t *probe.Trial, verification object) api.Hook {
	workflow := create(t, sketch([]object{use("start", "ON_WEBHOOK"), use("answer", "RESPOND")}, []string{"start next answer"},
		"start.body answer.body", "start.headers answer.headers", "start.query answer.query")).ID
	return makeHook(t, object{"workflowId": workflow, "verification": verification})
}

func taken(t *probe.Trial, request probe.Request) api.DeliveryResult {
	return probe.Decode[api.DeliveryResult](t, t.Do(request))
}

// given is the input of a run that a delivery started.
type given struct {
	Headers map[string]string
	Query   json.RawMessage
	Body    json.RawMessage
}

func givenTo(t *probe.Trial, result api.DeliveryResult) (g given) {
	t.NoError("output", json.Unmarshal(finished(t, result.RunID.String(), "COMPLETED").Output, &g))
	return g
}

func deliveriesBegin(t *probe.Trial) {
	hook := hooked(t, signing())
	body := []byte(`{ "action" : "opened", "n": 12345678901234567890 }`)
	first := delivering(hook.Path, unique(), body)
	answer := t.Do(first)
	t.Equal("Idempotent-Replayed of the first", answer.Header.Get("Idempotent-Replayed"), "")
	result := probe.Decode[api.DeliveryResult](t, answer)
	t.Check(result.JobID != "", "%s", answer.Body)
	again := t.Do(first)
	t.Equal("Idempotent-Replayed of a repeat", again.Header.Get("Idempotent-Replayed"), "true")
	t.Equal("the repeat", string(again.Body), string(answer.Body))
	// A repeated delivery is recognized by its ID, even if the signed body differs.
	other := delivering(hook.Path, first.Header.Get("X-Github-Delivery"), []byte(`{}`))
	t.Equal("with another body", string(t.Do(other).Body), string(answer.Body))
	// The signature covers only the body, so the same body counts as repeated whatever its ID.
	t.Equal("under another id", string(t.Do(delivering(hook.Path, unique(), body)).Body), string(answer.Body))
	results := make([]api.DeliveryResult, 8)
	twin := delivering(hook.Path, unique(), []byte(`{"action":"closed"}`))
	t.Parallel(len(results), func(i int) { results[i] = taken(t, twin) })
	for _, r := range results {
		t.Equal("one of eight at once", r.RunID, results[0].RunID)
	}
	t.Check(results[0].RunID != result.RunID, "two deliveries have one run")
	run := finished(t, result.RunID.String(), "COMPLETED")
	t.Check(run.Trigger == "WEBHOOK" && run.TriggerID != nil && *run.TriggerID == hook.ID && run.WorkflowID == hook.WorkflowID, "%s", t.JSON(run))
	t.Equal("the body", string(givenTo(t, result).Body), `{"action":"opened","n":12345678901234567890}`)
	page := probe.Decode[api.WorkflowRunPage](t, t.Get(runs+"?limit=100&workflowId="+hook.WorkflowID.String()))
	t.Equal("runs", len(page.Data), 2)
	t.Until("the hook shows its last run", 10*time.Second, func() bool { return getHook(t, hook.ID.String()).LastRunID != nil })
	now := getHook(t, hook.ID.String())
	t.Check(now.LastAt != nil && (*now.LastRunID == result.RunID || *now.LastRunID == results[0].RunID) && now.LastRefusal == nil && now.UpdatedAt == hook.UpdatedAt, "%s", t.JSON(now))
}

func bodiesRepeated(t *probe.Trial) {
	verification := signing()
	verification["acceptRepeatedBodies"] = true
	hook := hooked(t, verification)
	body := []byte(`{"action":"nightly"}`)
	first := delivering(hook.Path, unique(), body)
	one, other := taken(t, first), taken(t, delivering(hook.Path, unique(), body))
	t.Check(one.RunID != other.RunID, "the same body under another id starts no run")
	t.Equal("the run of the same id", taken(t, first).RunID, one.RunID)
}

func deliveriesEncoded(t *probe.Trial) {
	body := []byte(`{"x":1}`)
	for _, c := range []struct {
		verification object
		text         string
	}{
		{object{"header": "X-Mac"}, hex.EncodeToString(mac(sha256.New, hookSecret, body))},
		{object{"header": "X-Mac"}, strings.ToUpper(hex.EncodeToString(mac(sha256.New, hookSecret, body)))},
		{object{"header": "x-mac", "algorithm": "sha512", "prefix": "v=0;"}, "v=0;" + hex.EncodeToString(mac(sha512.New, hookSecret, body))},
		{object{"header": "X-Mac", "encoding": "base64"}, base64.StdEncoding.EncodeToString(mac(sha256.New, hookSecret, body))},
	} {
		c.verification["secret"] = hookSecret
		hook := hooked(t, c.verification)
		request := probe.Request{Method: http.MethodPost, Path: hook.Path, Body: body, Unsigned: true, Header: http.Header{"X-Mac": {c.text}}}
		first, second := taken(t, request), taken(t, request)
		t.Check(first.RunID != second.RunID, "deliveries without an id are one") // the hook names no deliveryHeader
		t.Equal("x-mac", givenTo(t, first).Headers["x-mac"], "")
	}
	for _, secret := range []string{hookSecret, "whsec_" + base64.StdEncoding.EncodeToString([]byte(hookSecret))} {
		hook := hooked(t, object{"scheme": "standardWebhooks", "secret": secret})
		request := standard(hook.Path, unique(), time.Now(), body)
		first := taken(t, request)
		request.Header.Set("webhook-signature", "v1a,abc v1,"+base64.StdEncoding.EncodeToString([]byte("wrong"))+" "+request.Header.Get("webhook-signature"))
		t.Equal("one of several signatures", taken(t, request).RunID, first.RunID)
	}
}

// standard returns a delivery signed according to Standard Webhooks.
func standard(path, id string, at time.Time, body []byte) probe.Request {
	seconds := strconv.FormatInt(at.Unix(), 10)
	signature := "v1," + base64.StdEncoding.EncodeToString(mac(sha256.New, hookSecret, []byte(id+"."+seconds+"."+string(body))))
	return probe.Request{Method: http.MethodPost, Path: path, Body: body, Unsigned: true, Header: http.Header{
		"Webhook-Id": {id}, "Webhook-Timestamp": {seconds}, "Webhook-Signature": {signature},
	}}
}

func deliveriesGiven(t *probe.Trial) {
	hook := hooked(t, signing())
	for _, c := range []struct{ kind, body, want string }{
		{"application/json", `[1,"ä"]`, `[1,"ä"]`}, {"application/cloudevents+json; charset=utf-8", `"x"`, `"x"`},
		{"application/x-www-form-urlencoded", "a=1&b=%20&a=", `{"a":["1",""],"b":" "}`}, {"application/octet-stream", `{"octets":1}`, `{"octets":1}`}, {"text/plain", `{"a":1}`, `"{\"a\":1}"`}, {"", "ü", `"ü"`}, {"application/json", "", "null"},
		{"text/json", "\ufeff[1]", "[1]"}, {"application/json; charset=iso-8859-1", "[\"caf\xe9\"]", `["café"]`}, {"text/xml; charset=latin1", "<a>\xe9</a>", `"<a>é</a>"`},
	} {
		request := delivering(hook.Path, unique(), []byte(c.body))
		request.Header["Content-Type"] = []string{c.kind}
		if c.kind == "" {
			request.Header["Content-Type"] = nil
		}
		t.Equal(c.kind, string(givenTo(t, taken(t, request)).Body), c.want)
	}
	request := delivering(hook.Path, unique(), []byte(`{}`))
	for name, value := range map[string]string{
		"X-Github-Event": "push", "Authorization": "Bearer canary", "Cookie": "a=canary", "X-Gitlab-Token": "canary", "X-Hub-Signature": "sha1=canary", "X-Api-Key": "canary",
	} {
		request.Header.Set(name, value)
	}
	request.Header["X-Twice"] = []string{"a", "b"}
	result := taken(t, request)
	headers := givenTo(t, result).Headers
	t.Equal("headers", fmt.Sprint(headers["x-github-event"], " ", headers["content-type"], " ", headers["x-twice"], " ", headers["x-github-delivery"] != ""), "push application/json a, b true")
	record := t.Get(runPath(result.RunID.String()))
	t.Check(!strings.Contains(string(record.Body), "canary") && !strings.Contains(string(record.Body), "signature"), "%s", record.Body)
}

// deliveriesReplaced sends bodies that cannot be stored as they are, plain and compressed. The run's
// input says what was replaced.
func deliveriesReplaced(t *probe.Trial) {
	hook := hooked(t, signing())
	for _, c := range []struct{ kind, body, want, replaced string }{
		{"application/json", `{"id":7,"text":"cut \ud83d"}`, `{"id":7,"text":"cut �"}`, `["/body/text"]`}, {"application/json", `{"a":"\u0000"}`, `{"a":"�"}`, `["/body/a"]`},
		{"application/json", `{"a":1,"a":2}`, `{"a":2}`, `["/body/a"]`}, {"application/json", "[" + strings.Repeat("9", 90) + "]", `["�"]`, `["/body/0"]`},
		{"application/octet-stream", "\xff\x00", `"��"`, `["/body"]`}, {"application/json", `{"id":7}`, `{"id":7}`, ``},
	} {
		for _, coding := range []string{"", "gzip"} {
			body := []byte(c.body)
			if coding != "" {
				var packed bytes.Buffer
				writer := gzip.NewWriter(&packed)
				_, err := writer.Write(body)
				t.NoError("compress", err)
				t.NoError("compress", writer.Close())
				body = packed.Bytes()
			}
			request := delivering(hook.Path, unique(), body)
			request.Header.Set("Content-Type", c.kind)
			if coding != "" {
				request.Header.Set("Content-Encoding", coding)
			}
			result := taken(t, request)
			t.Equal(c.body, string(givenTo(t, result).Body), c.want)
			var input struct{ Replaced json.RawMessage }
			t.NoError("input", json.Unmarshal(probe.Decode[struct{ Input json.RawMessage }](t, t.Get(runPath(result.RunID.String()))).Input, &input))
			t.Equal(c.body, string(input.Replaced), c.replaced)
		}
	}
}

func deliveriesRefused(t *probe.Trial) {
	hook, stale := hooked(t, signing()), hooked(t, object{"scheme": "standardWebhooks", "secret": hookSecret})
	body := []byte(`{"x":1}`)
	good := delivering(hook.Path, unique(), body)
	changed := func(change func(*probe.Request)) probe.Request {
		r := good
		r.Header = good.Header.Clone()
		change(&r)
		return r
	}
	var faces []string
	for _, request := range []probe.Request{
		changed(func(r *probe.Request) { r.Body = []byte(`{"x":2}`) }),
		changed(func(r *probe.Request) { r.Body = []byte(`{"x": 1}`) }),
		changed(func(r *probe.Request) { r.Header.Del("X-Hub-Signature-256") }),
		changed(func(r *probe.Request) { r.Header.Set("X-Hub-Signature-256", "sha256=") }),
		changed(func(r *probe.Request) { r.Header.Set("X-Hub-Signature-256", "sha256=zz") }),
		changed(func(r *probe.Request) {
			r.Header.Set("X-Hub-Signature-256", strings.TrimPrefix(good.Header.Get("X-Hub-Signature-256"), "sha256="))
		}),
		changed(func(r *probe.Request) {
			r.Header["X-Hub-Signature-256"] = append(slices.Repeat([]string{"sha256=00"}, 20), r.Header["X-Hub-Signature-256"]...)
		}),
		changed(func(r *probe.Request) {
			r.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac(sha256.New, "another-secret", body)))
		}),
		standard(stale.Path, unique(), time.Now().Add(-6*time.Minute), body), standard(stale.Path, unique(), time.Now().Add(6*time.Minute), body),
		standard(stale.Path, "", time.Now(), body), delivering(stale.Path, unique(), body),
	} {
		p := t.Problem(t.Do(request), http.StatusUnauthorized, "UNAUTHORIZED")
		t.Equal("reason", probe.Reason(p), "invalid_signature")
		p.Instance, p.RequestID = "", ""
		if faces == nil { // the hook shows the reason, and the response does not
			now := getHook(t, hook.ID.String())
			t.Check(now.LastRefusedAt != nil && now.LastRefusal != nil && *now.LastRefusal == "invalid_signature" && now.RefusalCount == 1, "%s", t.JSON(now))
		}
		faces = append(faces, string(t.JSON(p)))
	}
	for _, face := range faces {
		t.Equal("the refusal", face, faces[0])
	}
	gone := hooked(t, signing())
	t.Do(deleted(hookPath(gone.ID.String())))
	want := t.Problem(t.Do(delivering("/v1/hooks/0193f1c0-0000-7000-8000-000000000009", unique(), body)), http.StatusNotFound, "NOT_FOUND")
	for _, path := range []string{gone.Path, "/v1/hooks/x", strings.ReplaceAll(hook.Path, "-", "")} {
		t.Equal(path, t.Problem(t.Do(delivering(path, unique(), body)), http.StatusNotFound, "NOT_FOUND").Detail, want.Detail)
	}
	t.Equal("runs", len(probe.Decode[api.WorkflowRunPage](t, t.Get(runs+"?workflowId="+hook.WorkflowID.String())).Data), 0)
	taken(t, good)
	// Another secret replaces the first.
	decoded := probe.Decode[api.Hook](t, strictly(t, http.MethodPut, hookPath(hook.ID.String()), object{"verification": object{"secret": "another-secret", "header": "X-Mac"}}))
	t.Equal("verification", verifies(decoded.Verification), "hmac X-Mac  sha256 hex none")
	t.Problem(t.Do(good), http.StatusUnauthorized, "UNAUTHORIZED")
}

func deliveryForm(t *probe.Trial) {
	hook := hooked(t, signing())
	t.Problem(t.Do(delivering(hook.Path, unique(), []byte(`{"a":1`))), http.StatusBadRequest, "INVALID_INPUT")
	unnamed := delivering(hook.Path, unique(), []byte(`{}`))
	unnamed.Header.Del("X-Github-Delivery")
	p := t.Problem(t.Do(unnamed), http.StatusBadRequest, "INVALID_INPUT")
	t.Equal("pointers", probe.Pointers(p), []string{"/header/X-GitHub-Delivery"})
	t.Problem(t.Do(delivering(hook.Path, unique(), make([]byte, 1<<20+1))), http.StatusRequestEntityTooLarge, "PAYLOAD_TOO_LARGE")
	for header, value := range map[string]string{"Content-Encoding": "br", "Content-Type": "text/plain; charset=iso-2022-jp"} {
		encoded := delivering(hook.Path, unique(), []byte(`{}`))
		encoded.Header.Set(header, value)
		t.Problem(t.Do(encoded), http.StatusUnsupportedMediaType, "UNSUPPORTED_MEDIA_TYPE")
	}
	accepts := delivering(hook.Path, unique(), []byte(`{}`))
	accepts.Header.Set("Accept", "text/html")
	t.Problem(t.Do(accepts), http.StatusNotAcceptable, "NOT_ACCEPTABLE")
	t.Equal("refusal", *getHook(t, hook.ID.String()).LastRefusal, "invalid_input")
}

func deliveryConflicts(t *probe.Trial) {
	hook := hooked(t, signing())
	workflow, id := hook.WorkflowID.String(), hook.ID.String()
	body := sketch([]object{use("start", "ON_WEBHOOK"), use("answer", "RESPOND")}, []string{"start next answer"})
	was := delivering(hook.Path, unique(), []byte(`{"n":1}`))
	first := taken(t, was)
	refused := func(reason string) {
		p := t.Problem(t.Do(delivering(hook.Path, unique(), []byte(`{}`))), http.StatusConflict, "CONFLICT")
		t.Equal("reason", probe.Reason(p), reason)
	}
	strictly(t, http.MethodPut, hookPath(id), object{"status": "PAUSED"})
	refused("hook_paused")
	strictly(t, http.MethodPut, hookPath(id), object{"status": "ACTIVE"})
	t.Equal("lastRefusal", *getHook(t, id).LastRefusal, "hook_paused")
	decodeWorkflow(t, put(t, workflow, having(body, "status", "PAUSED"), ""))
	refused("workflow_paused")
	t.Equal("what was delivered before", taken(t, was).RunID, first.RunID)
	decodeWorkflow(t, put(t, workflow, having(sketch([]object{use("start", "ON_API_CALLED"), use("answer", "RESPOND")}, []string{"start next answer"}), "status", "ACTIVE"), ""))
	refused("no_trigger")
	t.Do(deleted(workflowPath(workflow)))
	refused("workflow_archived")
}

func deliveryUnpaid(t *probe.Trial) {
	c := customerRuns{t, withCredit(t, "starter", 1)}
	workflow := decodeWorkflow(t, c.ask(http.MethodPost, workflows, sketch([]object{use("start", "ON_WEBHOOK"), use("id", "RANDOM_UUID")}, []string{"start next id"}))).ID
	hook := probe.Decode[api.Hook](t, c.ask(http.MethodPost, hooks, object{"workflowId": workflow, "verification": signing()}))
	t.Do(delivering(hook.Path, unique(), []byte(`{"n":1}`)))
	request := delivering(hook.Path, unique(), []byte(`{"n":2}`))
	p := t.Problem(t.Do(request), http.StatusPaymentRequired, "INSUFFICIENT_CREDITS")
	t.Equal("reason", probe.Reason(p), "credits_exhausted")
	t.Check(t.Target().Grant != nil, "nobody grants credits")
	t.NoError("grant", t.Target().Grant(t.Context(), c.as.As.WorkspaceID, 5))
	probe.Decode[api.DeliveryResult](t, t.Do(request)) // the refusal left no delivery behind
}

func deliveryLimits(t *probe.Trial) {
	hook, limits := limitedHook(customerRuns{t, customer(t, "starter")})
	before := limits()
	for range 20 {
		wrong := delivering(hook.Path, unique(), []byte(`{}`))
		wrong.Header.Set("X-Hub-Signature-256", "sha256=00")
		t.Problem(t.Do(wrong), http.StatusUnauthorized, "UNAUTHORIZED")
	}
	t.Equal("left", limits(), before-1) // this request itself
	t.Do(delivering(hook.Path, unique(), []byte(`{}`)))
	t.Equal("left after a delivery", limits(), before-3)
	flooded(t, func() probe.Request { return delivering(hook.Path, unique(), []byte(`{}`)) })
}

// limitedHook creates a hook in the workspace of a customer, and returns it with a function that
// returns how many requests are left in this hour.
func limitedHook(c customerRuns) (api.Hook, func() int32) {
	workflow := decodeWorkflow(c.t, c.ask(http.MethodPost, workflows, sketch([]object{use("start", "ON_WEBHOOK")}, nil))).ID
	hook := probe.Decode[api.Hook](c.t, c.ask(http.MethodPost, hooks, object{"workflowId": workflow, "verification": challengeable()}))
	return hook, func() int32 {
		return *probe.Decode[api.Limits](c.t, c.ask(http.MethodGet, limitsPath, nil)).RequestsPerHour.Remaining
	}
}

// flooded sends requests until the limit per second rejects one.
func flooded(t *probe.Trial, next func() probe.Request) {
	var refused probe.Answer
	for range 200 {
		request := next()
		request.Once = true
		if refused = t.Do(request); refused.Status != http.StatusOK {
			break
		}
	}
	p := t.Problem(refused, http.StatusTooManyRequests, "RATE_LIMITED")
	t.Equal("reason", probe.Reason(p), "requests_per_second")
	t.Check(refused.Header.Get("Retry-After") != "", "there is no Retry-After")
}
