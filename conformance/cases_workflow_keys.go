package conformance

import (
	"net/http"
	"strings"

	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/gen/api"
)

var workflowKeyCases = []Case{
	{Part: "D8.20.key, D8.20.archived", Name: "workflows/200, 400, 409 the key of a workflow", Run: workflowKey},
	{Part: "D8.20.accepted", Name: "workflows/200 paths, filters and fields take the key", Run: workflowByKey},
	{Part: "D8.20.child", Name: "runs/200 a child workflow by its key", Run: childByKey},
	{Part: "D8.20.restricted", Name: "workflows/403 a restricted key, by the keys of workflows", Run: keyRestricted, Needs: owner},
}

// newName returns a name, and the key that it makes.
func newName() (name, key string) {
	key = "w" + strings.ToLower(unique())
	return "W " + key[1:] + "!", "w-" + key[1:]
}

// keyedAs returns a drawn workflow with a name and a key. An empty key is left out.
func keyedAs(name, key string) object {
	body := drawn(name)
	if key != "" {
		body["key"] = key
	}
	return body
}

func workflowKey(t *probe.Trial) {
	name, key := newName()
	taken := func(answer probe.Answer) {
		p := t.Problem(answer, http.StatusConflict, "CONFLICT")
		t.Equal("reason", probe.Reason(p), "key_taken")
		t.Equal("pointers", probe.Pointers(p), []string{"/key"})
	}
	first, second := create(t, keyedAs(name, "")), create(t, keyedAs(name, ""))
	t.Equal("keys", []string{first.Key, second.Key}, []string{key, key + "-2"})
	given := create(t, keyedAs("x", key+"-given"))
	t.Equal("a given key", given.Key, key+"-given")
	t.Equal("read", decodeWorkflow(t, t.Get(workflowPath(given.ID))).Key, key+"-given")
	t.Equal("listed", listedWorkflow(t, given.ID, "").Key, key+"-given")
	file := decodeWorkflow(t, t.Get(exportPath(given.ID)))
	t.Equal("in the file", file.Key, key+"-given")
	taken(t.Post(workflows, keyedAs("x", key)))
	for _, wrong := range []string{"executions", "validate", "Upper", "1a", "a b", "", strings.Repeat("a", 64), "deadbeefdeadbeefdeadbeefdeadbeef", "deadbeef-dead-beef-dead-beefdeadbeef"} {
		body := drawn("x")
		body["key"] = wrong
		for _, answer := range []probe.Answer{t.Post(workflows, body), put(t, first.ID, body, "")} {
			p := t.Problem(answer, http.StatusBadRequest, "INVALID_INPUT")
			t.Equal("pointers of "+wrong, probe.Pointers(p), []string{"/key"})
		}
	}
	t.Equal("renamed", decodeWorkflow(t, put(t, second.ID, keyedAs("another name", ""), "")).Key, key+"-2")
	taken(put(t, second.ID, keyedAs(name, key), ""))
	t.Equal("changed", decodeWorkflow(t, put(t, second.ID, keyedAs(name, key+"-new"), "")).Key, key+"-new")

	archived := decodeWorkflow(t, t.Do(probe.Request{Method: http.MethodDelete, Path: workflowPath(key)}))
	t.Check(archived.ID == first.ID && archived.Status == "ARCHIVED" && archived.Key == key, "archived %+v", archived)
	t.Problem(t.Get(workflowPath(key)), http.StatusNotFound, "NOT_FOUND")
	heir := create(t, keyedAs("x", key))
	t.Equal("the key leads to", decodeWorkflow(t, t.Get(workflowPath(key))).ID, heir.ID)
	back := keyedAs(name, "")
	back["status"] = "ACTIVE"
	taken(put(t, first.ID, back, ""))
	t.Equal("after the refusal", decodeWorkflow(t, t.Get(workflowPath(first.ID))).Status, "ARCHIVED")
	back["key"] = key + "-2"
	t.Equal("restored", decodeWorkflow(t, put(t, first.ID, back, "")).Key, key+"-2")
}

