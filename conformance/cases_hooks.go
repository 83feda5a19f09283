package conformance

import (
	"net/http"
	"slices"
	"strings"

	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/gen/api"
)

var hookCases = []Case{
	{Part: "D8.15.hooks, D1.1.strict, D1.3", Name: "hooks/200 made, read, listed, replaced, deleted", Run: hookLife},
	{Part: "D8.15.hooks", Name: "hooks/200 the verification of the workflow's ON_WEBHOOK", Run: hookOfWorkflow},
	{Part: "D1.7.operations, D1.7.replay, D1.7.mismatch, D1.7.refused", Name: "EX15 hooks/200 a repeat creates nothing", Run: hookRepeat},
	{Part: "D8.15.hooks, D3.table", Name: "hooks/400, 404, 409 invalid hooks", Run: hookFaults},
	{Part: "D2.8.workflows", Name: "AU12 hooks/403 a key that is restricted to other workflows", Run: hookRestricted, Needs: owner},
	{Part: "D1.2.404", Name: "MT01 hooks/404 those of another workspace", Run: hookForeign, Needs: []probe.Need{probe.NeedForeign}},
}

const hooks = "/v1/sdk/hooks"

func hookPath(id string) string { return hooks + "/" + id }

// hookSecret is the secret that signs the deliveries of the cases.
const hookSecret = "correct-horse-battery-staple-32-bytes"

// signing is the verification of deliveries from GitHub.
func signing() object {
	return object{"secret": hookSecret, "header": "X-Hub-Signature-256", "prefix": "sha256=", "deliveryHeader": "X-GitHub-Delivery"}
}

func getHook(t *probe.Trial, id string) api.Hook {
	answer := t.Get(hookPath(id))
	t.Check(!strings.Contains(string(answer.Body), hookSecret) && !strings.Contains(string(answer.Body), verifyToken), "the secret or the token is shown: %s", answer.Body)
	return probe.Decode[api.Hook](t, answer)
}

func makeHook(t *probe.Trial, body object) api.Hook {
	return probe.Decode[api.Hook](t, t.Post(hooks, body))
}

// verifies returns a verification as one line.
func verifies(v api.Verification) string {
	delivery := "none"
	if v.DeliveryHeader != nil {
		delivery = *v.DeliveryHeader
	}
	return strings.Join([]string{string(v.Scheme), v.Header, v.Prefix, string(v.Algorithm), string(v.Encoding), delivery}, " ")
}

