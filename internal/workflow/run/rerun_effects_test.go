package run_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/workflow"
	"github.com/weft-automation/weft/internal/workflow/run"
	"github.com/weft-automation/weft/internal/workflow/workflowtest"
)

// keys returns the effect keys of payments by their input, and checks that each input was paid
// once.
func keys(t *testing.T, paid []payment) map[string]uuid.UUID {
	t.Helper()
	keys, inputs := map[string]uuid.UUID{}, map[uuid.UUID]string{}
	for _, p := range paid {
		if _, twice := keys[p.input]; twice {
			t.Errorf("%s was paid twice", p.input)
		}
		if other, twice := inputs[p.effect]; twice {
			t.Errorf("%s and %s have the key %s", p.input, other, p.effect)
		}
		keys[p.input], inputs[p.effect] = p.effect, p.input
	}
	return keys
}

func TestRepeatedEffectKeepsKeyOfFirstRun(t *testing.T) {
	t.Parallel()
	bank := &bank{refuses: []string{`{"book":true,"n":3}`}}
	b := newBench(t, bank.module())
	n := b.start(t, options{slots: 8, sweep: time.Second})
	id := n.draw(t, payroll, payrollEdges, payrollWires)
	first, _ := n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: id}))
	was := keys(t, bank.take(`{"book":true,"n":3}`))
	second, _ := n.rerun(t, first, nil)
	if is := keys(t, bank.take()); is[`{"book":true,"n":3}`] != was[`{"book":true,"n":3}`] {
		t.Errorf("the rerun used %v, the first run %v", is, was)
	}
	third, stages := n.rerun(t, second, nil)
	is := keys(t, bank.take())
	if third.Status != status.RunCompleted || is[`{"book":true,"n":3}`] != was[`{"book":true,"n":3}`] {
		t.Errorf("the rerun of the rerun %s and used %v, the first run %v", third.Status, is, was)
	}
	from := stages["l@[]"]
	n.rerun(t, third, &from)
	whole := keys(t, bank.take())
	for input, key := range was {
		if whole[input] != key {
			t.Errorf("%s has the key %s, in the first run %s", input, whole[input], key)
		}
	}
	n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: id}))
	for input, key := range keys(t, bank.take()) {
		if whole[input] == key {
			t.Errorf("%s has the same key in another run", input)
		}
	}
}

// counts is a module whose output is a different number on each call.
func counts() module {
	var count atomic.Int64
	return workflowtest.Made("COUNTS", credit.Credits(1), `{"type":"object","properties":{"value":{"type":"integer"}}}`,
		func(context.Context, component.Call) (component.Result, error) {
			return component.Result{Output: json.RawMessage(fmt.Sprintf(`{"value":%d}`, count.Add(1)))}, nil
		})
}

func TestEffectWithAnotherInputHasAnotherKey(t *testing.T) {
	t.Parallel()
	bank := &bank{}
	b := newBench(t, bank.module(), counts())
	n := b.start(t, options{slots: 8, sweep: time.Second})
	id := n.draw(t, `[{"id":"counts","module":"COUNTS"},{"id":"pay","module":"PAY"},{"id":"same","module":"PAY","input":{"fixed":1}}]`,
		`[{"id":"1","from":"counts","to":"pay","port":"next"},{"id":"2","from":"counts","to":"same","port":"next"}]`,
		`[{"id":"1","from":{"componentId":"counts","output":"value"},"to":{"componentId":"pay","input":"n"}}]`)
	first, before := n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: id}))
	was := keys(t, bank.take())
	from := before["counts@[]"]
	n.rerun(t, first, &from)
	is := keys(t, bank.take())
	if is[`{"fixed":1}`] != was[`{"fixed":1}`] {
		t.Errorf("with the same input it used %v, before %v", is, was)
	}
	if is[`{"n":2}`] == was[`{"n":1}`] || is[`{"n":2}`] == uuid.Nil {
		t.Errorf("with another input it used %v, before %v", is, was)
	}
}

