package cli_test

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
)

const runID = "019aa5f3-0a1b-7c2d-8e3f-4a5b6c7d8e9f"

// runEvent returns an event of a run's stream.
func runEvent(seq int, state, output string) string {
	return fmt.Sprintf(`id: %[1]d
data: {"id":"%[2]s","seq":%[1]d,"status":"%[3]s","output":%[4]s,"error":null,"timestamp":"2026-11-21T10:16:00.020Z"}

`, seq, runID, state, output)
}

// stage returns a stage of a run's record.
func stage(component, iteration, state, failure, ended string) string {
	return `{"id":"` + uuid.NewString() + `","componentId":"` + component + `","module":"M","name":"","iteration":` + iteration + `,"status":"` + state +
		`","output":{"a":"<1e400>"},"error":` + failure + `,"creditUsage":1.5,"executionAttempt":1,"executionEventId":null,"executionDispatchedAt":null,` +
		`"startedAt":"2026-11-21T10:16:00.000Z","updatedAt":"2026-11-21T10:16:00.000Z","finishedAt":"` + ended + `"}`
}

func runRecord(state, output, failure string, stages ...string) string {
	return `{"id":"` + runID + `","workflowId":"` + workflowID + `","workflowVersion":3,"runStages":[` + strings.Join(stages, ",") + `],"status":"` + state +
		`","trigger":"API","input":{},"metadata":null,"output":` + output + `,"error":` + failure + `,"pendingStageCount":0,"failedStageCount":0,"totalUsage":4.5,` +
		`"cancelRequestedAt":null,"cancelReason":"no\u001b[31m more","rerunOf":null,"parentRunId":null,"createdAt":"2026-11-21T10:16:00.000Z",` +
		`"updatedAt":"2026-11-21T10:16:00.000Z","finishedAt":"2026-11-21T10:16:01.250Z"}`
}

// running returns a fake Weft with a run and the given streams, one for each request.
func running(record string, streams ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost && r.URL.Path == "/v1/sdk/workflows":
			fmt.Fprint(w, strings.Replace(workflowText, `"version":3`, `"version":1`, 1))
		case r.Method == http.MethodPost:
			fmt.Fprint(w, `{"runId":"`+runID+`","jobId":"7"}`)
		case strings.HasSuffix(r.URL.Path, "/stream"):
			fmt.Fprint(w, streams[0])
			streams = streams[1:]
		default:
			fmt.Fprint(w, record)
		}
	}
}

const oneLives = `{"totalUsage":0,"pendingStageCount":3,"failedStageCount":1,"nonTerminalStages":[` +
	`{"id":"` + runID + `","module":"M","status":"RUNNING","executionEventId":null,"executionAttempt":1},` +
	`{"id":"` + runID + `","module":"M","status":"RUNNING","executionEventId":null,"executionAttempt":1}]}`

func TestWatchReconnectsABrokenStream(t *testing.T) {
	s := serve(t, running(
		runRecord("COMPLETED", `{"all":["<é>",1e400]}`, "null",
			stage("start", "[]", "COMPLETED", "null", "2026-11-21T10:16:00.000Z"),
			stage("body", "[0]", "COMPLETED", "null", "2026-11-21T10:16:00.100Z"), stage("body", "[1]", "COMPLETED", "null", "2026-11-21T10:16:00.300Z")),
		runEvent(1, "EXECUTING", oneLives),
		":ping\n\n"+runEvent(1, "EXECUTING", `{}`)+runEvent(2, "COMPLETED", `{"totalUsage":4.5}`),
	))
	got := run(t, s.environ(), "", "workflows", "run", workflowID, "--watch", "--input", `{"a":1e400}`, "--max-credits=5.5")
	for _, want := range []string{"EXECUTING  usage 0  pending 3  failed 1: M RUNNING x2, 1 more\n", "COMPLETED in 1.25s, usage 4.5", "body       M       COMPLETED  x2     300ms     3\n", "reconnecting"} {
		got.check(t, 0, "", want)
	}
	got.check(t, 0, `"<é>",`, "run "+runID)
	if n := strings.Count(got.stderr, "EXECUTING"); n != 1 || !strings.HasPrefix(got.stdout, "{\n") {
		t.Errorf("EXECUTING is printed %d times: %s%s", n, got.stderr, got.stdout)
	}
	want := []string{
		"POST /v1/sdk/workflows/" + workflowID + ` {"input":{"a":1e400},"maxCredits":5.5}`,
		"GET /v1/sdk/workflows/executions/" + runID + "/stream", "GET /v1/sdk/workflows/executions/" + runID + "/stream",
		"GET /v1/sdk/workflows/executions/" + runID,
	}
	if !slices.Equal(s.seen(), want) {
		t.Errorf("requests %q", s.seen())
	}
	if first, second := s.requests[1].Header.Get("Last-Event-ID"), s.requests[2].Header.Get("Last-Event-ID"); first != "0" || second != "1" {
		t.Errorf("the streams start after %q and %q", first, second)
	}
}

