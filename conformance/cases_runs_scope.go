package conformance

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/gen/api"
)

var runScopeCases = []Case{
	{
		Part: "5.1.3, 7.403, 4.5.restricted, D2.8.runs", Name: "AU12 runs/403 a key that is restricted to other workflows", Run: runRestricted,
		Needs: []probe.Need{probe.NeedOwner},
	},
	{Part: "D1.2.404", Name: "runs/404 malformed and unknown ids are the same", Run: runUnknown},
	{Part: "D1.2.404, D1.7.scope", Name: "MT01 runs/404 those of another workspace", Run: runForeign, Needs: []probe.Need{probe.NeedForeign}},
	{Part: "D7.5.quote, 4.success", Name: "runs/200 quotes", Run: runQuotes},
	{Part: "D7.5.trigger, D3.table", Name: "runs/402 a run that may not cost that much", Run: runCapped, Needs: workspaces},
	{Part: "D7.4.run, D7.3, D7.1", Name: "runs/402 no credits for a trigger, or for a stage", Run: runUnpaid, Needs: workspaces},
}

// sha256Of returns the digest of a string in the format of HASH.
func sha256Of(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "0x" + hex.EncodeToString(sum[:])
}

// onRun returns requests of every operation whose path names a run.
func onRun(t *probe.Trial, id string) []probe.Request {
	var list []probe.Request
	for _, operation := range t.Target().Spec.Operations() {
		if strings.Contains(operation.Template, "{runId}") {
			list = append(list, probe.Request{Method: operation.Method, Path: concrete(strings.Replace(operation.Template, "{runId}", id, 1))})
		}
	}
	t.Check(len(list) >= 6, "%d operations on a run", len(list))
	return list
}

// runRestricted uses a key that is restricted to one workflow.
func runRestricted(t *probe.Trial) {
	listed, other := draw(t, nil, nil), draw(t, nil, nil)
	hidden, shown := ran(t, other, "COMPLETED", nil).ID.String(), ran(t, listed, "COMPLETED", nil).ID.String()
	boss := t.SignIn()
	made, credentials := newKeyOf(t, boss, "restricted", listed)
	defer within(t, boss, http.MethodDelete, "/api-keys/"+made.ID.String(), nil)
	as := probe.Signing{As: &credentials}
	requests := append(onWorkflow(t, other), onRun(t, hidden)...)
	requests = append(requests, onWorkflow(t, "0193f1c0-0000-7000-8000-000000000007")...) // whether the workflow exists or not
	requests = append(requests, probe.Request{Path: runs + "?workflowId=" + other})
	var bodies []string
	for _, request := range requests {
		request.Sign = as
		p := t.Problem(t.Do(request), http.StatusForbidden, "FORBIDDEN")
		t.Equal("reason", probe.Reason(p), "workflow_not_allowed")
		p.Instance, p.RequestID = "", ""
		bodies = append(bodies, string(t.JSON(p)))
	}
	t.Equal("bodies", len(slices.Compact(bodies)), 1)
	for _, request := range onRun(t, "0193f1c0-0000-7000-8000-000000000006") {
		request.Sign = as
		t.Problem(t.Do(request), http.StatusNotFound, "NOT_FOUND")
	}
	// Requests for the listed workflow succeed.
	ask := func(method, path string, body any) probe.Answer {
		request := probe.Request{Method: method, Path: path, Sign: as}
		if body != nil {
			request.Body = t.JSON(body)
		}
		return t.Do(request)
	}
	began := probe.Decode[api.TriggerResult](t, ask(http.MethodPost, workflowPath(listed), object{"waitForMs": 15_000}))
	t.Equal("status", string(began.Run.Status), "COMPLETED")
	probe.Decode[api.RunQuote](t, ask(http.MethodPost, workflowPath(listed)+"/quote", object{}))
	for _, path := range []string{"", "/stages", "/events"} {
		t.Equal(path, ask(http.MethodGet, runPath(shown)+path, nil).Status, http.StatusOK)
	}
	t.Equal("cancel", ask(http.MethodPut, runPath(shown)+"/cancellation", nil).Status, http.StatusOK)
	t.Problem(ask(http.MethodPut, runPath(shown)+"/signals/go", nil), http.StatusConflict, "CONFLICT")
	_, ok := t.StreamOf(probe.Request{Path: runPath(shown) + "/stream", Sign: as}).Next()
	t.Check(ok, "no event")
	for _, query := range []string{"?limit=100", "?limit=100&workflowId=" + listed} {
		page := probe.Decode[api.WorkflowRunPage](t, ask(http.MethodGet, runs+query, nil))
		t.Equal("runs "+query, len(page.Data), 2)
		for _, run := range page.Data {
			t.Equal("workflowId", run.WorkflowID.String(), listed)
		}
	}
	p := t.Problem(ask(http.MethodPost, workflowPath(listed), object{"rerunOf": object{"runId": hidden}}), http.StatusBadRequest, "INVALID_INPUT")
	t.Equal("pointers", probe.Pointers(p), []string{"/rerunOf/runId"})
}

