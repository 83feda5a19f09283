package conformance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/gen/api"
)

var runModuleCases = []Case{
	{Part: "C.ON_API_CALLED", Name: "runs/200, 422 ON_API_CALLED judges the input and gives it", Run: moduleAPICalled},
	{Part: "C.constants, C.ARRAY_BUILDER, C.TRANSFORM, C.LOGIC", Name: "runs/200 constants, arrays and transforms", Run: moduleValues},
	{Part: "C.DELAY, C.WAIT_UNTIL, C.WAIT_FOR_SIGNAL", Name: "runs/200 what waits gives when it goes on", Run: moduleWaits},
	{Part: "C.RUN_WORKFLOW, D7.5.quote", Name: "runs/200 RUN_WORKFLOW of a version, and of what fails", Run: moduleRunWorkflow},
	{Part: "D8.1.attempts, 2.4.executionAttempt", Name: "runs/200 attempts and timeouts of stages", Run: stageAttempts, Needs: near},
	{Part: "D8.8.answer, D8.8.window", Name: "runs/200 a wait that is over before the run", Run: runWindow, Needs: near},
	{Part: "3.2.close, 6.1.close", Name: "SS01 runs/a stream of what is CANCELED already", Run: runStreamCanceled},
	{Part: "4.6, 4.7, D8.5.items, D8.7.paging, D8.11.log", Name: "AB11 runs/200 a run of 10,000 items", Run: runOfManyItems},
}

func moduleAPICalled(t *probe.Trial) {
	start := set("start", "ON_API_CALLED", object{"inputSchema": object{
		"type": "object", "required": []string{"amount"}, "properties": object{"amount": object{"type": "string"}, "n": object{"type": "integer"}},
	}})
	body := sketch([]object{start, use("answer", "RESPOND")}, []string{"start next answer"}, "start.amount answer.amount", "start.input answer.whole", "start.triggeredAt answer.at")
	id := create(t, body).ID
	run := ran(t, id, "COMPLETED", object{"amount": "7", "more": []int{1}})
	alike(t, "output", run.Output, object{"amount": "7", "whole": object{"amount": "7", "more": []int{1}}, "at": run.CreatedAt})
	refused := func(given object, pointers ...string) {
		p := t.Problem(t.Post(workflowPath(id), given), http.StatusUnprocessableEntity, "INVALID_INPUT")
		got := probe.Pointers(p)
		slices.Sort(got)
		t.Equal("pointers of "+string(t.JSON(given)), slices.Compact(got), pointers)
	}
	refused(object{}, "/input/amount")
	refused(object{"input": object{"amount": 7, "n": "x"}}, "/input/amount", "/input/n")
	// If the workflow has an inputSchema too, both apply.
	body["inputSchema"] = object{"type": "object", "required": []string{"amount", "order"}}
	decodeWorkflow(t, put(t, id, body, ""))
	refused(object{}, "/input/amount", "/input/order")
	refused(object{"input": object{"amount": 7, "order": 1}}, "/input/amount")
	t.Equal("runs", len(probe.Decode[api.WorkflowRunPage](t, t.Get(runs+"?workflowId="+id)).Data), 1)
	// Both apply to child runs too.
	parent := draw(t, []object{set("child", "RUN_WORKFLOW", object{"workflowId": id})}, []string{"start next child"}, "start.amount child.amount", "start.order child.order")
	ran(t, parent, "COMPLETED", object{"amount": "7", "order": 1})
	fault := runError(t, ran(t, parent, "FAILED", object{"amount": 7, "order": 1}).Error)
	t.Check(fault.Code == "INVALID_INPUT" && string(*fault.ComponentID) == "child", "%+v", fault)
}

