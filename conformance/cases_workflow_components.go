package conformance

import (
	"net/http"
	"strings"

	"github.com/weft-automation/weft/conformance/probe"
)

var workflowComponentCases = []Case{
	{
		Part: "4.8.config, 4.8.name, 4.8.position, D8.12, D8.12.answer", Name: "workflows/200 a component is merged into the next version",
		Run: componentMerged,
	},
	{Part: "4.8, D8.12", Name: "workflows/200 what is absent in an update stays", Run: componentAbsent},
	{Part: "4.8, D1.1.unknown, D1.1.strict", Name: "MT12 workflows/200 unknown fields of an update are never applied", Run: componentUnknown},
	{Part: "4.8.config, 4.8.name, 4.8.position, D3.422, D3.412", Name: "workflows/400, 404, 412, 422 updates that are refused", Run: componentRefused},
	{Part: "D8.12", Name: "workflows/200 changes at the same time all arrive", Run: componentsAtOnce},
}

// updatedComponent is the response of an update.
type updatedComponent struct {
	ID, Module, Name, OnFailure string

	Input, Config   object
	Position        []float64
	TimeoutMs       int
	Retry           object
	WorkflowVersion int
}

// calling creates a workflow whose component `call` has a config.
func calling(t *probe.Trial) string {
	return create(t, sketch([]object{
		{
			"id": "call", "module": "API_CALL", "name": "Ask", "position": []int{1, 2}, "retry": persistent(), "timeoutMs": 9000, "onFailure": "continue",
			"input":  object{"headers": object{}, "query": object{"symbol": "ETH"}},
			"config": object{"apiUrl": "https://api.example.org/", "method": "GET", "timeoutMs": 1000, "outputMapping": object{"price": "body.price", "time": "body.time"}},
		},
		use("id", "RANDOM_UUID"),
	}, []string{"id next call"})).ID
}

func update(t *probe.Trial, workflowID, componentID string, body any) updatedComponent {
	answer := t.Do(probe.Request{
		Method: http.MethodPost, Path: workflowPath(workflowID) + "/components/" + componentID, Body: t.JSON(body),
		Header: http.Header{"Prefer": {"handling=strict"}},
	})
	t.Equal("Preference-Applied", answer.Header.Get("Preference-Applied"), "handling=strict")
	updated := probe.Decode[updatedComponent](t, answer)
	t.Equal("ETag", strings.Trim(answer.Header.Get("ETag"), `"`), string(t.JSON(updated.WorkflowVersion)))
	return updated
}

func componentMerged(t *probe.Trial) {
	id := calling(t)
	before := decodeWorkflow(t, t.Get(workflowPath(id)))
	got := update(t, id, "call", object{
		"name": "Ask again", "position": []any{-10, 0.25},
		"config": object{"method": "POST", "timeoutMs": nil, "expectStatus": []int{200, 204}, "outputMapping": object{"time": nil, "low": "body.low"}},
	})
	want := updatedComponent{
		ID: "call", Module: "API_CALL", Name: "Ask again", OnFailure: "continue", Retry: persistent(), TimeoutMs: 9000, WorkflowVersion: 2, Position: []float64{-10, 0.25},
		Input: object{"headers": object{}, "query": object{"symbol": "ETH"}},
		Config: object{
			"apiUrl": "https://api.example.org/", "method": "POST", "expectStatus": []int{200, 204}, "outputMapping": object{"price": "body.price", "low": "body.low"},
		},
	}
	same(t, "the component", got, want)
	// The workflow has the change in a new version. The previous version and the other component
	// are unchanged.
	now := decodeWorkflow(t, t.Get(workflowPath(id)))
	t.Equal("version", now.Version, 2)
	same(t, "config", now.Components[0]["config"], want.Config)
	t.Equal("name", now.Components[0]["name"], "Ask again")
	same(t, "position", now.Components[0]["position"], want.Position)
	same(t, "the other component", now.Components[1], before.Components[1])
	same(t, "edges", now.SequenceEdges, before.SequenceEdges)
	same(t, "version 1", decodeWorkflow(t, t.Get(workflowPath(id)+"?version=1")).Components, before.Components)
}

func componentAbsent(t *probe.Trial) {
	id := calling(t)
	first := update(t, id, "call", object{})
	t.Check(first.WorkflowVersion == 1 && first.Name == "Ask", "nothing changed, and it is %+v", first)
	answer := t.Do(probe.Request{Method: http.MethodPost, Path: workflowPath(id) + "/components/call"})
	same(t, "without a body", probe.Decode[updatedComponent](t, answer), first)
	// Each field is updated separately, and leaves the others unchanged.
	for _, body := range []object{{"name": "Renamed"}, {"position": []int{7, 8}}, {"config": object{"method": "PUT"}}} {
		now := update(t, id, "call", body)
		want := first
		want.WorkflowVersion++
		switch {
		case body["name"] != nil:
			want.Name = "Renamed"
		case body["position"] != nil:
			want.Position = []float64{7, 8}
		default:
			want.Config["method"] = "PUT"
		}
		same(t, "after "+string(t.JSON(body)), now, want)
		first = now
	}
}

