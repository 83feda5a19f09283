package run_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/workflow/run"
	"github.com/weft-automation/weft/internal/workflow/workflowtest"
)

// An advance in which an inner loop finishes also saves the changes of the loops around it.
func TestNestedLoopsContinue(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.start(t, options{slots: 8, sweep: time.Second})
	id := n.draw(t, `[{"id":"o","module":"FOR_EACH","input":{"items":[1,2,3]},"config":{"concurrency":1}},
		{"id":"i","module":"FOR_EACH","input":{"items":[1,2]},"config":{"concurrency":1}},
		{"id":"w","module":"WORK","config":{"salt":2}}]`,
		`[{"id":"1","from":"o","to":"i","port":"each"},{"id":"2","from":"i","to":"w","port":"each"}]`, ``)
	got, stages := n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: id}))
	if got.Status != status.RunCompleted || len(stages) != 10 {
		t.Errorf("%s %s, %d stages", got.Status, got.Error, len(stages))
	}
	b.balanced(t)
}

// A component after a loop receives the loop's counts and the values of its items. The values of a
// failed item are null, regardless of which of its stages had run.
func TestComponentAfterALoopReceivesItsValues(t *testing.T) {
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
	got, _ := n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: id}))
	if text := workflowtest.Canonical(got.Output); got.Status != status.RunCompleted || text != `{"all":[10,null,30],"failed":1}` {
		t.Errorf("%s %s gave %s", got.Status, got.Error, text)
	}
	b.balanced(t)
}

// A loop in a failed loop is canceled, not completed, because some of its items never started.
func TestLoopInFailedLoopIsCanceled(t *testing.T) {
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
	got, stages := n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: id}))
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

// The error of a failed loop contains the first failed item, how it failed, and the number of
// failed items, whether the items failed in the advance that finishes the loop or long before.
func TestFailedLoopNamesItsFirstFailedItem(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.start(t, options{slots: 8, sweep: time.Second})
	long := strings.Repeat("é", 2000)
	const (
		each = `[{"id":"1","from":"l","to":"i","port":"each"},{"id":"2","from":"i","to":"f","port":"then"},{"id":"3","from":"i","to":"w","port":"else"}]`
		item = `[{"id":"1","from":{"componentId":"l","output":"item"},"to":{"componentId":"i","input":"item"}}]`
	)
	loop := func(config, condition, fails, works string) string {
		return `[{"id":"l","module":"FOR_EACH","input":{"items":[1,2,3,4]},"config":` + config + `},{"id":"i","module":"IF","config":{"expression":"` + condition + `"}},
			{"id":"f","module":"FAIL","config":` + fails + `},{"id":"w","module":"WORK","config":` + works + `}]`
	}
	for name, test := range map[string]struct {
		components, edges, connections string
		message                        string
		failed, items, index           int32
		in                             string // the failed stage in the loop's error
	}{
		"one": {loop(`{}`, "item == 3", `{"code":"NOT_THREE","message":"Three is too many."}`, `{}`), each, item,
			"the item at index 2 failed in component f: NOT_THREE: Three is too many.", 1, 4, 2, "f@[2]"},
		"several, in the order of the items": {loop(`{}`, "item == 1", `{}`, `{"fails":100}`), each, item,
			"4 of 4 items failed, the first at index 0, in component f: FAILED: the workflow failed on purpose", 4, 4, 0, "f@[0]"},
		"one that ended in an earlier advance": {
			`[{"id":"l","module":"FOR_EACH","input":{"items":[1,2]}},{"id":"i","module":"IF","config":{"expression":"item == 1"}},
			{"id":"f","module":"FAIL","config":{"code":"EARLY","message":"at once"}},{"id":"w","module":"WORK","config":{"ms":300}}]`, each, item,
			"the item at index 0 failed in component f: EARLY: at once", 1, 2, 0, "f@[0]"},
		"a later item first": {
			`[{"id":"l","module":"FOR_EACH","input":{"items":[1,2]}},{"id":"i","module":"IF","config":{"expression":"item == 2"}},
			{"id":"f","module":"FAIL","config":{"code":"EARLY"}},{"id":"w","module":"WORK","config":{"ms":300,"fails":100}}]`, each, item,
			"2 of 2 items failed, the first at index 0, in component w: BROKEN: it broke", 2, 2, 0, "w@[0]"},
		"what is handled is not named": {
			`[{"id":"l","module":"FOR_EACH","input":{"items":[1,2]},"config":{"concurrency":1}},{"id":"i","module":"FAIL","config":{"code":"FINE"},"onFailure":"continue"},
			{"id":"f","module":"FAIL","config":{"code":"BAD","message":"no"}}]`,
			`[{"id":"1","from":"l","to":"i","port":"each"},{"id":"2","from":"i","to":"f"}]`, ``,
			"the item at index 0 failed in component f: BAD: no", 1, 2, 0, "f@[0]"},
		"in a loop": {
			`[{"id":"l","module":"FOR_EACH","input":{"items":[1,2]}},{"id":"i","module":"FOR_EACH","input":{"items":[1,2,3]}},
			{"id":"c","module":"IF","config":{"expression":"o == 2 && i == 3"}},{"id":"f","module":"FAIL","config":{"code":"BAD","message":"no"}}]`,
			`[{"id":"1","from":"l","to":"i","port":"each"},{"id":"2","from":"i","to":"c","port":"each"},{"id":"3","from":"c","to":"f","port":"then"}]`,
			`[{"id":"1","from":{"componentId":"l","output":"item"},"to":{"componentId":"c","input":"o"}},{"id":"2","from":{"componentId":"i","output":"item"},"to":{"componentId":"c","input":"i"}}]`,
			"the item at index 1 failed in component i: ITEM_FAILED: the item at index 2 failed in component f: BAD: no", 1, 2, 1, "i@[1]"},
		"a long message is cut": {
			`[{"id":"l","module":"FOR_EACH","input":{"items":[1]}},{"id":"f","module":"FAIL","config":{"code":"BAD","message":"` + long[:2000] + `"}}]`,
			`[{"id":"1","from":"l","to":"f","port":"each"}]`, ``,
			"the item at index 0 failed in component f: BAD: " + long[:976], 1, 1, 0, "f@[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			got, stages := n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: n.draw(t, test.components, test.edges, test.connections)}))
			var of api.RunError
			var loop api.ExecutionError
			var details struct {
				FailedItems, Items int32
				First              struct {
					Index                      int32
					ComponentID, StageID, Code string
					Message                    string
				}
			}
			if err := errors.Join(json.Unmarshal(got.Error, &of), json.Unmarshal(stages["l@[]"].Error, &loop)); err != nil {
				t.Fatalf("the run is %s: %s, the loop: %s", got.Status, got.Error, stages["l@[]"].Error)
			}
			if of.Code != "ITEM_FAILED" || of.Message != test.message || *of.ComponentID != "l" || loop.Code != of.Code || loop.Message != of.Message || loop.Retryable {
				t.Errorf("the run failed with\n%s, the loop with\n%s; want\n%s", got.Error, stages["l@[]"].Error, test.message)
			}
			if err := json.Unmarshal(loop.Details, &details); err != nil {
				t.Fatal(err)
			}
			first := details.First
			if details.FailedItems != test.failed || details.Items != test.items || first.Index != test.index || first.StageID != stages[test.in].ID.String() ||
				first.ComponentID != test.in[:1] || !strings.HasSuffix(of.Message, first.Code+": "+first.Message) && len(of.Message) < 1000 {
				t.Errorf("details %s; want the stage %s of index %d", loop.Details, stages[test.in].ID, test.index)
			}
		})
	}
	b.balanced(t)
}

