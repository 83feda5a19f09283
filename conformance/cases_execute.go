package conformance

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/gen/api"
)

var executeCases = []Case{
	{
		Part: "4.1.1, 3.1.created, 4.success, 2.1.id, 2.1.module, 2.1.callback, 2.2.url, D1.2.form, 9",
		Name: "execute/200 without waitForMs the record is CREATED", Run: executeCreated,
	},
	{
		Part: "4.1.2, 3.1.completed, 2.1.status, 2.1.completed, 2.1.output, 2.1.totalUsage, D1.4",
		Name: "execute/200 with waitForMs the record is COMPLETED", Run: executeInline,
	},
	{
		Part: "3.1.failed, 7.failed, 2.1.error, D3.execution, D4.3.failed, D4.1.completed",
		Name: "execute/200 a failure comes inline", Run: executeFailed, Needs: []probe.Need{probe.NeedNear},
	},
	{
		Part: "2.1.error", Name: "execute/200 a call that was cut off has an unknown outcome", Run: executeCutOff,
		Needs: []probe.Need{probe.NeedNear},
	},
	{
		Part: "2.1.createdAt, 2.1.updatedAt, D1.3",
		Name: "execute/200 times are UTC with milliseconds", Run: executeTimes,
	},
	{
		Part: "4.1.module, 4.1.input, 4.1.config, 8.6.attempts, 8.6.waitForMs, D3.table",
		Name: "execute/400 the envelope", Run: executeEnvelope,
	},
	{
		Part: "4.1.input, 4.1.config, D3.422",
		Name: "execute/422 all faults against the module's schema at once", Run: executeSchema,
	},
	{Part: "D1.1.unknown, D1.1.reported", Name: "execute/200 unknown fields are ignored and reported", Run: executeUnknownField},
	{Part: "D1.1.strict", Name: "execute/400 unknown fields under handling=strict", Run: executeStrict},
	{
		Part: "D4.4", Name: "execute/200 an output above 1 MiB is FAILED OUTPUT_TOO_LARGE",
		Run: executeLargeOutput, Needs: []probe.Need{probe.NeedNear},
	},
	{
		Part: "2.1.output", Name: "execute/200 an output passes through unaltered",
		Run: executePassThrough, Needs: []probe.Need{probe.NeedNear},
	},
}

var uuid7 = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

// sound checks the invariants of every record.
func sound(t *probe.Trial, e api.ComponentExecution) {
	t.Decided("D1.2.form", uuid7.MatchString(e.ID.String()), "id %s is not a UUIDv7", e.ID)
	if e.Status == "FAILED" {
		t.Decided("D4.1.completed", !e.Completed, "completed is true for FAILED")
	} else {
		t.Equal("completed", e.Completed, e.Status == "COMPLETED")
	}
	t.Equal("output is null", isNull(e.Output), e.Status != "COMPLETED")
	t.Equal("error is null", isNull(e.Error), e.Status != "FAILED")
	t.Check(e.OutputProblem == nil, "there is an outputProblem: %s", t.JSON(e.OutputProblem))
	t.Check(e.AttemptCount != nil && (e.Status != "COMPLETED" || *e.AttemptCount > 0), "%s without an attempt", e.Status)
	t.Check(e.NextAttemptAt == nil || !e.Status.Terminal(), "an attempt will start after the end")
	if !e.Status.Terminal() {
		t.Equal("totalUsage", string(t.JSON(e.TotalUsage)), "0")
	}
	t.Equal("callback.signed", e.Callback.Signed, e.Callback.SignatureAlgorithm != nil)
	t.Check(e.Callback.DeliveredAt == nil || e.Callback.AttemptCount > 0, "delivered without an attempt")
	t.Equal("callback.lastAttemptAt is null", e.Callback.LastAttemptAt == nil, e.Callback.AttemptCount == 0)
}

func isNull(raw json.RawMessage) bool { return string(raw) == "null" }