func runUnknown(t *probe.Trial) {
	const nobodys = "0193f1c0-0000-7000-8000-000000000006"
	for i, unknown := range onRun(t, nobodys) {
		want := t.Problem(t.Do(unknown), http.StatusNotFound, "NOT_FOUND")
		for _, id := range []string{"x", upper(nobodys), strings.ReplaceAll(nobodys, "-", "")} {
			request := onRun(t, id)[i]
			t.Equal(request.Method+" "+request.Path, t.Problem(t.Do(request), http.StatusNotFound, "NOT_FOUND").Detail, want.Detail)
		}
	}
	for _, name := range []string{"a%20b", strings.Repeat("x", 201)} {
		answer := t.Do(probe.Request{Method: http.MethodPut, Path: runPath(nobodys) + "/signals/" + name})
		t.Check(answer.Status == http.StatusNotFound || answer.Status == http.StatusBadRequest, "%s: %d", name, answer.Status)
	}
}

func runForeign(t *probe.Trial) {
	as := probe.Signing{As: t.Target().Foreign}
	body := sketch([]object{use("start", "ON_API_CALLED"), set("wait", "WAIT_FOR_SIGNAL", object{"name": "approved", "timeoutMs": 60_000})}, []string{"start next wait"})
	theirs := func(method, path string, body any) probe.Answer {
		request := probe.Request{Method: method, Path: path, Sign: as}
		if body != nil {
			request.Body = t.JSON(body)
		}
		return t.Do(request)
	}
	workflow := decodeWorkflow(t, theirs(http.MethodPost, workflows, body)).ID
	run := probe.Decode[api.TriggerResult](t, theirs(http.MethodPost, workflowPath(workflow), object{})).RunID.String()
	unknown := onRun(t, "0193f1c0-0000-7000-8000-000000000006")
	for i, request := range onRun(t, run) {
		t.Equal(request.Method+" "+request.Path, t.Problem(t.Do(request), http.StatusNotFound, "NOT_FOUND").Detail, t.Problem(t.Do(unknown[i]), http.StatusNotFound, "NOT_FOUND").Detail)
	}
	t.Equal("listed", len(probe.Decode[api.WorkflowRunPage](t, t.Get(runs+"?workflowId="+workflow)).Data), 0)
	unchanged := probe.Decode[api.WorkflowRun](t, theirs(http.MethodGet, runPath(run), nil))
	t.Check(!unchanged.Status.Terminal() && unchanged.CancelRequestedAt == nil, "%s", t.JSON(unchanged))
	own := draw(t, nil, nil)
	t.Problem(t.Post(workflowPath(own), object{"rerunOf": object{"runId": run}}), http.StatusNotFound, "NOT_FOUND")
	// A workflow cannot run a workflow of another workspace.
	child := ran(t, draw(t, []object{set("child", "RUN_WORKFLOW", object{"workflowId": workflow})}, []string{"start next child"}), "FAILED", nil)
	t.Equal("error.code", runError(t, child.Error).Code, "NOT_FOUND")
	theirs(http.MethodPut, runPath(run)+"/cancellation", nil)
}

func quote(t *probe.Trial, id string, body any) api.RunQuote {
	return probe.Decode[api.RunQuote](t, t.Post(workflowPath(id)+"/quote", body))
}

