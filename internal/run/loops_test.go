package run_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/run"
	"github.com/weft-automation/weft/internal/status"
)

// What a loop in a loop does is kept although an inner one ends in the same fold.
func TestLoopsInLoopsGoOn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.start(t, options{slots: 8, sweep: time.Second})
	id := n.draw(t, `[{"id":"o","module":"FOR_EACH","input":{"items":[1,2,3]},"config":{"concurrency":1}},
		{"id":"i","module":"FOR_EACH","input":{"items":[1,2]},"config":{"concurrency":1}},
		{"id":"w","module":"WORK","config":{"salt":2}}]`,
		`[{"id":"1","from":"o","to":"i","port":"each"},{"id":"2","from":"i","to":"w","port":"each"}]`, ``)
	got, stages := n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: id}), 30*time.Second)
	if got.Status != status.RunCompleted || len(stages) != 10 {
		t.Errorf("%s %s, %d stages", got.Status, got.Error, len(stages))
	}
	b.balanced(t)
}

// What comes after a loop takes its counts and the values of its items; those of an item
// that failed are null, whatever of it had run.
func TestWhatComesAfterALoopTakesItsValues(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.start(t, options{slots: 8, sweep: time.Second})
	id := n.draw(t, `[{"id":"l","module":"FOR_EACH","input":{"items":[1,2,3]},"config":{"onItemFailure":"continue"}},
		{"id":"v","module":"TRANSFORM","config":{"expression":"item * 10"}},
		{"id":"i","module":"IF","config":{"expression":"item == 2"}},
		{"id":"f","module":"FAIL"},
		{"id":"r","module":"RESPOND"}]`,
		`[{"id":"1","from":"l","to":"v","port":"each"},{"id":"2","from":"v","to":"i","port":"next"},{"id":"3","from":"i","to":"f","port":"then"},
		{"id":"4","from":"l","to":"r","port":"done"}]`,
		`[{"id":"1","from":{"componentId":"l","output":"item"},"to":{"componentId":"v","input":"item"}},
		{"id":"2","from":{"componentId":"l","output":"item"},"to":{"componentId":"i","input":"item"}},
		{"id":"3","from":{"componentId":"l","output":"failedItems"},"to":{"componentId":"r","input":"failed"}},
		{"id":"4","from":{"componentId":"v","output":"result"},"to":{"componentId":"r","input":"all"}}]`)
	got, _ := n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: id}), 30*time.Second)
	if text := canonical(got.Output); got.Status != status.RunCompleted || text != `{"all":[10,null,30],"failed":1}` {
		t.Errorf("%s %s gave %s", got.Status, got.Error, text)
	}
	b.balanced(t)
}

// A loop in a loop that failed is canceled, not complete: some of its items never began.
func TestALoopInAFailedLoopIsCanceled(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.start(t, options{slots: 8, sweep: time.Second})
	id := n.draw(t, `[{"id":"o","module":"FOR_EACH","input":{"items":[1,2]},"onFailure":"continue"},
		{"id":"i","module":"IF","config":{"expression":"item == 1"}},{"id":"f","module":"FAIL"},
		{"id":"l","module":"FOR_EACH","input":{"items":[1,2,3]},"config":{"concurrency":1}},
		{"id":"w","module":"WORK","config":{"ms":100}}]`,
		`[{"id":"1","from":"o","to":"i","port":"each"},{"id":"2","from":"i","to":"f","port":"then"},{"id":"3","from":"i","to":"l","port":"else"},
		{"id":"4","from":"l","to":"w","port":"each"}]`,
		`[{"id":"1","from":{"componentId":"o","output":"item"},"to":{"componentId":"i","input":"item"}}]`)
	got, stages := n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: id}), 30*time.Second)
	if got.Status != status.RunCompleted || stages["o@[]"].Status != status.StageFailed {
		t.Errorf("%s %s, the loop is %s", got.Status, got.Error, stages["o@[]"].Status)
	}
	if inner := stages["l@[1]"]; inner.Status != status.StageCanceled {
		t.Errorf("the loop in it is %q: %s", inner.Status, inner.Output)
	}
	if failure := (api.RunError{}); json.Unmarshal(stages["o@[]"].Error, &failure) != nil || failure.Code != "ITEM_FAILED" {
		t.Errorf("the loop failed with %s", stages["o@[]"].Error)
	}
	b.balanced(t)
}
