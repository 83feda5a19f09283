package conformance

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/gen/api"
)

var runCallbackCases = []Case{
	{Part: "D8.21, D8.21.headers, D8.21.shown", Name: "runs/callback a signed one of COMPLETED", Run: runCalledBack, Needs: near},
	{Part: "D8.21, D8.21.headers, D8.21.shown", Name: "runs/callback an unsigned one of FAILED", Run: runFailureCalledBack, Needs: near},
	{Part: "D8.21, D8.21.headers", Name: "runs/callback one of CANCELED", Run: runCancellationCalledBack, Needs: near},
	{Part: "D8.21.own", Name: "runs/callback not of a rerun or a child run", Run: runCallbackNotInherited, Needs: near},
	{
		Part: "D8.21, D8.21.shown, D8.21.replayed", Name: "runs/callback one that failed is shown, listed and replayed", Run: runCallbackReplayed, Needs: near,
	},
	{Part: "D8.21.replayed", Name: "runs/404, 409 callbacks that cannot be replayed", Run: runReplayConflicts},
	{Part: "D8.21.refused", Name: "runs/400 callbacks that are refused", Run: runCallbackRefused},
}

// callingBack returns the body of a trigger with a callback to the receiver.
func callingBack(r *probe.Receiver, secret string) object {
	body := object{"callbackUrl": r.URL}
	if secret != "" {
		body["callbackSecret"] = secret
	}
	return body
}

// runDelivered waits until the record of a run shows the delivery of its callback.
func runDelivered(t *probe.Trial, id string) api.WorkflowRun {
	return eventually(t, id, "delivered", func(run api.WorkflowRun) bool { return run.Callback != nil && run.Callback.DeliveredAt != nil })
}

// calledBackAsRecorded checks that the callback of a run is its record, before the first attempt, and that
// the record is otherwise the same afterwards.
func calledBackAsRecorded(t *probe.Trial, d probe.Delivery) api.WorkflowRun {
	frozen := d.Run.Callback
	t.Check(frozen != nil && frozen.AttemptCount == 0 && frozen.LastAttemptAt == nil && frozen.DeliveredAt == nil && isNull(frozen.LastError), "the body knows of its own delivery: %s", d.Body)
	t.Equal("stages", len(d.Run.RunStages), 0)
	id := d.Run.ID.String()
	final := runDelivered(t, id)
	t.Equal("attemptCount", final.Callback.AttemptCount, int32(1))
	t.Check(final.Callback.LastAttemptAt != nil && isNull(final.Callback.LastError), "callback %s", t.JSON(final.Callback))
	var sent, shown map[string]json.RawMessage
	t.NoError("body", json.Unmarshal(d.Body, &sent))
	t.NoError("record", json.Unmarshal(t.Get(runPath(id)+"?stages=none").Body, &shown))
	for name, value := range shown {
		if name != "callback" {
			t.Equal(name+" of the body", string(sent[name]), string(value))
		}
	}
	t.Equal("members of the body", len(sent), len(shown))
	replayed := t.Do(probe.Request{Method: http.MethodPost, Path: runPath(id) + "/callback/replay"}) // delivers nothing
	t.Equal("the record of a replay", string(replayed.Body), string(t.Get(runPath(id)+"?stages=none").Body))
	return final
}

func runCalledBack(t *probe.Trial) {
	receiver := t.Receiver(secret)
	id := draw(t, []object{use("id", "RANDOM_UUID"), use("answer", "RESPOND")}, []string{"start next id", "id next answer"}, "start.a answer.a")
	body := callingBack(receiver, secret)
	body["callbackHeaders"], body["input"], body["metadata"] = object{"Authorization": "Bearer 7d0f4f0e", "X-Order": "4711 a,b"}, object{"a": 1.50}, object{"m": "n"}
	body["waitForMs"] = 0
	created := trigger(t, id, body)
	t.Check(created.Run != nil && created.Run.Callback != nil, "no callback in the response")
	signedObject(t, *created.Run.Callback, receiver.URL)

	d := receiver.Next()
	t.Equal("Authorization", d.Header.Get("Authorization"), "Bearer 7d0f4f0e")
	t.Equal("X-Order", d.Header.Get("X-Order"), "4711 a,b")
	t.Equal("Content-Type", d.Header.Get("Content-Type"), "application/json")
	t.Equal("id", d.Run.ID, created.RunID)
	t.Equal("status", string(d.Run.Status), "COMPLETED")
	t.Equal("webhook-type", d.Header.Get("Webhook-Type"), "run.completed")
	signedObject(t, *d.Run.Callback, receiver.URL)
	final := calledBackAsRecorded(t, d)
	signedObject(t, *final.Callback, receiver.URL)
	page := probe.Decode[api.WorkflowRunPage](t, t.Get(runs+"?workflowId="+id))
	t.Check(len(page.Data) == 1 && page.Data[0].Callback != nil && page.Data[0].Callback.DeliveredAt != nil, "the list shows %s", t.JSON(page))
	t.Equal("deliveries", receiver.Received(), 1)
}