func moduleValues(t *probe.Trial) {
	id := draw(t, []object{
		set("text", "STRING_CONSTANT", object{"value": "é"}), set("number", "NUMBER_CONSTANT", object{"value": json.Number("12345678901234567890")}),
		set("flag", "BOOLEAN_CONSTANT", object{"value": false}), set("json", "JSON_CONSTANT", object{"value": object{"a": nil, "b": []int{1, 2}}}),
		use("array", "ARRAY_BUILDER"), use("answer", "RESPOND"),
	}, []string{"start next array", "array next answer"},
		"json.value array.10", "text.value array.0", "number.value array.2", "flag.value array.9", "array.array answer.all", "json.value.b answer.deep")
	run := ran(t, id, "COMPLETED", nil)
	t.Equal("output", string(run.Output), `{"all":["é",12345678901234567890,false,{"a":null,"b":[1,2]}],"deep":[1,2]}`)
	t.Check(run.TotalUsage == 0, "control flow costs %s", run.TotalUsage)
	for _, stage := range run.RunStages {
		stageSound(t, stage)
	}
	id = draw(t, []object{set("array", "ARRAY_BUILDER", object{"itemType": "string"})}, []string{"start next array"}, "start.a array.0", "start.b array.1")
	alike(t, "the array", stageOf(t, ran(t, id, "COMPLETED", object{"a": "x", "b": "y"}), "array").Output, object{"array": []string{"x", "y"}})
	t.Equal("error.code", runError(t, ran(t, id, "FAILED", object{"a": "x", "b": 1}).Error).Code, "INVALID_INPUT")
	// One of these modules can also be executed on its own, the others cannot.
	alone := probe.Call{Module: "TRANSFORM", Input: object{"a": 2}, Config: object{"expression": "a * 21"}}
	done := t.Execute(alone.Waiting(15_000))
	t.Check(done.Status == "COMPLETED" && done.TotalUsage == 0, "%s", t.JSON(done))
	alike(t, "output", done.Output, object{"result": 42})
	for _, module := range controls {
		p := t.Problem(t.Post(probe.Components, probe.Call{Module: module, Input: object{}, Config: object{}}), http.StatusBadRequest, "INVALID_INPUT")
		t.Equal(module, probe.Pointers(p), []string{"/module"})
	}
}

func moduleWaits(t *probe.Trial) {
	until := time.Now().Add(time.Second).UTC().Truncate(time.Millisecond)
	run := ran(t, draw(t, []object{
		set("delay", "DELAY", object{"durationMs": 40}), set("until", "WAIT_UNTIL", object{"timestamp": until.Format(time.RFC3339Nano)}),
		set("wait", "WAIT_FOR_SIGNAL", object{"name": "never", "timeoutMs": 30}), use("late", "RESPOND"),
	}, []string{"start next delay", "start next until", "start next wait", "wait timeout late"}, "wait.payload late.payload"), "COMPLETED", nil)
	for _, id := range []string{"delay", "until"} {
		stage := stageOf(t, run, id)
		alike(t, "output", stage.Output, object{"resumedAt": stage.FinishedAt})
	}
	delay := stageOf(t, run, "delay")
	t.Check(delay.FinishedAt.Std().Sub(delay.StartedAt.Std()) >= 39*time.Millisecond, "a delay of 40 ms from %s to %s", delay.StartedAt, delay.FinishedAt)
	at := stageOf(t, run, "until").FinishedAt.Std()
	t.Check(!at.Before(until) && at.Sub(until) < t.Limit(5*time.Second), "a wait until %s was over at %s", until, at)
	t.Equal("what a wait gives that nothing came for", string(stageOf(t, run, "wait").Output), "{}")
	t.Equal("output", string(run.Output), "{}")
	for _, stage := range run.RunStages {
		stageSound(t, stage)
	}
}