func workflowByKey(t *probe.Trial) {
	made := create(t, drawn("by key"))
	for _, request := range onWorkflow(t, made.Key) {
		if request.Method == http.MethodDelete {
			continue
		}
		answer := t.Do(request)
		if strings.Contains(request.Path, "/components/") {
			t.Problem(answer, http.StatusNotFound, "NOT_FOUND") // of the component
			continue
		}
		t.Equal(request.Method+" "+request.Path, answer.Status, http.StatusOK)
	}
	for _, request := range onWorkflow(t, "no-such-workflow") {
		t.Problem(t.Do(request), http.StatusNotFound, "NOT_FOUND")
	}
	schedule := probe.Decode[api.Schedule](t, t.Post(schedules, object{"workflowId": made.Key, "cron": "@yearly"}))
	t.Equal("workflowId of a schedule", schedule.WorkflowID.String(), made.ID)
	hook := probe.Decode[api.Hook](t, t.Post(hooks, object{"workflowId": made.Key, "verification": signing()}))
	t.Equal("workflowId of a hook", hook.WorkflowID.String(), made.ID)
	for _, body := range []object{{"workflowId": "no-such-workflow", "cron": "@yearly"}} {
		t.Problem(t.Post(schedules, body), http.StatusNotFound, "NOT_FOUND")
	}
	for path, field := range map[string]string{runs: "runs", schedules: "schedules", hooks: "hooks"} {
		page := probe.Decode[struct{ Data []struct{ WorkflowID string } }](t, t.Get(path+"?workflowId="+made.Key))
		t.Check(len(page.Data) == 1 && page.Data[0].WorkflowID == made.ID, "%s of the workflow: %+v", field, page)
		page = probe.Decode[struct{ Data []struct{ WorkflowID string } }](t, t.Get(path+"?workflowId=no-such-workflow"))
		t.Equal(field+" of no workflow", len(page.Data), 0)
		p := t.Problem(t.Get(path+"?workflowId=Not_A_Key"), http.StatusBadRequest, "INVALID_INPUT")
		t.Equal("pointers", probe.Pointers(p), []string{"/query/workflowId"})
	}
}

func childByKey(t *probe.Trial) {
	_, key := newName()
	parent := draw(t, []object{set("child", "RUN_WORKFLOW", object{"workflow": key})}, []string{"start next child"})
	failed := stageOf(t, ran(t, parent, "FAILED", nil), "child")
	t.Check(strings.Contains(string(t.JSON(failed.Error)), "NOT_FOUND"), "without the child: %s", t.JSON(failed.Error))
	child := sketch([]object{use("start", "ON_API_CALLED"), {"id": "answer", "module": "RESPOND", "input": object{"key": "{{ run.workflow.key }}"}}}, []string{"start next answer"})
	child["key"] = key
	create(t, child)
	stage := stageOf(t, ran(t, parent, "COMPLETED", nil), "child")
	same(t, "the output of the child", stage.Output, object{"key": key})
	for _, config := range []object{{}, {"workflow": key, "workflowId": parent}, {"workflow": "Not a key"}} {
		p := t.Problem(t.Post(workflows, sketch([]object{set("child", "RUN_WORKFLOW", config)}, nil)), http.StatusUnprocessableEntity, "INVALID_INPUT")
		t.Equal("pointers", probe.Pointers(p), []string{"/components/0/config/workflow"})
	}
}

func keyRestricted(t *probe.Trial) {
	listed, other := create(t, drawn("listed")), create(t, drawn("other"))
	boss := t.SignIn()
	made, credentials := newKeyOf(t, boss, "restricted", listed.Key)
	defer within(t, boss, http.MethodDelete, "/api-keys/"+made.ID.String(), nil)
	t.Check(len(made.AllowedWorkflowIds) == 1 && made.AllowedWorkflowIds[0].String() == listed.ID, "the key is saved with the ID: %v", made.AllowedWorkflowIds)
	p := t.Problem(within(t, boss, http.MethodPost, "/api-keys", object{"label": "x", "allowedWorkflowIds": []string{listed.Key, "no-such-workflow"}}), http.StatusBadRequest, "INVALID_INPUT")
	t.Equal("pointers", probe.Pointers(p), []string{"/allowedWorkflowIds/1"})
	as := probe.Signing{As: &credentials}
	for _, hidden := range []string{other.Key, "no-such-workflow"} {
		for _, request := range append(onWorkflow(t, hidden), probe.Request{Path: runs + "?workflowId=" + hidden}) {
			request.Sign = as
			p := t.Problem(t.Do(request), http.StatusForbidden, "FORBIDDEN")
			t.Equal("reason", probe.Reason(p), "workflow_not_allowed")
		}
	}
	t.Equal("the listed workflow", decodeWorkflow(t, askAs(t, as, http.MethodGet, workflowPath(listed.Key), nil)).ID, listed.ID)
	probe.Decode[api.RunQuote](t, askAs(t, as, http.MethodPost, workflowPath(listed.Key)+"/quote", object{}))
	t.Equal("its runs", askAs(t, as, http.MethodGet, runs+"?workflowId="+listed.Key, nil).Status, http.StatusOK)

	parent := draw(t, []object{set("child", "RUN_WORKFLOW", object{"workflow": other.Key})}, []string{"start next child"})
	alone, second := newKeyOf(t, boss, "restricted", parent)
	defer within(t, boss, http.MethodDelete, "/api-keys/"+alone.ID.String(), nil)
	run := probe.Decode[api.TriggerResult](t, askAs(t, probe.Signing{As: &second}, http.MethodPost, workflowPath(parent), object{"waitForMs": 15_000})).Run
	stage := stageOf(t, *run, "child")
	t.Check(strings.Contains(string(t.JSON(stage.Error)), "FORBIDDEN"), "a child outside of the key's list: %s", t.JSON(stage.Error))
}
