package conformance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/gen/api"
)

var runControlCases = []Case{
	{Part: "D8.9, D8.9.graceful, 2.5.cancel", Name: "runs/200 a graceful cancel lets finish what runs", Run: cancelGraceful, Needs: near},
	{Part: "D8.9.immediate, D8.9.outcome", Name: "runs/200 an immediate cancel stops what runs", Run: cancelImmediate, Needs: near},
	{Part: "D8.1.late", Name: "runs/200 what a run waits for ends by its timeoutMs", Run: lateStages},
	{Part: "D8.7.stages", Name: "runs/200 a stage that was cut off has an unknown outcome", Run: runCutOff, Needs: near},
	{Part: "D8.9.idempotent", Name: "runs/200, 400 a cancel again, of what is over, and in other forms", Run: cancelAgain},
	{Part: "D8.9.nothing", Name: "runs/200 nothing starts after a cancel", Run: cancelLoop},
	{Part: "D8.13, D8.13.early, D8.13.twice", Name: "runs/200 signals early, late and twice", Run: signals},
	{Part: "D8.13.over", Name: "runs/400, 404, 409 signals that are refused", Run: signalsRefused},
	{Part: "D8.10, D8.10.charged", Name: "runs/200 a rerun takes over what is complete", Run: rerun, Needs: []probe.Need{probe.NeedNear, probe.NeedOwner}},
	{Part: "D8.10.items, D8.10.effects", Name: "runs/200 a rerun takes over finished items, and repeats effects under their keys", Run: rerunItems, Needs: near},
	{Part: "D8.10.refused", Name: "runs/400, 404, 409 reruns that are refused", Run: rerunRefused},
	{Part: "2.3.id, D8.7.child, C.RUN_WORKFLOW", Name: "runs/200 a run in a run, canceled with it", Run: runInRun},
}

func signal(t *probe.Trial, id, name string, payload any) api.RunSignal {
	return probe.Decode[api.RunSignal](t, sendSignal(t, id, name, payload))
}

// stored returns what the run stored of a signal: waitingFor describes the run at each request.
func stored(signal api.RunSignal) api.RunSignal {
	signal.WaitingFor = nil
	return signal
}

func sendSignal(t *probe.Trial, id, name string, payload any) probe.Answer {
	request := probe.Request{Method: http.MethodPut, Path: runPath(id) + "/signals/" + name}
	if payload != nil {
		request.Body = t.JSON(payload)
	}
	return t.Do(request)
}

func cancel(t *probe.Trial, id string, body any) api.WorkflowRun {
	request := probe.Request{Method: http.MethodPut, Path: runPath(id) + "/cancellation"}
	if body != nil {
		request.Body = t.JSON(body)
	}
	return probe.Decode[api.WorkflowRun](t, t.Do(request))
}

// busy creates a workflow with a running stage, a delay and a wait for a signal, each followed
// by another component.
func busy(t *probe.Trial, url string) string {
	return draw(t, []object{
		doing("call", url), set("delay", "DELAY", object{"durationMs": 60_000}), set("wait", "WAIT_FOR_SIGNAL", object{"name": "go", "timeoutMs": 60_000}),
		use("later", "RANDOM_UUID"), use("after", "RANDOM_UUID"),
	}, []string{"start next call", "start next delay", "start next wait", "call next after", "delay next later", "wait next later"})
}

func cancelGraceful(t *probe.Trial) {
	url, letGo, asked := held(t)
	id := begin(t, busy(t, url), nil)
	t.Until("the upstream is asked", 20*time.Second, asked)
	stream := openRun(t, id, nil)
	stream.next()
	answer := cancel(t, id, object{"reason": "The order was withdrawn."})
	t.Check(answer.Status == "EXECUTING" && answer.CancelRequestedAt != nil && *answer.CancelReason == "The order was withdrawn.", "%s", t.JSON(answer))
	event := stream.until("an event with the cancellation", func(e runEvent) bool { return e.out.CancelRequestedAt != nil })
	t.Check(event.Status == "EXECUTING" && *event.out.CancelRequestedAt == *answer.CancelRequestedAt && *event.out.CancelReason == *answer.CancelReason, "%s", event.Data)
	under := eventually(t, id, "left by what waits", func(run api.WorkflowRun) bool { return run.PendingStageCount == 1 })
	t.Equal("became", became(under), "call RUNNING, delay CANCELED, start COMPLETED, wait CANCELED")
	letGo()
	run := finished(t, id, "CANCELED")
	t.Equal("became", became(run), "call COMPLETED, delay CANCELED, start COMPLETED, wait CANCELED") // nothing new
	t.Check(run.TotalUsage > 0 && run.TotalUsage == stageOf(t, run, "call").CreditUsage, "totalUsage %s", run.TotalUsage)
	t.Check(isNull(run.Error) && run.FailedStageCount == 0 && run.FinishedAt != nil, "%s", t.JSON(run))
	events := stream.rest()
	t.Equal("the last event", string(events[len(events)-1].Status), "CANCELED")
	same(t, "again", cancel(t, id, object{"reason": "another", "mode": "immediate"}), run)
}

