package run_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/workflow"
	"github.com/weft-automation/weft/internal/workflow/run"
	"github.com/weft-automation/weft/internal/workflow/workflowtest"
)

// A workflow runs random workflows with RUN_WORKFLOW. The outputs of the child runs reach the
// parent, and their failures go to the port `error` as in the reference. The child runs themselves
// are compared too.
func TestRandomChildRunsMatchReference(t *testing.T) {
	t.Parallel()
	n := newBench(t).start(t, options{slots: 8, sweep: time.Second})
	ended, answered := map[status.Stage]int{}, 0
	for seed, found := uint64(0), 0; found < 24; seed++ {
		inner := workflowtest.Draw(seed, 12)
		inner.Compute(int(seed % 3))
		if inner.WaitsForSignal() {
			continue // child runs get no signal
		}
		found++
		id := n.save(t, inner.Draft()).String()
		outer := workflowtest.Nest(inner, id, seed%7)
		want := workflowtest.Interpret(outer, nil)
		saved := n.save(t, outer.Draft())
		quote := n.quote(t, saved)
		key := n.trigger(t, run.TriggerParams{WorkflowID: saved})
		got, stages := n.end(t, key)
		if got.Status != status.RunCompleted || workflowtest.Canonical(got.Output) != workflowtest.Canonical(want.Output) {
			t.Errorf("seed %d: %s %s gave %s, want %s", seed, got.Status, got.Error, got.Output, want.Output)
		}
		fate := want.Fates["c@[]"]
		if stage := stages["c@[]"]; stage.Status != fate.Status || fate.Status == status.StageCompleted && workflowtest.Canonical(stage.Output) != workflowtest.Canonical(fate.Output) {
			t.Errorf("seed %d: it is %s %s, want %s %s", seed, stage.Status, stage.Output, fate.Status, fate.Output)
		}
		if ended[fate.Status]++; inner.Answers && fate.Status == status.StageCompleted && workflowtest.Canonical(fate.Output) != "{}" {
			answered++
		}
		below := workflowtest.Interpret(inner, fmt.Appendf(nil, `{"n":%d}`, seed%7))
		p := workflowtest.Played{}
		p.Run, p.Stages = n.end(t, n.child(t, key))
		compare(t, seed, below, p, false)
		within(t, seed, quote, got)
	}
	if ended[status.StageCompleted] < 3 || ended[status.StageFailed] < 3 || answered == 0 {
		t.Errorf("the runs below ended %v, and %d answered: the drawing is off", ended, answered)
	}
}

// A restricted key may not change workflowId or an expression over secrets. Only these exact names
// have an effect. The same names in a different letter case are ignored.
func TestFieldInOtherLetterCaseIsIgnored(t *testing.T) {
	t.Parallel()
	n := newBench(t).start(t, options{slots: 4, sweep: time.Second})
	answers := func(value int) string {
		return n.draw(t, fmt.Sprintf(`[{"id":"r","module":"RESPOND","input":{"value":%d}}]`, value), "", "").String()
	}
	for _, c := range []string{
		fmt.Sprintf(`"RUN_WORKFLOW","config":{"workflowId":%q,"workflowid":%q}`, answers(1), answers(2)),
		`"TRANSFORM","config":{"expression":"{value: 1}","expreſsion":"{value: 2}"}`,
		`"JSON_CONSTANT","config":{"value":{"value":1},"Value":{"value":2}}`,
		`"ARRAY_BUILDER","input":{"0":1},"config":{"itemType":"number","ItemType":"string"}`,
	} {
		id := n.draw(t, `[{"id":"c","module":`+c+`}]`, "", "")
		got, stages := n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: id}))
		output := string(stages["c@[]"].Output)
		if got.Status != status.RunCompleted || !strings.Contains(output, "1") || strings.Contains(output, "2") {
			t.Errorf("%s: the run %s %s, the component gave %s", c, got.Status, got.Error, output)
		}
	}
}

// key returns the key of a workflow.
func (n *node) key(t testing.TB, id uuid.UUID) string {
	t.Helper()
	w, err := n.workflows.Get(n.ctx, n.workspace, id, nil)
	if err != nil {
		t.Fatal(err)
	}
	return w.Key
}

// The key of a child workflow is looked up when the component starts: it then leads to the workflow that
// has it, in its current version.
func TestChildIsFoundByItsKeyWhenItStarts(t *testing.T) {
	t.Parallel()
	n := newBench(t).start(t, options{slots: 4, sweep: time.Second})
	answers := func(key string, value int) uuid.UUID {
		return n.save(t, workflow.Draft{Key: key, Name: "answers", Components: fmt.Appendf(nil, `[{"id":"r","module":"RESPOND","input":{"value":%d}}]`, value)})
	}
	parent := n.draw(t, `[{"id":"c","module":"RUN_WORKFLOW","config":{"workflow":"answers"}}]`, "", "")
	plays := func(want string) {
		t.Helper()
		_, stages := n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: parent}))
		if got := fmt.Sprintf("%s%s", stages["c@[]"].Output, stages["c@[]"].Error); !strings.Contains(got, want) {
			t.Errorf("the component gave %s, want %s", got, want)
		}
	}
	plays(`"NOT_FOUND"`)
	first := answers("answers", 1)
	plays(`{"value":1}`)
	if _, err := n.workflows.Replace(n.ctx, workflow.ReplaceParams{WorkspaceID: n.workspace, WorkflowID: first, Draft: workflow.Draft{Name: "renamed", Components: []byte(`[{"id":"r","module":"RESPOND","input":{"value":2}}]`)}}); err != nil {
		t.Fatal(err)
	}
	plays(`{"value":2}`)
	if _, err := n.workflows.Archive(n.ctx, n.workspace, first, nil); err != nil {
		t.Fatal(err)
	}
	plays(`"NOT_FOUND"`)
	answers("answers", 3)
	plays(`{"value":3}`)
	parent = n.draw(t, fmt.Sprintf(`[{"id":"c","module":"RUN_WORKFLOW","config":{"workflow":%q}}]`, strings.ToUpper(answers("", 4).String())), "", "")
	plays(`{"value":4}`)
}