// noCallback checks the callback object of an execution without a callback.
func noCallback(t *probe.Trial, c api.ComponentExecutionCallback) {
	t.Check(c.URL == nil && !c.Signed && c.SignatureAlgorithm == nil && c.HeaderNames != nil && len(c.HeaderNames) == 0 &&
		c.LastAttemptAt == nil && c.DeliveredAt == nil && c.AttemptCount == 0 && isNull(c.LastError),
		"the callback object of an execution without one: %s", t.JSON(c))
}

func executeCreated(t *probe.Trial) {
	e := t.Execute(probe.RandomUUID())
	sound(t, e)
	t.Equal("status", string(e.Status), "CREATED")
	t.Equal("module", e.Module, "RANDOM_UUID")
	noCallback(t, e.Callback)
	final := t.Final(e.ID.String())
	t.Equal("id", final.ID, e.ID)
	t.Equal("createdAt", final.CreatedAt, e.CreatedAt)
}

func executeInline(t *probe.Trial) {
	e := t.Execute(probe.RandomUUID().Waiting(15000))
	sound(t, e)
	completedUUID(t, e)
	noCallback(t, e.Callback)
}

// completedUUID checks the record of a finished RANDOM_UUID.
func completedUUID(t *probe.Trial, e api.ComponentExecution) {
	t.Equal("status", string(e.Status), "COMPLETED")
	t.Equal("module", e.Module, "RANDOM_UUID")
	t.Equal("totalUsage", string(t.JSON(e.TotalUsage)), "1")
	randomUUID(t, e.Output)
}

func randomUUID(t *probe.Trial, output json.RawMessage) {
	var value struct {
		UUID string `json:"uuid"`
	}
	t.NoError("output", json.Unmarshal(output, &value))
	t.Check(regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`).MatchString(value.UUID), "output %s", output)
}

func executeFailed(t *probe.Trial) {
	upstream := t.Upstream(answering(http.StatusServiceUnavailable))
	e := t.Execute(probe.Fetch(upstream).Waiting(15000))
	sound(t, e)
	upstreamFailure(t, e, 1)
}

// executeCutOff executes a call that times out, and checks the record in every response that
// contains it.
func executeCutOff(t *probe.Trial) {
	url, _, _ := held(t)
	receiver := t.Receiver("")
	call := called(probe.Fetch(url), receiver, "").Waiting(15000)
	call.Config["method"], call.Config["timeoutMs"] = http.MethodPost, 100
	e := t.Execute(call)
	id := e.ID.String()
	events := t.Stream(id).Rest()
	shown := map[string]json.RawMessage{"execute": e.Error, "get": t.Record(id).Error, "stream": events[len(events)-1].Error, "callback": receiver.Next().Record.Error}
	delivered(t, id)
	shown["replay"] = replay(t, id, "").Error
	page := probe.Decode[api.ComponentExecutionPage](t, t.Get(probe.Executions+"?limit=100"))
	at := slices.IndexFunc(page.Data, func(listed api.ComponentExecution) bool { return listed.ID == e.ID })
	t.Check(at >= 0, "it is not listed")
	shown["list"] = page.Data[at].Error
	for where, raw := range shown {
		fault := executionError(t, raw)
		t.Check(fault.Code == "TIMEOUT" && fault.Outcome != nil && *fault.Outcome == "unknown", "%s: %s", where, raw)
	}
	t.Equal("usage", string(t.JSON(e.TotalUsage)), "0")
}

// upstreamFailure checks the record of an API_CALL whose upstream responded with 503.
func upstreamFailure(t *probe.Trial, e api.ComponentExecution, attempt int32) {
	t.Equal("status", string(e.Status), "FAILED")
	fault := executionError(t, e.Error)
	t.Equal("error.code", fault.Code, "UPSTREAM_ERROR")
	t.Equal("error.retryable", fault.Retryable, true)
	t.Equal("error.attempt", fault.Attempt, attempt)
	t.Check(fault.Message != "", "error.message is empty")
	var details struct {
		UpstreamCode int `json:"upstreamCode"`
	}
	t.NoError("error.details", json.Unmarshal(fault.Details, &details))
	t.Equal("error.details.upstreamCode", details.UpstreamCode, http.StatusServiceUnavailable)
	t.Equal("totalUsage", string(t.JSON(e.TotalUsage)), "0")
}

func executionError(t *probe.Trial, raw json.RawMessage) api.ExecutionError {
	var fault api.ExecutionError
	t.NoError("error", json.Unmarshal(raw, &fault))
	return fault
}

// answering starts an upstream that responds with the given statuses, one after the other, and
// repeats the last status.
func answering(statuses ...int) http.HandlerFunc {
	turns := make(chan int, len(statuses))
	for _, status := range statuses[:len(statuses)-1] {
		turns <- status
	}
	return func(w http.ResponseWriter, _ *http.Request) {
		status := statuses[len(statuses)-1]
		select {
		case status = <-turns:
		default:
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(`{"ok":true}`))
	}
}

func executeTimes(t *probe.Trial) {
	answer := t.Post(probe.Components, probe.RandomUUID().Waiting(15000))
	var times struct{ CreatedAt, UpdatedAt string }
	t.NoError("times", json.Unmarshal(answer.Body, &times))
	form := regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`)
	for _, at := range []string{times.CreatedAt, times.UpdatedAt} {
		t.Decided("D1.3", form.MatchString(at), "time %q", at)
	}
	t.Check(times.UpdatedAt >= times.CreatedAt, "updatedAt %s is before createdAt %s", times.UpdatedAt, times.CreatedAt)
}