func cancelImmediate(t *probe.Trial) {
	url, _, asked := held(t)
	id := begin(t, busy(t, url), nil)
	t.Until("the upstream is asked", 20*time.Second, asked)
	began := time.Now()
	cancel(t, id, object{"mode": "immediate"})
	run := finished(t, id, "CANCELED")
	t.Soon(time.Since(began), 10*time.Second, "an immediate cancel took %v", time.Since(began))
	t.Equal("became", became(run), "call CANCELED, delay CANCELED, start COMPLETED, wait CANCELED")
	t.Check(run.CancelReason == nil && run.TotalUsage == 0, "%s", t.JSON(run))
	stopped := t.Record(stageOf(t, run, "call").ExecutionEventID.String())
	t.Equal("the execution", string(stopped.Status)+" "+executionError(t, stopped.Error).Code, "FAILED CANCELED")
	outcome := executionError(t, stopped.Error).Outcome
	t.Check(outcome != nil && *outcome == "unknown", "what was cut off after it was sent says that its outcome is %s", t.JSON(outcome))
	t.Check(stopped.TotalUsage == 0, "it was charged %s", stopped.TotalUsage)

	url, _, asked = held(t) // at first graceful
	id = begin(t, busy(t, url), nil)
	t.Until("the upstream is asked", 20*time.Second, asked)
	first := cancel(t, id, object{"reason": "first", "mode": "graceful"})
	second := cancel(t, id, object{"reason": "second", "mode": "immediate"})
	t.Check(*second.CancelReason == "first" && *second.CancelRequestedAt == *first.CancelRequestedAt, "%s", t.JSON(second))
	t.Equal("became", became(finished(t, id, "CANCELED")), "call CANCELED, delay CANCELED, start COMPLETED, wait CANCELED")
}

// lateStages lets every kind of wait exceed its timeoutMs. Each has a component after its error port.
func lateStages(t *probe.Trial) {
	waits := set("wait", "WAIT_FOR_SIGNAL", object{"name": "never", "timeoutMs": 60_000})
	child := create(t, sketch([]object{waits}, nil)).ID
	loop := having(set("loop", "FOR_EACH", object{"onItemFailure": "continue"}), "input", object{"items": []int{1, 2}})
	components, edges := []object{set("body", "DELAY", object{"durationMs": 60_000})}, []string{"loop each body"}
	for _, one := range []object{set("delay", "DELAY", object{"durationMs": 60_000}), waits, loop, set("run", "RUN_WORKFLOW", object{"workflowId": child})} {
		id := one["id"].(string)
		components = append(components, having(one, "timeoutMs", 100), use("after-"+id, "RANDOM_UUID"))
		edges = append(edges, "start next "+id, id+" error after-"+id)
	}
	run := ran(t, draw(t, components, edges), "COMPLETED", nil)
	for _, id := range []string{"delay", "wait", "loop", "run"} {
		stage := stageOf(t, run, id)
		t.Equal(id, string(stage.Status)+" "+executionError(t, stage.Error).Code, "FAILED TIMEOUT")
		t.Equal("after "+id, string(stageOf(t, run, "after-"+id).Status), "COMPLETED")
	}
}

