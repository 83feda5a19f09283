package conformance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/gen/api"
)

// wrongWorkflow submits a definition that must be rejected with 422 and exactly these pointers.
func wrongWorkflow(t *probe.Trial, what string, body object, pointers ...string) {
	p := t.Problem(t.Post(workflows, body), http.StatusUnprocessableEntity, "INVALID_INPUT")
	got := probe.Pointers(p)
	slices.Sort(got)
	slices.Sort(pointers)
	t.Equal(what, slices.Compact(got), pointers)
	for _, fault := range p.Errors {
		t.Check(fault.Code != "" && fault.Message != "", "%s: a fault without code or message: %s", what, t.JSON(p))
	}
}

// sketch returns a workflow with components, edges "from port to" and connections
// "from.output to.input".
func sketch(components []object, edges []string, connections ...string) object {
	body := object{"name": "sketch", "components": components}
	var drawnEdges, drawnConnections []object
	for i, edge := range edges {
		words := strings.Fields(edge)
		drawnEdges = append(drawnEdges, object{"id": fmt.Sprint("e", i), "from": words[0], "port": words[1], "to": words[2]})
	}
	for i, connection := range connections {
		words := strings.Fields(connection)
		from, output, _ := strings.Cut(words[0], ".")
		to, input, _ := strings.Cut(words[1], ".")
		drawnConnections = append(drawnConnections, object{
			"id": fmt.Sprint("d", i), "from": object{"componentId": from, "output": output}, "to": object{"componentId": to, "input": input},
		})
	}
	if drawnEdges != nil {
		body["sequenceEdges"] = drawnEdges
	}
	if drawnConnections != nil {
		body["dataConnections"] = drawnConnections
	}
	return body
}

func use(id, module string) object { return object{"id": id, "module": module} }

func having(component object, name string, value any) object {
	component[name] = value
	return component
}

func workflowFaults(t *probe.Trial) {
	makes, takes := use("makes", "RANDOM_UUID"), having(use("takes", "HASH"), "input", object{"data": "x"})
	all := sketch([]object{
		makes, having(use("takes", "HASH"), "input", object{"algorithm": "md5"}), use("makes", "RANDOM_UUID"), use("none", "NO_SUCH_MODULE"),
	}, []string{"makes then takes", "makes next gone", "takes next takes"}, "makes.nothing takes.data", "gone.x makes.y")
	all["inputSchema"], all["triggers"] = object{"type": "text"}, []any{object{}}
	wrongWorkflow(t, "all at once", all, "/inputSchema/type", "/components/1/input/algorithm", "/components/2/id", "/components/3/module",
		"/sequenceEdges/0/port", "/sequenceEdges/1/to", "/sequenceEdges/2", "/dataConnections/0/from/output",
		"/dataConnections/1/from/componentId", "/dataConnections/1/to/input", "/triggers")
	for module, hint := range map[string]string{"hash": "did you mean HASH?", "RANDOM-UID": "did you mean RANDOM_UUID?", "x": "GET /v1/sdk/components lists the modules"} {
		p := t.Problem(t.Post(workflows, sketch([]object{makes, use("meant", module)}, nil)), http.StatusUnprocessableEntity, "INVALID_INPUT")
		t.Check(len(p.Errors) == 1 && p.Errors[0].Code == "UNKNOWN_MODULE" && p.Errors[0].Pointer == "/components/1/module" && strings.HasSuffix(p.Errors[0].Message, hint),
			"%s: %s", module, t.JSON(p.Errors))
	}
	wrongWorkflow(t, "a required input", sketch([]object{use("a", "HASH")}, nil), "/components/0/input/data")
	wrongWorkflow(t, "a literal of the wrong type", sketch([]object{having(use("a", "HASH"), "input", object{"data": 7})}, nil), "/components/0/input/data")
	wrongWorkflow(t, "types that do not fit", sketch([]object{
		having(use("call", "API_CALL"), "config", object{"apiUrl": "https://api.example.org/", "method": "GET"}), takes,
	}, []string{"call next takes"}, "call.headers takes.algorithm"), "/dataConnections/0")
	wrongWorkflow(t, "one input twice", sketch([]object{makes, use("b", "HASH")}, []string{"makes next b"}, "makes.uuid b.data", "makes.uuid b.data"), "/dataConnections/1/to/input")
	p := t.Problem(t.Post(workflows, sketch([]object{makes, takes, use("third", "RANDOM_UUID")}, []string{"makes next takes", "takes next third", "third next makes"})),
		http.StatusUnprocessableEntity, "INVALID_INPUT")
	t.Equal("pointers of a cycle", probe.Pointers(p), []string{"/sequenceEdges/2"})
	wrongWorkflow(t, "what nothing leads to", sketch([]object{use("start", "ON_API_CALLED"), makes, use("lost", "RANDOM_UUID"), use("after", "RANDOM_UUID")},
		[]string{"start next makes", "lost next after"}), "/components/2", "/components/3")
	for _, name := range []string{"makes", "takes", "third"} {
		t.Check(strings.Contains(p.Detail, name), "the cycle does not name %s: %s", name, p.Detail)
	}
	// A correct definition, and the same with one faulty edge.
	right := create(t, sketch([]object{makes, takes}, []string{"makes next takes", "makes error takes"}))
	p = t.Problem(put(t, right.ID, sketch([]object{makes, takes}, []string{"makes then takes"}), ""), http.StatusUnprocessableEntity, "INVALID_INPUT")
	t.Equal("pointers", probe.Pointers(p), []string{"/sequenceEdges/0/port"})
	t.Equal("version", decodeWorkflow(t, t.Get(workflowPath(right.ID))).Version, 1)
	create(t, sketch([]object{makes, use("b", "HASH")}, nil, "makes.uuid b.data"))
}