func executeEnvelope(t *probe.Trial) {
	for _, c := range []struct{ body, pointer string }{
		{`{"input":{},"config":{}}`, "/module"},
		{`{"module":"RANDOM_UUID","config":{}}`, "/input"},
		{`{"module":"RANDOM_UUID","input":{}}`, "/config"},
		{`{"module":null,"input":{},"config":{}}`, "/module"},
		{`{"module":7,"input":{},"config":{}}`, "/module"},
		{`{"module":"NO_SUCH_MODULE","input":{},"config":{}}`, "/module"},
		{`{"module":"RANDOM_UUID","input":[],"config":{}}`, "/input"},
		{`{"module":"RANDOM_UUID","input":null,"config":{}}`, "/input"},
		{`{"module":"RANDOM_UUID","input":{},"config":"{}"}`, "/config"},
		{`{"module":"RANDOM_UUID","input":{},"config":{},"attempts":0}`, "/attempts"},
		{`{"module":"RANDOM_UUID","input":{},"config":{},"attempts":4}`, "/attempts"},
		{`{"module":"RANDOM_UUID","input":{},"config":{},"attempts":1.5}`, "/attempts"},
		{`{"module":"RANDOM_UUID","input":{},"config":{},"attempts":"2"}`, "/attempts"},
		{`{"module":"RANDOM_UUID","input":{},"config":{},"waitForMs":-1}`, "/waitForMs"},
		{`{"module":"RANDOM_UUID","input":{},"config":{},"waitForMs":15001}`, "/waitForMs"},
		{`{"module":"RANDOM_UUID","input":{},"config":{},"waitForMs":true}`, "/waitForMs"},
		{`{"module":"RANDOM_UUID","input":{},"config":{},"maxCredits":-1}`, "/maxCredits"},
		{`{"module":"RANDOM_UUID","input":{},"config":{},"maxCredits":1000000001}`, "/maxCredits"},
		{`{"module":"RANDOM_UUID","input":{},"config":{},"maxCredits":1.0000001}`, "/maxCredits"},
		{`{"module":"RANDOM_UUID","input":{},"config":{},"maxCredits":"1"}`, "/maxCredits"},
		{`{"module":"RANDOM_UUID","input":{},"config":{},"callbackUrl":7}`, "/callbackUrl"},
		{`{"module":"RANDOM_UUID","input":{},"config":{},"callbackSecret":7}`, "/callbackSecret"},
		{`{"module":"RANDOM_UUID","input":{},"config":{},"callbackHeaders":[]}`, "/callbackHeaders"},
		{`{"module":"RANDOM_UUID","input":{},"config":{},"callbackSecret":"s"}`, "/callbackSecret"},
		{`{"module":"RANDOM_UUID","input":{},"config":{},"callbackHeaders":{"X-A":"a"}}`, "/callbackHeaders"},
		{`{"module":"RANDOM_UUID","input":{},"config":{},"callbackHeaders":{}}`, "/callbackHeaders"},
		{`{"module":"RANDOM_UUID","input":{},"config":{},"callbackUrl":null,"callbackHeaders":{}}`, "/callbackHeaders"},
		{`{"module":"RANDOM_UUID","input":{},"config":{},"callbackUrl":"https://hooks.example.org/","callbackHeaders":{"X-A":1}}`, "/callbackHeaders/X-A"},
	} {
		invalid(t, c.body, c.pointer)
	}
	for _, bounds := range []string{`"attempts":1,"waitForMs":0`, `"attempts":3,"waitForMs":15000`} {
		answer := t.Do(probe.Request{Method: http.MethodPost, Path: probe.Components, Body: []byte(`{"module":"RANDOM_UUID","input":{},"config":{},` + bounds + `}`)})
		t.Check(answer.Status == http.StatusOK, "%s is refused: %d %s", bounds, answer.Status, answer.Body)
	}
	for _, module := range controls {
		p := invalid(t, `{"module":"`+module+`","input":{},"config":{}}`, "/module")
		t.Check(strings.Contains(p.Detail, "WORKFLOW"), "%s: the mode is not named: %s", module, p.Detail)
	}
}