// runCutOff runs a stage that times out, and checks the stage in every response that contains it.
func runCutOff(t *probe.Trial) {
	url, _, _ := held(t)
	call := doing("call", url)
	call["config"] = object{"apiUrl": url, "method": "POST", "timeoutMs": 100}
	done := trigger(t, draw(t, []object{call}, []string{"start next call"}), object{"waitForMs": 15_000})
	t.Check(done.Run != nil && done.Run.Status == "FAILED", "%s", t.JSON(done))
	id := done.RunID.String()
	shown := map[string]api.RunStage{"trigger": stageOf(t, *done.Run, "call"), "get": stageOf(t, record(t, id), "call"), "cancel": stageOf(t, cancel(t, id, nil), "call")}
	page := probe.Decode[api.RunStagePage](t, t.Get(runPath(id)+"/stages"))
	at := slices.IndexFunc(page.Data, func(stage api.RunStage) bool { return stage.ComponentID == "call" })
	t.Check(at >= 0, "the stage is not listed: %s", t.JSON(page))
	shown["list"] = page.Data[at]
	for where, stage := range shown {
		fault := executionError(t, stage.Error)
		t.Check(fault.Code == "TIMEOUT" && fault.Outcome != nil && *fault.Outcome == "unknown", "%s: %s", where, t.JSON(stage))
	}
}

func cancelAgain(t *probe.Trial) {
	id := begin(t, draw(t, []object{set("wait", "WAIT_FOR_SIGNAL", object{"name": "go", "timeoutMs": 60_000})}, []string{"start next wait"}), nil)
	for body, pointer := range map[string]string{`{"reason":7}`: "/reason", `{"mode":"now"}`: "/mode", `{"reason":"` + strings.Repeat("x", 1001) + `"}`: "/reason"} {
		answer := t.Do(probe.Request{Method: http.MethodPut, Path: runPath(id) + "/cancellation", Body: []byte(body)})
		t.Equal("pointers", probe.Pointers(t.Problem(answer, http.StatusBadRequest, "INVALID_INPUT")), []string{pointer})
	}
	t.Check(record(t, id).CancelRequestedAt == nil, "canceled by a request that was refused")
	strict := probe.Request{Method: http.MethodPut, Path: runPath(id) + "/cancellation", Body: []byte(`{"why":"x"}`), Header: http.Header{"Prefer": {"handling=strict"}}}
	t.Problem(t.Do(strict), http.StatusBadRequest, "INVALID_INPUT")
	strict.Body = []byte(`{}`)
	answer := t.Do(strict)
	t.Equal("Preference-Applied", answer.Header.Get("Preference-Applied"), "handling=strict")
	first := probe.Decode[api.WorkflowRun](t, answer)
	run := finished(t, id, "CANCELED")
	t.Check(*run.CancelRequestedAt == *first.CancelRequestedAt && run.CancelReason == nil, "%s", t.JSON(run))
	t.Parallel(4, func(int) { same(t, "again", cancel(t, id, object{"reason": "x"}), run) })
	// Canceling a failed run does not change it.
	failed := ran(t, draw(t, []object{use("loop", "FOR_EACH"), use("bad", "FAIL")}, []string{"start next loop", "loop each bad"}, "start.items loop.items"), "FAILED", object{"items": []int{1}})
	same(t, "of one that failed", cancel(t, failed.ID.String(), nil), failed)
}

// cancelLoop cancels a loop in progress. No item may start after the cancellation.
func cancelLoop(t *probe.Trial) {
	id := begin(t, draw(t, []object{set("loop", "FOR_EACH", object{"concurrency": 2}), set("pause", "DELAY", object{"durationMs": 50}), use("after", "RANDOM_UUID")},
		[]string{"start next loop", "loop each pause", "pause next after"}, "start.items loop.items"), object{"items": make([]int, 500)})
	eventually(t, id, "in its loop", func(run api.WorkflowRun) bool { return len(run.RunStages) > 5 })
	asked := cancel(t, id, nil)
	run := finished(t, id, "CANCELED")
	t.Check(len(run.RunStages) < 1000, "all of it ran: %d stages", len(run.RunStages))
	for _, stage := range run.RunStages {
		t.Check(stage.StartedAt == nil || stage.StartedAt.Std().Sub(asked.CancelRequestedAt.Std()) < t.Limit(time.Second),
			"stage %s began %s, after the cancel of %s", stage.ID, stage.StartedAt, asked.CancelRequestedAt)
		t.Check(stage.Status == "COMPLETED" || stage.Status == "CANCELED", "%s", stage.Status)
	}
	t.Equal("the loop", string(stageOf(t, run, "loop").Status), "CANCELED")
}

