package conformance

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/gen/api"
)

// doorCases cover every operation in the document that requires a session.
var doorCases = []Case{
	{Part: "D9.2.sessions", Name: "door/401 every operation of people without a session", Run: doorClosed},
	{Part: "D9.2.keys", Name: "door/401 a workspace key reaches no operation of people", Run: doorKeyless},
	{Part: "D2.10.refused", Name: "door/401 a bearer token signs nothing", Run: doorBearer, Needs: owner},
	{Part: "D9.2.cookie", Name: "door/403 what a page of another site sends", Run: doorForeign, Needs: owner},
	{Part: "D9.2.sessions", Name: "MT01 door/404 a workspace of others", Run: doorElsewhere, Needs: []probe.Need{probe.NeedOwner, probe.NeedForeign}},
	{Part: "D9.2.sessions, D3.table", Name: "door/400, 406, 413, 415 the form of people's requests", Run: doorForm, Needs: owner},
	{Part: "D9.2.sessions", Name: "door/429 invalid sessions", Run: doorFlood, Needs: []probe.Need{probe.NeedForwarded}},
	{Part: "D9.2.sessions", Name: "door/429 attempts to sign in", Run: entryFlood, Needs: []probe.Need{probe.NeedForwarded}},
}

// signed returns requests of every signed operation, and the number of requests that it sent to
// prepare them. It prepares an execution of the call, workflows to change and to archive, a
// finished run, and a waiting run.
func signed(t *probe.Trial, call probe.Call, as probe.Signing) (list []probe.Request, before int) {
	execute := submit(t, call.Waiting(15000), as)
	post := func(path string, body any) probe.Answer {
		before++
		return t.Do(probe.Request{Method: http.MethodPost, Path: path, Body: t.JSON(body), Sign: as})
	}
	begin := func(workflow string) string {
		body := object{"waitForMs": 100}
		if call.CallbackURL != "" {
			body["callbackUrl"] = call.CallbackURL
		}
		return probe.Decode[api.TriggerResult](t, post(workflowPath(workflow), body)).RunID.String()
	}
	id := probe.Decode[api.ComponentExecution](t, t.Do(execute)).ID.String()
	before += 2
	waits := sketch([]object{set("wait", "WAIT_FOR_SIGNAL", object{"name": "approved", "timeoutMs": 60_000})}, nil)
	workflow, archived := decodeWorkflow(t, post(workflows, drawn("signed"))).ID, decodeWorkflow(t, post(workflows, waits)).ID
	over, waiting := begin(decodeWorkflow(t, post(workflows, sketch([]object{set("one", "NUMBER_CONSTANT", object{"value": 1})}, nil))).ID), begin(archived)
	name, last := variableName(), []probe.Request{} // the resource to delete must exist
	schedule := probe.Decode[api.Schedule](t, post(schedules, object{"workflowId": workflow, "cron": "@yearly"})).ID.String()
	hook := probe.Decode[api.Hook](t, post(hooks, object{"workflowId": workflow, "verification": signing()})).ID.String()
	for _, operation := range t.Target().Spec.Operations() {
		if !operation.Signed() {
			continue
		}
		request := probe.Request{Method: operation.Method, Sign: as}
		on, run := workflow, over
		switch operation.ID {
		case "executeComponent":
			request.Body = execute.Body
		case "createWorkflow", "replaceWorkflow", "validateWorkflow":
			request.Body = t.JSON(drawn("signed"))
		case "archiveWorkflow":
			on = archived
		case "streamWorkspace":
			request.Method = http.MethodHead // the stream does not end
		case "sendRunSignal":
			run = waiting
		case "setEnvironmentVariable":
			request.Body = t.JSON(object{"value": "x"})
		case "createSchedule":
			request.Body = t.JSON(object{"workflowId": workflow, "cron": "@yearly"})
		case "replaceSchedule":
			request.Body = t.JSON(object{"cron": "@yearly"})
		case "createHook":
			request.Body = t.JSON(object{"workflowId": workflow, "verification": signing()})
		case "replaceHook":
			request.Body = t.JSON(object{"verification": signing()})
		}
		request.Path = strings.NewReplacer("{executionId}", id, "{module}", "RANDOM_UUID", "{workflowId}", on, "{componentId}", "id",
			"{runId}", run, "{signal}", "approved", "{name}", name, "{scheduleId}", schedule, "{hookId}", hook).Replace(operation.Template)
		t.Check(!strings.Contains(request.Path, "{"), "%s takes what signed does not have", operation.ID)
		if strings.HasPrefix(operation.ID, "delete") {
			last = append(last, request)
			continue
		}
		list = append(list, request)
	}
	return append(list, last...), before
}

