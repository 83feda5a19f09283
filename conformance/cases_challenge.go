package conformance

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/gen/api"
)

var challengeCases = []Case{
	{Part: "D8.15.challenge", Name: "hooks/200 the challenge of a sender", Run: challengeAnswered},
	{Part: "D8.15.challenge, D1.2.404", Name: "hooks/400, 403, 404, 406 challenges without the right token", Run: challengeRefused},
	{Part: "D8.15.challenge", Name: "hooks/200 the verify token is kept, replaced and removed", Run: challengeToken},
	{Part: "D8.15.challenge, 8.2, D6.refused", Name: "hooks/429 challenges share the limits, wrong tokens have no part in them", Run: challengeLimits, Needs: workspaces},
}

const verifyToken = "a-verify-token of the cases & ü"

// challengeable is a verification with a token for challenges.
func challengeable() object { return having(signing(), "verifyToken", verifyToken) }

// challenging returns the challenge of a sender.
func challenging(path, token, challenge string) probe.Request {
	query := url.Values{"hub.mode": {"subscribe"}, "hub.challenge": {challenge}, "hub.verify_token": {token}}
	return probe.Request{Path: path + "?" + query.Encode(), Unsigned: true}
}

func challengeAnswered(t *probe.Trial) {
	hook := hooked(t, challengeable())
	strictly(t, http.MethodPut, hookPath(hook.ID.String()), object{"status": "PAUSED"}) // a paused hook answers too
	for _, challenge := range []string{"1158201444", "0", " a b+c%20&=", `<script>alert("1")</script>`, "é\u2028🙂", strings.Repeat("x", 256), strings.Repeat("🙂", 256)} {
		answer := t.Do(challenging(hook.Path, verifyToken, challenge))
		t.Check(answer.Status == http.StatusOK && string(answer.Body) == challenge, "%q: %d %q", challenge, answer.Status, answer.Body)
		t.Equal("Content-Type", answer.Header.Get("Content-Type"), "text/plain; charset=utf-8")
		t.Equal("X-Content-Type-Options", answer.Header.Get("X-Content-Type-Options"), "nosniff")
		t.Equal("Cache-Control", answer.Header.Get("Cache-Control"), "no-store")
	}
	now := getHook(t, hook.ID.String())
	t.Check(now.LastAt == nil && now.LastRunID == nil && now.RefusalCount == 0, "a challenge is recorded as a delivery: %s", t.JSON(now))
}

func challengeRefused(t *probe.Trial) {
	hook := hooked(t, challengeable())
	for _, token := range []string{"wrong", verifyToken + "x", verifyToken[1:], strings.ToUpper(verifyToken), hookSecret} {
		p := t.Problem(t.Do(challenging(hook.Path, token, "1158201444")), http.StatusForbidden, "FORBIDDEN")
		t.Equal("reason", probe.Reason(p), "invalid_verify_token")
		t.Check(!strings.Contains(string(t.JSON(p)), "1158201444"), "the challenge is echoed: %s", t.JSON(p))
	}
	now := getHook(t, hook.ID.String())
	t.Check(now.LastRefusal != nil && *now.LastRefusal == "invalid_verify_token" && now.RefusalCount == 1, "%s", t.JSON(now))
	none := hooked(t, signing())
	t.Check(none.Verification.HasVerifyToken == nil, "%s", t.JSON(none))
	gone := hooked(t, challengeable())
	t.Do(deleted(hookPath(gone.ID.String())))
	want := t.Problem(t.Do(challenging("/v1/hooks/0193f1c0-0000-7000-8000-000000000009", verifyToken, "1")), http.StatusNotFound, "NOT_FOUND")
	for _, path := range []string{none.Path, gone.Path, "/v1/hooks/x"} {
		t.Equal(path, t.Problem(t.Do(challenging(path, verifyToken, "1")), http.StatusNotFound, "NOT_FOUND").Detail, want.Detail)
	}
	good := challenging(hook.Path, verifyToken, "1")
	for name, query := range map[string]string{
		"hub.mode":         "hub.mode=publish&hub.challenge=1&hub.verify_token=1",
		"hub.challenge":    "hub.mode=subscribe&hub.verify_token=1",
		"hub.verify_token": "hub.mode=subscribe&hub.challenge=1&hub.verify_token=",
	} {
		p := t.Problem(t.Do(probe.Request{Path: hook.Path + "?" + query, Unsigned: true}), http.StatusBadRequest, "INVALID_INPUT")
		t.Equal("pointers", probe.Pointers(p), []string{"/query/" + name})
	}
	for _, challenge := range []string{"", strings.Repeat("x", 257), "a\r\nX: y", "a\x00"} {
		p := t.Problem(t.Do(challenging(hook.Path, verifyToken, challenge)), http.StatusBadRequest, "INVALID_INPUT")
		t.Equal("pointers", probe.Pointers(p), []string{"/query/hub.challenge"})
	}
	twice := good
	twice.Path += "&hub.challenge=2"
	t.Problem(t.Do(twice), http.StatusBadRequest, "INVALID_INPUT")
	html := good
	html.Header = http.Header{"Accept": {"text/html"}}
	t.Problem(t.Do(html), http.StatusNotAcceptable, "NOT_ACCEPTABLE")
	t.Equal("status", t.Do(good).Status, http.StatusOK)
}

func challengeToken(t *probe.Trial) {
	workflow := create(t, sketch([]object{set("start", "ON_WEBHOOK", object{"verification": challengeable()}), use("answer", "RESPOND")}, []string{"start next answer"})).ID
	hook := makeHook(t, object{"workflowId": workflow}) // the token is that of the ON_WEBHOOK
	answers := func(token string, want int) {
		answer := t.Do(challenging(hook.Path, token, "1"))
		t.Equal("status", answer.Status, want)
	}
	save := func(verification object) *bool {
		return probe.Decode[api.Hook](t, strictly(t, http.MethodPut, hookPath(hook.ID.String()), object{"verification": verification})).Verification.HasVerifyToken
	}
	answers(verifyToken, http.StatusOK)
	t.Check(save(signing()) != nil, "a save without a token removed it")
	answers(verifyToken, http.StatusOK)
	t.Check(save(object{"scheme": "standardWebhooks", "verifyToken": "another"}) != nil, "a save with a token removed it")
	answers(verifyToken, http.StatusForbidden)
	answers("another", http.StatusOK)
	t.Check(save(having(signing(), "verifyToken", "")) == nil, "an empty token did not remove it")
	answers("another", http.StatusNotFound)
	for _, token := range []string{strings.Repeat("x", 257), "a\nb", "{{env.TOKEN}}"} {
		p := t.Problem(t.Post(hooks, object{"workflowId": workflow, "verification": having(signing(), "verifyToken", token)}), http.StatusBadRequest, "INVALID_INPUT")
		t.Equal("pointers", probe.Pointers(p), []string{"/verification/verifyToken"})
		t.Check(!strings.Contains(string(t.JSON(p)), token), "the token is echoed: %s", t.JSON(p))
	}
}

func challengeLimits(t *probe.Trial) {
	c := customerRuns{t, customer(t, "starter")}
	hook, limits := limitedHook(c)
	before := limits()
	t.Problem(t.Do(challenging(hook.Path, "wrong", "1")), http.StatusForbidden, "FORBIDDEN")
	t.Equal("left", limits(), before-1) // this request itself
	t.Equal("status", t.Do(challenging(hook.Path, verifyToken, "1")).Status, http.StatusOK)
	t.Equal("left after a challenge", limits(), before-3)
	flooded(t, func() probe.Request { return challenging(hook.Path, verifyToken, "1") })
}
