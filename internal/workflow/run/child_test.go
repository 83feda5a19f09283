package run_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/workflow/run"
)

// A workflow runs random workflows with RUN_WORKFLOW. The outputs of the child runs reach the
// parent, and their failures go to the port `error` as in the reference. The child runs themselves
// are compared too.
func TestRandomChildRunsMatchReference(t *testing.T) {
	t.Parallel()
	n := newBench(t).start(t, options{slots: 8, sweep: time.Second})
	ended, answered := map[status.Stage]int{}, 0
	for seed, found := uint64(0), 0; found < 24; seed++ {
		inner := newDrawing(seed, 12)
		inner.compute(int(seed % 3))
		if slices.ContainsFunc(inner.parts, func(p part) bool { return p.Config["name"] == "given" }) {
			continue // child runs get no signal
		}
		found++
		id := n.save(t, inner.draft()).String()
		outer := &drawing{below: map[string]*drawing{id: inner}, parts: []part{
			{ID: "c", Module: "RUN_WORKFLOW", Input: map[string]any{"n": seed % 7}, Config: map[string]any{"workflowId": id, "version": 1}},
			{ID: "good", Module: "NUMBER_CONSTANT", Config: map[string]any{"value": 1}}, {ID: "bad", Module: "NUMBER_CONSTANT", Config: map[string]any{"value": 2}},
			{ID: "r", Module: "RESPOND", Input: map[string]any{}},
		}, arrows: []arrow{{"1", "c", "good", "next"}, {"2", "c", "bad", "error"}, {"3", "good", "r", "next"}, {"4", "bad", "r", "next"}}}
		for i, from := range []string{"good", "bad"} {
			c := wire{ID: fmt.Sprint(i)}
			c.From.ComponentID, c.From.Output, c.To.ComponentID, c.To.Input = from, "value", "r", from
			outer.wires = append(outer.wires, c)
		}
		want := interpret(outer, nil)
		saved := n.save(t, outer.draft())
		quote := n.quote(t, saved)
		key := n.trigger(t, run.TriggerParams{WorkflowID: saved})
		got, stages := n.end(t, key)
		if got.Status != status.RunCompleted || canonical(got.Output) != canonical(want.output) {
			t.Errorf("seed %d: %s %s gave %s, want %s", seed, got.Status, got.Error, got.Output, want.output)
		}
		fate := want.fates["c@[]"]
		if stage := stages["c@[]"]; stage.Status != fate.status || fate.status == status.StageCompleted && canonical(stage.Output) != canonical(fate.output) {
			t.Errorf("seed %d: it is %s %s, want %s %s", seed, stage.Status, stage.Output, fate.status, fate.output)
		}
		if ended[fate.status]++; inner.answers && fate.status == status.StageCompleted && canonical(fate.output) != "{}" {
			answered++
		}
		below := interpret(inner, fmt.Appendf(nil, `{"n":%d}`, seed%7))
		p := played{}
		p.run, p.stages = n.end(t, n.child(t, key))
		below.compare(t, seed, p, false)
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
