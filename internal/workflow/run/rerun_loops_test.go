package run_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/account/environment"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/workflow/engine"
	"github.com/weft-automation/weft/internal/workflow/orchestrator"
	"github.com/weft-automation/weft/internal/workflow/run"
	"github.com/weft-automation/weft/internal/workflow/workflowtest"
)

// bank records the payments that PAY makes. PAY costs a credit and fails for the inputs that the
// bank refuses.
type bank struct {
	mu      sync.Mutex
	refuses []string // inputs in canonical form
	paid    []payment
}

// payment is one call of PAY.
type payment struct {
	effect uuid.UUID
	input  string
}

func (b *bank) module() module {
	return workflowtest.Made("PAY", credit.Credits(1), `{"type":"object","properties":{"paid":{}}}`, func(_ context.Context, call component.Call) (component.Result, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		p := payment{call.EffectKey, workflowtest.Canonical(call.Input)}
		b.paid = append(b.paid, p)
		if slices.Contains(b.refuses, p.input) {
			return component.Result{}, component.Permanent("REFUSED", "the bank refused it")
		}
		return component.Result{Output: json.RawMessage(`{"paid":` + p.input + `}`)}, nil
	})
}

// take returns the payments since the last call, and sets the inputs to refuse.
func (b *bank) take(refuses ...string) []payment {
	b.mu.Lock()
	defer b.mu.Unlock()
	paid := b.paid
	b.paid, b.refuses = nil, refuses
	return paid
}

// inputs returns the inputs of payments, sorted.
func inputs(paid []payment) string {
	var texts []string
	for _, p := range paid {
		texts = append(texts, p.input)
	}
	slices.Sort(texts)
	return strings.Join(texts, " ")
}

// payroll is a loop over six items. Two payments are made for each item.
const (
	payroll = `[{"id":"l","module":"FOR_EACH","input":{"items":[0,1,2,3,4,5]},"config":{"concurrency":1}},
		{"id":"pay","module":"PAY"},{"id":"book","module":"PAY","input":{"book":true}},{"id":"after","module":"PAY","input":{"n":"after"}}]`
	payrollEdges = `[{"id":"1","from":"l","to":"pay","port":"each"},{"id":"2","from":"pay","to":"book","port":"next"},{"id":"3","from":"l","to":"after","port":"done"}]`
	payrollWires = `[{"id":"1","from":{"componentId":"l","output":"item"},"to":{"componentId":"pay","input":"n"}},
		{"id":"2","from":{"componentId":"l","output":"item"},"to":{"componentId":"book","input":"n"}}]`
)

func TestRerunReusesFinishedItemsOfALoop(t *testing.T) {
	t.Parallel()
	bank := &bank{refuses: []string{`{"book":true,"n":3}`}}
	b := newBench(t, bank.module())
	n := b.start(t, options{slots: 8, sweep: time.Second})
	id := n.draw(t, payroll, payrollEdges, payrollWires)
	first, before := n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: id}))
	if first.Status != status.RunFailed || first.TotalUsage != credit.Credits(7) {
		t.Fatalf("%s %s, used %s", first.Status, first.Error, first.TotalUsage)
	}
	bank.take()
	got, after := n.rerun(t, first, nil)
	if got.Status != status.RunCompleted || got.TotalUsage != credit.Credits(6) {
		t.Errorf("%s %s, used %s", got.Status, got.Error, got.TotalUsage)
	}
	if paid := inputs(bank.take()); paid != `{"book":true,"n":3} {"book":true,"n":4} {"book":true,"n":5} {"n":"after"} {"n":4} {"n":5}` {
		t.Errorf("paid: %s", paid)
	}
	if taken := kept(before, after); taken != "book@[0] book@[1] book@[2] pay@[0] pay@[1] pay@[2] pay@[3]" {
		t.Errorf("reused stages: %s", taken)
	}
	if output := workflowtest.Canonical(after["l@[]"].Output); output != `{"count":6,"failedItems":0}` {
		t.Errorf("the loop gave %s", output)
	}
	b.balanced(t)
}

