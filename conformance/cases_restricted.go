package conformance

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/gen/api"
)

var restrictedCases = []Case{
	{
		Part: "D2.8.executions", Name: "restricted/404 a restricted key sees only the executions that it submitted",
		Run: restrictedExecutions, Needs: []probe.Need{probe.NeedOwner, probe.NeedNear},
	},
	{
		Part: "D2.8.executions, D1.7.scope", Name: "restricted/409 a restricted key cannot repeat a request of another key",
		Run: restrictedRepeat, Needs: owner,
	},
	{
		Part: "D2.8.reach", Name: "restricted/200 a run that a restricted key triggers stays on its workflows",
		Run: restrictedReach, Needs: owner,
	},
	{
		Part: "D2.8.updates, D2.8.workflows", Name: "restricted/403 updates of a component that need an unrestricted key",
		Run: restrictedUpdates, Needs: owner,
	},
	{
		Part: "D2.8.updates, D1.1.unknown", Name: "restricted/200 a name in another letter case changes nothing that needs an unrestricted key",
		Run: restrictedLetterCase, Needs: owner,
	},
	{Part: "D8.14.trigger", Name: "runs/200 the trigger's stage hides the secrets of the input", Run: triggerHides},
	{Part: "D2.8.origin", Name: "workflows/422 a stored secret does not follow a changed origin", Run: secretsStay},
	{Part: "D2.8.origin", Name: "workflows/422 a stored secret does not follow a changed variable of its address", Run: secretsStayAtValues},
}

// restrictedKey creates a key that is restricted to these workflows. It returns the key's signing,
// its ID, and a function that revokes it.
func restrictedKey(t *probe.Trial, boss string, workflows ...string) (as probe.Signing, id string, revoke func()) {
	made, credentials := newKeyOf(t, boss, "restricted", workflows...)
	id = made.ID.String()
	return probe.Signing{As: &credentials}, id, func() { within(t, boss, http.MethodDelete, "/api-keys/"+id, nil) }
}

// askAs sends a request with a key.
func askAs(t *probe.Trial, as probe.Signing, method, path string, body any) probe.Answer {
	request := probe.Request{Method: method, Path: path, Sign: as}
	if body != nil {
		request.Body = t.JSON(body)
	}
	return t.Do(request)
}

// onExecution returns a request of every operation whose path names an execution of a component.
func onExecution(t *probe.Trial, id string) []probe.Request {
	var list []probe.Request
	for _, operation := range t.Target().Spec.Operations() {
		if strings.Contains(operation.Template, "{executionId}") {
			list = append(list, probe.Request{Method: operation.Method, Path: concrete(strings.Replace(operation.Template, "{executionId}", id, 1))})
		}
	}
	t.Check(len(list) >= 4, "%d operations on an execution", len(list))
	return list
}

var identify = object{"module": "RANDOM_UUID", "input": object{}, "config": object{}, "waitForMs": 15_000}

func restrictedExecutions(t *probe.Trial) {
	boss, workflow := t.SignIn(), draw(t, []object{doing("call", t.Upstream(answering(200)))}, []string{"start next call"})
	as, _, revoke := restrictedKey(t, boss, workflow)
	defer revoke()
	twin, _, revokeTwin := restrictedKey(t, boss, workflow)
	defer revokeTwin()
	own := probe.Decode[api.ComponentExecution](t, askAs(t, as, http.MethodPost, probe.Components, identify)).ID.String()
	twins := probe.Decode[api.ComponentExecution](t, askAs(t, twin, http.MethodPost, probe.Components, identify)).ID.String()
	unrestricted := probe.Decode[api.ComponentExecution](t, t.Post(probe.Components, identify)).ID.String()
	run := probe.Decode[api.TriggerResult](t, askAs(t, as, http.MethodPost, workflowPath(workflow), object{"waitForMs": 15_000})).Run
	stage := stageOf(t, *run, "call").ExecutionEventID.String()

	unknown := onExecution(t, "0193f1c0-0000-7000-8000-000000000006")
	for _, hidden := range []string{twins, unrestricted, stage} {
		for i, request := range onExecution(t, hidden) {
			request.Sign, unknown[i].Sign = as, as
			want := t.Problem(t.Do(unknown[i]), http.StatusNotFound, "NOT_FOUND").Detail
			t.Equal(request.Method+" "+request.Path, t.Problem(t.Do(request), http.StatusNotFound, "NOT_FOUND").Detail, want)
		}
	}
	page := probe.Decode[api.ComponentExecutionPage](t, askAs(t, as, http.MethodGet, probe.Executions+"?limit=100", nil))
	t.Check(len(page.Data) == 1 && page.Data[0].ID.String() == own && !page.HasMore, "the list shows %s", t.JSON(page))

	// A key sees the executions that it submitted, and an unrestricted key sees all.
	t.Equal("its record", askAs(t, as, http.MethodGet, probe.Execution(own), nil).Status, http.StatusOK)
	_, ok := t.StreamOf(probe.Request{Path: probe.Execution(own) + "/stream", Sign: as}).Next()
	t.Check(ok, "the stream of its execution has no event")
	t.Equal("its attempts", askAs(t, as, http.MethodGet, probe.Execution(own)+"/callback-attempts", nil).Status, http.StatusOK)
	t.Problem(askAs(t, as, http.MethodPost, probe.Execution(own)+"/replay-callback", nil), http.StatusConflict, "NO_CALLBACK")
	for _, id := range []string{own, twins, stage} {
		t.Equal("for an unrestricted key", t.Get(probe.Execution(id)).Status, http.StatusOK)
	}
}

