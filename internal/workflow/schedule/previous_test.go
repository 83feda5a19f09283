package schedule_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/workflow"
	"github.com/weft-automation/weft/internal/workflow/orchestrator"
	"github.com/weft-automation/weft/internal/workflow/run"
	"github.com/weft-automation/weft/internal/workflow/schedule"
)

// cursors answers with the cursor that a signal brings, and with what its trigger got. With fail in the
// signal, it fails.
const cursors = `[{"id":"start","module":"ON_SCHEDULE","config":{"cron":"* * * * *"}},
	{"id":"wait","module":"WAIT_FOR_SIGNAL","config":{"name":"go","timeoutMs":3600000}},
	{"id":"if","module":"IF","config":{"expression":"wait.payload?.fail == true"}},
	{"id":"no","module":"FAIL","config":{"code":"NO","message":"no"}},
	{"id":"answer","module":"RESPOND","input":{"cursor":"{{ wait.payload.cursor? }}","got":"{{ start.previous? }}","input":"{{ start.input }}","customer":"{{ start.customer? }}"}}]`

const cursorEdges = `[{"id":"1","from":"start","to":"wait","port":"next"},{"id":"2","from":"wait","to":"if","port":"next"},
	{"id":"3","from":"if","to":"no","port":"then"},{"id":"4","from":"if","to":"answer","port":"else"}]`

// saveWith saves a new version of a workflow, or a new workflow, with an input schema.
func (n *node) saveWith(t *testing.T, id uuid.UUID, schema string) uuid.UUID {
	t.Helper()
	draft := workflow.Draft{Name: "sync", InputSchema: json.RawMessage(schema), Components: json.RawMessage(cursors), SequenceEdges: json.RawMessage(cursorEdges)}
	if id == uuid.Nil {
		saved, _, err := n.workflows.Create(n.ctx, workflow.CreateParams{WorkspaceID: n.workspace, Draft: draft})
		if err != nil {
			t.Fatal(err)
		}
		return saved.ID
	}
	if _, err := n.workflows.Replace(n.ctx, workflow.ReplaceParams{WorkspaceID: n.workspace, WorkflowID: id, Draft: draft}); err != nil {
		t.Fatal(err)
	}
	return id
}

// begin starts the run that is due, and returns its ID.
func (n *node) begin(t *testing.T, key notify.Key) uuid.UUID {
	t.Helper()
	n.due(t, key, time.Second)
	if err := n.Advance(n.bench.ctx, key); err != nil {
		t.Fatal(err)
	}
	shown := n.show(t, key)
	if shown.LastRunID == nil || shown.LastSkipReason != nil {
		t.Fatalf("%+v", shown)
	}
	return *shown.LastRunID
}

// finish sends a signal to a run and returns its output.
func (n *node) finish(t *testing.T, runID uuid.UUID, payload string) string {
	t.Helper()
	key := notify.Key{WorkspaceID: n.workspace, ID: runID}
	if _, err := n.runs.Signal(n.ctx, key, anyone{}, "go", []byte(payload)); err != nil {
		t.Fatal(err)
	}
	var output *string
	n.until(t, "the end of the run", func() bool {
		return n.pool.QueryRow(t.Context(), "SELECT output::text FROM workflow_runs WHERE id = $1 AND finished_at IS NOT NULL", runID).Scan(&output) == nil
	})
	if output == nil {
		return ""
	}
	return *output
}

// cursor returns the cursor of a schedule as its record shows it.
func (n *node) cursor(t *testing.T, key notify.Key) string {
	t.Helper()
	var p struct{ Output struct{ Cursor string } }
	if err := json.Unmarshal(n.show(t, key).Previous, &p); err != nil {
		t.Fatal(err)
	}
	return p.Output.Cursor
}