func runFailureCalledBack(t *probe.Trial) {
	receiver := t.Receiver("")
	id := draw(t, []object{doing("call", t.Upstream(answering(503)))}, []string{"start next call"})
	trigger(t, id, callingBack(receiver, ""))
	d := receiver.Next()
	t.Equal("status", string(d.Run.Status), "FAILED")
	t.Check(!isNull(d.Run.Error) && d.Run.FailedStageCount == 1, "%s", d.Body)
	t.Equal("webhook-type", d.Header.Get("Webhook-Type"), "run.failed")
	final := calledBackAsRecorded(t, d)
	t.Check(!final.Callback.Signed && final.Callback.SignatureAlgorithm == nil && len(final.Callback.HeaderNames) == 0, "callback %s", t.JSON(final.Callback))
}

func runCancellationCalledBack(t *probe.Trial) {
	receiver := t.Receiver("")
	id := draw(t, []object{set("wait", "WAIT_FOR_SIGNAL", object{"name": "go", "timeoutMs": 60_000})}, []string{"start next wait"})
	run := trigger(t, id, callingBack(receiver, "")).RunID.String()
	waiting := eventually(t, run, "waiting", func(run api.WorkflowRun) bool { return len(stagesOf(run, "wait")) == 1 })
	t.Check(waiting.Callback != nil && waiting.Callback.AttemptCount == 0, "callback %s", t.JSON(waiting.Callback))
	t.Equal("status", t.Do(probe.Request{Method: http.MethodPut, Path: runPath(run) + "/cancellation", Body: t.JSON(object{"reason": "enough"})}).Status, http.StatusOK)
	d := receiver.Next()
	t.Equal("status", string(d.Run.Status), "CANCELED")
	t.Check(d.Run.CancelReason != nil && *d.Run.CancelReason == "enough", "%s", d.Body)
	t.Equal("webhook-type", d.Header.Get("Webhook-Type"), "run.canceled")
	calledBackAsRecorded(t, d)
}

func runCallbackNotInherited(t *probe.Trial) {
	receiver := t.Receiver("")
	below := draw(t, []object{use("id", "RANDOM_UUID")}, []string{"start next id"})
	id := draw(t, []object{set("below", "RUN_WORKFLOW", object{"workflowId": below})}, []string{"start next below"})
	run := trigger(t, id, callingBack(receiver, "")).RunID.String()
	t.Equal("id", receiver.Next().Run.ID.String(), run)
	stage := stagesOf(runDelivered(t, run), "below")[0]
	child := stage.ChildRunID
	t.Check(child != nil && record(t, child.String()).Callback == nil, "the child run has a callback")
	again := trigger(t, id, object{"rerunOf": object{"runId": run}}).RunID.String()
	t.Check(finished(t, again, "COMPLETED").Callback == nil, "the rerun has a callback")
	t.Equal("deliveries", receiver.Received(), 1)

	own := callingBack(receiver, "")
	own["rerunOf"] = object{"runId": run, "fromStageId": stage.ID}
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	t.Do(probe.Request{
		Method: http.MethodPost, Path: workflowPath(id), Body: t.JSON(own), Header: http.Header{"Traceparent": {"00-" + trace + "-00f067aa0ba902b7-01"}},
	})
	d := receiver.Next()
	calledBackAsRecorded(t, d)
	t.Check(strings.Contains(d.Header.Get("Traceparent"), trace), "Traceparent %q", d.Header.Get("Traceparent"))
	t.Equal("rerunOf", string(d.Run.RerunOf), `{"runId":"`+run+`","fromStageId":"`+stage.ID.String()+`"}`)
}

func runCallbackRefused(t *probe.Trial) {
	id := draw(t, []object{use("id", "RANDOM_UUID")}, []string{"start next id"})
	for given, pointer := range map[string]string{
		`{"callbackUrl":"ftp://a.example/"}`: "/callbackUrl", `{"callbackUrl":"https://u:p@a.example/"}`: "/callbackUrl", `{"callbackUrl":"https://10.0.0.1/"}`: "/callbackUrl",
		`{"callbackUrl":7}`: "/callbackUrl", `{"callbackSecret":"` + secret + `"}`: "/callbackSecret", `{"callbackHeaders":{}}`: "/callbackHeaders",
		`{"callbackUrl":"https://a.example/","callbackSecret":"whsec_?"}`:             "/callbackSecret",
		`{"callbackUrl":"https://a.example/","callbackHeaders":{"X-Svc-Run-Id":"1"}}`: "/callbackHeaders/X-Svc-Run-Id",
	} {
		p := t.Problem(t.Do(probe.Request{Method: http.MethodPost, Path: workflowPath(id), Body: []byte(given)}), http.StatusBadRequest, "INVALID_INPUT")
		t.Equal("pointers of "+given, slices.Compact(probe.Pointers(p)), []string{pointer})
	}
	t.Equal("runs", len(probe.Decode[api.WorkflowRunPage](t, t.Get(runs+"?workflowId="+id)).Data), 0)
}

func replayRun(t *probe.Trial, id, query string) api.WorkflowRun {
	return probe.Decode[api.WorkflowRun](t, t.Do(probe.Request{Method: http.MethodPost, Path: runPath(id) + "/callback/replay" + query}))
}