func TestWatchPrintsTheStagesAsJSON(t *testing.T) {
	t.Parallel()
	s := serve(t, running(runRecord("COMPLETED", "null", "null", stage("start", "[]", "COMPLETED", "null", "2026-11-21T10:16:00.000Z")), runEvent(1, "COMPLETED", `{}`)))
	run(t, s.environ(), "", "runs", "watch", runID, "--jq=.runStages[].componentId").check(t, 0, "start\n", "COMPLETED in")
}

func TestUsageOfChildRunsIsPrinted(t *testing.T) {
	record := strings.Replace(runRecord("COMPLETED", "null", "null"), `"totalUsage":4.5`, `"totalUsage":4.5,"totalUsageWithChildren":7`, 1)
	s := serve(t, running(record, runEvent(1, "COMPLETED", `{"totalUsage":4.5}`)))
	run(t, s.environ(), "", "workflows", "watch", runID).check(t, 0, "", "COMPLETED in 1.25s, usage 4.5 (7 with child runs)")
}

func TestExitCodeIsZeroOnlyForCompletedRuns(t *testing.T) {
	for state, want := range map[string]string{
		"COMPLETED": "COMPLETED in 1.25s", "CANCELED": "CANCELED after 1.25s, usage 4.5: no\uFFFD[31m more",
		"FAILED": "FAILED at body after 1.25s, usage 4.5: UPSTREAM_ERROR: it said no",
	} {
		failure := `{"code":"UPSTREAM_ERROR","message":"it said no","retryable":true,"stageId":null,"componentId":"body"}`
		s := serve(t, running(
			runRecord(state, "null", failure, stage("body", "[0]", "FAILED", failure, "2026-11-21T10:16:00.100Z"), stage("body", "[1]", "CANCELED", "null", "2026-11-21T10:16:00.200Z")),
			runEvent(9, state, `{}`), runEvent(9, state, `{}`),
		))
		code := 1
		if state == "COMPLETED" {
			code = 0
		}
		got := run(t, s.environ(), "", "workflows", "watch", runID)
		got.check(t, code, "", want)
		got.check(t, code, "", "1 FAILED, 1 CANCELED  x2     200ms     3\n")
		if n := strings.Count(got.stderr, "UPSTREAM_ERROR: it said no"); n != 1 {
			t.Errorf("%s: the failure is printed %d times: %s", state, n, got.stderr)
		}
		got = run(t, s.environ(), "", "runs", "get", runID)
		if n := strings.Count(got.stdout, "it said no"); n != 1 {
			t.Errorf("%s: the failure is printed %d times: %s", state, n, got.stdout)
		}
		if items := "body: FAILED for item 0; CANCELED for item 1\n"; strings.Contains(run(t, s.environ(), "", "workflows", "watch", runID).stderr, items) == (state == "COMPLETED") {
			t.Errorf("unexpected output of the items of a run that is %s", state)
		}
		if header := s.requests[0].Header.Values("Last-Event-ID"); len(header) != 0 {
			t.Errorf("a watch starts after event %q", header)
		}
	}
}