func signals(t *probe.Trial) {
	id := draw(t, []object{
		set("wait", "WAIT_FOR_SIGNAL", object{"name": "first", "timeoutMs": 60_000}), set("again", "WAIT_FOR_SIGNAL", object{"name": "second.x~1", "timeoutMs": 60_000}), use("answer", "RESPOND"),
	}, []string{"start next wait", "wait next again", "again next answer"}, "wait.payload answer.first", "again.payload answer.second")
	run := begin(t, id, nil)
	early := signal(t, run, "second.x~1", object{"n": 1}) // before a component waits for the signal
	t.Check(early.RunID.String() == run && early.Signal == "second.x~1" && !early.ReceivedAt.Std().IsZero(), "%+v", early)
	same(t, "payload", early.Payload, object{"n": 1})
	same(t, "a second one", stored(signal(t, run, "second.x~1", object{"n": 2})), stored(early)) // the first counts
	eventually(t, run, "waiting", func(run api.WorkflowRun) bool { return len(stagesOf(run, "wait")) == 1 })
	t.Equal("status", string(stageOf(t, record(t, run), "wait").Status), "RUNNING")
	t.Check(len(stagesOf(record(t, run), "again")) == 0, "the run continued without a signal")
	same(t, "waitingFor of a signal that nothing waits for", signal(t, run, "unheard", object{"nobody": "waits"}).WaitingFor, []string{"first"})
	began := time.Now()
	awaited := signal(t, run, "first", nil)
	same(t, "payload of an empty body", awaited.Payload, object{})
	same(t, "waitingFor of the signal that the run waits for", awaited.WaitingFor, []string{"first"})
	end := finished(t, run, "COMPLETED")
	t.Soon(time.Since(began), 5*time.Second, "it went on after %v", time.Since(began))
	t.Equal("output", string(end.Output), `{"first":{},"second":{"n":1}}`)
	// Two components that wait for the same signal both continue.
	id = draw(t, []object{set("a", "WAIT_FOR_SIGNAL", object{"name": "go", "timeoutMs": 60_000}), set("b", "WAIT_FOR_SIGNAL", object{"name": "go", "timeoutMs": 60_000})}, []string{"start next a", "start next b"})
	run = begin(t, id, nil)
	t.Parallel(3, func(n int) { signal(t, run, "go", object{"n": n}) })
	end = finished(t, run, "COMPLETED")
	t.Equal("what both got", string(stageOf(t, end, "a").Output), string(stageOf(t, end, "b").Output))
}

func signalsRefused(t *probe.Trial) {
	over := ran(t, draw(t, nil, nil), "COMPLETED", nil).ID.String()
	p := t.Problem(sendSignal(t, over, "go", nil), http.StatusConflict, "CONFLICT")
	t.Equal("reason", probe.Reason(p), "run_finished")
	t.Problem(sendSignal(t, "0193f1c0-0000-7000-8000-000000000006", "go", nil), http.StatusNotFound, "NOT_FOUND")
	id := begin(t, draw(t, []object{set("wait", "WAIT_FOR_SIGNAL", object{"name": "go", "timeoutMs": 60_000})}, []string{"start next wait"}), nil)
	for _, body := range []any{[]int{1}, "x", 7} {
		t.Problem(sendSignal(t, id, "go", body), http.StatusBadRequest, "INVALID_INPUT")
	}
	given := signal(t, id, "go", object{"n": 1})
	finished(t, id, "COMPLETED")
	// A client that lost the response repeats the request after the end of the run.
	again := signal(t, id, "go", object{"n": 2})
	same(t, "the same signal again", stored(again), stored(given))
	same(t, "waitingFor of a finished run", again.WaitingFor, []string{})
	t.Equal("reason", probe.Reason(t.Problem(sendSignal(t, id, "stop", object{"n": 1}), http.StatusConflict, "CONFLICT")), "run_finished")
}