// invalid submits a body that must be rejected with 400, and the pointers of its faults.
func invalid(t *probe.Trial, body string, pointers ...string) api.Problem {
	answer := t.Do(probe.Request{Method: http.MethodPost, Path: probe.Components, Body: []byte(body)})
	p := t.Problem(answer, http.StatusBadRequest, "INVALID_INPUT")
	for _, pointer := range pointers {
		t.Check(slices.Contains(probe.Pointers(p), pointer), "%.200s: the faults are at %q, want %q", body, probe.Pointers(p), pointer)
	}
	for _, fault := range p.Errors {
		t.Check(fault.Code != "" && fault.Message != "", "a fault without code or message: %s", answer.Body)
	}
	return p
}

func executeSchema(t *probe.Trial) {
	answer := t.Do(probe.Request{Method: http.MethodPost, Path: probe.Components, Body: []byte(
		`{"module":"API_CALL","input":{"headers":7,"query":"no"},"config":{"method":"BREW"}}`)})
	p := t.Problem(answer, http.StatusUnprocessableEntity, "INVALID_INPUT")
	faults := strings.Join(probe.Pointers(p), " ")
	for _, pointer := range []string{"/input/headers", "/input/query", "/config/apiUrl", "/config/method"} {
		t.Check(strings.Contains(faults, pointer), "no fault at %s, only at %s", pointer, faults)
	}
}

func executeUnknownField(t *probe.Trial) {
	answer := t.Do(probe.Request{Method: http.MethodPost, Path: probe.Components, Body: []byte(
		`{"module":"RANDOM_UUID","input":{},"config":{},"waitForMs":15000,"workspaceId":"x","colour":"red"}`)})
	completedUUID(t, probe.Decode[api.ComponentExecution](t, answer))
	t.Decided("D1.1.reported", answer.Header.Get("Weft-Ignored") == `"/colour", "/workspaceId"`, "Weft-Ignored: %s", answer.Header.Get("Weft-Ignored"))
}