func restrictedRepeat(t *probe.Trial) {
	boss, workflow := t.SignIn(), draw(t, nil, nil)
	as, _, revoke := restrictedKey(t, boss, workflow)
	defer revoke()
	submit := func(as probe.Signing, key string) probe.Answer {
		return t.Do(probe.Request{
			Method: http.MethodPost, Path: probe.Components, Body: t.JSON(identify), Sign: as, Header: http.Header{"Idempotency-Key": {key}},
		})
	}
	key := unique()
	probe.Decode[api.ComponentExecution](t, submit(probe.Signing{}, key))
	t.Problem(submit(as, key), http.StatusConflict, "IDEMPOTENCY_MISMATCH")
	key = unique()
	own := probe.Decode[api.ComponentExecution](t, submit(as, key))
	again := submit(as, key)
	t.Equal("Idempotent-Replayed", again.Header.Get("Idempotent-Replayed"), "true")
	t.Equal("id", probe.Decode[api.ComponentExecution](t, again).ID, own.ID)
}

func restrictedReach(t *probe.Trial) {
	child := draw(t, nil, nil)
	parent := draw(t, []object{set("child", "RUN_WORKFLOW", object{"workflowId": child})}, []string{"start next child"})
	grand := draw(t, []object{set("parent", "RUN_WORKFLOW", object{"workflowId": parent})}, []string{"start next parent"})
	boss := t.SignIn()
	as, _, revoke := restrictedKey(t, boss, parent, grand)
	defer revoke()
	runOf := func(as probe.Signing, workflow string, body object) api.WorkflowRun {
		body["waitForMs"] = 15_000
		run := probe.Decode[api.TriggerResult](t, askAs(t, as, http.MethodPost, workflowPath(workflow), body)).Run
		t.Check(run.Status.Terminal(), "run %s is %s", run.ID, run.Status)
		return *run
	}
	refused := func(run api.WorkflowRun, status string) {
		t.Equal("status", string(run.Status), status)
		t.Equal("error.code", runError(t, run.Error).Code, "FORBIDDEN")
	}
	begun := func() int {
		return len(probe.Decode[api.WorkflowRunPage](t, t.Get(runs+"?limit=100&workflowId="+child)).Data)
	}
	refused(runOf(as, parent, object{}), "FAILED")
	refused(runOf(as, grand, object{}), "FAILED") // as a child of a child
	t.Equal("runs of the unlisted workflow", begun(), 0)

	// Nor when an earlier run of another key is repeated from the stage that ran it.
	earlier := runOf(probe.Signing{}, parent, object{})
	t.Equal("status", string(earlier.Status), "COMPLETED")
	stage := stageOf(t, earlier, "child")
	refused(runOf(as, parent, object{"rerunOf": object{"runId": earlier.ID, "fromStageId": stage.ID}}), "FAILED")
	t.Equal("runs of the unlisted workflow", begun(), 1)

	// A key that lists all of these workflows runs them, until a later version reaches another
	// workflow.
	all, _, revokeAll := restrictedKey(t, boss, child, parent, grand)
	defer revokeAll()
	t.Equal("status", string(runOf(all, grand, object{}).Status), "COMPLETED")
	unlisted := draw(t, nil, nil)
	decodeWorkflow(t, put(t, child, sketch([]object{set("other", "RUN_WORKFLOW", object{"workflowId": unlisted})}, nil), ""))
	refused(runOf(all, grand, object{}), "FAILED")
	t.Equal("status", string(runOf(probe.Signing{}, grand, object{}).Status), "COMPLETED")
}