// refusable returns a GET request for a HEAD request, because a refusal of HEAD has no body.
func refusable(r probe.Request) probe.Request {
	if r.Method == http.MethodHead {
		r.Method = http.MethodGet
	}
	return r
}

// peoples lists the operations that require a session. Those that also accept signatures are
// checked by the permission matrix.
func peoples(t *probe.Trial) []*probe.Operation {
	var list []*probe.Operation
	for _, operation := range t.Target().Spec.Operations() {
		if operation.Person() && !operation.Signed() {
			list = append(list, operation)
		}
	}
	return list
}

// entries lists the operations that create a session.
func entries(t *probe.Trial) []*probe.Operation {
	var list []*probe.Operation
	for _, operation := range t.Target().Spec.Operations() {
		if operation.SignsIn() {
			list = append(list, operation)
		}
	}
	return list
}

// to returns a request of an operation on the workspace.
func to(operation *probe.Operation, workspaceID string) probe.Request {
	path := concrete(strings.Replace(operation.Template, "{workspaceId}", workspaceID, 1))
	return probe.Request{Method: operation.Method, Path: path, Unsigned: true}
}

func doorClosed(t *probe.Trial) {
	for _, operation := range peoples(t) {
		for _, header := range []http.Header{nil, {"Authorization": {"Basic dTpw"}}} {
			request := to(operation, t.Target().WorkspaceID)
			request.Header = header
			notSignedIn(t, request, "missing_session")
		}
		for _, header := range []http.Header{{"Authorization": {"Bearer " + strings.Repeat("A", 43)}}, cookie("x")} {
			request := to(operation, t.Target().WorkspaceID)
			request.Header = header
			notSignedIn(t, request, "invalid_session")
		}
	}
}

func doorKeyless(t *probe.Trial) {
	for _, operation := range peoples(t) {
		request := to(operation, t.Target().WorkspaceID)
		request.Unsigned = false
		notSignedIn(t, request, "missing_session")
		request.Bearer = t.Target().APIKey
		notSignedIn(t, request, "invalid_session")
	}
}

func doorForeign(t *probe.Trial) {
	token := t.NewSession(t.Target().Credentials)
	for _, operation := range append(peoples(t), entries(t)...) {
		if !operation.Named(http.StatusForbidden) || operation.Method == http.MethodGet {
			continue
		}
		for _, header := range []http.Header{{"Sec-Fetch-Site": {"cross-site"}}, {"Sec-Fetch-Site": {"same-site"}}, {"Origin": {"https://elsewhere.example"}}} {
			request := to(operation, "0193f1c0-0000-7000-8000-000000000009")
			request.Header = header.Clone()
			request.Header.Set("Cookie", cookie(token).Get("Cookie"))
			t.Equal("reason", probe.Reason(t.Problem(t.Do(request), http.StatusForbidden, "FORBIDDEN")), "cross_origin")
			if !operation.Person() || operation.Role() == "" {
				continue
			}
			// A page cannot send a bearer token that it does not know.
			request.Bearer, request.Header = token, header
			t.Problem(t.Do(request), http.StatusNotFound, "NOT_FOUND")
		}
	}
	t.Equal("the session goes on", t.Do(probe.Request{Path: probe.Current, Bearer: token}).Status, http.StatusOK)
}