func executeStrict(t *probe.Trial) {
	strict := http.Header{"Prefer": {"handling=strict"}}
	answer := t.Do(probe.Request{Method: http.MethodPost, Path: probe.Components, Header: strict,
		Body: []byte(`{"module":"RANDOM_UUID","input":{},"config":{},"colour":"red"}`)})
	p := t.Problem(answer, http.StatusBadRequest, "INVALID_INPUT")
	t.Equal("pointers", probe.Pointers(p), []string{"/colour"})
	answer = t.Do(probe.Request{Method: http.MethodPost, Path: probe.Components, Header: strict,
		Body: []byte(`{"module":"HASH","input":{"data":"x","algorithmm":"sha512"},"config":{"algorithm":"sha512"}}`)})
	p = t.Problem(answer, http.StatusBadRequest, "INVALID_INPUT")
	t.Equal("pointers", probe.Pointers(p), []string{"/input/algorithmm", "/config/algorithm"})
	answer = t.Do(probe.Request{Method: http.MethodPost, Path: probe.Components, Header: strict,
		Body: []byte(`{"module":"HASH","input":{"dta":"x","algorithm":"md5"},"config":{}}`)})
	p = t.Problem(answer, http.StatusBadRequest, "INVALID_INPUT")
	t.Equal("pointers", probe.Pointers(p), []string{"/input/dta", "/input/algorithm", "/input/data"})
	answer = t.Do(probe.Request{Method: http.MethodPost, Path: "/v1/sdk/workflows", Header: strict,
		Body: []byte(`{"name":"strict","components":[{"id":"start","module":"ON_API_CALLED"},{"id":"each","module":"FOR_EACH","input":{"items":[]},"config":{"concurency":1}}],"sequenceEdges":[{"id":"e","from":"start","to":"each"}]}`)})
	p = t.Problem(answer, http.StatusBadRequest, "INVALID_INPUT")
	t.Equal("pointers", probe.Pointers(p), []string{"/components/1/config/concurency"})
	answer = t.Do(probe.Request{Method: http.MethodPost, Path: probe.Components + "?colour=red", Header: strict,
		Body: []byte(`{"module":"RANDOM_UUID","input":{},"config":{},"shape":"round"}`)})
	t.Equal("pointers", probe.Pointers(t.Problem(answer, http.StatusBadRequest, "INVALID_INPUT")), []string{"/query/colour", "/shape"})
	answer = t.Do(probe.Request{Path: probe.Executions + "?colour=red", Header: strict})
	p = t.Problem(answer, http.StatusBadRequest, "INVALID_INPUT")
	t.Equal("pointers", probe.Pointers(p), []string{"/query/colour"})
	answer = t.Do(probe.Request{Method: http.MethodPost, Path: probe.Components, Header: strict, Body: t.JSON(probe.RandomUUID())})
	sound(t, probe.Decode[api.ComponentExecution](t, answer))
	t.Equal("Preference-Applied", answer.Header.Get("Preference-Applied"), "handling=strict")
}

func executeLargeOutput(t *probe.Trial) {
	upstream := t.Upstream(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = w.Write([]byte(strings.Repeat("x", 1<<20+1)))
	})
	e := t.Execute(probe.Fetch(upstream).Waiting(15000))
	sound(t, e)
	t.Equal("status", string(e.Status), "FAILED")
	t.Equal("error.code", executionError(t, e.Error).Code, "OUTPUT_TOO_LARGE")
}

func executePassThrough(t *probe.Trial) {
	const body = `{"n":10000000000000000000001,"f":1.50,"k":"<&>\u2028","z":{"b":1,"a":[null,true]}}`
	upstream := t.Upstream(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(body))
	})
	e := t.Execute(probe.Fetch(upstream).Waiting(15000))
	t.Equal("status", string(e.Status), "COMPLETED")
	var output struct {
		Status int
		Body   json.RawMessage
	}
	t.NoError("output", json.Unmarshal(e.Output, &output))
	t.Equal("output.status", output.Status, http.StatusOK)
	for _, part := range []string{"10000000000000000000001", "1.5", `"a":[null,true]`} {
		t.Check(strings.Contains(strings.ReplaceAll(string(output.Body), " ", ""), part), "output.body %s lost %s", output.Body, part)
	}
}