// restrictedUpdates updates components of a listed workflow with a restricted key.
func restrictedUpdates(t *probe.Trial) {
	variable, child, other := variableName(), draw(t, nil, nil), draw(t, nil, nil)
	call := func(id string, headers object) object {
		return object{
			"id": id, "module": "API_CALL", "input": object{"headers": headers},
			"config": object{"apiUrl": "https://api.example.org/a", "method": "GET"},
		}
	}
	workflow := create(t, sketch([]object{
		set("child", "RUN_WORKFLOW", object{"workflowId": child}), set("text", "STRING_CONSTANT", object{"value": "x"}),
		call("plain", object{"Accept": "text/plain"}), call("stored", object{"Authorization": "Bearer canary-2a2f"}),
		call("named", object{"Authorization": "Bearer {{env." + variable + "}}"}),
		having(set("compute", "TRANSFORM", object{"expression": "len(token)"}), "input", object{"token": "{{env." + variable + "}}"}),
		set("sum", "TRANSFORM", object{"expression": "1 + 1"}),
	}, nil)).ID
	as, _, revoke := restrictedKey(t, t.SignIn(), workflow, child, other)
	defer revoke()
	change := func(component string, config object) probe.Answer {
		return askAs(t, as, http.MethodPost, workflowPath(workflow)+"/components/"+component, object{"config": config})
	}
	refused := func(component string, config object) {
		p := t.Problem(change(component, config), http.StatusForbidden, "FORBIDDEN")
		t.Equal(component+": reason", probe.Reason(p), "needs_unrestricted_key")
	}
	// A new {{env.…}} reference.
	refused("text", object{"value": "{{env." + variable + "}}"})
	refused("plain", object{"apiUrl": "https://api.example.org/{{env." + variable + "}}"})
	refused("named", object{"outputMapping": object{"a": "{{env." + variable + "}}"}})
	// Another workflow, even one that the key lists.
	refused("child", object{"workflowId": other})
	// Another origin next to a secret.
	for _, component := range []string{"stored", "named"} {
		for _, address := range []string{"https://other.example.org/a", "http://api.example.org/a", "https://api.example.org:8443/a"} {
			refused(component, object{"apiUrl": address})
		}
	}
	// Another expression in a component with a secret.
	refused("compute", object{"expression": "token"})
	t.Equal("version", decodeWorkflow(t, t.Get(workflowPath(workflow))).Version, 1)

	// A restricted key may change everything else.
	version := 1
	taken := func(component string, config object) {
		version++
		t.Equal(component+": version", probe.Decode[updatedComponent](t, change(component, config)).WorkflowVersion, version)
	}
	taken("text", object{"value": "y"})
	taken("sum", object{"expression": "2 + 2"})
	taken("plain", object{"apiUrl": "https://other.example.org/a"})
	taken("stored", object{"apiUrl": "https://api.example.org:443/b?c=d"})
	taken("named", object{"apiUrl": "https://API.example.org/b", "timeoutMs": 1000})
}

// restrictedLetterCase updates components with field names in another letter case, which are unknown.
func restrictedLetterCase(t *probe.Trial) {
	answers := func(value string) string {
		return create(t, sketch([]object{having(use("answer", "RESPOND"), "input", object{"value": value})}, nil)).ID
	}
	child, other := answers("right"), answers("wrong")
	workflow := create(t, sketch([]object{
		use("start", "ON_API_CALLED"), set("child", "RUN_WORKFLOW", object{"workflowId": child}), use("end", "RESPOND"),
	}, []string{"start next child", "child next end"}, "child.value end.child")).ID
	as, _, revoke := restrictedKey(t, t.SignIn(), workflow, child, other)
	defer revoke()
	answer := askAs(t, as, http.MethodPost, workflowPath(workflow)+"/components/child", object{"config": object{"workflowid": other}})
	t.Equal("status", answer.Status, http.StatusOK)
	begun := askAs(t, as, http.MethodPost, workflowPath(workflow), object{"waitForMs": 15_000})
	alike(t, "output", probe.Decode[api.TriggerResult](t, begun).Run.Output, object{"child": "right"})
}

// secretsStay changes the origin of a URL with an unrestricted key.
func secretsStay(t *probe.Trial) {
	const secret = "Bearer canary-6b1d"
	component := func(address, authorization string) object {
		return object{
			"id": "call", "module": "API_CALL", "input": object{"headers": object{"Accept": "text/plain", "Authorization": authorization}},
			"config": object{"apiUrl": address, "method": "GET"},
		}
	}
	id := create(t, sketch([]object{component("https://api.example.org/a", secret)}, nil)).ID
	replace := func(address, authorization string) probe.Answer {
		return put(t, id, sketch([]object{component(address, authorization)}, nil), "")
	}
	p := t.Problem(replace("https://other.example.org/a", "[redacted]"), http.StatusUnprocessableEntity, "INVALID_INPUT")
	t.Equal("pointers", probe.Pointers(p), []string{"/components/0/input/headers/Authorization"})
	answer := t.Post(workflowPath(id)+"/components/call", object{"config": object{"apiUrl": "https://other.example.org/a"}})
	p = t.Problem(answer, http.StatusUnprocessableEntity, "INVALID_INPUT")
	t.Equal("pointers", probe.Pointers(p), []string{"/input/headers/Authorization"})
	t.Equal("version", decodeWorkflow(t, t.Get(workflowPath(id))).Version, 1)
	// A secret stays at the same origin, and a secret that is sent again can go to any origin.
	t.Equal("version", decodeWorkflow(t, replace("https://api.example.org/b", "[redacted]")).Version, 2)
	t.Equal("version", decodeWorkflow(t, replace("https://other.example.org/a", secret)).Version, 3)
	t.Equal("version", decodeWorkflow(t, replace("https://other.example.org/b", "[redacted]")).Version, 4)
}

