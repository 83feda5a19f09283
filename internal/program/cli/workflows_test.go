package cli_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	workflowID   = "019aa5f2-5f60-7172-8d84-9e0f1a2b3c4d"
	workflowFile = `{"format":"weft.workflow.v1","name":"Pause","description":"","inputSchema":null,"components":[{"id":"a","module":"DELAY","name":"","input":{},"config":{"big":1e400},"position":null}],"sequenceEdges":[],"dataConnections":[],"triggers":[]}`
	workflowText = `{"id":"` + workflowID + `","name":"Pause","description":"","status":"ACTIVE","version":3,"inputSchema":null,"components":[],"sequenceEdges":[],"dataConnections":[],"triggers":[],"createdAt":"2026-11-21T10:15:30.123Z","updatedAt":"2026-11-21T10:15:30.123Z"}`
)

func TestWorkflowsArePulledAndPushed(t *testing.T) {
	var headers []http.Header
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		headers = append(headers, r.Header)
		if r.Method == http.MethodGet {
			fmt.Fprint(w, workflowFile)
			return
		}
		fmt.Fprint(w, workflowText)
	})
	file := filepath.Join(t.TempDir(), "pause.json")
	s.nameWorkflow(t, "pause")
	run(t, s.environ(), "", "workflows", "pull", "pause", "--at=2", "--out="+file).check(t, 0, "", "written to")
	printed := run(t, s.environ(), "", "workflows", "pull", workflowID)
	printed.check(t, 0, `"big": 1e400`, "")
	if text, err := os.ReadFile(file); err != nil || string(text) != printed.stdout {
		t.Errorf("unexpected file %s (%v)", text, err)
	}
	run(t, s.environ(), "", "workflows", "push", file, "--idempotency-key=once").check(t, 0, `"version": 3`, workflowID+"  Pause  version 3  ACTIVE")
	run(t, s.environ(), printed.stdout, "workflows", "push", "-", "pause", "--at=2").check(t, 0, `"version": 3`, "version 3")
	want := []string{
		"GET /v1/sdk/workflow-exports/" + workflowID + "?version=2", "GET /v1/sdk/workflow-exports/" + workflowID,
		"POST /v1/sdk/workflows " + workflowFile, "PUT /v1/sdk/workflows/" + workflowID + " " + workflowFile,
	}
	for i, got := range s.seen() {
		if got != want[i] {
			t.Errorf("sent %s, want %s", got, want[i])
		}
	}
	if headers[2].Get("Idempotency-Key") != "once" || headers[3].Get("If-Match") != `"2"` || headers[2].Get("If-Match") != "" {
		t.Errorf("unexpected headers %v", headers)
	}
}

func TestPushReportsAllErrors(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnprocessableEntity)
		fmt.Fprint(w, `{"code":"INVALID_INPUT","detail":"/components/0/id: is required (and 1 more, see errors)","status":422,"requestId":"r-1","errors":[`+
			`{"code":"C","message":"is required","pointer":"/components/0/id"},{"code":"C","message":"is required","pointer":"/components/1/id"}]}`)
	})
	run(t, s.environ(), workflowFile, "workflows", "push", "-").check(t, 1, "", "/components/0/id: is required\n  /components/1/id: is required\n")
	for want, args := range map[string][]string{
		"no such file":                       {filepath.Join(t.TempDir(), "none.json")},
		"needs a workflow to replace":        {"-", "--at=1"},
		"for new workflows only":             {"-", workflowID, "--idempotency-key=x"},
		"must be a JSON object":              {"-"},
		"\"nonsense\" is neither a workflow": {"-", "nonsense"},
		"there is no credentials file":       {"-", "--credentials=nowhere.json"},
	} {
		input := workflowFile
		if want == "must be a JSON object" {
			input = "[]"
		}
		got := run(t, s.environ(), input, append([]string{"workflows", "push"}, args...)...)
		if got.code == 0 || !strings.Contains(got.stderr, want) {
			t.Errorf("%v: %d, %s, want %s", args, got.code, got.stderr, want)
		}
	}
}
