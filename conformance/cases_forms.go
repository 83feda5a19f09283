package conformance

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/gen/api"
)

// deliveriesOfForms sends forms as GitHub and Slack do, and what can't be read of a form. The query
// and the listed headers are outputs of the start component.
func deliveriesOfForms(t *probe.Trial) {
	hook := hooked(t, having(signing(), "formField", "payload"))
	id := hook.ID.String()
	t.Check(hook.Verification.FormField != nil && *hook.Verification.FormField == "payload" && len(hook.Headers) == 0, "%s", t.JSON(hook))
	listed := probe.Decode[api.Hook](t, strictly(t, http.MethodPut, hookPath(id), object{"headers": []string{"X-Gitlab-Token"}}))
	same(t, "the hook", getHook(t, id).Headers, []string{"X-Gitlab-Token"})
	t.Check(listed.Verification.FormField != nil, "%s", t.JSON(listed))
	sending := func(kind, query, body string) probe.Request {
		request := delivering(hook.Path+query, unique(), []byte(body))
		request.Header.Set("Content-Type", kind)
		request.Header.Set("X-Gitlab-Token", "t")
		return request
	}
	const form, multi = "application/x-www-form-urlencoded", "multipart/form-data; boundary=b"
	part := func(disposition, value string) string {
		return "--b\r\nContent-Disposition: form-data; " + disposition + "\r\n\r\n" + value + "\r\n"
	}
	for _, c := range []struct{ kind, query, body, want, asked string }{
		{form, "", "payload=%7B%22action%22%3A%22opened%22%7D", `{"action":"opened"}`, `{}`},
		{"application/json", "?a=1&a=2&hub.mode=x&b=&c=" + hookSecret, `{"action":"closed"}`, `{"action":"closed"}`, `{"a":["1","2"],"b":""}`},
		{form + "; charset=iso-8859-1", "?a=%C3%A9", "text=caf%E9&channel_id=C1", `{"text":"café","channel_id":"C1"}`, `{"a":"é"}`},
		{multi, "", part(`name="a"`, "1") + part(`name="f"; filename=""`, "") + "--b--", `{"a":"1","f":null}`, `{}`},
		{form, "", strings.Repeat("a=1&", 1000), `{"a":[` + strings.Repeat(`"1",`, 999) + `"1"]}`, `{}`},
	} {
		answer := t.Do(sending(c.kind, c.query, c.body))
		t.Equal("Weft-Ignored", answer.Header.Get("Weft-Ignored"), "")
		got := givenTo(t, probe.Decode[api.DeliveryResult](t, answer))
		t.Equal("the body", string(got.Body), c.want)
		t.Equal("the query", string(got.Query), c.asked)
		t.Equal("the listed header", got.Headers["x-gitlab-token"], "t")
	}
	for pointer, request := range map[string]probe.Request{
		"/body":         sending(form, "", strings.Repeat("a=1&", 1001)),
		"/body/payload": sending(form, "", "payload=%7B"),
		"/body/scan":    sending(multi, "", part(`name="scan"; filename="x.pdf"`, "%PDF")+"--b--"),
	} {
		p := t.Problem(t.Do(request), http.StatusBadRequest, "INVALID_INPUT")
		t.Equal("pointers", probe.Pointers(p), []string{pointer})
	}
	p := t.Problem(t.Do(sending(form+"; charset=klingon", "", "a=1")), http.StatusUnsupportedMediaType, "UNSUPPORTED_MEDIA_TYPE")
	t.Check(strings.Contains(p.Message, "klingon"), "%s", t.JSON(p))
	for _, name := range []string{"Authorization", "Cookie", "X-Hub-Signature-256"} {
		p := t.Problem(t.Do(probe.Request{Method: http.MethodPut, Path: hookPath(id), Body: t.JSON(object{"headers": []string{name}})}), http.StatusBadRequest, "INVALID_INPUT")
		t.Equal("pointers", probe.Pointers(p), []string{"/headers/0"})
	}
}

