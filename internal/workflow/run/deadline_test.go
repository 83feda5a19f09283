package run_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/workflow"
	"github.com/weft-automation/weft/internal/workflow/run"
)

const forever = `{"id":"w","module":"WAIT_FOR_SIGNAL","config":{"name":"never","timeoutMs":3600000}}`

func codeOf(got api.WorkflowRun) string {
	var why api.RunError
	_ = json.Unmarshal(got.Error, &why)
	return why.Code
}

// A run past its deadline is over, whatever its stages do about failures. Its child runs end with it. The
// deadline is that of the trigger, else that of the workflow, and a child has the earlier of its workflow's
// and that of its parent.
func TestADeadlineEndsTheRunAndItsChildren(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.start(t, options{slots: 4, sweep: 100 * time.Millisecond})
	child := n.draw(t, `[`+forever+`]`, "", "")
	strict := n.save(t, workflow.Draft{Components: json.RawMessage(`[` + forever + `]`), DeadlineMs: new(int64(300))})
	caught := `[{"id":"1","from":"w","to":"after","port":"error"}]`
	const after = `,{"id":"after","module":"WORK"}`
	calling := func(child any) string {
		return fmt.Sprintf(`[{"id":"w","module":"RUN_WORKFLOW","onFailure":"continue","config":{"workflowId":"%s"}}`+after+`]`, child)
	}
	for what, c := range map[string]struct {
		components string
		own        int64
		given      time.Duration
		want       string
	}{
		"of the trigger":                {`[` + forever + after + `]`, 0, 300 * time.Millisecond, "DEADLINE_EXCEEDED"},
		"of the workflow":               {`[` + forever + after + `]`, 300, 0, "DEADLINE_EXCEEDED"},
		"of the trigger, earlier":       {`[` + forever + after + `]`, 3_600_000, 300 * time.Millisecond, "DEADLINE_EXCEEDED"},
		"of the trigger, later":         {`[{"id":"w","module":"DELAY","config":{"durationMs":600}}` + after + `]`, 300, time.Hour, ""},
		"of a run with a child":         {calling(child), 0, 300 * time.Millisecond, "DEADLINE_EXCEEDED"},
		"of a child, which is a stage":  {calling(strict), 0, time.Hour, ""},
		"of a loop":                     {`[{"id":"w","module":"FOR_EACH","input":{"items":[1,2]},"config":{"onItemFailure":"continue"}},` + `{"id":"body","module":"DELAY","config":{"durationMs":3600000}}` + after + `]`, 300, 0, "DEADLINE_EXCEEDED"},
		"of an attempt that is running": {`[{"id":"w","module":"WORK","config":{"ms":60000}}` + after + `]`, 300, 0, "DEADLINE_EXCEEDED"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			edges := caught
			if what == "of a loop" {
				edges = `[{"id":"1","from":"w","to":"after","port":"error"},{"id":"2","from":"w","to":"body","port":"each"}]`
			}
			draft := workflow.Draft{Components: json.RawMessage(c.components), SequenceEdges: json.RawMessage(edges)}
			if c.own > 0 {
				draft.DeadlineMs = &c.own
			}
			key := n.trigger(t, run.TriggerParams{WorkflowID: n.save(t, draft), Deadline: c.given})
			got, stages := n.end(t, key)
			if code := codeOf(got); code != c.want || (got.Status == status.RunFailed) != (c.want != "") {
				t.Errorf("the run is %s with %s", got.Status, got.Error)
			}
			if _, went := stages["after@[]"]; went && c.want != "" {
				t.Error("a stage started after the deadline")
			}
			if left := live(stages); len(left) > 0 {
				t.Errorf("%v have not ended", left)
			}
			if open := b.number(t, "SELECT count(*) FROM workflow_runs WHERE parent_run_id = $1 AND finished_at IS NULL", key.ID); open != 0 {
				t.Errorf("%d child runs have not ended", open)
			}
		})
	}
	b.balanced(t)
}

// A child run gets the deadline of its parent, as that of a request.
func TestAChildHasTheDeadlineOfItsParent(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.start(t, options{slots: 4})
	child := n.save(t, workflow.Draft{Components: json.RawMessage(`[` + forever + `]`), DeadlineMs: new(int64(7_200_000))})
	parent := n.draw(t, fmt.Sprintf(`[{"id":"w","module":"RUN_WORKFLOW","config":{"workflowId":"%s"}}]`, child), "", "")
	key := n.trigger(t, run.TriggerParams{WorkflowID: parent, Deadline: time.Hour})
	b.until(t, 1, nothing, "SELECT count(*) FROM workflow_runs c JOIN workflow_runs p ON p.id = c.parent_run_id WHERE p.id = $1 AND abs(extract(epoch FROM c.deadline - p.deadline)) < 0.01 AND c.limited", key.ID)
}

// A deadline that passes while no worker lives stops the run when one returns, with the attempt that the dead
// worker had.
func TestADeadlineThatPassesWithoutAWorkerEndsTheRun(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	dead := b.start(t, options{slots: 4})
	var keys []notify.Key
	for _, components := range []string{`[` + forever + `]`, `[{"id":"w","module":"WORK","config":{"ms":60000}}]`} {
		keys = append(keys, dead.trigger(t, run.TriggerParams{WorkflowID: dead.draw(t, components, "", ""), Deadline: 2 * time.Second}))
	}
	b.until(t, 2, nothing, "SELECT count(*) FROM run_stages")
	dead.stop()
	b.until(t, 2, nothing, "SELECT count(*) FROM workflow_runs WHERE deadline < clock_timestamp()")
	n := b.start(t, options{slots: 4, sweep: 100 * time.Millisecond})
	for _, key := range keys {
		if got, stages := n.end(t, key); codeOf(got) != "DEADLINE_EXCEEDED" || len(live(stages)) > 0 {
			t.Errorf("the run is %s with %s", got.Status, got.Error)
		}
	}
	b.balanced(t)
}