func TestRunOfAScheduleGetsItsInput(t *testing.T) {
	t.Parallel()
	n := newBench(t, 0).start(t)
	const schema = `{"type":"object","required":["customer"],"properties":{"customer":{"type":"string"},"token":{"type":"string","x-secret":true}}}`
	id := n.saveWith(t, uuid.Nil, schema)
	for _, input := range []string{"", `{}`, `null`, `{"customer": 1}`, `{"customer": "[redacted]"}`} {
		d := schedule.Draft{Cron: "@daily", Input: json.RawMessage(input)}
		if input == "" {
			d.Input = nil
		}
		_, _, err := n.Create(n.ctx, schedule.CreateParams{WorkspaceID: n.workspace, WorkflowID: id, Draft: d})
		if failure, ok := err.(*fault.Error); !ok || failure.Code != fault.InvalidInput || !strings.HasPrefix(failure.Details[0].Pointer, "/input") {
			t.Errorf("%q: %v", input, err)
		}
	}
	key := n.schedule(t, id, schedule.Draft{Input: json.RawMessage(`{"customer":"acme","token":"canary-0815","scheduledAt":"never","previous":"none"}`)})
	if shown := string(n.show(t, key).Input); strings.Contains(shown, "canary") || !strings.Contains(shown, `"customer":"acme"`) {
		t.Errorf("shown: %s", shown)
	}
	if left := n.number(t, "SELECT count(*) FROM schedules s WHERE s::text LIKE '%acme%'"); left != 0 {
		t.Error("the input is stored as plain text")
	}
	runID := n.begin(t, key)
	record, err := n.runs.Get(n.ctx, notify.Key{WorkspaceID: n.workspace, ID: runID}, anyone{})
	if err != nil || strings.Contains(string(record.Input), "canary") {
		t.Errorf("%s, %v", record.Input, err)
	}
	output := n.finish(t, runID, `{}`)
	if strings.Contains(output, "canary") {
		t.Error("the output is not sealed, although it contains a secret")
	}
	if record, err = n.runs.Get(n.ctx, notify.Key{WorkspaceID: n.workspace, ID: runID}, anyone{}); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Customer string
		Got      any
		Input    map[string]string
	}
	if err := json.Unmarshal(record.Output, &got); err != nil || got.Customer != "acme" || got.Got != nil || got.Input["token"] != "canary-0815" || got.Input["scheduledAt"] != "never" {
		t.Errorf("%s, %v", record.Output, err)
	}
	if _, err := n.Replace(n.ctx, key, schedule.Draft{Cron: "0 0 1 1 *"}); err != nil || !strings.Contains(string(n.show(t, key).Input), "acme") {
		t.Errorf("a PUT without input did not keep it: %v", err)
	}
	n.saveWith(t, id, `{"type":"object","properties":{"customer":{"type":"integer"}}}`)
	n.due(t, key, time.Second)
	if err := n.Advance(n.bench.ctx, key); err != nil {
		t.Fatal(err)
	}
	if shown := n.show(t, key); shown.LastSkipReason == nil || *shown.LastSkipReason != "input_invalid" || *shown.LastRunID != runID {
		t.Errorf("%+v", shown)
	}
	removed, err := n.Replace(n.ctx, key, schedule.Draft{Cron: "0 0 1 1 *", Input: json.RawMessage("null")})
	if err != nil || string(removed.Input) != "null" {
		t.Errorf("%s, %v", removed.Input, err)
	}
	n.exec(t, "UPDATE schedules SET sealed_input = NULL, last_skipped_at = NULL, last_skip_reason = NULL WHERE id = $1", key.ID)
	n.saveWith(t, id, schema)
	if runID = n.begin(t, key); runID == *removed.LastRunID {
		t.Error("the schedule of an earlier release no longer starts runs")
	}
}