// A rerun from a stage in an item repeats that item, starting with the stage. It repeats no other
// item.
func TestRerunFromAStageInALoopRepeatsThatItem(t *testing.T) {
	t.Parallel()
	bank := &bank{}
	b := newBench(t, bank.module())
	n := b.start(t, options{slots: 8, sweep: time.Second})
	id := n.draw(t, payroll, payrollEdges, payrollWires)
	first, before := n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: id}))
	bank.take()
	for at, want := range map[string]string{
		"pay@[2]":  `{"book":true,"n":2} {"n":"after"} {"n":2}`,
		"book@[5]": `{"book":true,"n":5} {"n":"after"}`,
		"after@[]": `{"n":"after"}`,
		"l@[]": `{"book":true,"n":0} {"book":true,"n":1} {"book":true,"n":2} {"book":true,"n":3} {"book":true,"n":4} {"book":true,"n":5} ` +
			`{"n":"after"} {"n":0} {"n":1} {"n":2} {"n":3} {"n":4} {"n":5}`,
	} {
		from := before[at]
		got, after := n.rerun(t, first, &from)
		if paid := inputs(bank.take()); got.Status != status.RunCompleted || paid != want || len(after) != len(before) {
			t.Errorf("from %s it %s %s, paid: %s", at, got.Status, got.Error, paid)
		}
	}
	b.balanced(t)
}

func TestRerunResumesNestedLoops(t *testing.T) {
	t.Parallel()
	bank := &bank{refuses: []string{`{"book":true,"n":2}`}}
	b := newBench(t, bank.module())
	n := b.start(t, options{slots: 8, sweep: time.Second})
	id := n.draw(t, `[{"id":"outer","module":"FOR_EACH","input":{"items":[[0],[1,2,3],[4]]},"config":{"concurrency":1}},
		{"id":"l","module":"FOR_EACH","config":{"concurrency":1}},{"id":"pay","module":"PAY"},{"id":"book","module":"PAY","input":{"book":true}}]`,
		`[{"id":"1","from":"l","to":"pay","port":"each"},{"id":"2","from":"pay","to":"book","port":"next"},{"id":"3","from":"outer","to":"l","port":"each"}]`,
		payrollWires[:len(payrollWires)-1]+`,{"id":"3","from":{"componentId":"outer","output":"item"},"to":{"componentId":"l","input":"items"}}]`)
	first, before := n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: id}))
	bank.take()
	got, after := n.rerun(t, first, nil)
	if paid := inputs(bank.take()); got.Status != status.RunCompleted || paid != `{"book":true,"n":2} {"book":true,"n":3} {"book":true,"n":4} {"n":3} {"n":4}` {
		t.Errorf("%s %s, paid: %s", got.Status, got.Error, paid)
	}
	if taken := kept(before, after); taken != "book@[0 0] book@[1 0] l@[0] pay@[0 0] pay@[1 0] pay@[1 1]" {
		t.Errorf("reused stages: %s", taken)
	}
	from := after["pay@[1 2]"]
	got, _ = n.rerun(t, got, &from)
	if paid := inputs(bank.take()); got.Status != status.RunCompleted || paid != `{"book":true,"n":3} {"n":3}` {
		t.Errorf("from the last of the item: %s %s, paid: %s", got.Status, got.Error, paid)
	}
	b.balanced(t)
}

// An item counts as finished even if a failure in it was handled.
func TestRerunReusesItemsThatHandledAFailure(t *testing.T) {
	t.Parallel()
	bank := &bank{refuses: []string{`{"n":1}`, `{"book":true,"n":2}`}}
	b := newBench(t, bank.module())
	n := b.start(t, options{slots: 8, sweep: time.Second})
	id := n.draw(t, payroll[:len(payroll)-1]+`,{"id":"refund","module":"PAY","input":{"refund":true}}]`,
		payrollEdges[:len(payrollEdges)-1]+`,{"id":"4","from":"pay","to":"refund","port":"error"}]`, payrollWires)
	first, _ := n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: id}))
	if paid := inputs(bank.take()); first.Status != status.RunFailed || !strings.Contains(paid, "refund") {
		t.Fatalf("%s %s, paid: %s", first.Status, first.Error, paid)
	}
	got, after := n.rerun(t, first, nil)
	if paid := inputs(bank.take()); got.Status != status.RunCompleted || strings.Contains(paid, "refund") || strings.Contains(paid, `{"n":1}`) {
		t.Errorf("%s %s, paid: %s", got.Status, got.Error, paid)
	}
	if got.FailedStageCount != 1 || after["pay@[1]"].Status != status.StageFailed {
		t.Errorf("%d stages failed, the first payment is %s", got.FailedStageCount, after["pay@[1]"].Status)
	}
	b.balanced(t)
}

