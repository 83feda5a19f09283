package conformance

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/gen/api"
)

var deadlineCases = []Case{
	{Part: "D8.21.deadline", Name: "deadline/an execution is stopped at its deadline", Run: deadlineExecution, Needs: near},
	{Part: "D8.21.deadline", Name: "deadline/a run of a trigger, of a workflow and with a child", Run: deadlineRuns},
	{Part: "D8.21.deadline", Name: "deadline/200 shown and changed in schedules and hooks", Run: deadlineSettings},
	{Part: "D8.21.canceled", Name: "cancel/200 an execution that waits, twice, with its callback", Run: cancelWaiting, Needs: near},
	{Part: "D8.21.canceled", Name: "cancel/200 a POST on its way has an unknown outcome", Run: cancelSent, Needs: near},
	{Part: "D8.21.canceled", Name: "cancel/400, 404, 409 what cannot be canceled, 200 what is final", Run: cancelRefused},
	{Part: "D8.21.bounds", Name: "deadline/400 out of bounds", Run: deadlineBounds},
}

// deadlineExecution stops an attempt, and a wait for a retry.
func deadlineExecution(t *probe.Trial) {
	stuck := insisting(t.Upstream(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }), http.MethodGet, object{})
	waits := insisting(t.Upstream(answering(503)), http.MethodGet, object{"initialDelayMs": 60000})
	for what, call := range map[string]probe.Call{"an attempt": stuck, "a wait": waits} {
		body := object{"module": call.Module, "input": call.Input, "config": call.Config, "retry": call.Retry, "deadlineMs": 1500}
		e := t.Final(probe.Decode[api.ComponentExecution](t, t.Post(probe.Components, body)).ID.String())
		var why api.ExecutionError
		t.NoError("error", json.Unmarshal(e.Error, &why))
		t.Check(string(e.Status) == "FAILED" && why.Code == "DEADLINE_EXCEEDED" && !why.Retryable && e.TotalUsage == 0, "%s: %s", what, t.JSON(e))
	}
}

func deadlineRuns(t *probe.Trial) {
	waits := []object{having(use("w", "DELAY"), "config", object{"durationMs": 3600000})}
	edges := []string{"start next w"}
	strict := sketch(append([]object{use("start", "ON_API_CALLED")}, waits...), edges)
	strict["deadlineMs"] = 1500
	patient := draw(t, waits, edges)
	parent := draw(t, []object{having(having(use("w", "RUN_WORKFLOW"), "config", object{"workflowId": patient}), "onFailure", "continue"), use("id", "RANDOM_UUID")}, append(edges, "w error id"))
	for id, given := range map[string]object{create(t, strict).ID: {}, patient: {"deadlineMs": 1500}, parent: {"deadlineMs": 1500}} {
		run := finished(t, trigger(t, id, given).RunID.String(), "FAILED")
		var why api.RunError
		t.NoError("error", json.Unmarshal(run.Error, &why))
		t.Check(why.Code == "DEADLINE_EXCEEDED" && !why.Retryable, "%s", t.JSON(run))
	}
}

// deadlineSettings keeps a deadline that a request leaves out, and removes it by null.
func deadlineSettings(t *probe.Trial) {
	id := create(t, object{"name": "triggered", "components": []object{use("id", "RANDOM_UUID")}}).ID
	for path, body := range map[string]object{
		schedules: {"workflowId": id, "cron": "0 0 1 1 *", "status": "PAUSED", "deadlineMs": 60000},
		hooks:     {"workflowId": id, "verification": signing(), "deadlineMs": 60000},
	} {
		type settings struct {
			ID         string
			DeadlineMs *int64
		}
		is := func(what string, s settings, want string) {
			got := "none"
			if s.DeadlineMs != nil {
				got = fmt.Sprint(*s.DeadlineMs)
			}
			t.Equal("deadlineMs "+what+" "+path, got, want)
		}
		made := probe.Decode[settings](t, t.Post(path, body))
		is("of POST", made, "60000")
		own := path + "/" + made.ID
		is("of GET", probe.Decode[settings](t, t.Get(own)), "60000")
		is("of the list", probe.Decode[struct{ Data []settings }](t, t.Get(path+"?workflowId="+id)).Data[0], "60000")
		for _, step := range [][2]string{{"", "60000"}, {`,"deadlineMs":90000`, "90000"}, {`,"deadlineMs":null`, "none"}, {`,"deadlineMs":70000`, "70000"}} {
			given := `{"name":"x"` + step[0] + `}`
			if path == schedules {
				given = `{"cron":"0 0 1 1 *"` + step[0] + `}`
			}
			is("of PUT "+given, probe.Decode[settings](t, t.Do(probe.Request{Method: http.MethodPut, Path: own, Body: []byte(given)})), step[1])
		}
		is("of DELETE", probe.Decode[settings](t, t.Do(probe.Request{Method: http.MethodDelete, Path: own})), "70000")
	}
}