func TestPreviousIsTheResultOfTheLatestTimeThatCompleted(t *testing.T) {
	t.Parallel()
	n := newBench(t, 0).start(t)
	key := n.schedule(t, n.saveWith(t, uuid.Nil, "null"), schedule.Draft{Overlap: "allow"})
	if got := n.finish(t, n.begin(t, key), `{"cursor":"1"}`); strings.Contains(got, `"got"`) {
		t.Errorf("the first: %s", got)
	}
	failed := n.begin(t, key)
	n.finish(t, failed, `{"fail":true}`)
	if n.cursor(t, key) != "1" {
		t.Errorf("a failed run left the cursor %s", n.cursor(t, key))
	}
	early, late := n.begin(t, key), n.begin(t, key)
	if got := n.finish(t, late, `{"cursor":"3"}`); !strings.Contains(got, `"cursor":"1"`) {
		t.Errorf("after a failed run: %s", got)
	}
	n.finish(t, early, `{"cursor":"2"}`)
	if n.cursor(t, key) != "3" {
		t.Errorf("an earlier time that completed later left the cursor %s", n.cursor(t, key))
	}
	// Retention deletes the runs, but not the cursor.
	for _, table := range []string{"run_events", "run_signals", "run_stages", "workflow_runs"} {
		n.exec(t, "DELETE FROM "+table+" WHERE workspace_id = $1 AND "+map[bool]string{true: "id", false: "run_id"}[table == "workflow_runs"]+" <> $2", n.workspace, failed)
	}
	last := n.begin(t, key)
	if got := n.finish(t, last, `{"cursor":"4"}`); !strings.Contains(got, `"cursor":"3"`) {
		t.Errorf("the last: %s", got)
	}
	if left := n.number(t, "SELECT count(*) FROM schedules s WHERE s::text LIKE '%cursor%'"); left != 0 {
		t.Error("the cursor is stored as plain text")
	}

	// A rerun counts at the time of the run that it repeats, and sees the same previous result.
	again, err := n.runs.Trigger(n.ctx, run.TriggerParams{WorkspaceID: n.workspace, WorkflowID: *ofRun(t, n, failed), RerunOf: &orchestrator.Origin{RunID: failed}, Access: anyone{}})
	if err != nil {
		t.Fatal(err)
	}
	n.until(t, "the rerun", func() bool {
		return n.number(t, "SELECT count(*) FROM workflow_runs WHERE id = $1 AND finished_at IS NOT NULL", again.RunID) == 1
	})
	if n.cursor(t, key) != "4" {
		t.Errorf("the rerun of an earlier time left the cursor %s", n.cursor(t, key))
	}
	if at := n.number(t, "SELECT count(DISTINCT (schedule_id, scheduled_at)) FROM workflow_runs WHERE id IN ($1, $2)", failed, again.RunID); at != 1 {
		t.Error("the rerun has another time")
	}

	// A PUT sets and removes it.
	for set, want := range map[string]string{`{"scheduledAt":"2126-01-31T08:00:00Z","output":{"cursor":"0"}}`: "0", "null": ""} {
		if _, err := n.Replace(n.ctx, key, schedule.Draft{Cron: "0 0 1 1 *", Overlap: "allow", Previous: json.RawMessage(set)}); err != nil || n.cursor(t, key) != want {
			t.Errorf("%s: %s, %v", set, n.show(t, key).Previous, err)
		}
	}
	if _, err := n.Replace(n.ctx, key, schedule.Draft{Cron: "0 0 1 1 *", Overlap: "allow", Previous: json.RawMessage(`{"scheduledAt":"2126-01-31T08:00:00Z","output":{"cursor":"0"}}`)}); err != nil {
		t.Fatal(err)
	}
	n.due(t, key, 0)
	if got := n.finish(t, n.begin(t, key), `{"cursor":"5"}`); !strings.Contains(got, `"cursor":"0"`) {
		t.Errorf("after a PUT: %s", got)
	}
}

