package conformance

import (
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/gen/api"
)

var retryCases = []Case{
	{Part: "D8.18", Name: "retry/more than three attempts, with growing delays", Run: retryGrows, Needs: near},
	{Part: "D8.18", Name: "retry/the last attempt starts when the time is over", Run: retryEnds, Needs: near},
	{Part: "D8.18", Name: "retry/a component of a workflow", Run: retryStage, Needs: near},
	{Part: "D8.18.default", Name: "retry/the default of a workflow", Run: retryDefault, Needs: near},
	{Part: "D8.18.shown", Name: "retry/the record says when the next attempt starts", Run: retryShown, Needs: near},
	{Part: "D8.18.shown", Name: "retry/the stage says when the next attempt starts", Run: retryStageShown, Needs: near},
	{Part: "D8.18.on", Name: "retry/only what is named is repeated", Run: retryNamed, Needs: near},
	{Part: "D8.18.unsafe, D8.18.sent", Name: "retry/an unsafe call without an answer is not repeated", Run: retryUnsafe, Needs: near},
	{Part: "D8.18.apart", Name: "retry/400, 422 policies that are refused", Run: retryRefused},
}

// insisting returns a call of an upstream with a retry policy.
func insisting(url, method string, policy object) probe.Call {
	call := probe.Fetch(url).Waiting(15000)
	call.Config["method"], call.Retry = method, policy
	if method == http.MethodPost {
		call.Input["body"] = object{"n": 1}
	}
	return call
}

func retryGrows(t *probe.Trial) {
	tardy := tardiness(t)
	upstream := &tally{handler: answering(503, 503, 429, 503, 200)}
	e := t.Final(t.Execute(insisting(t.Upstream(upstream.ServeHTTP), http.MethodGet, object{"initialDelayMs": 200, "backoffFactor": 2, "maxDelayMs": 1000, "maxElapsedMs": 60000})).ID.String())
	sound(t, e)
	t.Equal("status", string(e.Status), "COMPLETED")
	times := upstream.asked()
	t.Equal("requests", len(times), 5)
	for i, planned := range []time.Duration{200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond, time.Second} {
		delay := times[i+1].Sub(times[i])
		t.Check(delay >= planned*8/10-50*time.Millisecond && delay <= t.Limit(planned*12/10+1500*time.Millisecond+tardy()),
			"the delay before attempt %d was %v, planned %v", i+2, delay, planned)
	}
}

// retryEnds has a delay that is longer than the time: it is cut, so that a second attempt starts at the end.
func retryEnds(t *probe.Trial) {
	tardy := tardiness(t)
	upstream := &tally{handler: answering(503)}
	e := t.Final(t.Execute(insisting(t.Upstream(upstream.ServeHTTP), http.MethodGet, object{"maxElapsedMs": 2000, "initialDelayMs": 60000})).ID.String())
	upstreamFailure(t, e, 2)
	times := upstream.asked()
	t.Equal("requests", len(times), 2)
	delay := times[1].Sub(times[0])
	t.Check(delay >= 1900*time.Millisecond && delay <= t.Limit(3500*time.Millisecond+tardy()), "the last attempt came after %v, want 2 s", delay)
}

func retryStage(t *probe.Trial) {
	upstream := &tally{handler: answering(503, 503, 503, 503, 200)}
	call := having(doing("call", t.Upstream(upstream.ServeHTTP)), "retry", object{"initialDelayMs": 100, "backoffFactor": 1, "maxAttempts": 5})
	run := ran(t, draw(t, []object{call}, []string{"start next call"}), "COMPLETED", nil)
	t.Equal("requests", len(upstream.asked()), 5)
	t.Equal("executionAttempt", run.RunStages[len(run.RunStages)-1].ExecutionAttempt, int32(5))
}

