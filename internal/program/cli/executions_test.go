package cli_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

func TestExecutionsAreListedPrintedWatchedReplayedAndCanceled(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/executions"):
			fmt.Fprintf(w, `{"data":[%s],"nextCursor":null,"hasMore":true}`, record("COMPLETED", `{"n":1}`, "null"))
		case strings.HasSuffix(r.URL.Path, "/stream"):
			fmt.Fprint(w, streamEvent("event: progress\n", "EXECUTING")+streamEvent("", "COMPLETED"))
		default:
			fmt.Fprint(w, record("COMPLETED", `{"n":1}`, "null"))
		}
	})
	executions := func(args ...string) result {
		return run(t, s.environ(), "", append([]string{"executions"}, args...)...)
	}
	executions("list", "--limit=1").check(t, 0, "\nM       COMPLETED  2026-11-21 10:15:30  1.5      -         "+executionID+"\n", "There are more")
	executions("get", executionID).check(t, 0, "Status   COMPLETED\n", "")
	executions("get", "--last").check(t, 0, "\n\nOutput\n{\n  \"n\": 1\n}\n", "")
	executions("get").check(t, 2, "", "pass the ID of the execution or --last")
	executions("watch", executionID).check(t, 0, "{\n  \"n\": 1\n}\n", "COMPLETED in 0s, usage 1.5")
	executions("replay-callback", executionID, "--force", "-o", "json").check(t, 0, `"status": "COMPLETED"`, "")
	executions("cancel", executionID, "--reason=too late").check(t, 0, "Status   COMPLETED\n", "")
	run(t, s.environ(), "", "call", "M", "--wait=0s", "--deadline=90s").check(t, 0, "", "")
	run(t, s.environ(), "", "call", "M", "--deadline=soon").check(t, 2, "", "--deadline")
	path := "/v1/sdk/components/executions"
	want := []string{
		"GET " + path + "?limit=1", "GET " + path + "/" + executionID, "GET " + path + "?limit=1", "GET " + path + "/" + executionID, "GET " + path + "/" + executionID + "/stream", "GET " + path + "/" + executionID,
		"POST " + path + "/" + executionID + "/replay-callback?force=true",
		"PUT " + path + "/" + executionID + `/cancellation {"reason":"too late"}`,
		`POST /v1/sdk/components {"config":{},"deadlineMs":90000,"input":{},"module":"M"}`,
	}
	if !slices.Equal(s.seen(), want) {
		t.Errorf("requests %q", s.seen())
	}
}

// The record of an execution shows its attempts, the time that all of them took, and when the next one starts.
func TestExecutionsShowTheirAttempts(t *testing.T) {
	t.Parallel()
	for more, want := range map[string]string{
		`"status":"COMPLETED","attemptCount":4,"updatedAt":"2026-11-21T10:17:30.123Z"`:     "Took      2m0s\nCredits   1.5\nAttempts  4\nID ",
		`"status":"EXECUTING","attemptCount":3,"nextAttemptAt":"2026-11-21T10:20:30.120Z"`: "Attempts      3\nNext attempt  2026-11-21 10:20:30\n",
	} {
		text := strings.NewReplacer(`"status":"EXECUTING",`, more+",", `,"updatedAt":"2026-11-21T10:15:30.123Z"`, "").Replace(record("EXECUTING", "null", "null"))
		s := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) })
		run(t, s.environ(), "", "executions", "get", executionID).check(t, 0, want, "")
	}
}

// The record of a run shows the attempts of its stages, and until when a stage waits for the next one.
func TestRunsShowTheAttemptsOfStages(t *testing.T) {
	t.Parallel()
	waiting := strings.NewReplacer(`"executionAttempt":1`, `"executionAttempt":3,"nextAttemptAt":"2026-11-21T10:20:30.120Z"`, `"finishedAt":""`, `"finishedAt":null`).
		Replace(stage("call", "[]", "RUNNING", "null", ""))
	s := serve(t, running(runRecord("EXECUTING", "null", "null", stage("start", "[]", "COMPLETED", "null", "2026-11-21T10:16:00.000Z"), waiting)))
	got := run(t, s.environ(), "", "runs", "get", runID)
	got.check(t, 0, "call       M       RUNNING           3                   1.5\n", "")
	got.check(t, 0, "\ncall: waits for attempt 4, until 2026-11-21 10:20:30\n", "")
}

func TestTheCallbackOfARunIsReplayed(t *testing.T) {
	t.Parallel()
	replayed := strings.Replace(runRecord("COMPLETED", "null", "null"), `"rerunOf":null`, `"rerunOf":null,"callback":{"url":"https://a.example/","attemptCount":3}`, 1)
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, replayed) })
	run(t, s.environ(), "", "runs", "replay-callback", runID, "--force", "-o", "json").check(t, 0, `"attemptCount": 3`, "")
	run(t, s.environ(), "", "runs", "get", runID).check(t, 0, "https://a.example/\nDeliveries tried  3\n", "")
	if seen, want := s.seen(), "POST /v1/sdk/workflows/executions/"+runID+"/callback/replay?force=true"; len(seen) == 0 || seen[0] != want {
		t.Errorf("requests %q", seen)
	}
}

func TestRunsAreRepeated(t *testing.T) {
	t.Parallel()
	s := serve(t, running(runRecord("FAILED", "null", "null")))
	run(t, s.environ(), "", "runs", "rerun", runID, "--from-stage="+executionID, "--max-credits=2", "--idempotency-key=once").check(t, 0, runID, "watch "+runID)
	run(t, s.environ(), "", "runs", "rerun", runID, "--max-credits=two").check(t, 2, "", `--max-credits: "two" is not a number`)
	want := []string{
		"GET /v1/sdk/workflows/executions/" + runID + "?stages=none",
		"POST /v1/sdk/workflows/" + workflowID + ` {"maxCredits":2,"rerunOf":{"fromStageId":"` + executionID + `","runId":"` + runID + `"}}`,
	}
	if !slices.Equal(s.seen(), want) || s.requests[1].Header.Get("Idempotency-Key") != "once" {
		t.Errorf("requests %q", s.seen())
	}
}

func TestVariableIsPrinted(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"data":[%s,%s],"nextCursor":null,"hasMore":false}`, variable("TOKEN", "null", true), variable("ADDRESS", `"https://a.example"`, false))
	})
	run(t, s.environ(), "", "env", "get", "ADDRESS").check(t, 0, "https://a.example\n", "")
	run(t, s.environ(), "", "env", "get", "TOKEN").check(t, 6, "", "TOKEN is secret, and secret values can't be read")
	run(t, s.environ(), "", "env", "set", "TOKEN", "hush").check(t, 2, "", "TOKEN is secret: don't pass its value as an argument")
	run(t, s.environ(), "", "env", "get", "TOK").check(t, 4, "", "did you mean TOKEN?")
	run(t, s.environ(), "", "env", "get", "ADRESS").check(t, 4, "", "did you mean ADDRESS?")
}