func deadlineBounds(t *probe.Trial) {
	id := draw(t, []object{use("id", "RANDOM_UUID")}, []string{"start next id"})
	for path, body := range map[string]object{
		probe.Components: {"module": "RANDOM_UUID", "input": object{}, "config": object{}}, workflowPath(id): {}, workflows: sketch([]object{use("start", "ON_API_CALLED")}, nil),
		schedules: {"workflowId": id, "cron": "0 0 1 1 *"}, hooks: {"workflowId": id, "verification": signing()},
	} {
		for _, wrong := range []any{0, 999, 34560000001, 1000.5, "1000"} {
			body["deadlineMs"] = wrong
			t.Equal(fmt.Sprintf("pointers of %v to %s", wrong, path), probe.Pointers(t.Problem(t.Post(path, body), http.StatusBadRequest, "INVALID_INPUT")), []string{"/deadlineMs"})
		}
	}
}

func canceling(t *probe.Trial, id, body string) probe.Answer {
	return t.Do(probe.Request{Method: http.MethodPut, Path: probe.Executions + "/" + id + "/cancellation", Body: []byte(body)})
}

func canceled(t *probe.Trial, e api.ComponentExecution, reason string) api.ExecutionError {
	var why api.ExecutionError
	t.NoError("error", json.Unmarshal(e.Error, &why))
	t.Check(string(e.Status) == "FAILED" && why.Code == "CANCELED" && !why.Retryable && e.TotalUsage == 0 && strings.HasSuffix(why.Message, reason), "%s", t.JSON(e))
	return why
}

// cancelWaiting cancels an execution between two attempts.
func cancelWaiting(t *probe.Trial) {
	receiver := t.Receiver(secret)
	call := insisting(t.Upstream(answering(503)), http.MethodGet, object{"initialDelayMs": 3_600_000, "maxElapsedMs": 7_200_000})
	body := object{
		"module": call.Module, "input": call.Input, "config": call.Config, "retry": call.Retry,
		"callbackUrl": receiver.URL, "callbackSecret": secret, "callbackHeaders": object{"X-Order": "4711"},
	}
	id := probe.Decode[api.ComponentExecution](t, t.Post(probe.Components, body)).ID.String()
	t.Until("the first attempt has failed", 20*time.Second, func() bool { return t.Record(id).NextAttemptAt != nil })
	first := probe.Decode[api.ComponentExecution](t, canceling(t, id, `{"reason":"The order was withdrawn."}`))
	why := canceled(t, first, "The order was withdrawn.")
	t.Check(why.Attempt == 1 && why.Outcome == nil, "%s", first.Error)
	d := receiver.Next()
	t.Equal("webhook-type", d.Header.Get("Webhook-Type"), "execution.failed")
	canceled(t, d.Record, "The order was withdrawn.")
	delivered := delivered(t, id)
	again := probe.Decode[api.ComponentExecution](t, canceling(t, id, `{"reason":"another"}`))
	same(t, "the record after a repeat", again, delivered)
	t.Equal("deliveries", receiver.Received(), 1)
}

// cancelSent cancels an attempt that the upstream does not answer.
func cancelSent(t *probe.Trial) {
	asked := make(chan struct{}, 1)
	url := t.Upstream(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		asked <- struct{}{}
		<-r.Context().Done()
	})
	call := insisting(url, http.MethodPost, nil)
	id := probe.Decode[api.ComponentExecution](t, t.Post(probe.Components, object{"module": call.Module, "input": call.Input, "config": call.Config})).ID.String()
	<-asked
	t.Equal("status", canceling(t, id, "").Status, http.StatusOK)
	e := t.Final(id)
	why := canceled(t, e, "")
	t.Check(why.Outcome != nil && *why.Outcome == "unknown" && strings.Contains(string(why.Details), `"sent":"unknown"`), "%s", e.Error)
	same(t, "the record after a repeat", probe.Decode[api.ComponentExecution](t, canceling(t, id, "{}")), e)
}

func cancelRefused(t *probe.Trial) {
	call := probe.Fetch(t.Upstream(answering(200))).Waiting(15000)
	done := t.Final(t.Execute(call).ID.String())
	same(t, "what is final", probe.Decode[api.ComponentExecution](t, canceling(t, done.ID.String(), `{"reason":"late"}`)), done)
	t.Problem(canceling(t, "0193f1c0-0000-7000-8000-000000000009", "{}"), http.StatusNotFound, "NOT_FOUND")
	for _, wrong := range []string{`{"reason":1}`, `{"reason":"` + strings.Repeat("x", 1001) + `"}`} {
		t.Equal("pointers", probe.Pointers(t.Problem(canceling(t, done.ID.String(), wrong), http.StatusBadRequest, "INVALID_INPUT")), []string{"/reason"})
	}
	run := ran(t, draw(t, []object{doing("call", t.Upstream(answering(200)))}, []string{"start next call"}), "COMPLETED", nil)
	stage := stagesOf(run, "call")[0].ExecutionEventID
	t.Equal("reason", probe.Reason(t.Problem(canceling(t, stage.String(), "{}"), http.StatusConflict, "CONFLICT")), "stage_of_run")
}