func TestRerunOfACanceledRunReusesFinishedItems(t *testing.T) {
	t.Parallel()
	bank := &bank{}
	b := newBench(t, bank.module())
	n := b.start(t, options{slots: 8, sweep: time.Second})
	id := n.draw(t, `[{"id":"l","module":"FOR_EACH","input":{"items":[0,1]},"config":{"concurrency":2}},{"id":"pay","module":"PAY"},
		{"id":"second","module":"IF","config":{"expression":"n == 1"}},{"id":"wait","module":"WAIT_FOR_SIGNAL","config":{"name":"go","timeoutMs":3600000}},
		{"id":"book","module":"PAY","input":{"book":true}}]`,
		`[{"id":"1","from":"l","to":"pay","port":"each"},{"id":"2","from":"pay","to":"second","port":"next"},{"id":"3","from":"second","to":"wait","port":"then"},
		{"id":"4","from":"wait","to":"book","port":"next"}]`,
		`[{"id":"1","from":{"componentId":"l","output":"item"},"to":{"componentId":"pay","input":"n"}},{"id":"2","from":{"componentId":"l","output":"item"},"to":{"componentId":"second","input":"n"}}]`)
	key := n.trigger(t, run.TriggerParams{WorkflowID: id})
	b.until(t, 3, func() {}, "SELECT count(*) FROM run_stages WHERE run_id = $1 AND component_id IN ('wait', 'second')", key.ID)
	if _, err := n.runs.Cancel(n.ctx, key, anyone{}, engine.CancelGraceful, nil); err != nil {
		t.Fatal(err)
	}
	first, before := n.end(t, key)
	bank.take()
	again := n.trigger(t, run.TriggerParams{WorkflowID: id, RerunOf: &orchestrator.Origin{RunID: first.ID}})
	if _, err := n.runs.Signal(n.ctx, again, anyone{}, "go", json.RawMessage(`{}`)); err != nil {
		t.Fatal(err)
	}
	got, after := n.end(t, again)
	if paid := inputs(bank.take()); first.Status != status.RunCanceled || got.Status != status.RunCompleted || paid != `{"book":true}` {
		t.Errorf("%s, then %s %s, paid: %s", first.Status, got.Status, got.Error, paid)
	}
	if taken := kept(before, after); taken != "pay@[0] pay@[1] second@[0] second@[1]" {
		t.Errorf("reused stages: %s", taken)
	}
	b.balanced(t)
}

// A rerun passes its finished items in several advances, even if none of their stages has to run.
func TestRerunPassesManyFinishedItems(t *testing.T) {
	t.Parallel()
	bank := &bank{refuses: []string{`{"n":1199}`}}
	b := newBench(t, bank.module())
	n := b.start(t, options{slots: 8, sweep: time.Second})
	id := n.draw(t, `[{"id":"numbers","module":"TRANSFORM","config":{"expression":"0..1199"}},{"id":"l","module":"FOR_EACH"},
		{"id":"last","module":"IF","config":{"expression":"n == 1199"}},{"id":"pay","module":"PAY"}]`,
		`[{"id":"1","from":"numbers","to":"l","port":"next"},{"id":"2","from":"l","to":"last","port":"each"},{"id":"3","from":"last","to":"pay","port":"then"}]`,
		`[{"id":"1","from":{"componentId":"numbers","output":"result"},"to":{"componentId":"l","input":"items"}},
		{"id":"2","from":{"componentId":"l","output":"item"},"to":{"componentId":"last","input":"n"}},{"id":"3","from":{"componentId":"l","output":"item"},"to":{"componentId":"pay","input":"n"}}]`)
	first, before := n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: id}))
	bank.take()
	got, after := n.rerun(t, first, nil)
	if taken := len(strings.Fields(kept(before, after))); first.Status != status.RunFailed || got.Status != status.RunCompleted || taken != 1+1200 || len(after) != 1+1+1200+1 {
		t.Errorf("%s, then %s %s with %d stages, %d of them taken over", first.Status, got.Status, got.Error, len(after), taken)
	}
	if paid := inputs(bank.take()); paid != `{"n":1199}` {
		t.Errorf("paid: %s", paid)
	}
	b.balanced(t)
}

