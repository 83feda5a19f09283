package conformance

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/gen/api"
)

// ignoredCases cover unknown fields and parameters, null for optional fields, and IDs in upper
// case.
var ignoredCases = []Case{
	{Part: "D1.1.unknown, D1.1.reported", Name: "request/200 what was ignored is reported", Run: ignoredReported},
	{
		Part: "D1.1.unknown, D1.1.reported", Name: "request/200 every operation reports what it ignored", Run: ignoredEverywhere,
		Needs: []probe.Need{probe.NeedWorkspace, probe.NeedNear, probe.NeedOwner},
	},
	{Part: "D1.1.null", Name: "request/200 null counts as left out", Run: nullLeftOut},
	{Part: "D1.2.case, D1.2.form", Name: "request/200 ids in upper case", Run: upperIDs, Needs: owner},
}

func ignoredReported(t *probe.Trial) {
	ignored := func(r probe.Request, want string) {
		answer := t.Do(r)
		t.Equal("status", answer.Status, http.StatusOK)
		got := answer.Header.Get("Weft-Ignored")
		t.Decided("D1.1.reported", got == want, "%s %s: Weft-Ignored is %s, want %s", r.Path, r.Body, got, want)
	}
	execute := func(body string) probe.Request {
		return probe.Request{Method: http.MethodPost, Path: probe.Components, Body: []byte(body)}
	}
	ignored(execute(`{"module":"RANDOM_UUID","input":{},"config":{}}`), "")
	ignored(execute(`{"module":"RANDOM_UUID","input":{},"config":{},"Module":"HASH"}`), `"/Module"`)
	ignored(execute(`{"module":"RANDOM_UUID","input":{},"config":{},"a/b~ \"é":{"x":1}}`), `"/a~1b~0%20%22%C3%A9"`)
	// The schema of the module handles unknown fields of input and config.
	ignored(execute(`{"module":"HASH","input":{"data":"x","colour":1},"config":{"colour":1}}`), "")
	ignored(probe.Request{Path: probe.Executions + "?limit=1&limt=2&b=1&b=2&%2Fc=3"}, `"%2Fc", "b", "limt"`)
	flow := create(t, drawn("ignored")).ID
	ignored(probe.Request{Method: http.MethodPost, Path: workflowPath(flow), Body: []byte(`{"input":{"x":1},"metadata":{"y":1},"inputs":{}}`)}, `"/inputs"`)
	nested := object{"name": "ignored", "colour": "red", "components": []object{{"id": "id", "module": "RANDOM_UUID", "retries": 3}}}
	ignored(probe.Request{Method: http.MethodPost, Path: workflows + "?dry=1", Body: t.JSON(nested)}, `"dry", "/colour", "/components/0/retries"`)
	var fields, names []string
	for i := range 30 {
		fields = append(fields, fmt.Sprintf(`"f%02d":null`, i))
		names = append(names, fmt.Sprintf(`"/f%02d"`, i))
	}
	many := `{"module":"RANDOM_UUID","input":{},"config":{},` + strings.Join(fields, ",") + `}`
	ignored(execute(many), strings.Join(names[:20], ", ")+", more")
	ignored(execute(`{"module":"RANDOM_UUID","input":{},"config":{},"`+strings.Repeat("x", 1000)+`":1}`), "more")

	failed := t.Do(execute(`{"module":"RANDOM_UUID","input":{},"colour":"red"}`))
	t.Problem(failed, http.StatusBadRequest, "INVALID_INPUT")
	t.Equal("Weft-Ignored of a failure", failed.Header.Get("Weft-Ignored"), "")
}

// ignoredEverywhere adds unknown fields and query parameters to requests of every operation.
func ignoredEverywhere(t *probe.Trial) {
	t.AddUnknown()
	askEverything(t)
	for _, operation := range t.Target().Spec.Operations() {
		t.Decided("D1.1.reported", t.Reported(operation.ID) || operation.AnyQuery(), "%s did not report what it ignored", operation.ID)
	}
}

// askEverything sends every operation a request that succeeds with 200.
func askEverything(t *probe.Trial) {
	limitFields(t)
	peopleFields(t)
	boss := t.NewSession(t.Target().Credentials) // signing in is one of the operations
	invited := probe.Decode[api.CreatedInvitation](t, within(t, boss, http.MethodPost, "/invitations", object{"email": someone(), "role": "viewer"}))
	joined := probe.Decode[api.Session](t, t.Do(probe.Request{
		Method: http.MethodPost, Path: acceptance, Unsigned: true, Body: t.JSON(object{"token": invited.Token, "name": "Ada", "password": password}),
	}))
	dismiss(t, boss, joined.User.ID.String())
	hook := hooked(t, challengeable())
	taken(t, delivering(hook.Path, unique(), []byte(`{}`)))
	t.Do(challenging(hook.Path, verifyToken, "1"))
	check(t, object{"method": "GET", "path": "/", "timestamp": "1"})
	t.Until("ready", 30*time.Second, func() bool { return t.Get("/readyz").Status == http.StatusOK })
	for _, path := range []string{"/healthz", "/openapi.json", "/openapi.yaml", "/openapi-3.0.json", "/v1/system/components"} {
		t.Get(path)
	}
	t.Do(probe.Request{Path: probe.Workspaces, Bearer: boss})
	t.Do(probe.Request{Path: probe.Current, Bearer: boss})
	t.Do(probe.Request{Method: http.MethodDelete, Path: probe.Current, Bearer: joined.Token})
}