func moduleRunWorkflow(t *probe.Trial) {
	child := draw(t, []object{set("value", "NUMBER_CONSTANT", object{"value": 1}), use("answer", "RESPOND")}, []string{"start next answer"}, "value.value answer.v")
	update(t, child, "value", object{"config": object{"value": 2}})
	above := func(config object) string {
		return draw(t, []object{set("child", "RUN_WORKFLOW", config)}, []string{"start next child"})
	}
	inside := func(parent, status string) api.RunStage {
		return stageOf(t, ran(t, parent, status, nil), "child")
	}
	t.Equal("the present version", string(inside(above(object{"workflowId": child}), "COMPLETED").Output), `{"v":2}`)
	t.Equal("the first version", string(inside(above(object{"workflowId": child, "version": 1}), "COMPLETED").Output), `{"v":1}`)
	t.Equal("an unknown version", executionError(t, inside(above(object{"workflowId": child, "version": 7}), "FAILED").Error).Code, "NOT_FOUND")
	t.Equal("one without a RESPOND", string(inside(above(object{"workflowId": draw(t, nil, nil)}), "COMPLETED").Output), `{}`)
	failing := draw(t, []object{set("end", "FAIL", object{"code": "OUT_OF_STOCK", "message": "nothing is left"})}, []string{"start next end"})
	fault := executionError(t, inside(above(object{"workflowId": failing}), "FAILED").Error)
	t.Equal("one that fails", fault.Code+": "+fault.Message, "OUT_OF_STOCK: nothing is left")
	var details struct{ RunID, Reason string }
	t.NoError("details", json.Unmarshal(fault.Details, &details))
	t.Equal("the run below", string(record(t, details.RunID).Status), "FAILED")
	paused := create(t, having(sketch([]object{use("start", "ON_API_CALLED")}, nil), "status", "PAUSED")).ID
	fault = executionError(t, inside(above(object{"workflowId": paused}), "FAILED").Error)
	t.NoError("details", json.Unmarshal(fault.Details, &details))
	t.Equal("one that is paused", fault.Code+" "+details.Reason, "CONFLICT workflow_paused")
	asked := quote(t, above(object{"workflowId": child}), object{})
	t.Check(asked.MaximumCredits == nil && asked.MinimumCredits == 0, "%+v", asked)
	same(t, "unknownBounds", asked.UnknownBounds, json.RawMessage(`[{"componentId":"child","reason":"workflow"}]`))
	priced := draw(t, []object{use("paid", "RANDOM_UUID")}, []string{"start next paid"})
	fixed := quote(t, above(object{"workflowId": priced, "version": 1}), object{})
	t.Check(len(fixed.UnknownBounds) == 0 && fixed.MaximumCredits != nil, "%+v", fixed)
	t.Equal("minimum and maximum with a child run of a fixed version", fmt.Sprint(fixed.MinimumCredits, *fixed.MaximumCredits), "1 1")
}

// stageAttempts runs three components: one fails and is retried, one fails permanently, and one
// times out.
func stageAttempts(t *probe.Trial) {
	upstream := &tally{handler: answering(503, 200)}
	again, once := doing("again", t.Upstream(upstream.ServeHTTP)), doing("once", t.Upstream(answering(503)))
	url, _, _ := held(t)
	slow := doing("slow", url)
	again["attempts"], slow["timeoutMs"] = 2, 200
	for _, component := range []object{once, slow} {
		component["onFailure"] = "continue"
	}
	run := ran(t, draw(t, []object{again, once, slow}, []string{"start next again", "start next once", "start next slow"}), "COMPLETED", nil)
	second, first, late := stageOf(t, run, "again"), stageOf(t, run, "once"), stageOf(t, run, "slow")
	t.Check(second.Status == "COMPLETED" && second.ExecutionAttempt == 2, "%s", t.JSON(second))
	asked := upstream.asked()
	t.Equal("requests", len(asked), 2)
	between := asked[1].Sub(asked[0])
	t.Check(between >= 750*time.Millisecond && between < t.Limit(3*time.Second), "the second attempt came after %v", between)
	t.Check(first.Status == "FAILED" && first.ExecutionAttempt == 1, "%s", t.JSON(first))
	t.Check(late.Status == "FAILED" && late.FinishedAt.Std().Sub(late.StartedAt.Std()) < t.Limit(10*time.Second), "%s", t.JSON(late))
	t.Equal("error.code", executionError(t, late.Error).Code, "TIMEOUT")
	t.Check(run.FailedStageCount == 2 && run.TotalUsage == second.CreditUsage && second.CreditUsage.String() == priceOf(t, "API_CALL"), "%s", t.JSON(run))
}