// syncs answers with the items of a source, which a signal brings, behind those that the previous run had.
const syncs = `[{"id":"start","module":"ON_SCHEDULE","config":{"cron":"* * * * *"}},
	{"id":"wait","module":"WAIT_FOR_SIGNAL","config":{"name":"go","timeoutMs":3600000}},
	{"id":"if","module":"IF","config":{"expression":"wait.payload?.fail == true"}},
	{"id":"no","module":"FAIL","config":{"code":"NO","message":"no"}},
	{"id":"answer","module":"RESPOND","input":{"count":"{{ len(wait.payload.items) }}","synced":"{{ wait.payload.items[int(start.previous?.output?.count ?? 0):] }}"}}]`

func TestASyncHandlesEachItemOfAGrowingSourceOnce(t *testing.T) {
	t.Parallel()
	n := newBench(t, 0).start(t)
	key := n.schedule(t, n.save(t, syncs, cursorEdges), schedule.Draft{})
	for _, c := range []struct{ source, want string }{
		{`{"items":["a","b"]}`, `"synced":["a","b"]`},
		{`{"items":["a","b","c"],"fail":true}`, ""}, // changes nothing
		{`{"items":["a","b","c","d"]}`, `"synced":["c","d"]`},
		{`{"items":["a","b","c","d"]}`, `"synced":[]`},
		{`{"items":["a","b","c","d","e"]}`, `"synced":["e"]`},
	} {
		if got := n.finish(t, n.begin(t, key), c.source); !strings.Contains(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s: %s, want %s", c.source, got, c.want)
		}
	}
}

func TestAPreviousResultThatIsSecretStaysSecret(t *testing.T) {
	t.Parallel()
	n := newBench(t, 0).start(t)
	id := n.saveWith(t, uuid.Nil, `{"type":"object","properties":{"token":{"type":"string","x-secret":true}}}`)
	key := n.schedule(t, id, schedule.Draft{Input: json.RawMessage(`{"token":"canary-0816"}`)})
	n.finish(t, n.begin(t, key), `{}`)
	if _, err := n.Replace(n.ctx, key, schedule.Draft{Cron: "0 0 1 1 *", Input: json.RawMessage("null")}); err != nil {
		t.Fatal(err)
	}
	second := n.begin(t, key)
	if output := n.finish(t, second, `{}`); strings.Contains(output, "canary") {
		t.Error("the output is not sealed, although it contains a secret of the previous result")
	}
	record, err := n.runs.Get(n.ctx, notify.Key{WorkspaceID: n.workspace, ID: second}, anyone{})
	if err != nil || strings.Contains(string(record.Input), "canary") || !strings.Contains(string(record.Output), "canary-0816") {
		t.Errorf("input %s, output %s, %v", record.Input, record.Output, err)
	}
}

func ofRun(t *testing.T, n *node, id uuid.UUID) (workflowID *uuid.UUID) {
	t.Helper()
	if err := n.pool.QueryRow(t.Context(), "SELECT workflow_id FROM workflow_runs WHERE id = $1", id).Scan(&workflowID); err != nil {
		t.Fatal(err)
	}
	return workflowID
}

// Without a RESPOND, previous has an output that is null. Runs that a request starts have no previous.
func TestPreviousOfARunWithoutAResponse(t *testing.T) {
	t.Parallel()
	n := newBench(t, 0).start(t)
	id := n.save(t, waits, edge)
	key := n.schedule(t, id, schedule.Draft{})
	n.finish(t, n.begin(t, key), `{}`)
	if got := string(n.show(t, key).Previous); !strings.Contains(got, `"output":null`) || !strings.Contains(got, `"scheduledAt":"20`) {
		t.Errorf("%s", got)
	}
	started, err := n.runs.Trigger(n.ctx, run.TriggerParams{WorkspaceID: n.workspace, WorkflowID: id, Input: json.RawMessage(`{"previous":{"output":1},"a":2}`)})
	if err != nil {
		t.Fatal(err)
	}
	const output = "SELECT count(*) FROM run_stages WHERE run_id = $1 AND component_id = 'start' AND output->>'previous' IS NULL AND output->'input'->>'a' = '2' AND output->>'a' = '2' AND output->>'scheduledAt' IS NOT NULL"
	n.until(t, "the trigger", func() bool {
		return n.number(t, "SELECT count(*) FROM run_stages WHERE run_id = $1", started.RunID) > 0
	})
	if n.number(t, output, started.RunID) != 1 {
		t.Error("the output of the trigger differs")
	}
}

