package run_test

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/workflow/orchestrator"
	"github.com/weft-automation/weft/internal/workflow/run"
	"github.com/weft-automation/weft/internal/workflow/workflowtest"
)

// breakable is a module that costs a credit. If its config allows it, the module fails while
// broken is true.
func breakable(broken *atomic.Bool) module {
	return workflowtest.Made("BREAKABLE", credit.Credits(1), `{"type":"object","properties":{"value":{"type":"integer"}}}`,
		func(_ context.Context, call component.Call) (component.Result, error) {
			var config struct{ Breaks bool }
			if err := json.Unmarshal(call.Config, &config); err != nil {
				return component.Result{}, err
			}
			if config.Breaks && broken.Load() {
				return component.Result{}, component.Permanent("BROKEN", "it broke")
			}
			return component.Result{Output: json.RawMessage(`{"value":1}`)}, nil
		})
}

// rerun repeats a run. If stage is not nil, the rerun starts from that stage.
func (n *node) rerun(t testing.TB, of api.WorkflowRun, stage *api.RunStage) (api.WorkflowRun, map[string]api.RunStage) {
	t.Helper()
	origin := &orchestrator.Origin{RunID: of.ID}
	if stage != nil {
		origin.FromStageID = &stage.ID
	}
	return n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: of.WorkflowID, RerunOf: origin}))
}

// kept lists the stages of the later run that were reused from the earlier run.
func kept(earlier, later map[string]api.RunStage) string {
	var same []string
	for at, stage := range later {
		if old, there := earlier[at]; there && old.ID == stage.ID {
			same = append(same, strings.TrimSuffix(at, "@[]"))
		}
	}
	slices.Sort(same)
	return strings.Join(same, " ")
}

// A rerun repeats a failed stage and the stages after it, even if the failure was handled or the
// run continued, because the stage may have a different outcome this time. Stages that do not
// depend on it are reused.
func TestRerunRepeatsWhatDependedOnAFailure(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	broken.Store(true)
	b := newBench(t, breakable(&broken))
	n := b.start(t, options{slots: 8, sweep: time.Second})
	id := n.draw(t, `[{"id":"goes-on","module":"BREAKABLE","config":{"breaks":true},"onFailure":"continue"},{"id":"after","module":"BREAKABLE"},
		{"id":"apart","module":"BREAKABLE"},{"id":"parallel","module":"BREAKABLE"},
		{"id":"handled","module":"BREAKABLE","config":{"breaks":true}},{"id":"handler","module":"BREAKABLE"},
		{"id":"well","module":"BREAKABLE"},{"id":"joined","module":"BREAKABLE"}]`,
		`[{"id":"1","from":"goes-on","to":"after","port":"next"},{"id":"2","from":"apart","to":"parallel","port":"next"},
		{"id":"3","from":"handled","to":"handler","port":"error"},{"id":"4","from":"handled","to":"well","port":"next"},
		{"id":"5","from":"handler","to":"joined","port":"next"},{"id":"6","from":"well","to":"joined","port":"next"}]`, "")
	first, before := n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: id}))
	if _, there := before["handler@[]"]; first.Status != status.RunCompleted || first.FailedStageCount != 2 || !there {
		t.Fatalf("%s %s, %d stages failed: %v", first.Status, first.Error, first.FailedStageCount, slices.Sorted(maps.Keys(before)))
	}
	broken.Store(false)
	got, after := n.rerun(t, first, nil)
	if taken := kept(before, after); got.Status != status.RunCompleted || taken != "apart parallel" {
		t.Errorf("%s %s, taken over are: %s", got.Status, got.Error, taken)
	}
	if _, there := after["handler@[]"]; there || len(after) != 7 || got.FailedStageCount != 0 || got.TotalUsage != credit.Credits(5) {
		t.Errorf("used %s, %d failed, its stages are %v", got.TotalUsage, got.FailedStageCount, slices.Sorted(maps.Keys(after)))
	}
	b.balanced(t)
}