func runAttempts(t *probe.Trial, id, query string) api.CallbackAttemptPage {
	return probe.Decode[api.CallbackAttemptPage](t, t.Get(runPath(id)+"/callback/attempts"+query))
}

// runCallbackReplayed ends the attempts with 410. Every response with the record of the run then shows the
// failure, also after a failure without a response.
func runCallbackReplayed(t *probe.Trial) {
	t.Parallel(2, func(i int) {
		failing := []probe.Reply{{Status: 410}, {Close: true}}[i]
		hold := make(chan struct{})
		receiver := t.Receiver(secret, failing, probe.Reply{Status: 204, Hold: hold})
		id := draw(t, []object{use("id", "RANDOM_UUID")}, []string{"start next id"})
		body := callingBack(receiver, secret)
		body["callbackHeaders"], body["waitForMs"] = object{"X-Order": "4711"}, 15_000
		request := probe.Request{Method: http.MethodPost, Path: workflowPath(id), Body: t.JSON(body), Header: http.Header{"Idempotency-Key": {id}}}
		run := probe.Decode[api.TriggerResult](t, t.Do(request)).RunID.String()
		first := receiver.Next()
		failed := eventually(t, run, "attempted", func(run api.WorkflowRun) bool { return run.Callback != nil && run.Callback.AttemptCount == 1 })
		fault := callbackError(t, failed.Callback.LastError)
		t.Check(fault.Message != "" && fault.Sent != nil && (fault.Class == "status") == (i == 0), "lastError %s", failed.Callback.LastError)
		if i == 0 {
			replayed := replayRun(t, run, "")
			t.Equal("the status of a replay", string(replayed.Status), "COMPLETED")
		}
		again := receiver.Next()
		// While the next attempt is being sent, every response shows the failure.
		t.Equal("the callback of a repeat", t.JSON(probe.Decode[api.TriggerResult](t, t.Do(request)).Run.Callback), t.JSON(failed.Callback))
		t.Equal("the callback after a cancel", t.JSON(cancel(t, run, nil).Callback), t.JSON(failed.Callback))
		t.Equal("the callback in the list", t.JSON(probe.Decode[api.WorkflowRunPage](t, t.Get(runs+"?workflowId="+id)).Data[0].Callback), t.JSON(failed.Callback))
		t.Equal("the callback after a replay", t.JSON(replayRun(t, run, "").Callback), t.JSON(failed.Callback))
		t.Equal("the body of the next attempt", string(again.Body), string(first.Body))
		t.Equal("its webhook-id", again.Header.Get("Webhook-Id"), first.Header.Get("Webhook-Id"))
		close(hold)
		t.Equal("attemptCount", runDelivered(t, run).Callback.AttemptCount, int32(2))
		all := runAttempts(t, run, "")
		t.Check(len(all.Data) == 2 && all.Data[0].Attempt == 2 && all.Data[0].Delivered && *all.Data[0].HTTPStatus == 204 && isNull(all.Data[0].Error), "%s", t.JSON(all))
		t.Equal("the first error", string(all.Data[1].Error), string(failed.Callback.LastError))
		page := runAttempts(t, run, "?limit=1")
		t.Check(page.HasMore && len(page.Data) == 1 && page.NextCursor != nil, "%s", t.JSON(page))
		t.Equal("the second page", runAttempts(t, run, "?limit=1&cursor="+*page.NextCursor).Data, all.Data[1:])
		t.Equal("an unforced replay of what is delivered", replayRun(t, run, "").Callback.AttemptCount, int32(2))
		replayRun(t, run, "?force=true")
		receiver.Next()
	})
}

func runReplayConflicts(t *probe.Trial) {
	refused := func(path string, status int, code string) {
		t.Problem(t.Do(probe.Request{Method: http.MethodPost, Path: path}), status, code)
	}
	id := draw(t, []object{set("wait", "WAIT_FOR_SIGNAL", object{"name": "go", "timeoutMs": 60_000})}, []string{"start next wait"})
	run := trigger(t, id, object{"callbackUrl": "https://receiver.invalid/"}).RunID.String()
	refused(runPath(run)+"/callback/replay", http.StatusConflict, "EXECUTION_NOT_FINISHED")
	refused(probe.Execution(run)+"/replay-callback", http.StatusNotFound, "NOT_FOUND") // the ID is not that of an execution
	t.Equal("attempts", len(runAttempts(t, run, "").Data), 0)
	cancel(t, run, nil)
	bare := begin(t, draw(t, []object{use("id", "RANDOM_UUID")}, []string{"start next id"}), nil)
	finished(t, bare, "COMPLETED")
	refused(runPath(bare)+"/callback/replay", http.StatusConflict, "NO_CALLBACK")
	t.Equal("attempts without a callback", len(runAttempts(t, bare, "").Data), 0)
	nobody := runPath("0193f1c0-0000-7000-8000-000000000000")
	refused(nobody+"/callback/replay", http.StatusNotFound, "NOT_FOUND")
	t.Problem(t.Get(nobody+"/callback/attempts"), http.StatusNotFound, "NOT_FOUND")
}
