package conformance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/gen/api"
)

var runCases = []Case{
	{
		Part: "2.3.id, 2.3.status, 2.3.counts, 2.3.totalUsage, 2.3.times, 2.3.runStages, 2.4.id, 2.4.module, 2.4.status, 2.4.output, " +
			"2.4.creditUsage, 2.4.executionAttempt, 2.4.updatedAt, 3.2, 4.6, D8.7.stages, D8.7.run, D1.3",
		Name: "runs/200 a record with every kind of stage", Run: runRecorded, Needs: near,
	},
	{Part: "2.3.counts, 2.4.status, 2.4.output, 4.6, D8.7.pending", Name: "runs/200 the record of a run under way", Run: runUnderWay, Needs: near},
	{Part: "D8.7.none, D8.7.paging, D1.5.limit, D1.5.cursor, D1.5.stable", Name: "runs/200 stages left out, and by pages", Run: runStagePages},
	{Part: "D1.5.order, D1.5.cursor", Name: "runs/200 the list of runs", Run: runList},
	{Part: "4.5, 4.5.answer, D8.8.body, D8.8.answer, 4.success", Name: "runs/200 triggers of every kind", Run: runTriggers},
	{Part: "D8.8.body, D3.422, D1.1.strict", Name: "runs/400, 404, 422 triggers that are refused", Run: runTriggersRefused},
	{Part: "D8.8.answer, C.RESPOND", Name: "runs/200 a response ends the wait early", Run: runResponds, Needs: near},
	{Part: "D8.7.conflict", Name: "runs/409 a workflow that is paused or archived", Run: runConflicts},
	{Part: "D8.1.runs, D8.12.runs", Name: "runs/200 a run keeps the version with which it began", Run: runKeepsVersion},
	{Part: "D1.7.replay, D1.7.wait, D1.7.mismatch, D1.7.inflight, D1.7.refused, D1.7.trigger", Name: "EX15 runs/200 a repeated trigger begins nothing", Run: runRepeated},
}

const runs = workflows + "/executions"

func runPath(id string) string { return runs + "/" + id }

// draw creates the workflow of a sketch with the API trigger `start`, and returns its ID. Edges and
// connections are written as in sketch.
func draw(t *probe.Trial, components []object, edges []string, connections ...string) string {
	return create(t, sketch(append([]object{use("start", "ON_API_CALLED")}, components...), edges, connections...)).ID
}

// doing returns a component that calls an upstream.
func doing(id, url string) object {
	return object{"id": id, "module": "API_CALL", "input": object{"headers": object{}}, "config": object{"apiUrl": url, "method": "GET"}}
}

// trigger starts a run and returns the response.
func trigger(t *probe.Trial, workflowID string, body any) api.TriggerResult {
	return probe.Decode[api.TriggerResult](t, t.Post(workflowPath(workflowID), body))
}

// begin starts a run with an input and returns its ID.
func begin(t *probe.Trial, workflowID string, input object) string {
	body := object{}
	if input != nil {
		body["input"] = input
	}
	return trigger(t, workflowID, body).RunID.String()
}

// ran starts a run, waits until it is final, and returns it. It fails the case if the status is another.
func ran(t *probe.Trial, workflowID, status string, input object) api.WorkflowRun {
	return finished(t, begin(t, workflowID, input), status)
}

// finished waits until a run is final and returns it. It fails the case if the status is another.
func finished(t *probe.Trial, id, status string) api.WorkflowRun {
	run := eventually(t, id, "final", func(run api.WorkflowRun) bool { return run.Status.Terminal() })
	t.Check(string(run.Status) == status, "run %s is %s, want %s: %s", id, run.Status, status, t.JSON(run))
	t.Equal("pendingStageCount at the end", run.PendingStageCount, int32(0))
	return run
}

// alike compares JSON with a value, regardless of the order of fields.
func alike(t *probe.Trial, what string, got json.RawMessage, want any) {
	var value any
	t.NoError(what, json.Unmarshal(got, &value))
	same(t, what, value, want)
}

func record(t *probe.Trial, id string) api.WorkflowRun {
	return probe.Decode[api.WorkflowRun](t, t.Get(runPath(id)))
}

// eventually polls a run until its record meets a condition.
func eventually(t *probe.Trial, id, what string, yes func(api.WorkflowRun) bool) api.WorkflowRun {
	var last api.WorkflowRun
	t.Until("run "+id+" "+what, 30*time.Second, func() bool {
		last = record(t, id)
		return yes(last)
	})
	return last
}