func rerun(t *probe.Trial) {
	upstream := &tally{handler: answering(404, 200)}
	call := doing("call", t.Upstream(upstream.ServeHTTP))
	call["config"].(object)["expectStatus"] = []int{200}
	id := draw(t, []object{
		use("first", "RANDOM_UUID"), use("loop", "FOR_EACH"), use("each", "HASH"), call, use("last", "RANDOM_UUID"), use("answer", "RESPOND"),
	}, []string{"start next first", "first next loop", "loop each each", "loop done call", "call next last", "last next answer"},
		"start.items loop.items", "loop.item each.data", "first.uuid answer.first", "each.digest answer.all", "last.uuid answer.last")
	failed := ran(t, id, "FAILED", object{"items": []string{"a", "b"}})
	t.Equal("became", became(failed), "call FAILED, each COMPLETED, each COMPLETED, first COMPLETED, loop COMPLETED, start COMPLETED")
	again := finished(t, trigger(t, id, object{"rerunOf": object{"runId": failed.ID}}).RunID.String(), "COMPLETED")
	alike(t, "rerunOf", again.RerunOf, object{"runId": failed.ID})
	t.Check(again.ID != failed.ID && string(again.Input) == string(failed.Input) && again.WorkflowVersion == 1, "%s", t.JSON(again))
	t.Equal("became", became(again), "answer COMPLETED, call COMPLETED, each COMPLETED, each COMPLETED, first COMPLETED, last COMPLETED, loop COMPLETED, start COMPLETED")
	t.Equal("requests", len(upstream.asked()), 2)
	var output struct {
		First, Last string
		All         []string
	}
	t.NoError("output", json.Unmarshal(again.Output, &output))
	t.Check(output.First == uuidOf(t, stageOf(t, failed, "first").Output) && output.Last != output.First && len(output.All) == 2, "%s", again.Output)
	for _, taken := range []string{"start", "first", "loop", "each"} {
		for _, stage := range stagesOf(again, taken) {
			t.Check(stage.CreditUsage == 0 && stage.Status == "COMPLETED", "%s is charged again: %s", taken, stage.CreditUsage)
		}
	}
	t.Equal("totalUsage", again.TotalUsage, stageOf(t, again, "call").CreditUsage+stageOf(t, again, "last").CreditUsage)
	token := t.SignIn()
	for _, run := range []api.WorkflowRun{failed, again} {
		t.Equal("the statement", runLine(t, token, run.ID.String()).Usage, run.TotalUsage)
	}
	t.Check(failed.TotalUsage > 0 && again.TotalUsage > 0, "usage %s and %s", failed.TotalUsage, again.TotalUsage)
	// With fromStageId, that stage and everything after it run again.
	from := stageOf(t, again, "loop").ID
	third := finished(t, trigger(t, id, object{"rerunOf": object{"runId": again.ID, "fromStageId": from}}).RunID.String(), "COMPLETED")
	t.Equal("requests", len(upstream.asked()), 3)
	t.Equal("what came before", uuidOf(t, stageOf(t, third, "first").Output), output.First)
	t.Check(stageOf(t, third, "first").CreditUsage == 0 && uuidOf(t, stageOf(t, third, "last").Output) != output.Last, "%s", t.JSON(third))
	t.Check(stagesOf(third, "each")[0].CreditUsage > 0, "a stage that ran again is free")
	alike(t, "rerunOf", third.RerunOf, object{"fromStageId": from, "runId": again.ID})
}

// rerunItems lets the last of three items fail and reruns the run, first from that item and
// then from the first item.
func rerunItems(t *probe.Trial) {
	var mu sync.Mutex
	var sent []string
	keys := func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(sent)
	}
	next := answering(200, 200, 500, 200, 200)
	call := doing("call", t.Upstream(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		sent = append(sent, r.Header.Get("Idempotency-Key"))
		mu.Unlock()
		next(w, r)
	}))
	call["config"].(object)["method"] = "POST"
	loop := set("loop", "FOR_EACH", object{"concurrency": 1})
	id := draw(t, []object{loop, use("each", "HASH"), call}, []string{"start next loop", "loop each each", "each next call"}, "start.items loop.items", "loop.item each.data", "loop.item call.body")
	failed := ran(t, id, "FAILED", object{"items": []string{"a", "b", "c"}})
	rerun := func(origin object) api.WorkflowRun {
		return finished(t, trigger(t, id, object{"rerunOf": origin}).RunID.String(), "COMPLETED")
	}
	again := rerun(object{"runId": failed.ID})
	of := keys()
	t.Check(len(of) == 4 && of[3] == of[2] && of[0] != of[1], "the keys were %v", of)
	t.Equal("totalUsage", again.TotalUsage.String(), priceOf(t, "API_CALL"))
	first := stagesOf(again, "call")[0]
	third := rerun(object{"runId": again.ID, "fromStageId": first.ID})
	of = keys()
	t.Check(len(of) == 5 && of[4] == of[first.Iteration[0]], "item %d was called, the keys were %v", first.Iteration[0], of)
	t.Equal("totalUsage", third.TotalUsage.String(), priceOf(t, "API_CALL"))
	t.Equal("stages", len(third.RunStages), len(again.RunStages))
}