func runQuotes(t *probe.Trial) {
	id := draw(t, []object{
		use("certain", "RANDOM_UUID"), set("if", "IF", object{"expression": "true"}), use("perhaps", "RANDOM_UUID"),
		having(use("loop", "FOR_EACH"), "input", object{"items": []int{1, 2, 3}}), use("each", "RANDOM_UUID"),
	}, []string{"start next certain", "certain next if", "if then perhaps", "if else loop", "loop each each"})
	got := quote(t, id, object{})
	t.Check(got.WorkflowID.String() == id && got.WorkflowVersion == 1 && len(got.UnknownBounds) == 0 && got.UnknownBounds != nil, "%+v", got)
	t.Equal("minimum and maximum", fmt.Sprint(got.MinimumCredits, *got.MaximumCredits), "2 4")
	again := t.Do(probe.Request{Method: http.MethodPost, Path: workflowPath(id) + "/quote"})
	same(t, "without a body", probe.Decode[api.RunQuote](t, again), got)
	unknown := sketch([]object{use("start", "ON_API_CALLED"), use("loop", "FOR_EACH"), use("each", "RANDOM_UUID"), use("after", "HASH")},
		[]string{"start next loop", "loop each each", "loop done after"}, "start.items loop.items", "start.data after.data")
	decodeWorkflow(t, put(t, id, unknown, ""))
	strict := t.Do(probe.Request{Method: http.MethodPost, Path: workflowPath(id) + "/quote", Body: []byte(`{}`), Header: http.Header{"Prefer": {"handling=strict"}}})
	t.Equal("Preference-Applied", strict.Header.Get("Preference-Applied"), "handling=strict")
	second := probe.Decode[api.RunQuote](t, strict)
	t.Check(second.WorkflowVersion == 2 && second.MaximumCredits == nil && second.MinimumCredits.String() == "1", "%s", strict.Body)
	same(t, "unknownBounds", second.UnknownBounds, json.RawMessage(`[{"componentId":"loop","reason":"items"}]`))
	same(t, "of the first version", quote(t, id, object{"version": 1}), got)
	t.Problem(t.Post(workflowPath(id)+"/quote", object{"version": 3}), http.StatusNotFound, "NOT_FOUND")
	t.Problem(t.Post(workflowPath(id)+"/quote", object{"version": 0}), http.StatusBadRequest, "INVALID_INPUT")
	t.Equal("runs", len(probe.Decode[api.WorkflowRunPage](t, t.Get(runs+"?workflowId="+id)).Data), 0)
}

// customerRuns sends the requests of a separate workspace with the limits of its plan.
type customerRuns struct {
	t  *probe.Trial
	as probe.Signing
}

func (c customerRuns) ask(method, path string, body any) probe.Answer {
	request := probe.Request{Method: method, Path: path, Sign: c.as}
	if body != nil {
		request.Body = c.t.JSON(body)
	}
	return c.t.Do(request)
}

// loops creates a workflow whose loop costs 1 per item, with one item at a time.
func (c customerRuns) loops(before ...object) string {
	components, edges := append([]object{use("start", "ON_API_CALLED"), set("loop", "FOR_EACH", object{"concurrency": 1}), use("each", "RANDOM_UUID")}, before...), []string{"start next loop", "loop each each"}
	for _, one := range before {
		edges = append(edges, fmt.Sprintf("start next %s", one["id"]))
	}
	return decodeWorkflow(c.t, c.ask(http.MethodPost, workflows, sketch(components, edges, "start.items loop.items"))).ID
}

func (c customerRuns) run(workflow string, body object) api.WorkflowRun {
	body["waitForMs"] = 15_000
	run := probe.Decode[api.TriggerResult](c.t, c.ask(http.MethodPost, workflowPath(workflow), body)).Run
	c.t.Check(run.Status.Terminal(), "run %s is %s", run.ID, run.Status)
	return *run
}