func TestFailedRunPrintsTheStatusesOfItems(t *testing.T) {
	var stages []string
	for _, iteration := range []string{"[0]", "[1]", "[2]", "[4]"} {
		stages = append(stages, stage("send", iteration, "COMPLETED", "null", "2026-11-21T10:16:00.100Z"))
	}
	stages = append(stages, stage("send", "[3]", "FAILED", "null", "2026-11-21T10:16:00.100Z"), stage("each", "[]", "FAILED", "null", "2026-11-21T10:16:00.100Z"))
	for i := range 30 {
		stages = append(stages, stage("inner", fmt.Sprintf("[1,%d]", 2*i), "COMPLETED", "null", "2026-11-21T10:16:00.100Z"))
	}
	stages = append(stages, stage("inner", "[0,7]", "CANCELED", "null", "2026-11-21T10:16:00.100Z"), stage("inner", "[0,8]", "CANCELED", "null", "2026-11-21T10:16:00.100Z"))
	s := serve(t, running(runRecord("FAILED", "null", "null", stages...), runEvent(9, "FAILED", `{}`)))
	run(t, s.environ(), "", "workflows", "watch", runID).check(t, 1, "", "\nsend: COMPLETED for items 0, 1, 2, 4; FAILED for item 3\n"+
		"inner: COMPLETED for items 1.0, 1.2, 1.4, 1.6, 1.8, 1.10, 1.12, 1.14, 1.16, 1.18, 1.20, 1.22, 1.24, 1.26, 1.28, 1.30, 1.32, 1.34, 1.36, 1.38 and 10 more; CANCELED for items 0.7, 0.8\n")
}

func TestWorkflowsAreRunByName(t *testing.T) {
	s := serve(t, running(""))
	s.nameWorkflow(t, "fanOut")
	run(t, s.environ(), "", "run", "fanOut", "--idempotency-key=once", "-o", "json").check(t, 0, `"runId": "`+runID, "watch "+runID+"\nWatch it: "+s.URL+"/console/019aa5f2-6c3e-7b11-9d0a-3f1c2b4a5d6e/runs/"+runID+"\n")
	if want := []string{"POST /v1/sdk/workflows/" + workflowID + ` {"input":{}}`}; !slices.Equal(s.seen(), want) || s.requests[0].Header.Get("Idempotency-Key") != "once" {
		t.Errorf("requests %q", s.seen())
	}
	for want, args := range map[string][]string{
		"there is no file fan-out.yaml": {"run", "fan-out.yaml"},
		"--input: a field must start":   {"run", workflowID, "--input={a:1}"},
		`"many" is not a number`:        {"run", workflowID, "--max-credits=many"},
		"--deadline: ":                  {"run", workflowID, "--deadline=soon"},
		"requires --callback-url":       {"run", workflowID, "--callback-secret-file=none"},
		`"nonsense" is not a valid ID`:  {"watch", "nonsense"},
		"at least 1":                    {"list", "--limit=0"},
	} {
		got := run(t, s.environ(), "", append([]string{"workflows"}, args...)...)
		if got.code == 0 || !strings.Contains(got.stderr, want) {
			t.Errorf("%v: %d, %s, want %s", args, got.code, got.stderr, want)
		}
	}
}

// A file that is run, edited and run again remains one workflow, which push finds by its name.
func TestRunFileReplacesTheWorkflowOfItsName(t *testing.T) {
	t.Parallel()
	const all, save, start = "GET /v1/sdk/workflows?limit=100", "/v1/sdk/workflows", "POST /v1/sdk/workflows/" + workflowID + ` {"input":{}}`
	const export, replace = "GET /v1/sdk/workflow-exports/" + workflowID, "PUT /v1/sdk/workflows/" + workflowID
	present, match := false, ""
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		match += r.Header.Get("If-Match")
		switch {
		case r.Method == http.MethodGet && r.URL.Path == save:
			listed := ""
			if present {
				listed = workflowText
			}
			fmt.Fprintf(w, `{"data":[%s],"nextCursor":null,"hasMore":false}`, listed)
		case strings.Contains(r.URL.Path, "exports"):
			fmt.Fprint(w, workflowFile)
		case r.Method == http.MethodPost && r.URL.Path != save:
			fmt.Fprint(w, `{"runId":"`+runID+`","jobId":"7"}`)
		default:
			present = true // only a saved workflow is read
			fmt.Fprint(w, workflowText)
		}
	})
	file := writeYAML(t, "name: Pause\ncomponents:\n  a: {module: DELAY, config: {big: 1e400}}\n")
	for range 2 { // the second run saves nothing
		run(t, s.environ(), "", "run", file, "-o", "json").check(t, 0, `"jobId": "7"`, "Pause  version 3  ACTIVE")
	}
	if err := os.WriteFile(file, []byte(workflowYAML), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, s.environ(), "", "run", file).check(t, 2, "", "Use --yes to replace version 3 of Pause ("+workflowID+"), or change the name in the file")
	run(t, s.environ(), "", "run", file, "--yes", "-o", "json").check(t, 0, `"jobId": "7"`, "Pause  version 3  ACTIVE")
	var got []string
	for _, request := range s.seen() {
		if head, _, found := strings.Cut(request, ` {"name"`); found {
			request = head
		}
		got = append(got, request)
	}
	if want := []string{all, "POST " + save, start, all, export, "GET /v1/sdk/workflows/" + workflowID, start, all, export, all, export, replace, start}; !slices.Equal(got, want) || match != `"3"` {
		t.Errorf("sent %q, If-Match %s, want %q", got, match, want)
	}
}

