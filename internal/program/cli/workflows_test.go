package cli_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
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
	printed := run(t, s.environ(), "", "workflows", "pull", workflowID, "-o", "json")
	printed.check(t, 0, `"big": 1e400`, "")
	if text, err := os.ReadFile(file); err != nil || string(text) != printed.stdout {
		t.Errorf("unexpected file %s (%v)", text, err)
	}
	run(t, s.environ(), "", "workflows", "push", file, "--idempotency-key=once").check(t, 0, workflowID+"\n", workflowID+"  Pause  version 3  ACTIVE")
	run(t, s.environ(), printed.stdout, "workflows", "push", "-", "pause", "--at=2", "-o", "json").check(t, 0, `"version": 3`, "version 3")
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
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			fmt.Fprint(w, `{"data":[],"nextCursor":null,"hasMore":false}`)
			return
		}
		w.WriteHeader(http.StatusUnprocessableEntity)
		fmt.Fprint(w, `{"code":"INVALID_INPUT","detail":"/components/0/id: is required (and 1 more, see errors)","status":422,"requestId":"r-1","errors":[`+
			`{"code":"C","message":"is required","pointer":"/components/0/id"},{"code":"C","message":"is required","pointer":"/components/1/id"}]}`)
	})
	run(t, s.environ(), workflowFile, "workflows", "push", "-").check(t, 6, "", "/components/0/id: is required\n  /components/1/id: is required\n")
	for want, args := range map[string][]string{
		"no such file":                    {filepath.Join(t.TempDir(), "none.json")},
		"needs a workflow to replace":     {"-", "--at=1"},
		"for new workflows only":          {"-", workflowID, "--idempotency-key=x"},
		"must be a JSON object":           {"-"},
		`there is no workflow "nonsense"`: {"-", "nonsense"},
		"there is no credentials file":    {"-", "--credentials=nowhere.json"},
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

const workflowYAML = "# Waits.\nname: Pause\ncomponents:\n  start: {module: ON_API_CALLED}\n  wait:\n    module: DELAY\n    input: {ms: '{{start.ms}}'}\n"

// writeYAML writes a workflow to a YAML file and returns its path.
func writeYAML(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "pause.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestYAMLFilesArePushedByName(t *testing.T) {
	t.Parallel()
	const summary = `{"id":"` + workflowID + `","name":"Pause","description":"","status":"ACTIVE","version":3,"createdAt":"2026-11-21T10:15:30.123Z","updatedAt":"2026-11-21T10:15:30.123Z"}`
	listed := summary
	var match []string
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		match = append(match, r.Header.Get("If-Match"))
		if r.Method == http.MethodGet {
			fmt.Fprintf(w, `{"data":[%s],"nextCursor":null,"hasMore":false}`, listed)
			return
		}
		fmt.Fprint(w, workflowText)
	})
	file := writeYAML(t, workflowYAML)
	push := func(args ...string) result {
		return run(t, s.environ(), workflowYAML, append([]string{"workflows", "push"}, args...)...)
	}
	push(file).check(t, 2, "", "Use --yes to replace version 3 of Pause ("+workflowID+"), or --new to create another workflow")
	push(file, "--yes").check(t, 0, "", "version 3  ACTIVE")
	push("-", "--new").check(t, 0, "", "version 3  ACTIVE")
	listed += "," + strings.Replace(summary, "4d", "4e", 1)
	push(file, "--yes").check(t, 2, "", "several workflows have the name Pause")
	listed = strings.Replace(summary, "Pause", "pause", 1)
	push(file).check(t, 0, "", "version 3  ACTIVE")
	const body = `{"name":"Pause","components":[{"id":"start","module":"ON_API_CALLED"},{"id":"wait","module":"DELAY","input":{"ms":"{{start.ms}}"}}],` +
		`"sequenceEdges":[{"id":"e1","from":"start","to":"wait"}]}`
	const all = "GET /v1/sdk/workflows?limit=100"
	const export = "GET /v1/sdk/workflow-exports/" + workflowID
	want := []string{all, export, all, export, "PUT /v1/sdk/workflows/" + workflowID + " " + body, "POST /v1/sdk/workflows " + body, all, all, "POST /v1/sdk/workflows " + body}
	if got := s.seen(); !slices.Equal(got, want) || match[4] != `"3"` {
		t.Errorf("sent %q, If-Match %q, want %q", got, match, want)
	}
}