// stagesOf returns the stages of a component in a run, in order of creation.
func stagesOf(run api.WorkflowRun, componentID string) []api.RunStage {
	return slices.DeleteFunc(slices.Clone(run.RunStages), func(s api.RunStage) bool { return string(s.ComponentID) != componentID })
}

// stageOf returns the only stage of a component.
func stageOf(t *probe.Trial, run api.WorkflowRun, componentID string) api.RunStage {
	all := stagesOf(run, componentID)
	t.Check(len(all) == 1, "%s has %d stages, not 1: %s", componentID, len(all), t.JSON(run))
	return all[0]
}

// became lists the components of a run with the status of their stages, sorted by ID. A
// component in a loop appears once for each item.
func became(run api.WorkflowRun) string {
	var all []string
	for _, s := range run.RunStages {
		all = append(all, fmt.Sprintf("%s %s", s.ComponentID, s.Status))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func runError(t *probe.Trial, raw json.RawMessage) api.RunError {
	var fault api.RunError
	t.NoError("error of the run", json.Unmarshal(raw, &fault))
	t.Check(fault.Code != "" && fault.Message != "", "an error without code or message: %s", raw)
	return fault
}

// rich creates a workflow with every kind of stage: control flow, executed components, stages
// in a loop, a handled failure, and a failure that fails the run.
func rich(t *probe.Trial) string {
	broken := doing("broken", t.Upstream(answering(503)))
	broken["onFailure"] = "continue"
	return draw(t, []object{
		having(use("id", "RANDOM_UUID"), "name", "An id"), broken, use("loop", "FOR_EACH"), set("double", "TRANSFORM", object{"expression": "n * 2"}),
		use("answer", "RESPOND"), set("end", "FAIL", object{"code": "OUT_OF_STOCK", "message": "nothing is left"}),
	}, []string{"start next id", "id next broken", "broken next loop", "loop each double", "loop done answer", "answer next end"},
		"start.items loop.items", "loop.item double.n", "double.result answer.doubled", "id.uuid answer.id")
}

func runRecorded(t *probe.Trial) {
	workflow := rich(t)
	first := ran(t, workflow, "FAILED", object{"items": []int{1, 2}})
	from := stageOf(t, first, "broken").ID
	again := trigger(t, workflow, object{
		"rerunOf": object{"runId": first.ID, "fromStageId": from}, "metadata": object{"order": "4711"}, "waitForMs": 15_000,
	})
	run := finished(t, again.RunID.String(), "FAILED")
	same(t, "the run in the trigger's answer", again.Run, run)

	t.Check(uuid7.MatchString(run.ID.String()) && run.ID == again.RunID && run.WorkflowID.String() == workflow && run.WorkflowVersion == 1, "%s of %s", run.ID, run.WorkflowID)
	t.Equal("trigger", string(run.Trigger), "API")
	t.Equal("input", string(run.Input), `{"items":[1,2]}`)
	same(t, "metadata", run.Metadata, object{"order": "4711"})
	alike(t, "rerunOf", run.RerunOf, object{"fromStageId": from, "runId": first.ID})
	t.Check(isNull(first.RerunOf) && isNull(first.Metadata) && run.ParentRunID == nil && run.CancelRequestedAt == nil && run.CancelReason == nil, "%+v", run)
	var output struct {
		ID      string
		Doubled []int
	}
	t.NoError("output", json.Unmarshal(run.Output, &output))
	t.Equal("the output of a loop", output.Doubled, []int{2, 4})
	t.Equal("became", became(run), "answer COMPLETED, broken FAILED, double COMPLETED, double COMPLETED, end FAILED, id COMPLETED, loop COMPLETED, start COMPLETED")
	t.Equal("failedStageCount", run.FailedStageCount, int32(2))
	t.Check(run.FinishedAt != nil && notBefore(*run.FinishedAt, run.CreatedAt) && notBefore(run.UpdatedAt, run.CreatedAt), "created %s, updated %s, finished %s", run.CreatedAt, run.UpdatedAt, run.FinishedAt)

	// The run is the same everywhere it is returned.
	same(t, "stages of the run", probe.Decode[api.RunStagePage](t, t.Get(runPath(run.ID.String())+"/stages?limit=100")).Data, run.RunStages)
	same(t, "the answer of a cancel after the end", cancel(t, run.ID.String(), nil), run)
	bare := run
	bare.RunStages = []api.RunStage{}
	same(t, "the run in the list", probe.Decode[api.WorkflowRunPage](t, t.Get(runs+"?workflowId="+workflow)).Data[0], bare)

	fault, end := runError(t, run.Error), stageOf(t, run, "end")
	t.Check(fault.Code == "OUT_OF_STOCK" && fault.Message == "nothing is left" && !fault.Retryable && *fault.StageID == end.ID && string(*fault.ComponentID) == "end", "%s", run.Error)
	t.Equal("error.code of the stage", executionError(t, end.Error).Code, "OUT_OF_STOCK")
	t.Check(run.OutputProblem == nil, "there is an outputProblem: %s", t.JSON(run.OutputProblem))
	usage := first.TotalUsage * 0
	for i, stage := range run.RunStages {
		usage += stage.CreditUsage
		stageSound(t, stage)
		t.Check(i == 0 || stage.ID.String() > run.RunStages[max(i-1, 0)].ID.String(), "stage %s is not in its place", stage.ID)
	}
	t.Equal("totalUsage", run.TotalUsage, usage)
	t.Equal("totalUsageWithChildren", run.TotalUsageWithChildren, usage)
	t.Equal("totalUsage of the first", first.TotalUsage.String(), priceOf(t, "RANDOM_UUID")) // what failed costs nothing
	id, broken := stageOf(t, first, "id"), stageOf(t, run, "broken")
	t.Check(id.Module == "RANDOM_UUID" && id.Name == "An id" && len(id.Iteration) == 0 && id.ExecutionAttempt == 1, "%s", t.JSON(id))
	t.Equal("the id", output.ID, uuidOf(t, id.Output))
	upstreamFailure(t, api.ComponentExecution{Status: "FAILED", Error: broken.Error, Output: broken.Output}, 1)
	executed := t.Record(broken.ExecutionEventID.String())
	t.Check(executed.Module == "API_CALL" && executed.Status == "FAILED", "its execution is %s", t.JSON(executed))
	for i, stage := range stagesOf(run, "double") {
		t.Equal("iteration", stage.Iteration, []int32{int32(i)})
		t.Equal("output", string(stage.Output), fmt.Sprintf(`{"result":%d}`, 2*(i+1)))
	}
}

func uuidOf(t *probe.Trial, output json.RawMessage) string {
	var made struct{ UUID string }
	t.NoError("output", json.Unmarshal(output, &made))
	t.Check(made.UUID != "", "no uuid in %s", output)
	return made.UUID
}

func notBefore(a, b interface{ Std() time.Time }) bool { return !a.Std().Before(b.Std()) }

// stageSound checks the invariants of every final stage.
func stageSound(t *probe.Trial, s api.RunStage) {
	t.Check(uuid7.MatchString(s.ID.String()) && s.Module != "" && s.Iteration != nil, "%s", t.JSON(s))
	t.Check(s.FinishedAt != nil && notBefore(s.UpdatedAt, *s.FinishedAt), "finished %s, updated %s", s.FinishedAt, s.UpdatedAt)
	t.Check((s.Status == "COMPLETED") != isNull(s.Output) && s.OutputProblem == nil, "%s with output %s, %s", s.Status, s.Output, t.JSON(s.OutputProblem))
	t.Check((s.Status == "FAILED") != isNull(s.Error), "%s with error %s", s.Status, s.Error)
	t.Check(s.ChildRunID == nil, "%s started the run %s", s.Module, s.ChildRunID)
	if s.ExecutionEventID != nil {
		t.Check(s.ExecutionDispatchedAt != nil && s.StartedAt != nil && notBefore(*s.StartedAt, *s.ExecutionDispatchedAt) && s.ExecutionAttempt >= 1, "%s", t.JSON(s))
		t.Check(notBefore(*s.FinishedAt, *s.StartedAt), "finished %s before it started %s", s.FinishedAt, s.StartedAt)
	}
}

func runUnderWay(t *probe.Trial) {
	url, letGo, asked := held(t)
	id := begin(t, draw(t, []object{doing("call", url), set("wait", "WAIT_FOR_SIGNAL", object{"name": "go", "timeoutMs": 60_000}), use("after", "RANDOM_UUID")},
		[]string{"start next call", "start next wait", "call next after"}), nil)
	t.Until("the upstream is asked", 20*time.Second, asked)
	run := eventually(t, id, "running", func(run api.WorkflowRun) bool {
		call := stagesOf(run, "call")
		return len(call) == 1 && call[0].Status == "RUNNING"
	})
	t.Check(run.Status == "EXECUTING" && run.PendingStageCount == 2 && run.FailedStageCount == 0 && run.FinishedAt == nil && isNull(run.Error) && isNull(run.Output), "%s", t.JSON(run))
	call := stageOf(t, run, "call")
	t.Check(isNull(call.Output) && isNull(call.Error) && call.CreditUsage == 0 && call.FinishedAt == nil && call.StartedAt != nil && call.ExecutionAttempt == 1, "%s", t.JSON(call))
	t.Equal("became", became(run), "call RUNNING, start COMPLETED, wait RUNNING") // components that may run later have no stages yet
	letGo()
	eventually(t, id, "further", func(run api.WorkflowRun) bool { return run.PendingStageCount == 1 && len(stagesOf(run, "after")) == 1 })
	signal(t, id, "go", nil)
	run = finished(t, id, "COMPLETED")
	t.Check(isNull(run.Output) && isNull(run.Error), "%s", t.JSON(run))
}

func runStagePages(t *probe.Trial) {
	id := ran(t, draw(t, []object{use("loop", "FOR_EACH"), set("same", "TRANSFORM", object{"expression": "n"})}, []string{"start next loop", "loop each same"},
		"start.items loop.items", "loop.item same.n"), "COMPLETED", object{"items": make([]int, 123)}).ID.String()
	run := record(t, id)
	t.Equal("stages", len(run.RunStages), 125)
	without := probe.Decode[api.WorkflowRun](t, t.Get(runPath(id)+"?stages=none"))
	t.Equal("stages with stages=none", len(without.RunStages), 0)
	without.RunStages = run.RunStages
	same(t, "stages=all", record(t, id), without)
	for query, limit := range map[string]int{"": 20, "?limit=100": 100, "?limit=7": 7} {
		var all []api.RunStage
		for at := query; ; {
			page := probe.Decode[api.RunStagePage](t, t.Get(runPath(id)+"/stages"+at))
			t.Check(len(page.Data) == min(limit, 125-len(all)), "a page of %d after %d", len(page.Data), len(all))
			t.Equal("hasMore", page.HasMore, page.NextCursor != nil)
			all = append(all, page.Data...)
			if page.NextCursor == nil {
				break
			}
			at = fmt.Sprintf("?limit=%d&cursor=%s", limit, *page.NextCursor)
		}
		same(t, "the stages by pages", all, run.RunStages)
	}
	for _, path := range []string{"/stages?limit=0", "/stages?limit=101", "/stages?cursor=x", "?stages=some", "/events?limit=0", "/events?cursor=x", "/events?after=-1"} {
		t.Problem(t.Get(runPath(id)+path), http.StatusBadRequest, "INVALID_INPUT")
	}
}

func runList(t *probe.Trial) {
	ok, bad := draw(t, nil, nil), draw(t, []object{use("end", "FAIL")}, []string{"start next end"})
	var own []string
	for range 3 {
		own = append(own, ran(t, ok, "COMPLETED", nil).ID.String())
	}
	slices.Reverse(own)
	failed := finished(t, trigger(t, bad, object{"metadata": object{"a": 1}}).RunID.String(), "FAILED")
	page := func(query string) api.WorkflowRunPage {
		page := probe.Decode[api.WorkflowRunPage](t, t.Get(runs+query))
		t.Equal("hasMore", page.HasMore, page.NextCursor != nil)
		for i, run := range page.Data {
			t.Check(len(run.RunStages) == 0 && (i == 0 || run.ID.String() < page.Data[i-1].ID.String()), "not newest first, or with stages: %s", t.JSON(page))
		}
		return page
	}
	var seen []string
	for query := "?limit=2&workflowId=" + ok; ; {
		got := page(query)
		for _, run := range got.Data {
			seen = append(seen, run.ID.String())
		}
		if got.NextCursor == nil {
			break
		}
		begin(t, ok, nil) // does not move the pages
		query = "?limit=2&workflowId=" + ok + "&cursor=" + *got.NextCursor
	}
	t.Equal("the runs of one workflow", seen, own)
	listed := page("?status=FAILED&workflowId=" + bad).Data
	t.Equal("failed runs of a workflow", len(listed), 1)
	failed.RunStages = []api.RunStage{}
	same(t, "the record in the list", listed[0], failed)
	t.Equal("canceled runs of it", len(page("?status=CANCELED&workflowId="+bad).Data), 0)
	for _, run := range page("?limit=100&status=FAILED").Data {
		t.Equal("status", string(run.Status), "FAILED")
	}
	t.Equal("runs of a workflow that there is not", len(page("?workflowId=0193f1c0-0000-7000-8000-000000000007").Data), 0)
	for _, query := range []string{"?limit=0", "?status=DONE", "?workflowId=X", "?cursor=x"} {
		t.Problem(t.Get(runs+query), http.StatusBadRequest, "INVALID_INPUT")
	}
}