func TestSaveWarnsOfSchedulesWhoseInputDoesNotFit(t *testing.T) {
	t.Parallel()
	n := newBench(t, 0).start(t)
	id := n.saveWith(t, uuid.Nil, `{"type":"object"}`)
	n.schedule(t, id, schedule.Draft{Name: "acme", Input: json.RawMessage(`{"customer":"acme"}`)})
	n.schedule(t, id, schedule.Draft{Name: "number", Input: json.RawMessage(`{"customer":7}`)})
	n.schedule(t, id, schedule.Draft{Name: "paused", Status: "PAUSED"})
	n.schedule(t, id, schedule.Draft{Name: "none"})
	const schema = `{"type":"object","required":["customer"],"properties":{"customer":{"type":"string"}}}`
	saved, err := n.workflows.Replace(n.ctx, workflow.ReplaceParams{WorkspaceID: n.workspace, WorkflowID: id, Draft: workflow.Draft{
		Name: "sync", Components: json.RawMessage(cursors), SequenceEdges: json.RawMessage(cursorEdges), InputSchema: json.RawMessage(schema),
	}})
	if err != nil {
		t.Fatal(err)
	}
	var warned []string
	for _, w := range *saved.Warnings {
		if w.Code == "SCHEDULE_INPUT_INVALID" && w.Pointer == "/inputSchema" {
			warned = append(warned, strings.Split(w.Message, `"`)[1])
		}
	}
	if strings.Join(warned, " ") != "number none" {
		t.Errorf("warned of %q", warned)
	}
}

func TestAScheduleWhoseKeyIsLostIsReadReplacedAndDeleted(t *testing.T) {
	t.Parallel()
	n := newBench(t, 0).start(t)
	id := n.saveWith(t, uuid.Nil, `{"type":"object"}`)
	key := n.schedule(t, id, schedule.Draft{Input: json.RawMessage(`{"customer":"acme"}`)})
	if _, err := n.Replace(n.ctx, key, schedule.Draft{Cron: "0 0 1 1 *", Previous: json.RawMessage(`{"scheduledAt":"2026-11-20T08:00:00.000Z","output":{"cursor":"1"}}`)}); err != nil {
		t.Fatal(err)
	}
	if shown := n.show(t, key); shown.SealedProblem != nil || string(shown.Previous) == "null" {
		t.Fatalf("before: %+v", shown)
	}
	n.exec(t, "DELETE FROM output_keys")
	n = n.bench.start(t) // the keys of the process before are in its memory
	shown := n.show(t, key)
	if shown.SealedProblem == nil || shown.SealedProblem.Code != fault.Internal || string(shown.Input) != "null" || string(shown.Previous) != "null" {
		t.Errorf("after: %s, %s, %+v", shown.Input, shown.Previous, shown.SealedProblem)
	}
	replaced, err := n.Replace(n.ctx, key, schedule.Draft{Cron: "0 0 2 1 *", Previous: json.RawMessage("null")})
	if err != nil || replaced.SealedProblem == nil {
		t.Errorf("replaced without an input: %+v, %v", replaced.SealedProblem, err)
	}
	deleted, err := n.Delete(n.ctx, key)
	if err != nil || deleted.SealedProblem == nil {
		t.Errorf("deleted: %+v, %v", deleted.SealedProblem, err)
	}
}