// workflowReviewed saves two kinds of definitions: those that can never work, which must be
// rejected, and suspicious ones, which must return warnings.
func workflowReviewed(t *probe.Trial) {
	start := use("start", "ON_API_CALLED")
	for _, module := range []string{"IF", "TRANSFORM", "RESPOND", "JSON_CONSTANT", "WAIT_UNTIL", "DELAY"} {
		config := object{"IF": object{"expression": "1 > 0"}, "TRANSFORM": object{"expression": "1"}, "JSON_CONSTANT": object{"value": 1}, "WAIT_UNTIL": object{"timestamp": "2026-12-24T18:00:00Z"}, "DELAY": object{"durationMs": 1}}[module]
		c := having(having(use("a", module), "attempts", 2), "timeoutMs", 1000)
		if config != nil {
			c["config"] = config
		}
		pointers := []string{"/components/0/attempts", "/components/0/timeoutMs"}
		if module == "DELAY" {
			pointers = pointers[:1]
		}
		wrongWorkflow(t, "settings of "+module, sketch([]object{c}, nil), pointers...)
	}
	wrongWorkflow(t, "a name that no input brings", sketch([]object{set("a", "TRANSFORM", object{"expression": "amount * 2"})}, nil), "/components/0/config/expression")
	wrongWorkflow(t, "a path that leads nowhere", sketch([]object{set("a", "JSON_CONSTANT", object{"value": object{"x": 1}}), use("b", "RESPOND")}, nil, "a.value.y b.z"), "/dataConnections/0/from/output")

	suspicious := sketch([]object{
		start, set("wait", "WAIT_FOR_SIGNAL", object{"name": "go", "timeoutMs": 1000}), having(use("loop", "FOR_EACH"), "input", object{"items": []int{1}}),
		set("branch", "IF", object{"expression": "1 > 0"}), having(use("end", "RESPOND"), "input", object{"text": " {{ env.NAME }}"}),
	}, []string{"start next wait", "wait next loop", "loop next branch", "start next end"})
	made := create(t, suspicious)
	const want = "TIMEOUT_UNHANDLED /components/1, LOOP_WITHOUT_BODY /components/2, BRANCH_WITHOUT_EDGES /components/3, REFERENCE_IS_TEXT /components/4/input/text, VARIABLE_NOT_FOUND /components/4/input/text"
	t.Equal("of a create", warnings(t, made.Warnings), want)
	t.Check(decodeWorkflow(t, t.Get(workflowPath(made.ID))).Warnings == nil, "a read has warnings")
	t.Equal("of a replacement", warnings(t, decodeWorkflow(t, put(t, made.ID, suspicious, "")).Warnings), want)
	answer := t.Do(probe.Request{Method: http.MethodPost, Path: workflowPath(made.ID) + "/components/loop", Body: t.JSON(object{"config": object{"concurrency": 2}})})
	t.Equal("of an update", warnings(t, probe.Decode[api.UpdatedWorkflowComponent](t, answer).Warnings), want)
	clean := create(t, sketch([]object{start, use("end", "RESPOND")}, []string{"start next end"})).Warnings
	t.Check(clean != nil && len(*clean) == 0, "a workflow without warnings has %s", t.JSON(clean))
}