func TestErrorsNameTheLineOfTheFile(t *testing.T) {
	t.Parallel()
	faults := []string{`{"code":"C","message":"is unknown","pointer":"/components/1/input/ms"}`}
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			fmt.Fprint(w, `{"data":[],"nextCursor":null,"hasMore":false}`)
			return
		}
		w.WriteHeader(http.StatusUnprocessableEntity)
		fmt.Fprintf(w, `{"code":"INVALID_INPUT","detail":"/components/1/input/ms: is unknown","status":422,"errors":[%s]}`, strings.Join(faults, ","))
	})
	file := writeYAML(t, workflowYAML)
	run(t, s.environ(), "", "workflows", "push", file, "--new").check(t, 6, "", file+":7: components.wait.input.ms: is unknown")
	faults = append(faults, `{"code":"C","message":"is missing","pointer":"/sequenceEdges/0/to"}`)
	run(t, s.environ(), "", "workflows", "run", file).check(t, 6, "", file+":5: components.wait.after: is missing")
	run(t, s.environ(), "", "workflows", "push", writeYAML(t, "name: x\nname: y\n")).check(t, 2, "", `pause.yaml: line 2: name: the key "name" occurs twice`)
}

func TestYAMLFilesArePulled(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, workflowFile) })
	file := writeYAML(t, "")
	run(t, s.environ(), "", "workflows", "pull", workflowID, "--out="+file).check(t, 0, "", "written to")
	if text, err := os.ReadFile(file); err != nil || string(text) != "name: Pause\ncomponents:\n  a: {module: DELAY, config: {big: 1e400}}\n" {
		t.Errorf("%q, %v", text, err)
	}
}

func TestWorkflowsArePausedQuotedAndArchived(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/quote"):
			fmt.Fprint(w, `{"workflowId":"`+workflowID+`","workflowVersion":3,"minimumCredits":1.5,"maximumCredits":null,"unknownBounds":[{"componentId":"each","reason":"items"}]}`)
		case strings.Contains(r.URL.Path, "exports"):
			fmt.Fprint(w, workflowFile)
		case r.Method == http.MethodPut:
			fmt.Fprint(w, strings.Replace(workflowText, "ACTIVE", "PAUSED", 1))
		default:
			fmt.Fprint(w, workflowText)
		}
	})
	s.nameWorkflow(t, "pause")
	workflows := func(args ...string) result { return run(t, s.environ(), "", append([]string{"workflows"}, args...)...) }
	workflows("get", "pause").check(t, 0, "Name        Pause\n", "")
	workflows("quote", "pause", "--at=3").check(t, 0, "Minimum credits  1.5\n", "The cost of each has no known bound: items.")
	workflows("pause", "pause").check(t, 0, "Status      PAUSED\n", "")
	workflows("resume", "pause").check(t, 0, "Status      ACTIVE\n", "already ACTIVE")
	workflows("archive", "pause").check(t, 0, "", "To restore the workflow: weft workflows resume "+workflowID)
	file := writeYAML(t, "name: Pause\ncomponents:\n  b: {module: DELAY}\n")
	workflows("diff", file, "pause").check(t, 1, "- "+"  a: {module: DELAY, config: {big: 1e400}}\n+   b: {module: DELAY}\n", "")
	workflows("diff", writeYAML(t, "name: Pause\ncomponents:\n  a: {module: DELAY, config: {big: 1e400}}\n"), "pause", "-o", "jsonl").check(t, 0, "", "")
	one, export := "/v1/sdk/workflows/"+workflowID, "/v1/sdk/workflow-exports/"+workflowID
	want := []string{
		"GET " + one, "POST " + one + `/quote {"version":3}`, "GET " + one, "GET " + export, "PUT " + one, "GET " + one, "DELETE " + one, "GET " + export, "GET " + export,
	}
	for i, got := range s.seen() {
		if !strings.HasPrefix(got, want[i]) {
			t.Errorf("sent %s, want %s", got, want[i])
		}
	}
	if sent := s.bodies[4]; !strings.Contains(sent, `"status":"PAUSED"`) || !strings.Contains(sent, `"big":1e400`) || s.requests[4].Header.Get("If-Match") != `"3"` {
		t.Errorf("saved %s", sent)
	}
}