// deliveriesOfPresets sends deliveries as Stripe and Slack sign them, with both secrets of a hook, and
// a fixed token. The owner sees why others are rejected.
func deliveriesOfPresets(t *probe.Trial) {
	const before = "the-secret-before-the-rotation-32"
	hook := hooked(t, object{"preset": "stripe", "secret": hookSecret, "previousSecret": before, "toleranceSeconds": 600})
	id, v := hook.ID.String(), hook.Verification
	t.Check(v.Preset != nil && *v.Preset == "stripe" && v.Scheme == "timestampedHmac" && v.SignedText != nil && *v.SignedText == "{timestamp}.{body}", "%s", t.JSON(hook))
	t.Check(v.Element != nil && *v.Element == "v1" && v.TimestampElement != nil && *v.TimestampElement == "t" && v.ToleranceSeconds != nil && *v.ToleranceSeconds == 600, "%s", t.JSON(hook))
	t.Check(v.HasPreviousSecret != nil && *v.HasPreviousSecret && !strings.Contains(string(t.JSON(hook)), before), "%s", t.JSON(hook))
	stripe := func(secret string, at time.Time) probe.Request {
		body, seconds := []byte(`{"id":"`+unique()+`"}`), strconv.FormatInt(at.Unix(), 10)
		proof := hex.EncodeToString(mac(sha256.New, secret, []byte(seconds+"."+string(body))))
		return probe.Request{Method: http.MethodPost, Path: hook.Path, Body: body, Unsigned: true, Header: http.Header{
			"Content-Type": {"application/json"}, "Stripe-Signature": {"t=" + seconds + ",v1=" + strings.Repeat("0", 64) + ",v1=" + proof},
		}}
	}
	taken(t, stripe(hookSecret, time.Now()))
	taken(t, stripe(before, time.Now().Add(-time.Minute)))
	t.Problem(t.Do(stripe(hookSecret, time.Now().Add(-11*time.Minute))), http.StatusUnauthorized, "UNAUTHORIZED")
	shown := getHook(t, id)
	t.Check(shown.Refusals != nil && len(*shown.Refusals) == 1 && (*shown.Refusals)[0].Reason == "timestamp_expired" && (*shown.Refusals)[0].Count == 1, "%s", t.JSON(shown))
	kept := probe.Decode[api.Hook](t, strictly(t, http.MethodPut, hookPath(id), object{"verification": object{"preset": "stripe", "previousSecret": ""}}))
	t.Check(kept.Verification.HasPreviousSecret == nil, "%s", t.JSON(kept))
	t.Problem(t.Do(stripe(before, time.Now())), http.StatusUnauthorized, "UNAUTHORIZED")
	taken(t, stripe(hookSecret, time.Now()))

	described := hooked(t, object{
		"scheme": "timestampedHmac", "secret": hex.EncodeToString([]byte(hookSecret)), "secretEncoding": "hex", "header": "X-Mac", "algorithm": "sha384", "encoding": "base64url",
		"signedText": "{id}:{timestamp}:{body}", "timestampHeader": "X-Time", "idHeader": "X-Id",
	}).Verification
	t.Check(described.SecretEncoding != nil && *described.SecretEncoding == "hex" && described.TimestampHeader != nil && *described.TimestampHeader == "X-Time" && described.IDHeader != nil && *described.IDHeader == "X-Id", "%s", t.JSON(described))

	token := hooked(t, object{"scheme": "token", "secret": hookSecret})
	request := probe.Request{Method: http.MethodPost, Path: token.Path, Body: []byte(`{}`), Unsigned: true, Header: http.Header{"Authorization": {"Bearer " + hookSecret}}}
	t.Equal("the token in the run", givenTo(t, taken(t, request)).Headers["authorization"], "")
	workflow := hook.WorkflowID.String()
	for pointer, verification := range map[string]object{
		"/verification/signedText":       {"scheme": "timestampedHmac", "secret": hookSecret, "header": "X-Mac", "signedText": "{timestamp}"},
		"/verification/toleranceSeconds": {"preset": "github", "secret": hookSecret, "toleranceSeconds": 60},
		"/verification/header":           {"preset": "slack", "secret": hookSecret, "header": "X-Mac"},
		"/verification/previousSecret":   {"preset": "slack", "secret": hookSecret, "previousSecret": []string{"one-secret", "a-third-secret"}},
		"/verification/preset":           {"preset": "twilio", "secret": hookSecret},
	} {
		p := t.Problem(t.Post(hooks, object{"workflowId": workflow, "verification": verification}), http.StatusBadRequest, "INVALID_INPUT")
		t.Equal("pointers", probe.Pointers(p), []string{pointer})
	}
}