func warnings(t *probe.Trial, list *[]api.WorkflowWarning) string {
	var all []string
	if list != nil {
		for _, w := range *list {
			t.Check(w.Message != "", "a warning without a message: %s", t.JSON(w))
			all = append(all, w.Code+" "+w.Pointer)
		}
	}
	return strings.Join(all, ", ")
}

func workflowBounds(t *probe.Trial) {
	many := func(n int) []object {
		var list []object
		for i := range n {
			list = append(list, use(fmt.Sprint("c", i), "RANDOM_UUID"))
		}
		return list
	}
	t.Equal("500 components", len(create(t, sketch(many(500), nil)).Components), 500)
	refused := func(what, pointer string, body object) {
		p := t.Problem(t.Post(workflows, body), http.StatusBadRequest, "INVALID_INPUT")
		t.Check(slices.Contains(probe.Pointers(p), pointer), "%s: the faults are at %q, want %q", what, probe.Pointers(p), pointer)
	}
	refused("501 components", "/components", sketch(many(501), nil))
	refused("no component", "/components", sketch([]object{}, nil))
	edges := slices.Repeat([]string{"c0 next c1"}, 2001)
	refused("2,001 edges", "/sequenceEdges", sketch(many(2), edges))
	for name, value := range map[string]any{"id": "a b", "module": "", "attempts": 4, "timeoutMs": 0, "onFailure": "retry", "position": []int{1}, "input": []int{}, "config": nil} {
		refused(name, "/components/0/"+name, sketch([]object{having(use("a", "RANDOM_UUID"), name, value)}, nil))
	}
	refused("a long id", "/components/0/id", sketch([]object{use(strings.Repeat("a", 65), "RANDOM_UUID")}, nil))
	refused("no name", "/name", object{"components": many(1)})
	refused("an empty name", "/name", object{"name": "", "components": many(1)})
}

func workflowStrict(t *probe.Trial) {
	body := drawn("unknown fields")
	body["workspaceId"], body["version"] = "0193f1c0-0000-7000-8000-000000000001", 7
	body["components"].([]any)[0].(object)["cost"] = 0
	body["components"].([]any)[1].(object)["ID"] = "renamed"
	body["dataConnections"].([]any)[0].(object)["from"].(object)["ComponentId"] = "digest"
	made := create(t, body)
	t.Equal("version", made.Version, 1)
	likeDrawn(t, made, "unknown fields")
	answer := t.Do(probe.Request{Method: http.MethodPost, Path: workflows, Body: t.JSON(body), Header: http.Header{"Prefer": {"handling=strict"}}})
	p := t.Problem(answer, http.StatusBadRequest, "INVALID_INPUT")
	t.Equal("pointers", probe.Pointers(p), []string{"/components/0/cost", "/components/1/ID", "/dataConnections/0/from/ComponentId", "/version", "/workspaceId"})
	// Together with all other errors, at every depth.
	body = sketch([]object{
		use("makes", "RANDOM_UUID"), having(use("takes", "HASH"), "input", object{"algorithm": "md5", "dta": "x"}), having(use("none", "NO_SUCH_MODULE"), "cost", 1),
	}, []string{"makes next gone"})
	body["version"] = 7
	for what, request := range map[string]probe.Request{
		"create": {Method: http.MethodPost, Path: workflows}, "replace": {Method: http.MethodPut, Path: workflowPath(made.ID)},
	} {
		request.Body, request.Header = t.JSON(body), http.Header{"Prefer": {"handling=strict"}}
		p = t.Problem(t.Do(request), http.StatusBadRequest, "INVALID_INPUT")
		pointers := probe.Pointers(p)
		slices.Sort(pointers)
		t.Equal(what, pointers, []string{
			"/components/1/input/algorithm", "/components/1/input/data", "/components/1/input/dta", "/components/2/cost", "/components/2/module",
			"/sequenceEdges/0/to", "/version",
		})
	}
	t.Equal("version", decodeWorkflow(t, t.Get(workflowPath(made.ID))).Version, 1)
}