func TestUnchangedFileMakesNoVersion(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "exports") {
			fmt.Fprint(w, workflowFile)
			return
		}
		fmt.Fprint(w, workflowText)
	})
	file := writeYAML(t, "name: Pause\ncomponents:\n  a: {module: DELAY, config: {big: 1e400}}\n")
	run(t, s.environ(), "", "workflows", "push", file, workflowID).check(t, 0, workflowID+"\n", "version 3  ACTIVE  unchanged")
	for _, sent := range s.seen() {
		if !strings.HasPrefix(sent, "GET ") {
			t.Errorf("sent %s", sent)
		}
	}
}

func TestValidateNamesThePlacesInAllFiles(t *testing.T) {
	t.Parallel()
	var s *service
	s = serve(t, func(w http.ResponseWriter, r *http.Request) {
		seen := s.seen()
		switch last := seen[len(seen)-1]; {
		case strings.Contains(last, `"Pause"`):
			fmt.Fprint(w, `{"faults":[{"code":"UNKNOWN_INPUT","message":"is unknown","pointer":"/components/1/input/ms"}],"warnings":[],"quote":null}`)
		case strings.Contains(last, `"malformed"`):
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"code":"INVALID_INPUT","detail":"/components: is required","status":400,"errors":[{"code":"INVALID_INPUT","message":"is required","pointer":"/components"}]}`)
		default:
			fmt.Fprint(w, `{"faults":[],"warnings":[{"code":"VARIABLE_NOT_FOUND","message":"is missing","pointer":"/components/0/input"}],"quote":{"minimumCredits":0,"maximumCredits":1,"unknownBounds":[]}}`)
		}
	})
	wrong, twice, malformed := writeYAML(t, workflowYAML), writeYAML(t, "name: x\nname: y\n"), writeYAML(t, "name: malformed\n")
	right := writeYAML(t, "name: right\ncomponents:\n  a:\n    module: HASH\n    input: {data: '{{env.X}}'}\n")
	want := wrong + ":7:13: UNKNOWN_INPUT is unknown (components.wait.input.ms)\n" +
		twice + `:2:1: INVALID_FILE the key "name" occurs twice: remove or rename one of them (name)` + "\n" +
		malformed + ": INVALID_INPUT is required (/components)\n" +
		right + ":5:5: warning: VARIABLE_NOT_FOUND is missing (components.a.input)\n" + right + ": no faults\n"
	if got := run(t, s.environ(), "", "workflows", "validate", wrong, twice, malformed, right); got.code != 6 || got.stdout != want || got.stderr != "" {
		t.Errorf("code %d, stderr %q\ngot  %s\nwant %s", got.code, got.stderr, got.stdout, want)
	}
	run(t, s.environ(), "", "workflows", "validate", right).check(t, 0, "no faults", "")
	got := run(t, s.environ(), "", "workflows", "validate", wrong, right, "-o", "json")
	var all []struct {
		File             string
		Faults, Warnings []struct {
			Line, Column           int
			Pointer, Code, Message string
		}
		Quote *struct{ MinimumCredits, MaximumCredits float64 }
	}
	if err := json.Unmarshal([]byte(got.stdout), &all); err != nil || got.code != 6 || len(all) != 2 || all[0].Quote != nil || all[1].Quote == nil || all[0].Faults[0].Line != 7 || all[0].Faults[0].Column != 13 || all[1].Warnings[0].Code != "VARIABLE_NOT_FOUND" || len(all[1].Faults) != 0 {
		t.Errorf("code %d, %v: %s", got.code, err, got.stdout)
	}
	run(t, s.environ(), "", "workflows", "validate", filepath.Join(t.TempDir(), "none.yaml")).check(t, 2, "", "no such file")
}
