package conformance

import (
	"net/http"
	"strings"

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