// workflowSecrets puts a canary into the secret field of a module. Reading the workflow does not
// return the canary, and saving the workflow as read leaves the canary unchanged.
func workflowSecrets(t *probe.Trial) {
	const canary = "canary-4f1b9c7e"
	call := object{
		"id": "call", "module": "API_CALL", "config": object{"apiUrl": "https://api.example.org/", "method": "GET"},
		"input": object{"headers": object{"Authorization": canary, "X-Variable": "Bearer {{env.TOKEN}}"}},
	}
	shown := object{"headers": object{"Authorization": "[redacted]", "X-Variable": "Bearer {{env.TOKEN}}"}}
	made := create(t, sketch([]object{call}, nil))
	same(t, "input", made.Components[0]["input"], shown)
	path := workflowPath(made.ID)
	file := t.Get(exportPath(made.ID))
	for _, answer := range []probe.Answer{
		t.Get(path), file, t.Get(path + "?version=1"), t.Post(path+"/components/call", object{"config": object{"method": "POST"}}),
		t.Do(probe.Request{Method: http.MethodPut, Path: path, Body: file.Body}), t.Do(probe.Request{Method: http.MethodDelete, Path: path}),
	} {
		t.Equal(answer.Operation, answer.Status, http.StatusOK)
		t.Check(strings.Contains(string(answer.Body), "[redacted]") && !strings.Contains(string(answer.Body), canary), "%s shows %s", answer.Operation, answer.Body)
	}
	answer := t.Do(probe.Request{Method: http.MethodPost, Path: workflows, Body: file.Body})
	p := t.Problem(answer, http.StatusUnprocessableEntity, "INVALID_INPUT")
	t.Equal("a mark without a secret", probe.Pointers(p), []string{"/components/0/input/headers/Authorization"})
}

// onWorkflow returns requests of every operation whose path names a workflow.
func onWorkflow(t *probe.Trial, id string) []probe.Request {
	var list []probe.Request
	for _, operation := range t.Target().Spec.Operations() {
		if !strings.Contains(operation.Template, "{workflowId}") {
			continue
		}
		request := probe.Request{Method: operation.Method, Path: concrete(strings.Replace(operation.Template, "{workflowId}", id, 1))}
		if operation.Method == http.MethodPut {
			request.Body = t.JSON(drawn("x"))
		}
		list = append(list, request)
	}
	t.Check(len(list) >= 4, "%d operations on a workflow", len(list))
	return list
}

func workflowUnknown(t *probe.Trial) {
	const nobodys = "0193f1c0-0000-7000-8000-000000000007"
	for i, unknown := range onWorkflow(t, nobodys) {
		want := t.Problem(t.Do(unknown), http.StatusNotFound, "NOT_FOUND")
		for _, id := range []string{"x", upper(nobodys), "executions", strings.ReplaceAll(nobodys, "-", "")} {
			request := onWorkflow(t, id)[i]
			if operation := t.Target().Spec.Find(request.Method, request.Path); strings.Contains(operation.Template, "{workflowId}") {
				t.Equal(request.Method+" "+request.Path, t.Problem(t.Do(request), http.StatusNotFound, "NOT_FOUND").Detail, want.Detail)
			}
		}
	}
}

func workflowForeign(t *probe.Trial) {
	as := probe.Signing{As: t.Target().Foreign}
	foreign := decodeWorkflow(t, t.Do(probe.Request{Method: http.MethodPost, Path: workflows, Body: t.JSON(drawn("foreign")), Sign: as})).ID
	unknown := onWorkflow(t, "0193f1c0-0000-7000-8000-000000000007")
	for i, request := range onWorkflow(t, foreign) {
		t.Equal(request.Method, t.Problem(t.Do(request), http.StatusNotFound, "NOT_FOUND").Detail, t.Problem(t.Do(unknown[i]), http.StatusNotFound, "NOT_FOUND").Detail)
	}
	t.Equal("listed", listedWorkflow(t, foreign, "").ID, "")
	unchanged := decodeWorkflow(t, t.Do(probe.Request{Path: workflowPath(foreign), Sign: as}))
	t.Check(unchanged.Version == 1 && unchanged.Status == "ACTIVE", "%+v", unchanged)
	repeat := probe.Request{Method: http.MethodPost, Path: workflows, Body: t.JSON(drawn("keyed")), Header: http.Header{"Idempotency-Key": {unique()}}}
	own := decodeWorkflow(t, t.Do(repeat))
	repeat.Sign = as
	t.Check(decodeWorkflow(t, t.Do(repeat)).ID != own.ID, "another workspace's key was found")
}