func nullLeftOut(t *probe.Trial) {
	answer := t.Do(probe.Request{Method: http.MethodPost, Path: probe.Components, Body: []byte(`{"module":"RANDOM_UUID","input":{},"config":{},` +
		`"attempts":null,"waitForMs":null,"maxCredits":null,"callbackUrl":null,"callbackSecret":null,"callbackHeaders":null}`)})
	e := probe.Decode[api.ComponentExecution](t, answer)
	t.Equal("Weft-Ignored", answer.Header.Get("Weft-Ignored"), "")
	noCallback(t, e.Callback)
	for _, required := range []string{"module", "input", "config"} {
		body := object{"module": "RANDOM_UUID", "input": object{}, "config": object{}}
		body[required] = nil
		invalid(t, string(t.JSON(body)), "/"+required)
	}
	flow := create(t, drawn("null")).ID
	answer = t.Do(probe.Request{Method: http.MethodPost, Path: workflowPath(flow), Body: []byte(
		`{"input":null,"metadata":null,"waitForMs":null,"maxCredits":null,"version":null,"rerunOf":null}`)})
	triggered := probe.Decode[api.TriggerResult](t, answer)
	t.Check(triggered.Run == nil, "waitForMs null waited: %s", answer.Body)
	finished(t, triggered.RunID.String(), "COMPLETED")
	rerun := object{"rerunOf": object{"runId": triggered.RunID, "fromStageId": nil}}
	again := probe.Decode[api.TriggerResult](t, t.Post(workflowPath(flow), rerun))
	finished(t, again.RunID.String(), "COMPLETED")
}

// upperIDs sends every ID in a request in upper case.
func upperIDs(t *probe.Trial) {
	lower := func(answer probe.Answer, id string) {
		t.Equal("status of "+answer.Operation, answer.Status, http.StatusOK)
		t.Check(strings.Contains(string(answer.Body), id) && !strings.Contains(string(answer.Body), upper(id)), "%s: %s is not in lower case: %s", answer.Operation, id, answer.Body)
	}
	execution := t.Execute(probe.RandomUUID().Waiting(15000)).ID.String()
	lower(t.Get(probe.Execution(upper(execution))), execution)
	lower(t.Get(probe.Execution(upper(execution))+"/stream"), execution)
	flow := create(t, drawn("upper")).ID
	lower(t.Get(workflowPath(upper(flow))), flow)
	first := t.Do(probe.Request{Method: http.MethodPost, Path: workflowPath(upper(flow)), Body: []byte(`{"waitForMs":15000}`), Header: http.Header{"Idempotency-Key": {flow}}})
	run := probe.Decode[api.TriggerResult](t, first).RunID.String()
	lower(first, run)
	again := t.Do(probe.Request{Method: http.MethodPost, Path: workflowPath(flow), Body: []byte(`{"waitForMs":15000}`), Header: http.Header{"Idempotency-Key": {flow}}})
	t.Equal("Idempotent-Replayed for the id in lower case", again.Header.Get("Idempotent-Replayed"), "true")
	finished(t, run, "COMPLETED")
	lower(t.Get(runPath(upper(run))), run)
	lower(t.Get(runs+"?workflowId="+upper(flow)), run)
	lower(t.Post(workflowPath(flow), object{"waitForMs": 0, "rerunOf": object{"runId": upper(run)}}), run)
	lower(t.Post(workflows, sketch([]object{set("child", "RUN_WORKFLOW", object{"workflowId": upper(flow)})}, nil)), flow)
	schedule := t.Post(schedules, object{"workflowId": upper(flow), "cron": "@yearly"})
	lower(schedule, flow)
	id := probe.Decode[api.Schedule](t, schedule).ID.String()
	lower(t.Get(schedules+"?workflowId="+upper(flow)), id)
	hook := t.Post(hooks, object{"workflowId": upper(flow), "verification": signing()})
	lower(hook, flow)
	hookID := probe.Decode[api.Hook](t, hook).ID.String()
	lower(t.Get(hooks+"?workflowId="+upper(flow)), hookID)
	lower(t.Do(delivering("/v1/hooks/"+upper(hookID), unique(), []byte(`{}`))), "runId")
	lower(t.Do(deleted(hookPath(upper(hookID)))), hookID)
	lower(t.Do(deleted(schedulePath(upper(id)))), id)

	boss := t.SignIn()
	workspace := t.Target().WorkspaceID
	lower(t.Do(probe.Request{Path: probe.Workspace(upper(workspace)), Bearer: boss}), workspace)
	key := within(t, boss, http.MethodPost, "/api-keys", object{"label": "upper", "allowedWorkflowIds": []string{upper(flow)}})
	lower(key, flow)
	keyID := probe.Decode[api.CreatedAPIKey](t, key).ID.String()
	lower(within(t, boss, http.MethodDelete, "/api-keys/"+upper(keyID), nil), keyID)
}
