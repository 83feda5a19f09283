package conformance

import (
	"encoding/json"
	"net/http"
	"slices"

	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/gen/api"
)

var runCallbackCases = []Case{
	{Part: "D8.21, D8.21.headers, D8.21.shown", Name: "runs/callback a signed one of COMPLETED", Run: runCalledBack, Needs: near},
	{Part: "D8.21, D8.21.headers, D8.21.shown", Name: "runs/callback an unsigned one of FAILED", Run: runFailureCalledBack, Needs: near},
	{Part: "D8.21, D8.21.headers", Name: "runs/callback one of CANCELED", Run: runCancellationCalledBack, Needs: near},
	{Part: "D8.21.own", Name: "runs/callback not of a rerun or a child run", Run: runCallbackNotInherited, Needs: near},
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
	child := stagesOf(runDelivered(t, run), "below")[0].ChildRunID
	t.Check(child != nil && record(t, child.String()).Callback == nil, "the child run has a callback")
	again := trigger(t, id, object{"rerunOf": object{"runId": run}}).RunID.String()
	t.Check(finished(t, again, "COMPLETED").Callback == nil, "the rerun has a callback")
	t.Equal("deliveries", receiver.Received(), 1)
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
