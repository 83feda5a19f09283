package conformance

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/gen/api"
)

func runTriggers(t *probe.Trial) {
	id := draw(t, []object{use("answer", "RESPOND")}, []string{"start next answer"}, "start.input answer.given")
	empty := probe.Decode[api.TriggerResult](t, t.Do(probe.Request{Method: http.MethodPost, Path: workflowPath(id)}))
	_, err := strconv.ParseUint(empty.JobID, 10, 64)
	t.Check(uuid7.MatchString(empty.RunID.String()) && err == nil, "%+v", empty)
	t.Check(empty.Run == nil, "a record without waitForMs")
	run := finished(t, empty.RunID.String(), "COMPLETED")
	t.Equal("input", string(run.Input), "{}")
	t.Equal("output", string(run.Output), `{"given":{}}`)
	t.Check(isNull(run.Metadata) && run.WorkflowID.String() == id, "%s", t.JSON(run))
	for body, output := range map[string]string{
		`{}`: `{"given":{}}`, `{"input":{"a":[1,{"b":"\u00e9"}]},"metadata":{}}`: `{"given":{"a":[1,{"b":"\u00e9"}]}}`,
		`{"unknown":1,"input":{"n":12345678901234567890}}`: `{"given":{"n":12345678901234567890}}`,
	} {
		answer := t.Do(probe.Request{Method: http.MethodPost, Path: workflowPath(id), Body: []byte(body)})
		run := finished(t, probe.Decode[api.TriggerResult](t, answer).RunID.String(), "COMPLETED")
		t.Equal("the output for "+body, string(run.Output), output)
	}
	strict := t.Do(probe.Request{
		Method: http.MethodPost, Path: workflowPath(id), Header: http.Header{"Prefer": {"handling=strict"}},
		Body: t.JSON(object{"waitForMs": 15_000, "maxCredits": 0, "version": 1, "metadata": object{"a": nil}, "input": object{"x": 1}}),
	})
	t.Equal("Preference-Applied", strict.Header.Get("Preference-Applied"), "handling=strict")
	waited := probe.Decode[api.TriggerResult](t, strict)
	t.Check(waited.Run != nil && waited.Run.ID == waited.RunID && waited.Run.Status == "COMPLETED", "after the wait: %s", strict.Body)
	same(t, "metadata", waited.Run.Metadata, object{"a": nil})
	same(t, "the run", waited.Run, record(t, waited.RunID.String()))
}

func runTriggersRefused(t *probe.Trial) {
	body := sketch([]object{use("start", "ON_API_CALLED")}, nil)
	body["inputSchema"] = object{"type": "object", "required": []string{"amount"}, "properties": object{"amount": object{"type": "string"}, "n": object{"type": "integer"}}}
	id := create(t, body).ID
	begin := func(body string) probe.Answer {
		return t.Do(probe.Request{Method: http.MethodPost, Path: workflowPath(id), Body: []byte(body)})
	}
	for given, pointers := range map[string][]string{
		`{}`: {"/input/amount"}, `{"input":{"amount":7,"n":"x"}}`: {"/input/amount", "/input/n"},
	} {
		p := t.Problem(begin(given), http.StatusUnprocessableEntity, "INVALID_INPUT")
		got := probe.Pointers(p)
		slices.Sort(got)
		t.Equal("pointers of "+given, got, pointers)
	}
	for given, pointer := range map[string]string{
		`{"input":[]}`: "/input", `{"input":7}`: "/input", `{"metadata":"x"}`: "/metadata", `{"waitForMs":15001}`: "/waitForMs", `{"waitForMs":-1}`: "/waitForMs",
		`{"maxCredits":-1}`: "/maxCredits", `{"maxCredits":0.0000001}`: "/maxCredits", `{"version":0}`: "/version", `{"rerunOf":{}}`: "/rerunOf/runId",
		`{"rerunOf":{"runId":"x"}}`: "/rerunOf/runId",
	} {
		p := t.Problem(begin(given), http.StatusBadRequest, "INVALID_INPUT")
		t.Equal("pointers of "+given, slices.Compact(probe.Pointers(p)), []string{pointer})
	}
	t.Problem(begin(`{"input":{"amount":"1"},"version":2}`), http.StatusNotFound, "NOT_FOUND")
	strict := probe.Request{Method: http.MethodPost, Path: workflowPath(id), Body: []byte(`{"inputs":{}}`), Header: http.Header{"Prefer": {"handling=strict"}}}
	t.Equal("pointers", probe.Pointers(t.Problem(t.Do(strict), http.StatusBadRequest, "INVALID_INPUT")), []string{"/inputs"})
	t.Equal("runs", len(probe.Decode[api.WorkflowRunPage](t, t.Get(runs+"?workflowId="+id)).Data), 0)
}

func runResponds(t *probe.Trial) {
	url, letGo, _ := held(t)
	id := draw(t, []object{use("answer", "RESPOND"), doing("call", url), use("last", "RESPOND")}, []string{"start next answer", "answer next call", "call next last"},
		"start.a answer.a", "call.status last.status")
	answer := t.Post(workflowPath(id), object{"input": object{"a": "b"}, "waitForMs": 15_000})
	got := probe.Decode[api.TriggerResult](t, answer)
	t.Check(answer.Took < t.Limit(10*time.Second) && !got.Run.Status.Terminal(), "%s after %v", got.Run.Status, answer.Took)
	t.Equal("output", string(got.Run.Output), `{"a":"b"}`)
	letGo()
	t.Equal("the last output", string(finished(t, got.RunID.String(), "COMPLETED").Output), `{"status":200}`)
}