func runCapped(t *probe.Trial) {
	c := customerRuns{t, withCredit(t, "starter", 10)}
	id := c.loops(use("certain", "RANDOM_UUID"))
	p := t.Problem(c.ask(http.MethodPost, workflowPath(id), object{"maxCredits": json.Number("0.999999")}), http.StatusPaymentRequired, "INSUFFICIENT_CREDITS")
	t.Equal("reason", probe.Reason(p), "max_credits")
	run := c.run(id, object{"maxCredits": 3, "input": object{"items": make([]int, 5)}})
	t.Equal("the end", string(run.Status)+" "+runError(t, run.Error).Code, "FAILED INSUFFICIENT_CREDITS")
	t.Equal("totalUsage", run.TotalUsage.String(), "3") // what finished is charged
	t.Check(len(stagesOf(run, "each")) == 2, "%s", became(run))
	own := creditsOf(t, c.as)
	t.Equal("credits", fmt.Sprint(own.AvailableCredits, own.ReservedCredits), "7 0")
	run = c.run(id, object{"maxCredits": 3, "input": object{"items": make([]int, 2)}})
	t.Equal("the end", string(run.Status)+" "+run.TotalUsage.String(), "COMPLETED 3")
	own = creditsOf(t, c.as)
	t.Equal("credits", fmt.Sprint(own.AvailableCredits, own.ReservedCredits), "4 0")
}

func runUnpaid(t *probe.Trial) {
	c := customerRuns{t, withCredit(t, "starter", 3)}
	id := c.loops()
	run := c.run(id, object{"input": object{"items": make([]int, 5)}})
	t.Equal("the end", string(run.Status)+" "+runError(t, run.Error).Code, "FAILED INSUFFICIENT_CREDITS")
	t.Check(run.TotalUsage.String() == "3" && len(stagesOf(run, "each")) == 3, "%s, %s", run.TotalUsage, became(run))
	own := creditsOf(t, c.as)
	t.Equal("credits", fmt.Sprint(own.AvailableCredits, own.ReservedCredits), "0 0")
	// The balance is below the minimum cost of this workflow.
	paid := c.loops(use("certain", "RANDOM_UUID"))
	request := probe.Request{Method: http.MethodPost, Path: workflowPath(paid), Body: []byte(`{}`), Sign: c.as, Header: http.Header{"Idempotency-Key": {unique()}}}
	p := t.Problem(t.Do(request), http.StatusPaymentRequired, "INSUFFICIENT_CREDITS")
	t.Equal("reason", probe.Reason(p), "credits_exhausted")
	t.Check(!p.Retryable && p.Price != nil && p.Price.String() == "1" && p.AvailableCredits != nil && *p.AvailableCredits == 0, "%s", t.JSON(p))
	t.Equal("runs", len(probe.Decode[api.WorkflowRunPage](t, c.ask(http.MethodGet, runs+"?workflowId="+paid, nil)).Data), 0)
	// A workflow that costs nothing runs without any credits.
	t.Equal("status", string(c.run(id, object{"input": object{"items": []int{}}}).Status), "COMPLETED")
	token := t.SignInAs(*c.as.As)
	page := probe.Decode[api.LedgerPage](t, t.Do(probe.Request{Path: probe.Workspace(c.as.As.WorkspaceID) + "/ledger", Bearer: token}))
	var lines []string
	for _, line := range page.Data {
		if line.RunID != nil {
			lines = append(lines, fmt.Sprintf("%s %s %s", line.Kind, line.RunID, line.Usage))
		}
	}
	t.Check(len(lines) == 2 && lines[1] == "RUN "+run.ID.String()+" 3", "the statement is %q", lines)
	t.Check(t.Target().Grant != nil, "nobody grants credits")
	t.NoError("grant", t.Target().Grant(t.Context(), c.as.As.WorkspaceID, 5))
	began := probe.Decode[api.TriggerResult](t, t.Do(request)) // the refusal left no key behind
	t.Check(began.Run == nil && began.RunID.String() != "", "%+v", began)
}

// runLine returns the only line of the statement that names a run.
func runLine(t *probe.Trial, token, id string) (line api.LedgerPosting) {
	found := 0
	for query := "?limit=100"; ; {
		page := ledger(t, token, query)
		for _, posting := range page.Data {
			if posting.RunID != nil && posting.RunID.String() == id {
				line = posting
				found++
			}
		}
		if page.NextCursor == nil || found > 0 {
			break
		}
		query = "?limit=100&cursor=" + *page.NextCursor
	}
	t.Equal("lines of the statement for "+id, found, 1)
	t.Equal("kind", string(line.Kind), "RUN")
	return line
}
