package run_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/workflow/engine"
	"github.com/weft-automation/weft/internal/workflow/orchestrator"
	"github.com/weft-automation/weft/internal/workflow/run"
)

// SS-09: a slow reader of the events of 200 stages receives all events. The statuses of stages
// never go back, and the last event has the right totals.
func TestSS09SlowReaderSeesAllEvents(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.start(t, options{slots: 16, sweep: time.Second})
	items, _ := json.Marshal(make([]int, 199))
	id := n.draw(t, `[{"id":"l","module":"FOR_EACH","input":{"items":`+string(items)+`},"config":{"onItemFailure":"continue"}},{"id":"w","module":"WORK","config":{"fails":20}}]`,
		`[{"id":"1","from":"l","to":"w","port":"each"}]`, `[{"id":"1","from":{"componentId":"l","output":"index"},"to":{"componentId":"w","input":"index"}}]`)
	key := n.trigger(t, run.TriggerParams{WorkflowID: id})
	events, err := n.runs.Watch(n.ctx, key, anyone{}, new(int64))
	if err != nil {
		t.Fatal(err)
	}
	order := map[string]int{"CREATED": 0, "RUNNING": 1, "COMPLETED": 2, "FAILED": 2, "CANCELED": 2}
	seen := map[string]int{} // last status of each stage
	var last api.RunEvent
	var output api.RunEventOutput
	var usage credit.Amount
	pace := time.NewTicker(2 * time.Millisecond)
	defer pace.Stop()
	for event := range events {
		<-pace.C
		if event.Seq > 0 && event.Seq != last.Seq+1 {
			t.Errorf("event %d came after %d", event.Seq, last.Seq)
		}
		last, output = event, api.RunEventOutput{}
		if err := json.Unmarshal(event.Output, &output); err != nil {
			t.Fatal(err)
		}
		if output.TotalUsage < usage || output.PendingStageCount < 0 {
			t.Errorf("event %d: used %s after %s, %d pending", event.Seq, output.TotalUsage, usage, output.PendingStageCount)
		}
		usage = output.TotalUsage
		now := map[string]bool{}
		for _, stage := range output.NonTerminalStages {
			at := stage.ID.String()
			now[at] = true
			if order[string(stage.Status)] < seen[at] {
				t.Errorf("event %d: stage %s went back to %s", event.Seq, at, stage.Status)
			}
			seen[at] = order[string(stage.Status)]
		}
		for at := range seen {
			if !now[at] && output.PendingStageCount <= 100 {
				seen[at] = 2
			}
		}
	}
	got, stages := n.end(t, key)
	finished, failed := int64(0), int32(0)
	for _, stage := range stages {
		if stage.Module == "WORK" && stage.Status == status.StageCompleted {
			finished++
		}
		if stage.Status == status.StageFailed {
			failed++
		}
	}
	says := fmt.Sprintf("%s, used %s, %d pending, %d failed", last.Status, output.TotalUsage, output.PendingStageCount, output.FailedStageCount)
	want := fmt.Sprintf("%s, used %s, 0 pending, %d failed", got.Status, credit.Credits(finished), failed)
	if got.Status != status.RunCompleted || len(stages) != 200 || says != want || len(output.NonTerminalStages) > 0 || failed == 0 {
		t.Errorf("%d stages; the last event says %s, want %s", len(stages), says, want)
	}
}