// A rerun reuses a finished RUN_WORKFLOW stage and does not start its child run again. If a rerun
// repeats such a stage explicitly, the effects of the new child run have the same keys as before.
func TestRerunReusesChildRunsOfFinishedItems(t *testing.T) {
	t.Parallel()
	bank := &bank{refuses: []string{`{"book":true,"n":1}`}}
	b := newBench(t, bank.module())
	n := b.start(t, options{slots: 8, sweep: time.Second})
	inner := n.draw(t, `[{"id":"begin","module":"ON_API_CALLED"},{"id":"pay","module":"PAY"}]`, `[{"id":"1","from":"begin","to":"pay","port":"next"}]`,
		`[{"id":"1","from":{"componentId":"begin","output":"input"},"to":{"componentId":"pay","input":"given"}}]`)
	id := n.draw(t, fmt.Sprintf(`[{"id":"l","module":"FOR_EACH","input":{"items":[0,1]},"config":{"concurrency":1}},
		{"id":"child","module":"RUN_WORKFLOW","config":{"workflowId":%q}},{"id":"book","module":"PAY","input":{"book":true}}]`, inner),
		`[{"id":"1","from":"l","to":"child","port":"each"},{"id":"2","from":"child","to":"book","port":"next"}]`,
		`[{"id":"1","from":{"componentId":"l","output":"item"},"to":{"componentId":"child","input":"n"}},{"id":"2","from":{"componentId":"l","output":"item"},"to":{"componentId":"book","input":"n"}}]`)
	first, before := n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: id}))
	was := keys(t, bank.take())
	if first.TotalUsage != credit.Credits(1) || first.TotalUsageWithChildren != credit.Credits(3) {
		t.Errorf("used %s, with its children %s", first.TotalUsage, first.TotalUsageWithChildren)
	}
	got, after := n.rerun(t, first, nil)
	if paid := inputs(bank.take()); got.Status != status.RunCompleted || paid != `{"book":true,"n":1}` {
		t.Errorf("%s %s, paid are %s", got.Status, got.Error, paid)
	}
	if got.TotalUsage != credit.Credits(1) || got.TotalUsageWithChildren != credit.Credits(1) {
		t.Errorf("the rerun used %s, with its children %s", got.TotalUsage, got.TotalUsageWithChildren)
	}
	child := after["child@[0]"].ChildRunID
	if child == nil || before["child@[0]"].ChildRunID == nil || *child != *before["child@[0]"].ChildRunID {
		t.Errorf("its child run is %v, that of the first run %v", child, before["child@[0]"].ChildRunID)
	}
	from := after["child@[0]"]
	n.rerun(t, got, &from)
	if is := keys(t, bank.take()); len(is) != 2 || is[`{"given":{"n":0}}`] != was[`{"given":{"n":0}}`] {
		t.Errorf("the child run that was repeated used %v, before %v", is, was)
	}
	b.balanced(t)
}

// A rerun continues a child run that did not complete where the child run stopped, unless the
// rerun starts from the RUN_WORKFLOW stage of that child run.
func TestRerunResumesChildRuns(t *testing.T) {
	t.Parallel()
	bank := &bank{refuses: []string{`{"book":true,"n":3}`}}
	b := newBench(t, bank.module())
	n := b.start(t, options{slots: 8, sweep: time.Second})
	inner := n.draw(t, payroll, payrollEdges, payrollWires)
	id := n.draw(t, fmt.Sprintf(`[{"id":"l","module":"FOR_EACH","input":{"items":[7]}},{"id":"child","module":"RUN_WORKFLOW","config":{"workflowId":%q}}]`, inner),
		`[{"id":"1","from":"l","to":"child","port":"each"}]`, `[{"id":"1","from":{"componentId":"l","output":"item"},"to":{"componentId":"child","input":"n"}}]`)
	first, before := n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: id}))
	was := keys(t, bank.take())
	if first.Status != status.RunFailed || first.TotalUsageWithChildren != credit.Credits(7) {
		t.Errorf("%s %s, used %s", first.Status, first.Error, first.TotalUsageWithChildren)
	}
	got, after := n.rerun(t, first, nil)
	paid := bank.take()
	if texts := inputs(paid); got.Status != status.RunCompleted || texts != `{"book":true,"n":3} {"book":true,"n":4} {"book":true,"n":5} {"n":"after"} {"n":4} {"n":5}` {
		t.Errorf("%s %s, paid are %s", got.Status, got.Error, texts)
	}
	if got.TotalUsageWithChildren != credit.Credits(6) {
		t.Errorf("the rerun used %s", got.TotalUsageWithChildren)
	}
	if is := keys(t, paid); is[`{"book":true,"n":3}`] != was[`{"book":true,"n":3}`] {
		t.Errorf("the rerun used %v, the first run %v", is, was)
	}
	child, err := n.runs.Get(n.ctx, notify.Key{WorkspaceID: n.workspace, ID: *after["child@[0]"].ChildRunID}, anyone{})
	if want := fmt.Sprintf(`{"runId":%q}`, before["child@[0]"].ChildRunID); err != nil || workflowtest.Canonical(child.RerunOf) != want {
		t.Errorf("the child run repeats %s, want %s; %v", child.RerunOf, want, err)
	}
	from := before["child@[0]"]
	n.rerun(t, first, &from)
	if is := keys(t, bank.take()); len(is) != 13 || is[`{"n":0}`] != was[`{"n":0}`] {
		t.Errorf("from the child run on, the rerun used %v", is)
	}
	b.balanced(t)
}