// retryDefault has a default that one component uses and another one overrides.
func retryDefault(t *probe.Trial) {
	for what, c := range map[string]struct {
		fields   []any
		requests int
	}{
		"the default": {nil, 4}, "one attempt": {[]any{"attempts", 1}, 1}, "an own policy": {[]any{"retry", object{"initialDelayMs": 100, "maxAttempts": 2}}, 2},
	} {
		upstream := &tally{handler: answering(503)}
		call := having(doing("call", t.Upstream(upstream.ServeHTTP)), "onFailure", "continue")
		for i := 0; i < len(c.fields); i += 2 {
			call = having(call, c.fields[i].(string), c.fields[i+1])
		}
		body := sketch([]object{use("start", "ON_API_CALLED"), call, use("done", "RESPOND")}, []string{"start next call", "call next done"})
		body["retry"] = object{"initialDelayMs": 100, "backoffFactor": 1, "maxAttempts": 4}
		ran(t, create(t, body).ID, "COMPLETED", nil)
		t.Check(len(upstream.asked()) == c.requests, "%s: %d requests, want %d", what, len(upstream.asked()), c.requests)
	}
}

// retryShown reads the record while an execution waits, alone and in the list, and at the end.
func retryShown(t *probe.Trial) {
	call := insisting(t.Upstream(answering(503)), http.MethodGet, object{"maxElapsedMs": 4000, "initialDelayMs": 60000}).Waiting(1500)
	e := t.Execute(call)
	t.Check(e.NextAttemptAt != nil, "the response does not say when the next attempt starts: %s", t.JSON(e))
	same(t, "the record", t.Record(e.ID.String()), e)
	left := e.NextAttemptAt.Std().Sub(e.CreatedAt.Std())
	t.Check(*e.AttemptCount == 1 && left > 3*time.Second && left < t.Limit(6*time.Second), "it waits after %d attempts until %v after its start", *e.AttemptCount, left)
	page := probe.Decode[api.ComponentExecutionPage](t, t.Get(probe.Executions+"?limit=100"))
	at := slices.IndexFunc(page.Data, func(one api.ComponentExecution) bool { return one.ID == e.ID })
	t.Check(at >= 0 && page.Data[at].NextAttemptAt != nil && *page.Data[at].AttemptCount == 1, "in the list: %s", t.JSON(page))
	final := t.Final(e.ID.String())
	t.Check(*final.AttemptCount == 2 && final.NextAttemptAt == nil, "at the end: %s", t.JSON(final))
}

// retryStageShown reads a run while its stage waits, and afterwards.
func retryStageShown(t *probe.Trial) {
	upstream := &tally{handler: answering(503, 200)}
	call := having(doing("call", t.Upstream(upstream.ServeHTTP)), "retry", object{"maxElapsedMs": 4000, "initialDelayMs": 60000})
	id := begin(t, draw(t, []object{call}, []string{"start next call"}), nil)
	waiting := eventually(t, id, "waiting for the next attempt", func(run api.WorkflowRun) bool {
		return len(run.RunStages) == 2 && run.RunStages[1].NextAttemptAt != nil
	})
	stage := waiting.RunStages[1]
	left := stage.NextAttemptAt.Std().Sub(stage.StartedAt.Std())
	t.Check(stage.Status == "RUNNING" && stage.ExecutionAttempt == 1 && left > 3*time.Second && left < t.Limit(6*time.Second), "it waits until %v after its start: %s", left, t.JSON(stage))
	page := probe.Decode[api.RunStagePage](t, t.Get(runPath(id)+"/stages"))
	t.Check(len(page.Data) == 2 && page.Data[1].NextAttemptAt != nil, "in the list: %s", t.JSON(page))
	final := finished(t, id, "COMPLETED").RunStages[1]
	took := final.FinishedAt.Std().Sub(final.StartedAt.Std())
	t.Check(final.NextAttemptAt == nil && final.ExecutionAttempt == 2 && took > 3*time.Second, "at the end, after %v: %s", took, t.JSON(final))
}