// A stage is CREATED until a worker starts it, then RUNNING, both in the record and in the events.
func TestStageIsCreatedUntilItStarts(t *testing.T) {
	t.Parallel()
	letGo := make(chan struct{})
	b := newBench(t, held(letGo))
	n := b.start(t, options{slots: 2, sweep: time.Second})
	key := n.trigger(t, run.TriggerParams{WorkflowID: n.draw(t, `[{"id":"l","module":"FOR_EACH","input":{"items":[1,2,3,4,5,6,7,8]}},{"id":"h","module":"HELD"},
		{"id":"w","module":"WAIT_FOR_SIGNAL","config":{"name":"go","timeoutMs":3600000}}]`, `[{"id":"1","from":"l","to":"h","port":"each"}]`, "")})
	b.until(t, 1, nothing, "SELECT (count(*) > 0)::integer FROM component_executions WHERE run_id = $1 AND status = 'EXECUTING'", key.ID)
	n.awaitEvents(key, 1)
	created, running := 0, 0
	for at, stage := range n.stages(t, key) {
		switch {
		case stage.Module != "HELD":
			if stage.Status != status.StageRunning {
				t.Errorf("%s is %s", at, stage.Status)
			}
		case stage.Status == status.StageCreated && stage.StartedAt == nil:
			created++
		case stage.Status == status.StageRunning && stage.StartedAt != nil:
			running++
		default:
			t.Errorf("%s is %s, started %v", at, stage.Status, stage.StartedAt)
		}
	}
	if created == 0 || running == 0 || created+running != 8 {
		t.Errorf("%d stages are CREATED and %d RUNNING, of 8 with 2 slots", created, running)
	}
	if _, err := n.runs.Signal(n.ctx, key, anyone{}, "go", nil); err != nil { // causes an event with the current state
		t.Fatal(err)
	}
	n.awaitEvents(key, 2)
	page, err := n.runs.EventPage(n.ctx, key, anyone{}, run.ListParams{Limit: 100}, 1)
	if err != nil || len(page.Data) == 0 {
		t.Fatalf("%d events: %v", len(page.Data), err)
	}
	var output api.RunEventOutput
	if err := json.Unmarshal(page.Data[0].Output, &output); err != nil {
		t.Fatal(err)
	}
	told := map[status.Stage]int{}
	for _, stage := range output.NonTerminalStages {
		if stage.Module == "HELD" {
			told[stage.Status]++
		}
	}
	if told[status.StageCreated] == 0 || told[status.StageRunning] == 0 || told[status.StageCreated]+told[status.StageRunning] != 8 {
		t.Errorf("the statuses in the events: %v", told)
	}
	close(letGo)
	if got, _ := n.end(t, key); got.Status != status.RunCompleted || got.TotalUsage != credit.Credits(8) {
		t.Errorf("%s %s, used %s", got.Status, got.Error, got.TotalUsage)
	}
	b.balanced(t)
}

// An accepted run that has not started is CREATED, without stages, until its first advance. If the
// run is canceled before that advance, it creates no stages.
func TestRunIsCreatedUntilItsFirstAdvance(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.start(t, options{slots: 1})
	id := n.draw(t, chain(""), chained, "")
	earlier, before := n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: id}))
	from := before["a@[]"].ID
	again := run.TriggerParams{WorkflowID: id, RerunOf: &orchestrator.Origin{RunID: earlier.ID, FromStageID: &from}} // reused stages appear in the first advance
	n.engine.Close()                                                                                                 // no more advances
	canceled := n.trigger(t, again)
	runs := map[notify.Key]status.Run{n.trigger(t, again): status.RunCompleted, canceled: status.RunCanceled}
	if got, err := n.runs.Cancel(n.ctx, canceled, anyone{}, engine.CancelGraceful, nil); err != nil || got.Status != status.RunCreated || got.CancelRequestedAt == nil {
		t.Errorf("%s, canceled at %v: %v", got.Status, got.CancelRequestedAt, err)
	}
	for key := range runs {
		got, err := n.runs.Get(n.ctx, key, anyone{})
		if err != nil || got.Status != status.RunCreated || got.PendingStageCount != 0 || got.TotalUsage != 0 || len(n.stages(t, key)) != 0 {
			t.Errorf("%s, %d pending, used %s: %v", got.Status, got.PendingStageCount, got.TotalUsage, err)
		}
		ctx, stop := context.WithCancel(n.ctx)
		events, err := n.runs.Watch(ctx, key, anyone{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if first := <-events; first.Seq != 0 || first.Status != status.RunCreated {
			t.Errorf("the first event is %d, %s", first.Seq, first.Status)
		}
		stop()
	}
	other := b.start(t, options{slots: 2, sweep: 100 * time.Millisecond})
	for key, want := range runs {
		if got, stages := other.end(t, key); got.Status != want || want == status.RunCanceled && len(stages) > 0 {
			t.Errorf("%s %s, %d stages", got.Status, got.Error, len(stages))
		}
	}
	b.balanced(t)
}