// A completed loop is reused unchanged, including failed items. The components after it receive
// the same values.
func TestRerunReusesALoopWithItsFailures(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	broken.Store(true)
	b := newBench(t, breakable(&broken))
	n := b.start(t, options{slots: 8, sweep: time.Second})
	id := n.draw(t, `[{"id":"l","module":"FOR_EACH","input":{"items":[1,2,3]},"config":{"onItemFailure":"continue","concurrency":1}},
		{"id":"v","module":"TRANSFORM","config":{"expression":"item * 10"}},{"id":"i","module":"IF","config":{"expression":"item == 2"}},
		{"id":"f","module":"FAIL"},{"id":"in","module":"RESPOND"},
		{"id":"r","module":"TRANSFORM","config":{"expression":"all"}},{"id":"b","module":"BREAKABLE","config":{"breaks":true}}]`,
		`[{"id":"1","from":"l","to":"v","port":"each"},{"id":"2","from":"v","to":"i","port":"next"},{"id":"3","from":"i","to":"f","port":"then"},
		{"id":"4","from":"i","to":"in","port":"else"},{"id":"5","from":"l","to":"r","port":"done"},{"id":"6","from":"r","to":"b","port":"next"}]`,
		`[{"id":"1","from":{"componentId":"l","output":"item"},"to":{"componentId":"v","input":"item"}},
		{"id":"2","from":{"componentId":"l","output":"item"},"to":{"componentId":"i","input":"item"}},
		{"id":"3","from":{"componentId":"v","output":"result"},"to":{"componentId":"r","input":"all"}},
		{"id":"4","from":{"componentId":"l","output":"item"},"to":{"componentId":"in","input":"item"}}]`)
	first, before := n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: id}))
	if first.Status != status.RunFailed || first.FailedStageCount != 2 || before["f@[1]"].Status != status.StageFailed {
		t.Fatalf("%s %s, %d stages failed", first.Status, first.Error, first.FailedStageCount)
	}
	broken.Store(false)
	got, after := n.rerun(t, first, nil)
	if taken := kept(before, after); got.Status != status.RunCompleted || len(after) != len(before) || len(strings.Fields(taken)) != len(before)-1 {
		t.Errorf("%s %s, taken over are: %s", got.Status, got.Error, taken)
	}
	if got.FailedStageCount != 1 || string(after["f@[1]"].Error) != string(before["f@[1]"].Error) || workflowtest.Canonical(got.Output) != `{"item":3}` {
		t.Errorf("%d stages failed, %s; it gave %s", got.FailedStageCount, after["f@[1]"].Error, got.Output)
	}
	from := before["r@[]"]
	got, after = n.rerun(t, first, &from)
	if values := workflowtest.Canonical(after["r@[]"].Output); got.Status != status.RunCompleted || values != `{"result":[10,null,30]}` || after["r@[]"].ID == from.ID {
		t.Errorf("%s %s, the loop gave %s", got.Status, got.Error, values)
	}
	b.balanced(t)
}

// A rerun reserves only the price of the remaining stages, because reused stages cost nothing.
// Reused stages do count toward the limits of a run.
func TestRerunIsChargedOnlyForNewStages(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	broken.Store(true)
	b := newBench(t, breakable(&broken), big())
	b.workspace = b.account(t, credit.Credits(3), plan.Starter)
	n := b.start(t, options{slots: 8, sweep: time.Second})
	id := n.draw(t, `[{"id":"l","module":"FOR_EACH","input":{"items":[1,2,3]}},{"id":"w","module":"BIG","config":{"bytes":20000}},
		{"id":"a","module":"BREAKABLE"},{"id":"b","module":"BREAKABLE"},{"id":"c","module":"BREAKABLE","config":{"breaks":true}}]`,
		`[{"id":"1","from":"a","to":"b","port":"next"},{"id":"2","from":"b","to":"l","port":"next"},{"id":"3","from":"l","to":"w","port":"each"},
		{"id":"4","from":"l","to":"c","port":"done"}]`, "")
	first, before := n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: id}))
	if first.Status != status.RunFailed || first.TotalUsage != credit.Credits(2) {
		t.Fatalf("%s %s, used %s", first.Status, first.Error, first.TotalUsage)
	}
	most := credit.Credits(1) // the price of the remaining stages, and all credits of the workspace
	broken.Store(false)
	key := n.trigger(t, run.TriggerParams{WorkflowID: id, RerunOf: &orchestrator.Origin{RunID: first.ID}, MaxCredits: &most})
	got, after := n.end(t, key)
	if got.Status != status.RunCompleted || got.TotalUsage != most || kept(before, after) != "a b l w@[0] w@[1] w@[2]" {
		t.Errorf("%s %s, used %s, took over %s", got.Status, got.Error, got.TotalUsage, kept(before, after))
	}
	if reserved := b.number(t, "SELECT reserved FROM workflow_runs WHERE id = $1", key.ID); credit.Amount(reserved) != most {
		t.Errorf("it reserved %s", credit.Amount(reserved))
	}
	bytes := "SELECT output_bytes FROM workflow_runs WHERE id = $1"
	if was, is := b.number(t, bytes, first.ID), b.number(t, bytes, key.ID); was < 60_000 || is != was+int64(len(after["c@[]"].Output)) {
		t.Errorf("the first run holds %d bytes, the rerun %d", was, is)
	}
	b.balanced(t)
}