func TestRerunRestartsChildRunsOfAnotherVersion(t *testing.T) {
	t.Parallel()
	bank := &bank{refuses: []string{`{"n":2}`}}
	b := newBench(t, bank.module())
	n := b.start(t, options{slots: 8, sweep: time.Second})
	pays := func(second int) workflow.Draft {
		return workflow.Draft{
			Name:          "test",
			Components:    json.RawMessage(fmt.Sprintf(`[{"id":"a","module":"PAY","input":{"n":1}},{"id":"b","module":"PAY","input":{"n":%d}}]`, second)),
			SequenceEdges: json.RawMessage(`[{"id":"1","from":"a","to":"b","port":"next"}]`),
		}
	}
	inner := n.save(t, pays(2))
	id := n.draw(t, fmt.Sprintf(`[{"id":"child","module":"RUN_WORKFLOW","config":{"workflowId":%q}}]`, inner), "", "")
	first, _ := n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: id}))
	was := keys(t, bank.take(`{"n":2}`))
	if _, err := n.workflows.Replace(n.ctx, workflow.ReplaceParams{WorkspaceID: n.workspace, WorkflowID: inner, Draft: pays(3)}); err != nil {
		t.Fatal(err)
	}
	got, _ := n.rerun(t, first, nil)
	if is := keys(t, bank.take()); got.Status != status.RunCompleted || len(is) != 2 || is[`{"n":1}`] != was[`{"n":1}`] || is[`{"n":3}`] == was[`{"n":2}`] {
		t.Errorf("%s %s used %v, the first run %v", got.Status, got.Error, is, was)
	}
	b.balanced(t)
}

// The usage of a run includes the usage of its finished child runs at all levels.
func TestUsageWithChildrenCountsAllLevels(t *testing.T) {
	t.Parallel()
	bank := &bank{}
	b := newBench(t, bank.module())
	n := b.start(t, options{slots: 8, sweep: time.Second})
	id := n.draw(t, `[{"id":"pay","module":"PAY"}]`, "", "")
	for level := range 3 {
		id = n.draw(t, fmt.Sprintf(`[{"id":"pay","module":"PAY"},{"id":"c","module":"RUN_WORKFLOW","config":{"workflowId":%q}}]`, id), "", "")
		got, stages := n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: id}))
		if want := credit.Credits(int64(level) + 2); got.TotalUsage != credit.Credits(1) || got.TotalUsageWithChildren != want {
			t.Errorf("%d levels: used %s, with its children %s", level+2, got.TotalUsage, got.TotalUsageWithChildren)
		}
		if stages["c@[]"].ChildRunID == nil || stages["pay@[]"].ChildRunID != nil {
			t.Errorf("the child runs are %v and %v", stages["c@[]"].ChildRunID, stages["pay@[]"].ChildRunID)
		}
	}
}