func runConflicts(t *probe.Trial) {
	url, letGo, asked := held(t)
	components, edges := []object{doing("call", url), use("after", "RANDOM_UUID")}, []string{"start next call", "call next after"}
	id := draw(t, components, edges)
	under := begin(t, id, nil)
	t.Until("the upstream is asked", 20*time.Second, asked)
	body := sketch(append([]object{use("start", "ON_API_CALLED")}, components...), edges)
	body["status"] = "PAUSED"
	decodeWorkflow(t, put(t, id, body, ""))
	refused := func(reason string) {
		p := t.Problem(t.Post(workflowPath(id), object{"waitForMs": 1000}), http.StatusConflict, "CONFLICT")
		t.Equal("reason", probe.Reason(p), reason)
		t.Check(!p.Retryable, "retryable")
	}
	refused("workflow_paused")
	decodeWorkflow(t, t.Do(probe.Request{Method: http.MethodDelete, Path: workflowPath(id)}))
	refused("workflow_archived")
	letGo()
	run := finished(t, under, "COMPLETED") // what is under way goes on
	t.Equal("became", became(run), "after COMPLETED, call COMPLETED, start COMPLETED")
	body["status"] = "ACTIVE"
	decodeWorkflow(t, put(t, id, body, ""))
	ran(t, id, "COMPLETED", nil)
}

func runKeepsVersion(t *probe.Trial) {
	id := draw(t, []object{
		set("wait", "WAIT_FOR_SIGNAL", object{"name": "go", "timeoutMs": 60_000}), set("value", "TRANSFORM", object{"expression": "1"}), use("answer", "RESPOND"),
	}, []string{"start next wait", "wait next value", "value next answer"}, "value.result answer.value")
	first := begin(t, id, nil)
	eventually(t, first, "waiting", func(run api.WorkflowRun) bool { return len(stagesOf(run, "wait")) == 1 })
	update(t, id, "value", object{"config": object{"expression": "2"}})
	signal(t, first, "go", nil)
	second := begin(t, id, nil)
	signal(t, second, "go", nil)
	third := trigger(t, id, object{"version": 1}).RunID.String()
	signal(t, third, "go", nil)
	for run, want := range map[string]string{first: `1 {"value":1}`, second: `2 {"value":2}`, third: `1 {"value":1}`} {
		run := finished(t, run, "COMPLETED")
		t.Equal("version and output", fmt.Sprintf("%d %s", run.WorkflowVersion, run.Output), want)
	}
}

func runRepeated(t *probe.Trial) {
	url, letGo, asked := held(t)
	id := draw(t, []object{doing("call", url)}, []string{"start next call"})
	key := unique()
	send := func(path string, body any) probe.Answer {
		return t.Do(probe.Request{Method: http.MethodPost, Path: path, Body: t.JSON(body), Header: http.Header{"Idempotency-Key": {key}}})
	}
	// A rejected trigger stores nothing.
	t.Problem(send(workflowPath(id), object{"version": 7}), http.StatusNotFound, "NOT_FOUND")
	t.Problem(send(workflowPath(id), object{"maxCredits": 0}), http.StatusPaymentRequired, "INSUFFICIENT_CREDITS")
	var mu sync.Mutex
	made := map[string]int{}
	t.Parallel(8, func(int) {
		answer := send(workflowPath(id), object{"input": object{"a": 1}})
		if answer.Status == http.StatusConflict {
			t.Problem(answer, http.StatusConflict, "IDEMPOTENCY_IN_FLIGHT")
			t.Equal("Retry-After", answer.Header.Get("Retry-After"), "1")
			return
		}
		run := probe.Decode[api.TriggerResult](t, answer).RunID.String()
		mu.Lock()
		defer mu.Unlock()
		made[run]++
	})
	t.Equal("runs", len(made), 1)
	t.Until("the upstream is asked", 20*time.Second, asked)
	again := func(body any) api.TriggerResult {
		answer := send(workflowPath(id), body)
		t.Equal("Idempotent-Replayed of a repeat", answer.Header.Get("Idempotent-Replayed"), "true")
		got := probe.Decode[api.TriggerResult](t, answer)
		t.Check(made[got.RunID.String()] > 0 && got.Run == nil, "the repeat is %s", answer.Body)
		return got
	}
	first := again(object{"input": object{"a": 1}})
	for _, body := range []object{{"input": object{"a": 2}}, {}, {"input": 7}} {
		t.Problem(send(workflowPath(id), body), http.StatusConflict, "IDEMPOTENCY_MISMATCH")
	}
	letGo()
	t.Equal("jobId", again(object{"input": object{"a": 1}}).JobID, first.JobID)
	finished(t, first.RunID.String(), "COMPLETED")
	other := draw(t, nil, nil) // the scope is the path too
	key2 := send(workflowPath(other), object{"input": object{"a": 1}, "waitForMs": 15_000})
	t.Equal("Idempotent-Replayed on another workflow", key2.Header.Get("Idempotent-Replayed"), "")
	waited := probe.Decode[api.TriggerResult](t, send(workflowPath(other), object{"input": object{"a": 1}, "waitForMs": 15_000}))
	t.Check(waited.Run != nil && waited.Run.Status == "COMPLETED" && waited.RunID != first.RunID, "a repeat that waits: %s", t.JSON(waited))
	t.Equal("runs of the workflow", len(probe.Decode[api.WorkflowRunPage](t, t.Get(runs+"?workflowId="+id)).Data), 1)
}