// If an environment variable changed that may affect the items of a loop, no item is reused.
func TestRerunWithChangedItemsRunsAllOfThem(t *testing.T) {
	t.Parallel()
	bank := &bank{}
	b := newBench(t, bank.module())
	n := b.start(t, options{slots: 8, sweep: time.Second})
	set := func(value string) {
		if _, err := n.environment.Set(n.ctx, environment.SetParams{WorkspaceID: n.workspace, Name: "FIRST", Value: value}); err != nil {
			t.Fatal(err)
		}
	}
	set("a")
	id := n.draw(t, strings.Replace(payroll, "[0,1,2,3,4,5]", `["{{env.FIRST}}","b"]`, 1), payrollEdges, payrollWires)
	bank.take(`{"book":true,"n":"b"}`)
	first, _ := n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: id}))
	bank.take(`{"book":true,"n":"b"}`)
	set("a") // the value stays the same
	second, _ := n.rerun(t, first, nil)
	if paid := inputs(bank.take()); second.Status != status.RunFailed || paid != `{"book":true,"n":"b"}` {
		t.Errorf("with the same items it %s %s, paid: %s", second.Status, second.Error, paid)
	}
	set("c")
	third, _ := n.rerun(t, second, nil)
	if paid := inputs(bank.take()); third.Status != status.RunCompleted || paid != `{"book":true,"n":"b"} {"book":true,"n":"c"} {"n":"after"} {"n":"b"} {"n":"c"}` {
		t.Errorf("with other items it %s %s, paid: %s", third.Status, third.Error, paid)
	}
	b.balanced(t)
}

// A rerun detects that a variable changed, even if the clock was set back before the earlier child
// run started. The creation time of that child run is then ahead of the clock.
func TestRerunSeesChangesAfterAChildRunAheadOfTheClock(t *testing.T) {
	t.Parallel()
	bank, letGo := &bank{}, make(chan struct{})
	b := newBench(t, bank.module(), held(letGo))
	n := b.start(t, options{slots: 8, sweep: time.Second})
	set := func(value string) {
		if _, err := n.environment.Set(n.ctx, environment.SetParams{WorkspaceID: n.workspace, Name: "FIRST", Value: value}); err != nil {
			t.Fatal(err)
		}
	}
	set("a")
	child := n.draw(t, strings.Replace(payroll, "[0,1,2,3,4,5]", `["{{env.FIRST}}","b"]`, 1), payrollEdges, payrollWires)
	id := n.draw(t, `[{"id":"h","module":"HELD"},{"id":"c","module":"RUN_WORKFLOW","config":{"workflowId":"`+child.String()+`"}}]`,
		`[{"id":"1","from":"h","to":"c","port":"next"}]`, "")
	bank.take(`{"book":true,"n":"b"}`)
	key := n.trigger(t, run.TriggerParams{WorkflowID: id})
	n.exec(t, "UPDATE workflow_runs SET updated_at = updated_at + interval '1 h'")
	close(letGo)
	first, _ := n.end(t, key)
	if ahead := n.number(t, "SELECT count(*) FROM workflow_runs WHERE parent_run_id = $1 AND created_at > now() + interval '50 min'", key.ID); ahead != 1 {
		t.Fatalf("%d child runs are ahead of the clock", ahead)
	}
	bank.take()
	set("c")
	second, _ := n.rerun(t, first, nil)
	if paid := inputs(bank.take()); second.Status != status.RunCompleted || paid != `{"book":true,"n":"b"} {"book":true,"n":"c"} {"n":"after"} {"n":"b"} {"n":"c"}` {
		t.Errorf("it is %s %s, paid: %s", second.Status, second.Error, paid)
	}
}

// If retention deletes the earlier run before its rerun starts, the rerun fails and repeats
// nothing.
func TestRerunOfADeletedRunFails(t *testing.T) {
	t.Parallel()
	bank := &bank{}
	b := newBench(t, bank.module())
	n := b.start(t, options{slots: 8, sweep: time.Second})
	id := n.draw(t, payroll, payrollEdges, payrollWires)
	first, _ := n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: id}))
	bank.take()
	idle := b.start(t, options{})
	n.stop()
	idle.engine.Close()
	key := idle.trigger(t, run.TriggerParams{WorkflowID: id, RerunOf: &orchestrator.Origin{RunID: first.ID}})
	for _, table := range []string{"run_events", "run_stages"} {
		b.exec(t, "DELETE FROM "+table+" WHERE run_id = '"+first.ID.String()+"'")
	}
	b.exec(t, "DELETE FROM workflow_runs WHERE id = '"+first.ID.String()+"'")
	got, _ := b.start(t, options{slots: 8, sweep: time.Second}).end(t, key)
	if !strings.Contains(string(got.Error), `"NOT_FOUND"`) {
		t.Errorf("%s %s", got.Status, got.Error)
	}
	if paid := inputs(bank.take()); paid != "" {
		t.Errorf("paid: %s", paid)
	}
}