// The items of a loop with perSecond start evenly spaced, also those of inner loops together, and after the
// process was replaced.
func TestItemsStartNoFasterThanPerSecond(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.start(t, options{slots: 8, sweep: 50 * time.Millisecond})
	id := n.draw(t, `[{"id":"o","module":"FOR_EACH","input":{"items":[1,2]},"config":{"concurrency":2}},
		{"id":"i","module":"FOR_EACH","input":{"items":[1,2,3,4,5,6]},"config":{"concurrency":5,"perSecond":20}},
		{"id":"w","module":"WORK","config":{"salt":2}}]`,
		`[{"id":"1","from":"o","to":"i","port":"each"},{"id":"2","from":"i","to":"w","port":"each"}]`, ``)
	key := n.trigger(t, run.TriggerParams{WorkflowID: id})
	b.until(t, 5, func() {}, `SELECT least(count(*), 5) FROM run_stages WHERE run_id = $1 AND component_id = 'w'`, key.ID)
	n.engine.Close()
	n = b.start(t, options{slots: 8, sweep: 50 * time.Millisecond})
	if got, stages := n.end(t, key); got.Status != status.RunCompleted || len(stages) != 15 {
		t.Errorf("%s %s, %d stages", got.Status, got.Error, len(stages))
	}
	if close := b.number(t, `SELECT count(*) FROM (SELECT created_at - lag(created_at) OVER (ORDER BY created_at) AS apart FROM run_stages
		WHERE run_id = $1 AND component_id = 'w') AS s WHERE apart < interval '50 milliseconds'`, key.ID); close != 0 {
		t.Errorf("%d items start less than 50 ms after the one before", close)
	}
	b.balanced(t)
}