func doorElsewhere(t *probe.Trial) {
	token := t.SignIn()
	for _, operation := range peoples(t) {
		if operation.Role() == "" {
			continue
		}
		var texts []string
		for _, id := range []string{t.Target().Foreign.WorkspaceID, "0193f1c0-0000-7000-8000-000000000009", "x", upper(t.Target().Foreign.WorkspaceID)} {
			request := to(operation, id)
			request.Bearer = token
			texts = append(texts, t.Problem(t.Do(request), http.StatusNotFound, "NOT_FOUND").Detail)
		}
		for _, text := range texts {
			t.Equal("the text", text, texts[0])
		}
	}
}

func doorForm(t *probe.Trial) {
	token := t.NewSession(t.Target().Credentials)
	for _, operation := range append(peoples(t), entries(t)...) {
		request := to(operation, t.Target().WorkspaceID)
		request.Bearer = token
		refuseForm(t, request)
		if operation.Takes("limit") {
			request.Path += "?limit=0"
			t.Problem(t.Do(request), http.StatusBadRequest, "INVALID_INPUT")
		}
	}
}

// flood repeats a request without delay until it is rejected with 429.
func flood(t *probe.Trial, request probe.Request) {
	var limited atomic.Bool
	request.Unchecked, request.Once = true, true
	t.Parallel(4, func(int) {
		for range 500 {
			if limited.Load() {
				return
			}
			answer, err := t.Try(t.Context(), request)
			t.NoError("flood", err)
			if answer.Status == http.StatusTooManyRequests {
				limited.Store(true)
			}
		}
	})
	t.Check(limited.Load(), "%s: 2,000 failures and no limit", request.Path)
}

// limited repeats a request until it is rejected with 429 and the reason. The bucket refills while
// the requests are sent, so the function refill empties it. Retry-After must be at most longest
// seconds.
func limited(t *probe.Trial, request, refill probe.Request, reason string, longest int) {
	request.Once = true
	for {
		answer := t.Do(request)
		if answer.Status != http.StatusTooManyRequests {
			flood(t, refill)
			continue
		}
		p := t.Problem(answer, http.StatusTooManyRequests, "RATE_LIMITED")
		t.Equal("reason", probe.Reason(p), reason)
		seconds, err := strconv.Atoi(answer.Header.Get("Retry-After"))
		t.Check(err == nil && seconds >= 1 && seconds <= longest, "Retry-After %q", answer.Header.Get("Retry-After"))
		return
	}
}

func doorFlood(t *probe.Trial) {
	wrong := probe.Request{Path: probe.Current, Bearer: "none"}
	flood(t, wrong)
	for _, operation := range peoples(t) {
		request := to(operation, t.Target().WorkspaceID)
		request.Bearer = "none"
		limited(t, request, wrong, "failed_authentications", 60)
	}
	t.Equal("a signed operation", t.Get(probe.Executions+"?limit=1").Status, http.StatusOK)
}

// signInPause is the longest Retry-After of sign-in attempts, in seconds. After the first failures,
// an address may fail once in ten minutes for each account.
const signInPause = 600

func entryFlood(t *probe.Trial) {
	wrong := t.Entry("flooded@conformance.example", "not the password")
	flood(t, wrong)
	limited(t, wrong, wrong, "sign_in_attempts", signInPause)
	t.Equal("a signed operation", t.Get(probe.Executions+"?limit=1").Status, http.StatusOK)
}

// doorBearer sends bearer tokens instead of signatures. The secret in them belongs to a new key
// pair, because the secret of a workspace never leaves the client.
func doorBearer(t *probe.Trial) {
	_, private, err := ed25519.GenerateKey(nil)
	t.NoError("make a key pair", err)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	t.NoError("encode the secret", err)
	secret := base64.StdEncoding.EncodeToString(der)
	for _, token := range []string{t.Target().APIKey, secret, t.SignIn(), strings.Repeat("A", 43), "weft", "dev"} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			answer := t.Do(probe.Request{Method: method, Path: probe.Components, Bearer: token})
			p := t.Problem(answer, http.StatusUnauthorized, "UNAUTHORIZED")
			t.Equal("reason", probe.Reason(p), "missing_api_key")
		}
	}
}