func rerunRefused(t *probe.Trial) {
	id := draw(t, []object{set("wait", "WAIT_FOR_SIGNAL", object{"name": "go", "timeoutMs": 60_000})}, []string{"start next wait"})
	other := draw(t, nil, nil)
	under, over := begin(t, id, nil), ran(t, other, "COMPLETED", nil).ID.String()
	refused := func(workflow string, body object, status int, code string) api.Problem {
		return t.Problem(t.Post(workflowPath(workflow), body), status, code)
	}
	p := refused(id, object{"rerunOf": object{"runId": under}}, http.StatusConflict, "CONFLICT")
	t.Equal("reason", probe.Reason(p), "run_not_finished")
	refused(id, object{"rerunOf": object{"runId": "0193f1c0-0000-7000-8000-000000000006"}}, http.StatusNotFound, "NOT_FOUND")
	for pointer, body := range map[string]object{
		"/rerunOf/runId": {"rerunOf": object{"runId": over}}, // of another workflow
	} {
		t.Equal("pointers", probe.Pointers(refused(id, body, http.StatusBadRequest, "INVALID_INPUT")), []string{pointer})
	}
	for pointer, body := range map[string]object{
		"/rerunOf/fromStageId": {"rerunOf": object{"runId": over, "fromStageId": "0193f1c0-0000-7000-8000-000000000006"}},
		"/input":               {"rerunOf": object{"runId": over}, "input": object{}},
		"/version":             {"rerunOf": object{"runId": over}, "version": 2},
	} {
		t.Equal("pointers", probe.Pointers(refused(other, body, http.StatusBadRequest, "INVALID_INPUT")), []string{pointer})
	}
	cancel(t, under, nil)
}

// runInRun lets a run start a child run, and finishes or cancels both.
func runInRun(t *probe.Trial) {
	child := draw(t, []object{set("wait", "WAIT_FOR_SIGNAL", object{"name": "go", "timeoutMs": 60_000}), use("id", "RANDOM_UUID"), use("answer", "RESPOND")},
		[]string{"start next wait", "wait next id", "id next answer"}, "start.a answer.a")
	parent := draw(t, []object{set("child", "RUN_WORKFLOW", object{"workflowId": child}), use("answer", "RESPOND")}, []string{"start next child", "child next answer"},
		"start.a child.a", "child.a answer.got")
	start := func() (string, api.WorkflowRun) {
		id := begin(t, parent, object{"a": 7})
		var list []api.WorkflowRun
		t.Until("the child run has started", 20*time.Second, func() bool {
			list = probe.Decode[api.WorkflowRunPage](t, t.Get(runs+"?limit=1&workflowId="+child)).Data
			return len(list) == 1 && list[0].ParentRunID != nil && list[0].ParentRunID.String() == id
		})
		return id, list[0]
	}
	id, inner := start()
	t.Check(inner.Trigger == "RUN" && string(inner.Input) == `{"a":7}`, "%s", t.JSON(inner))
	signal(t, inner.ID.String(), "go", nil)
	run := finished(t, id, "COMPLETED")
	t.Equal("output", string(run.Output), `{"got":7}`)
	below := finished(t, inner.ID.String(), "COMPLETED")
	t.Check(run.ParentRunID == nil && run.TotalUsage == 0 && below.TotalUsage > 0, "a child run is charged separately: %s", run.TotalUsage)
	t.Equal("totalUsageWithChildren", run.TotalUsageWithChildren, below.TotalUsage)
	t.Equal("totalUsageWithChildren of the child", below.TotalUsageWithChildren, below.TotalUsage)
	childRun := stageOf(t, run, "child").ChildRunID
	t.Check(childRun != nil && *childRun == below.ID && stageOf(t, run, "answer").ChildRunID == nil, "childRunId is %v, want %s", childRun, below.ID)
	id, inner = start()
	cancel(t, id, object{"reason": "both"})
	finished(t, inner.ID.String(), "CANCELED")
	t.Equal("became", became(finished(t, id, "CANCELED")), "child CANCELED, start COMPLETED")
	t.Equal("pending", fmt.Sprint(record(t, id).PendingStageCount), "0")
	id, inner = start() // a child that somebody else cancels is a failure to its parent
	cancel(t, inner.ID.String(), nil)
	run = finished(t, id, "FAILED")
	t.Equal("became", became(run), "child FAILED, start COMPLETED")
	t.Equal("error.code", runError(t, run.Error).Code, "CANCELED")
}