func componentUnknown(t *probe.Trial) {
	id := calling(t)
	body := object{
		"name": "known", "workspaceId": "0193f1c0-0000-7000-8000-000000000001", "cost": 0, "module": "RANDOM_UUID", "id": "other", "input": object{"query": object{}},
		"attempts": 1, "onFailure": "fail", "timeoutMs": 1, "NAME": "unknown", "Config": object{"method": "DELETE"},
	}
	path := workflowPath(id) + "/components/call"
	got := probe.Decode[updatedComponent](t, t.Post(path, body))
	t.Check(got.ID == "call" && got.Module == "API_CALL" && got.Name == "known" && len(got.Retry) == 6 && got.TimeoutMs == 9000 && got.OnFailure == "continue", "%+v", got)
	same(t, "input", got.Input["query"], object{"symbol": "ETH"})
	t.Equal("method", got.Config["method"], "GET")
	answer := t.Do(probe.Request{Method: http.MethodPost, Path: path, Body: t.JSON(body), Header: http.Header{"Prefer": {"handling=strict"}}})
	p := t.Problem(answer, http.StatusBadRequest, "INVALID_INPUT")
	t.Equal("pointers", probe.Pointers(p), []string{
		"/Config", "/NAME", "/attempts", "/cost", "/id", "/input", "/module", "/onFailure", "/timeoutMs", "/workspaceId",
	})
	t.Equal("version", decodeWorkflow(t, t.Get(workflowPath(id))).Version, 2)
}

func componentRefused(t *probe.Trial) {
	id := calling(t)
	path := workflowPath(id) + "/components/call"
	for pointer, body := range map[string]object{
		"/config": {"config": []int{}}, "/config ": {"config": nil}, "/name": {"name": 7}, "/name ": {"name": strings.Repeat("n", 201)},
		"/position": {"position": []int{1}}, "/position ": {"position": object{}}, "/position/1": {"position": []any{1, "2"}}, "/position/0": {"position": []any{1e300, 2}},
	} {
		p := t.Problem(t.Post(path, body), http.StatusBadRequest, "INVALID_INPUT")
		t.Equal("pointers", probe.Pointers(p), []string{strings.TrimSpace(pointer)})
	}
	p := t.Problem(t.Post(path, object{"config": object{"method": "FETCH", "timeoutMs": -1, "apiUrl": nil}}), http.StatusUnprocessableEntity, "INVALID_INPUT")
	t.Equal("pointers", probe.Pointers(p), []string{"/config/apiUrl", "/config/method", "/config/timeoutMs"})
	for _, unknown := range []string{"nobody", "CALL", "a.b", strings.Repeat("a", 65)} {
		answer := t.Post(workflowPath(id)+"/components/"+unknown, object{"name": "x"})
		t.Check(strings.Contains(t.Problem(answer, http.StatusNotFound, "NOT_FOUND").Detail, "no component"), "%s: %s", unknown, answer.Body)
	}
	changed := func(tag string) probe.Answer {
		return t.Do(probe.Request{Method: http.MethodPost, Path: path, Body: []byte(`{"name":"x"}`), Header: http.Header{"If-Match": {tag}}})
	}
	t.Problem(changed(`"2"`), http.StatusPreconditionFailed, "PRECONDITION_FAILED")
	t.Problem(changed(`1`), http.StatusPreconditionFailed, "PRECONDITION_FAILED")
	t.Equal("version", probe.Decode[updatedComponent](t, changed(`"1"`)).WorkflowVersion, 2)
	t.Problem(changed(`"1"`), http.StatusPreconditionFailed, "PRECONDITION_FAILED")
}

func componentsAtOnce(t *probe.Trial) {
	id := calling(t)
	mapping := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	t.Parallel(len(mapping), func(i int) {
		update(t, id, "call", object{"config": object{"outputMapping": object{mapping[i]: "body." + mapping[i]}}})
	})
	now := decodeWorkflow(t, t.Get(workflowPath(id)))
	t.Equal("version", now.Version, 1+len(mapping))
	config := now.Components[0]["config"].(object)["outputMapping"].(object)
	t.Equal("members", len(config), 2+len(mapping))
}