// runWindow triggers a run that takes longer than waitForMs.
func runWindow(t *probe.Trial) {
	url, letGo, _ := held(t)
	id := draw(t, []object{doing("call", url)}, []string{"start next call"})
	for _, ms := range []int{0, 1, 400} {
		answer := t.Post(workflowPath(id), object{"waitForMs": ms})
		got := probe.Decode[api.TriggerResult](t, answer)
		t.Check(got.Run != nil && got.Run.ID == got.RunID && !got.Run.Status.Terminal() && got.Run.FinishedAt == nil, "after %d ms: %s", ms, answer.Body)
		t.Check(answer.Took >= time.Duration(ms)*time.Millisecond && answer.Took < t.Limit(5*time.Second), "a wait of %d ms took %v", ms, answer.Took)
	}
	letGo()
	for _, run := range probe.Decode[api.WorkflowRunPage](t, t.Get(runs+"?workflowId="+id)).Data {
		finished(t, run.ID.String(), "COMPLETED")
	}
}

func runStreamCanceled(t *probe.Trial) {
	id := begin(t, draw(t, []object{set("wait", "WAIT_FOR_SIGNAL", object{"name": "go", "timeoutMs": 60_000})}, []string{"start next wait"}), nil)
	cancel(t, id, object{"reason": "no more"})
	run := finished(t, id, "CANCELED")
	for _, header := range []http.Header{nil, after(1 << 40)} {
		events := openRun(t, id, header).rest()
		t.Check(len(events) == 1 && events[0].Status == "CANCELED" && *events[0].out.CancelRequestedAt == *run.CancelRequestedAt && *events[0].out.CancelReason == "no more", "%+v", events)
	}
}

// runOfManyItems runs a loop with the largest number of items. The stream must miss no event, and
// the record and the pages must contain every stage.
func runOfManyItems(t *probe.Trial) {
	const items = 10_000
	id := draw(t, []object{set("loop", "FOR_EACH", object{"concurrency": 100}), set("same", "TRANSFORM", object{"expression": "n"}), use("answer", "RESPOND")},
		[]string{"start next loop", "loop each same", "loop done answer"}, "start.items loop.items", "loop.index same.n", "same.result answer.all")
	run := begin(t, id, object{"items": make([]int, items)})
	var got []api.RunEvent
	for _, e := range openAt(t, run, "?after=0", nil).rest() {
		if e.Seq > 0 {
			got = append(got, e.RunEvent)
		}
	}
	same(t, "what was heard, against the log", got, logOf(t, run))
	whole := finished(t, run, "COMPLETED")
	var output struct{ All []int }
	t.NoError("output", json.Unmarshal(whole.Output, &output))
	for i, n := range output.All {
		t.Equal("item", n, i)
	}
	t.Check(len(output.All) == items && len(whole.RunStages) == items+3, "%d items, %d stages", len(output.All), len(whole.RunStages))
	paged := 0
	for query := "?limit=100"; query != ""; {
		page := probe.Decode[api.RunStagePage](t, t.Get(runPath(run)+"/stages"+query))
		for _, stage := range page.Data {
			t.Equal("stage", stage.ID, whole.RunStages[paged].ID)
			paged++
		}
		query = ""
		if page.NextCursor != nil {
			query = fmt.Sprintf("?limit=100&cursor=%s", *page.NextCursor)
		}
	}
	t.Equal("stages by pages", paged, len(whole.RunStages))
}