func retryNamed(t *probe.Trial) {
	for _, c := range []struct {
		status, requests int
		policy           object
	}{
		{404, 1, object{}}, {404, 3, object{"on": []any{404}}}, {503, 1, object{"on": []any{"TIMEOUT", 404}}}, {503, 3, object{"on": []any{"UPSTREAM_ERROR"}}},
	} {
		upstream := &tally{handler: answering(c.status)}
		c.policy["initialDelayMs"], c.policy["maxAttempts"] = 100, 3
		e := t.Final(t.Execute(insisting(t.Upstream(upstream.ServeHTTP), http.MethodGet, c.policy)).ID.String())
		t.Equal("status", string(e.Status), "FAILED")
		t.Check(len(upstream.asked()) == c.requests, "%d with %s: %d requests, want %d", c.status, t.JSON(c.policy), len(upstream.asked()), c.requests)
	}
}

func retryUnsafe(t *probe.Trial) {
	cut := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	for _, c := range []struct {
		handler  http.HandlerFunc
		key      string
		requests int
		sent     string
	}{
		{cut, "", 1, "unknown"}, {cut, "mine", 3, "unknown"}, {answering(503), "", 3, "answered"},
	} {
		upstream := &tally{handler: c.handler}
		call := insisting(t.Upstream(upstream.ServeHTTP), http.MethodPost, object{"initialDelayMs": 100, "maxAttempts": 3})
		if c.key != "" {
			call.Input["headers"] = map[string]any{"Idempotency-Key": c.key}
		}
		e := t.Final(t.Execute(call).ID.String())
		var details struct{ Sent string }
		t.NoError("error.details", json.Unmarshal(executionError(t, e.Error).Details, &details))
		t.Check(string(e.Status) == "FAILED" && len(upstream.asked()) == c.requests && details.Sent == c.sent,
			"with the key %q: %s after %d requests, want %d: %s", c.key, e.Status, len(upstream.asked()), c.requests, e.Error)
	}
}

func retryRefused(t *probe.Trial) {
	refused := func(call probe.Call, status int, pointer string) {
		fault := t.Problem(t.Post(probe.Components, call), status, "INVALID_INPUT")
		t.Check(len(fault.Errors) == 1 && fault.Errors[0].Pointer == pointer, "%s: %+v, want a fault at %s", t.JSON(call), fault.Errors, pointer)
	}
	call := probe.RandomUUID()
	for pointer, policy := range map[string]object{
		"/retry/maxDelayMs": {"maxDelayMs": 86400001}, "/retry/maxElapsedMs": {"maxElapsedMs": 604800001}, "/retry/initialDelayMs": {"initialDelayMs": 99},
		"/retry/backoffFactor": {"backoffFactor": 0.5}, "/retry/maxAttempts": {"maxAttempts": 5001},
	} {
		call.Retry = policy
		refused(call, http.StatusBadRequest, pointer)
	}
	call.Retry = object{"initialDelayMs": 1000, "backoffFactor": 1} // a day of seconds
	refused(call, http.StatusUnprocessableEntity, "/retry")
	call.Retry, call.Attempts = object{}, 1
	refused(call, http.StatusBadRequest, "/retry")
	stage := func(module string, fields ...any) object {
		component := having(use("c", module), "retry", object{})
		for i := 0; i < len(fields); i += 2 {
			component[fields[i].(string)] = fields[i+1]
		}
		return sketch([]object{use("start", "ON_API_CALLED"), component}, []string{"start next c"})
	}
	wrongWorkflow(t, "retry with attempts", stage("RANDOM_UUID", "attempts", 2), "/components/1/retry")
	wrongWorkflow(t, "retry of a LOGIC module", stage("RESPOND"), "/components/1/retry")
	wrongWorkflow(t, "too many attempts", stage("RANDOM_UUID", "retry", object{"initialDelayMs": 1000, "backoffFactor": 1}), "/components/1/retry")
	create(t, stage("RANDOM_UUID", "retry", persistent()))
	body := sketch([]object{use("start", "ON_API_CALLED")}, nil)
	body["retry"] = object{"initialDelayMs": 1000, "backoffFactor": 1}
	wrongWorkflow(t, "too many attempts by default", body, "/retry")
	body["retry"] = object{"maxDelayMs": 86400001}
	fault := t.Problem(t.Post(workflows, body), http.StatusBadRequest, "INVALID_INPUT")
	t.Equal("pointers", probe.Pointers(fault), []string{"/retry/maxDelayMs"})
}