func hookLife(t *probe.Trial) {
	workflow := create(t, drawn("hooked")).ID
	verification := challengeable()
	verification["acceptRepeatedBodies"] = true
	answer := strictly(t, http.MethodPost, hooks, object{"workflowId": workflow, "name": "Pull requests", "verification": verification})
	t.Check(!strings.Contains(string(answer.Body), hookSecret) && !strings.Contains(string(answer.Body), verifyToken), "the secret or the token is shown: %s", answer.Body)
	made := probe.Decode[api.Hook](t, answer)
	id := made.ID.String()
	t.Check(uuid7.MatchString(id) && made.WorkflowID.String() == workflow && made.Name == "Pull requests" && made.Status == "ACTIVE" && made.Path == "/v1/hooks/"+id, "%s", answer.Body)
	t.Equal("verification", verifies(made.Verification), "hmac X-Hub-Signature-256 sha256= sha256 hex X-GitHub-Delivery")
	t.Check(made.Verification.AcceptRepeatedBodies != nil && *made.Verification.AcceptRepeatedBodies, "%s", answer.Body)
	t.Check(made.Verification.HasVerifyToken != nil && *made.Verification.HasVerifyToken, "%s", answer.Body)
	t.Check(made.LastAt == nil && made.LastRunID == nil && made.LastRefusedAt == nil && made.LastRefusal == nil && made.RefusalCount == 0, "%s", answer.Body)
	t.Check(made.Warnings != nil && len(*made.Warnings) == 0, "a secret of %d bytes: %s", len(hookSecret), answer.Body)
	made.Warnings = nil // only in the response of a save
	same(t, "the hook", getHook(t, id), made)
	t.Check(made.Refusals != nil && len(*made.Refusals) == 0, "%s", answer.Body)
	listed := made
	listed.Refusals = nil // only in the single hook
	for _, query := range []string{"?limit=100&workflowId=" + workflow, "?limit=100"} {
		page := probe.Decode[api.HookPage](t, t.Get(hooks+query))
		t.Equal("hasMore", page.HasMore, page.NextCursor != nil)
		at := slices.IndexFunc(page.Data, func(h api.Hook) bool { return h.ID == made.ID })
		t.Check(at >= 0 && (query == "?limit=100" || len(page.Data) == 1), "it is not listed: %s", t.JSON(page))
		same(t, "the hook in a list", page.Data[at], listed)
	}
	paused := probe.Decode[api.Hook](t, strictly(t, http.MethodPut, hookPath(id), object{"status": "PAUSED"}))
	t.Check(paused.Status == "PAUSED" && paused.Name == "" && paused.ID == made.ID && paused.CreatedAt == made.CreatedAt, "%s", t.JSON(paused))
	t.Equal("verification", verifies(paused.Verification), verifies(made.Verification)) // unchanged, because the request had no verification
	standard := probe.Decode[api.Hook](t, strictly(t, http.MethodPut, hookPath(id), object{"verification": object{"scheme": "standardWebhooks"}}))
	for _, kept := range []api.Hook{paused, standard} {
		t.Check(kept.Warnings != nil && len(*kept.Warnings) == 0, "a secret of %d bytes: %s", len(hookSecret), t.JSON(kept))
	}
	t.Check(standard.Status == "PAUSED", "%s", t.JSON(standard)) // the request had no status, so the status is unchanged
	t.Equal("verification", verifies(standard.Verification), "standardWebhooks webhook-signature v1, sha256 base64 webhook-id")
	plain := probe.Decode[api.Hook](t, strictly(t, http.MethodPut, hookPath(id), object{"status": "ACTIVE", "verification": object{
		"secret": "another-secret", "header": "X-Mac", "algorithm": "sha512", "encoding": "base64",
	}}))
	t.Equal("verification", verifies(plain.Verification), "hmac X-Mac  sha512 base64 none")
	t.Check(plain.Verification.AcceptRepeatedBodies == nil, "%s", t.JSON(plain))
	repeating := probe.Decode[api.Hook](t, strictly(t, http.MethodPut, hookPath(id), object{"verification": object{"header": "X-Mac", "deliveryHeader": "X-Id", "acceptRepeatedBodies": true}}))
	t.Check(repeating.Verification.AcceptRepeatedBodies != nil && *repeating.Verification.AcceptRepeatedBodies, "%s", t.JSON(repeating))
	weak := makeHook(t, object{"workflowId": workflow, "verification": object{"secret": "another-secret", "header": "X-Mac"}})
	t.Do(deleted(hookPath(weak.ID.String())))
	for _, short := range []*api.Hook{&plain, &repeating, &weak} { // repeating keeps the secret of plain
		t.Check(short.Warnings != nil && len(*short.Warnings) == 1, "%s", t.JSON(short))
		warning := (*short.Warnings)[0]
		t.Check(warning.Code == "SHORT_SECRET" && warning.Pointer == "/verification/secret" && warning.Message != "", "%s", t.JSON(short))
		short.Warnings = nil // only in the response of a save
	}
	same(t, "the deleted", probe.Decode[api.Hook](t, t.Do(deleted(hookPath(id)))), repeating)
	t.Problem(t.Do(deleted(hookPath(id))), http.StatusNotFound, "NOT_FOUND")
	t.Problem(t.Get(hookPath(id)), http.StatusNotFound, "NOT_FOUND")
	t.Equal("left", len(probe.Decode[api.HookPage](t, t.Get(hooks+"?workflowId="+workflow)).Data), 0)
}

func hookOfWorkflow(t *probe.Trial) {
	begins := func(config object) string {
		return create(t, sketch([]object{set("start", "ON_WEBHOOK", config), use("id", "RANDOM_UUID")}, []string{"start next id"})).ID
	}
	workflow := begins(object{"verification": signing()})
	var made []api.Hook
	for range 3 {
		one := makeHook(t, object{"workflowId": workflow})
		t.Equal("verification", verifies(one.Verification), "hmac X-Hub-Signature-256 sha256= sha256 hex X-GitHub-Delivery")
		one.Warnings, one.Refusals = nil, nil // not in lists
		made = append([]api.Hook{one}, made...)
	}
	var seen []api.Hook
	for query := "?limit=2&workflowId=" + workflow; query != ""; {
		page := probe.Decode[api.HookPage](t, t.Get(hooks+query))
		seen, query = append(seen, page.Data...), ""
		if page.NextCursor != nil {
			query = "?limit=2&workflowId=" + workflow + "&cursor=" + *page.NextCursor
		}
	}
	same(t, "the pages", seen, made)
	secret := begins(object{"verification": object{"secret": "{{env.HOOK_SECRET}}", "header": "X-Mac"}})
	for pointer, id := range map[string]string{"/verification": begins(object{}), "/verification/secret": secret} {
		p := t.Problem(t.Post(hooks, object{"workflowId": id}), http.StatusBadRequest, "INVALID_INPUT")
		t.Equal("pointers", probe.Pointers(p), []string{pointer})
	}
	wrongWorkflow(t, "no header", sketch([]object{set("start", "ON_WEBHOOK", object{"verification": object{"secret": hookSecret}})}, nil), "/components/0/config/verification/header")
}