// secretsStayAtValues changes the origin of a URL through the value of a variable.
func secretsStayAtValues(t *probe.Trial) {
	const secret = "Bearer canary-0c52"
	name := variableName()
	drawing := func(authorization string) object {
		return sketch([]object{{
			"id": "call", "module": "API_CALL", "attempts": 1, "input": object{"headers": object{"Authorization": authorization}},
			"config": object{"apiUrl": "https://{{env." + name + "}}/a", "method": "GET", "timeoutMs": 1000},
		}}, nil)
	}
	setVariable(t, name, object{"value": "one.invalid"})
	id := create(t, drawing(secret)).ID
	code := func() string {
		run := probe.Decode[api.TriggerResult](t, t.Post(workflowPath(id), object{})).RunID.String()
		return executionError(t, stageOf(t, finished(t, run, "FAILED"), "call").Error).Code
	}
	t.Check(code() != "INVALID_INPUT", "the secret does not go to the origin that it was stored for")
	setVariable(t, name, object{"value": "two.invalid"})
	t.Equal("code of the stage after the change", code(), "INVALID_INPUT")
	p := t.Problem(put(t, id, drawing("[redacted]"), ""), http.StatusUnprocessableEntity, "INVALID_INPUT")
	t.Equal("pointers", probe.Pointers(p), []string{"/components/0/input/headers/Authorization"})
	t.Equal("version", decodeWorkflow(t, put(t, id, drawing(secret), "")).Version, 2)
	t.Check(code() != "INVALID_INPUT", "the secret that was sent again does not go to the new origin")
	deleteVariable(t, name)
}

// triggerHides checks the stage of the trigger everywhere it is returned.
func triggerHides(t *probe.Trial) {
	const secret = "canary-93c1d7aa"
	schema := object{"type": "object", "properties": object{"key": object{"type": "string", "x-secret": true}}}
	child := draw(t, nil, nil)
	workflow := create(t, sketch([]object{
		set("start", "ON_API_CALLED", object{"inputSchema": schema}), set("takes", "TRANSFORM", object{"expression": "key"}),
		set("child", "RUN_WORKFLOW", object{"workflowId": child}),
	}, []string{"start next takes", "takes next child"}, "start.key takes.key", "start.key child.key")).ID
	inline := probe.Decode[api.TriggerResult](t, t.Post(workflowPath(workflow), object{"waitForMs": 15_000, "input": object{"key": secret, "name": "open"}})).Run
	path := runPath(inline.ID.String())
	canceled := probe.Decode[api.WorkflowRun](t, t.Do(probe.Request{Method: http.MethodPut, Path: path + "/cancellation"}))
	stages := probe.Decode[api.RunStagePage](t, t.Get(path+"/stages?limit=100")).Data
	paged := api.WorkflowRun{ID: inline.ID, RunStages: stages}
	for _, run := range []api.WorkflowRun{*inline, probe.Decode[api.WorkflowRun](t, t.Get(path)), canceled, paged} {
		shown := string(stageOf(t, run, "start").Output)
		t.Check(!strings.Contains(shown, secret), "the trigger's stage shows the secret: %s", shown)
		alike(t, "input", probe.Decode[map[string]json.RawMessage](t, probe.Answer{Status: http.StatusOK, Body: []byte(shown)})["input"], object{"key": "[redacted]", "name": "open"})
		// Other outputs are not changed.
		alike(t, "output", stageOf(t, run, "takes").Output, object{"result": secret})
	}
	// A child run with a secret input hides all of its input.
	below := probe.Decode[api.WorkflowRunPage](t, t.Get(runs+"?workflowId="+child)).Data[0].ID.String()
	whole := t.Get(runPath(below))
	t.Check(!strings.Contains(string(whole.Body), secret), "the child run shows the secret: %s", whole.Body)
	t.Check(!strings.Contains(string(t.Get(path+"/events").Body), secret), "an event shows the secret")
}
