package cli_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

func TestExecutionsAreListedPrintedWatchedAndReplayed(t *testing.T) {
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
	path := "/v1/sdk/components/executions"
	want := []string{
		"GET " + path + "?limit=1", "GET " + path + "/" + executionID, "GET " + path + "?limit=1", "GET " + path + "/" + executionID, "GET " + path + "/" + executionID + "/stream", "GET " + path + "/" + executionID,
		"POST " + path + "/" + executionID + "/replay-callback?force=true",
	}
	if !slices.Equal(s.seen(), want) {
		t.Errorf("requests %q", s.seen())
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