func hookRepeat(t *probe.Trial) {
	workflow := create(t, drawn("repeated")).ID
	body := object{"workflowId": workflow, "verification": signing()}
	request := probe.Request{Method: http.MethodPost, Path: hooks, Body: t.JSON(body), Header: http.Header{"Idempotency-Key": {unique()}}}
	other := request
	other.Body = t.JSON(object{"workflowId": workflow})
	t.Problem(t.Do(other), http.StatusBadRequest, "INVALID_INPUT") // leaves no trace
	answer := t.Do(request)
	t.Equal("Idempotent-Replayed of the first", answer.Header.Get("Idempotent-Replayed"), "")
	made := probe.Decode[api.Hook](t, answer)
	replaced := probe.Decode[api.Hook](t, strictly(t, http.MethodPut, hookPath(made.ID.String()), object{"name": "since"}))
	answer = t.Do(request)
	t.Equal("Idempotent-Replayed of a repeat", answer.Header.Get("Idempotent-Replayed"), "true")
	same(t, "the repeat", probe.Decode[api.Hook](t, answer), replaced)
	t.Problem(t.Do(other), http.StatusConflict, "IDEMPOTENCY_MISMATCH")
	t.Equal("hooks", len(probe.Decode[api.HookPage](t, t.Get(hooks+"?workflowId="+workflow)).Data), 1)
}

func hookFaults(t *probe.Trial) {
	workflow := create(t, drawn("faults")).ID
	for pointer, verification := range map[string]object{
		"/verification/header": {"secret": hookSecret}, "/verification/secret": {"header": "X-Mac"}, "/verification/scheme": {"scheme": "md5"},
		"/verification/algorithm": {"algorithm": "md5", "secret": hookSecret, "header": "X"}, "/verification/acceptRepeatedBodies": {"acceptRepeatedBodies": true, "secret": hookSecret, "header": "X"}, "/verification/deliveryHeader": {"deliveryHeader": "a b", "secret": hookSecret, "header": "X"},
	} {
		p := t.Problem(t.Post(hooks, object{"workflowId": workflow, "verification": verification}), http.StatusBadRequest, "INVALID_INPUT")
		t.Equal("pointers", probe.Pointers(p), []string{pointer})
	}
	p := t.Problem(t.Post(hooks, object{"workflowId": workflow, "verification": object{"secret": "short", "header": "X"}}), http.StatusBadRequest, "INVALID_INPUT")
	t.Check(!strings.Contains(string(t.JSON(p)), "short\""), "the secret is echoed: %s", t.JSON(p))
	id := makeHook(t, object{"workflowId": workflow, "verification": signing()}).ID.String()
	p = t.Problem(t.Do(probe.Request{Method: http.MethodPut, Path: hookPath(id), Body: []byte(`{"verification":{}}`)}), http.StatusBadRequest, "INVALID_INPUT")
	t.Equal("pointers", probe.Pointers(p), []string{"/verification/header"})
	t.Problem(t.Post(hooks, object{"workflowId": "0193f1c0-0000-7000-8000-000000000005", "verification": signing()}), http.StatusNotFound, "NOT_FOUND")
	const nobodys = "0193f1c0-0000-7000-8000-000000000009"
	for _, none := range []string{nobodys, "x", upper(nobodys)} {
		for _, request := range []probe.Request{{Path: hookPath(none)}, {Method: http.MethodPut, Path: hookPath(none), Body: []byte(`{}`)}, deleted(hookPath(none))} {
			t.Problem(t.Do(request), http.StatusNotFound, "NOT_FOUND")
		}
	}
	begins := create(t, sketch([]object{use("start", "ON_API_CALLED"), use("id", "RANDOM_UUID")}, []string{"start next id"})).ID
	p = t.Problem(t.Post(hooks, object{"workflowId": begins, "verification": signing()}), http.StatusConflict, "CONFLICT")
	t.Equal("reason", probe.Reason(p), "no_trigger")
	t.Do(deleted(workflowPath(workflow)))
	p = t.Problem(t.Post(hooks, object{"workflowId": workflow, "verification": signing()}), http.StatusConflict, "CONFLICT")
	t.Equal("reason", probe.Reason(p), "workflow_archived")
}

func hookRestricted(t *probe.Trial) {
	listed, other := create(t, drawn("listed")).ID, create(t, drawn("other")).ID
	var ids []string
	for _, workflow := range []string{listed, other} {
		ids = append(ids, makeHook(t, object{"workflowId": workflow, "verification": signing()}).ID.String())
	}
	boss := t.SignIn()
	made, credentials := newKeyOf(t, boss, "restricted", listed)
	defer within(t, boss, http.MethodDelete, "/api-keys/"+made.ID.String(), nil)
	restricted(t, credentials, hooks, listed, other, ids, object{"workflowId": listed, "verification": signing()})
}

func hookForeign(t *probe.Trial) {
	foreign(t, hooks, object{"verification": signing()})
}
