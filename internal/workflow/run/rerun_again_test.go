package run_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/workflow/engine"
	"github.com/weft-automation/weft/internal/workflow/orchestrator"
	"github.com/weft-automation/weft/internal/workflow/run"
	"github.com/weft-automation/weft/internal/workflow/workflowtest"
)

// If a rerun ends before it reaches a loop or a child run, its own rerun can still reuse what the
// first rerun was to reuse.
func TestRerunOfARerunRepeatsNothingFinished(t *testing.T) {
	t.Parallel()
	const rest = `{"book":true,"n":3} {"book":true,"n":4} {"book":true,"n":5} {"n":"after"} {"n":4} {"n":5}`
	plain := func(t *testing.T, n *node) uuid.UUID { return n.draw(t, payroll, payrollEdges, payrollWires) }
	for name, c := range waittest.Chosen(map[string]struct {
		draw func(t *testing.T, n *node) uuid.UUID
		end  func(t *testing.T, n *node, key notify.Key) // ends the first rerun early
		want status.Run
	}{
		"canceled before a loop": {draw: plain, end: cancelBeforeItStarts, want: status.RunCanceled},
		"canceled before a loop in a loop": {draw: func(t *testing.T, n *node) uuid.UUID {
			return n.draw(t, `[{"id":"outer","module":"FOR_EACH","input":{"items":[0]}},`+payroll[1:],
				payrollEdges[:len(payrollEdges)-1]+`,{"id":"4","from":"outer","to":"l","port":"each"}]`, payrollWires)
		}, end: cancelBeforeItStarts, want: status.RunCanceled},
		"canceled before a child run": {draw: func(t *testing.T, n *node) uuid.UUID {
			return n.draw(t, `[{"id":"c","module":"RUN_WORKFLOW","config":{"workflowId":"`+plain(t, n).String()+`"}}]`, "", "")
		}, end: cancelBeforeItStarts, want: status.RunCanceled},
		"canceled before a child run in a loop": {draw: func(t *testing.T, n *node) uuid.UUID {
			return n.draw(t, `[{"id":"each","module":"FOR_EACH","input":{"items":[0]}},{"id":"c","module":"RUN_WORKFLOW","config":{"workflowId":"`+plain(t, n).String()+`"}}]`,
				`[{"id":"1","from":"each","to":"c","port":"each"}]`, "")
		}, end: cancelBeforeItStarts, want: status.RunCanceled},
		"given up before it had stages": {draw: plain, end: refuseItsStages, want: status.RunFailed},
	}, "canceled before a child run in a loop") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bank := &bank{refuses: []string{`{"book":true,"n":3}`}}
			b := newBench(t, bank.module())
			n := b.start(t, options{slots: 8, sweep: time.Second})
			id := c.draw(t, n)
			first, _ := n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: id}))
			bank.take()
			n.stop()
			n.engine.Close()
			second := b.repeatUntilEnd(t, first, c.end)
			if paid := inputs(bank.take()); first.Status != status.RunFailed || second.Status != c.want || paid != "" {
				t.Fatalf("%s, then %s %s, paid are %s", first.Status, second.Status, second.Error, paid)
			}
			last, _ := b.start(t, options{slots: 8, sweep: time.Second}).rerun(t, second, nil)
			if last.Status != status.RunCompleted {
				t.Errorf("the last rerun is %s %s", last.Status, last.Error)
			}
			if paid := inputs(bank.take()); paid != rest {
				t.Errorf("paid are %s, want %s", paid, rest)
			}
			b.balanced(t)
		})
	}
}

// An item is run again from a stage that fromStageId names, even if the earlier run is a rerun that
// did not reach the loop. The reference of the random reruns follows the same rule.
func TestRerunFromAStageInALoopNotReachedRepeatsThatItem(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.start(t, options{slots: 8, sweep: time.Second})
	w := &workflowtest.Drawing{
		Parts: []workflowtest.Part{
			{ID: "l", Module: "FOR_EACH", Input: map[string]any{"items": []int{1, 2}}, Config: map[string]any{"concurrency": 1, "onItemFailure": "fail"}},
			{ID: "a", Module: "WORK", Input: map[string]any{}, Config: map[string]any{}},
			{ID: "even", Module: "IF", Input: map[string]any{}, Config: map[string]any{"expression": "n % 2 == 0"}},
			{ID: "fail", Module: "FAIL"},
		},
		Arrows: []workflowtest.Arrow{{ID: "1", From: "l", To: "a", Port: "each"}, {ID: "2", From: "a", To: "even", Port: "next"}, {ID: "3", From: "even", To: "fail", Port: "then"}},
		Wires:  make([]workflowtest.Wire, 1),
	}
	c := &w.Wires[0]
	c.ID, c.From.ComponentID, c.From.Output, c.To.ComponentID, c.To.Input = "4", "l", "item", "even", "n"
	first, _ := n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: n.save(t, w.Draft())}))
	n.stop()
	n.engine.Close()
	second := b.repeatUntilEnd(t, first, cancelBeforeItStarts)
	n = b.start(t, options{slots: 8, sweep: time.Second})
	before := n.stages(t, notify.Key{WorkspaceID: n.workspace, ID: second.ID})
	if _, reached := before["l@[]"]; reached || first.Status != status.RunFailed || second.Status != status.RunCanceled {
		t.Fatalf("%s, then %s with the stages %v", first.Status, second.Status, slices.Sorted(maps.Keys(before)))
	}
	for at, want := range map[string]string{
		"":         "a@[0] a@[1] even@[0] even@[1]",
		"a@[0]":    "a@[1] even@[1]",
		"even@[1]": "a@[0] a@[1] even@[0]",
	} {
		var from *api.RunStage
		if at != "" {
			from = new(before[at])
		}
		_, after := n.rerun(t, second, from)
		if taken := kept(before, after); taken != want {
			t.Errorf("a rerun from %q reuses %s, want %s", at, taken, want)
		}
		if taken := kept(before, workflowtest.Interpret(w, nil).Reused(before, from)); taken != want {
			t.Errorf("for a rerun from %q, the reference reuses %s, want %s", at, taken, want)
		}
	}
	b.balanced(t)
}

// repeatUntilEnd triggers a rerun on a node that starts no runs, ends the rerun by calling end,
// and waits for it on a different node.
func (b *bench) repeatUntilEnd(t *testing.T, of api.WorkflowRun, end func(t *testing.T, n *node, key notify.Key)) api.WorkflowRun {
	t.Helper()
	idle := b.start(t, options{})
	idle.engine.Close()
	key := idle.trigger(t, run.TriggerParams{WorkflowID: of.WorkflowID, RerunOf: &orchestrator.Origin{RunID: of.ID}})
	end(t, idle, key)
	n := b.start(t, options{slots: 8, sweep: 100 * time.Millisecond})
	b.until(t, 1, func() { n.engine.Wake(key) }, "SELECT count(*) FROM workflow_runs WHERE id = $1 AND finished_at IS NOT NULL", key.ID)
	got, _ := n.end(t, key)
	n.stop()
	n.engine.Close()
	return got
}

func cancelBeforeItStarts(t *testing.T, n *node, key notify.Key) {
	if _, err := n.runs.Cancel(n.ctx, key, anyone{}, engine.CancelGraceful, nil); err != nil {
		t.Fatal(err)
	}
}

func refuseItsStages(t *testing.T, n *node, key notify.Key) {
	n.exec(t, "ALTER TABLE run_stages ADD CONSTRAINT refused CHECK (run_id <> '"+key.ID.String()+"') NOT VALID")
}