// workflowRestricted uses a key that is restricted to one workflow.
func workflowRestricted(t *probe.Trial) {
	listed, other := create(t, drawn("listed")).ID, create(t, drawn("other")).ID
	boss := t.SignIn()
	made, credentials := newKeyOf(t, boss, "restricted", listed)
	as := probe.Signing{As: &credentials}
	var bodies []string
	for _, id := range []string{other, "0193f1c0-0000-7000-8000-000000000007"} { // whether the workflow exists or not
		for _, request := range onWorkflow(t, id) {
			request.Sign = as
			for _, body := range [][]byte{request.Body, []byte(`{"name":7,"config":8,"waitForMs":-1}`)} { // whatever the body
				request.Body = body
				p := t.Problem(t.Do(request), http.StatusForbidden, "FORBIDDEN")
				t.Equal("reason", probe.Reason(p), "workflow_not_allowed")
				bodies = append(bodies, p.Title+p.Detail)
			}
		}
	}
	for _, body := range bodies {
		t.Equal("the body", body, bodies[0])
	}
	for _, request := range []probe.Request{
		{Method: http.MethodPost, Path: workflows, Body: t.JSON(drawn("x"))}, {Path: workflows},
		{Method: http.MethodPut, Path: workflowPath(listed), Body: t.JSON(drawn("x"))}, {Method: http.MethodDelete, Path: workflowPath(listed)},
	} {
		request.Sign = as
		t.Equal("reason", probe.Reason(t.Problem(t.Do(request), http.StatusForbidden, "FORBIDDEN")), "key_restricted")
	}
	likeDrawn(t, decodeWorkflow(t, t.Do(probe.Request{Path: workflowPath(listed), Sign: as})), "listed")
	update := probe.Request{Method: http.MethodPost, Path: workflowPath(listed) + "/components/id", Body: []byte(`{"name":"by the key"}`), Sign: as}
	t.Equal("updated", probe.Decode[updatedComponent](t, t.Do(update)).Name, "by the key")
	answer := t.Do(submit(t, probe.RandomUUID(), as))
	t.Equal("executing a component", answer.Status, http.StatusOK)
	within(t, boss, http.MethodDelete, "/api-keys/"+made.ID.String(), nil)
}

// workflowValidated expects the faults of a save, the warnings and the cost, and no new workflow.
func workflowValidated(t *probe.Trial) {
	name := "validated " + unique()
	validate := func(body object) api.WorkflowValidation {
		return probe.Decode[api.WorkflowValidation](t, t.Post(workflows+"/validate", having(body, "name", name)))
	}
	wrong := validate(sketch([]object{use("a", "NO_SUCH_MODULE"), use("b", "HASH")}, nil))
	var places []string
	for _, one := range wrong.Faults {
		t.Check(one.Message != "", "a fault without a message: %s", t.JSON(one))
		places = append(places, one.Code+" "+one.Pointer)
	}
	t.Equal("faults", places, []string{"UNKNOWN_MODULE /components/0/module", "MISSING_INPUT /components/1/input/data"})
	t.Check(wrong.Quote == nil, "a workflow with faults has the quote %s", t.JSON(wrong.Quote))
	right := validate(sketch([]object{use("start", "ON_API_CALLED"), use("loop", "FOR_EACH"), having(use("hash", "HASH"), "input", object{"data": "{{env.NO_SUCH_VARIABLE}}"})},
		[]string{"start next loop", "loop each hash"}, "start.items loop.items"))
	t.Check(len(right.Faults) == 0, "faults: %s", t.JSON(right.Faults))
	t.Equal("warnings", warnings(t, &right.Warnings), "VARIABLE_NOT_FOUND /components/2/input/data")
	t.Check(right.Quote != nil && right.Quote.MaximumCredits == nil, "quote: %s", t.JSON(right.Quote))
	same(t, "unknownBounds", right.Quote.UnknownBounds, json.RawMessage(`[{"componentId":"loop","reason":"items"}]`))
	t.Problem(t.Post(workflows+"/validate", object{"name": "x"}), http.StatusBadRequest, "INVALID_INPUT")
	for _, one := range probe.Decode[api.WorkflowPage](t, t.Get(workflows+"?limit=100")).Data {
		t.Check(one.Name != name, "the workflow was saved as %s", one.ID)
	}
}