func TestASignalThatNothingWaitsForSaysWhatTheRunWaitsFor(t *testing.T) {
	for waitingFor, want := range map[string]string{
		`,"waitingFor":["approved","paid"]`: `Stored. Run ` + runID + ` waits for "approved", "paid"; nothing waits for "aproved" now.`,
		`,"waitingFor":[]`:                  `Stored. Run ` + runID + ` waits for no signal; nothing waits for "aproved" now.`,
		`,"waitingFor":["aproved"]`:         "",
		``:                                  "", // an older service
	} {
		s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"runId":"`+runID+`","signal":"aproved","payload":{},"receivedAt":"2026-11-21T10:16:00.000Z"`+waitingFor+`}`)
		})
		got := run(t, s.environ(), "", "workflows", "signal", runID, "aproved", "-o", "json")
		got.check(t, 0, `"signal": "aproved"`, want)
		if want == "" && got.stderr != "" {
			t.Errorf("%s: unexpected note %q", waitingFor, got.stderr)
		}
	}
}

func TestASignalIsSent(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"runId":"`+runID+`","signal":"approved","payload":{"n":1e400,"by":"ada"},"receivedAt":"2026-11-21T10:16:00.000Z"}`)
	})
	send := func(signal, payload string) result {
		return run(t, s.environ(), "", "workflows", "signal", runID, signal, "--payload="+payload, "-o", "json")
	}
	const first = "keeps the payload of the first signal"
	if got := send("approved", `{"by":"ada","n":1e400}`); got.code != 0 || strings.Contains(got.stderr, first) {
		t.Errorf("exit code %d, stderr %s", got.code, got.stderr)
	}
	send("approved", `{"by":"eve"}`).check(t, 0, `"by": "ada"`, first)
	send("not so", `{}`).check(t, 2, "", `"not so" is not a valid signal name`)
	send("approved", `true`).check(t, 2, "", "--payload: the value must be a JSON object")
	path := "PUT /v1/sdk/workflows/executions/" + runID + "/signals/approved "
	if want := []string{path + `{"by":"ada","n":1e400}`, path + `{"by":"eve"}`}; !slices.Equal(s.seen(), want) {
		t.Errorf("sent %q, want %q", s.seen(), want)
	}
}

func TestARunIsCanceled(t *testing.T) {
	over := runRecord("COMPLETED", "null", "null")
	live := strings.Replace(strings.Replace(over, `"COMPLETED"`, `"EXECUTING"`, 1), `"finishedAt":"2026-11-21T10:16:01.250Z"`, `"finishedAt":null`, 1)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength > 2 { // the second request
			fmt.Fprint(w, over)
			return
		}
		fmt.Fprint(w, live)
	})
	run(t, s.environ(), "", "runs", "cancel", runID).check(t, 0, "Status    EXECUTING\n", "No new stage starts. The run is CANCELED when")
	run(t, s.environ(), "", "workflows", "cancel", runID, "--immediate", "--reason=too late").check(t, 0, "", "The run has already finished: COMPLETED.")
	path := "PUT /v1/sdk/workflows/executions/" + runID + "/cancellation "
	if want := []string{path + `{}`, path + `{"mode":"immediate","reason":"too late"}`}; !slices.Equal(s.asked(), want) {
		t.Errorf("sent %q, want %q", s.seen(), want)
	}
}
