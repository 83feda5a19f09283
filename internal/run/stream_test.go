package run_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/credit"
	"github.com/weft-automation/weft/internal/run"
	"github.com/weft-automation/weft/internal/status"
)

// SS-09: who reads the events of 200 stages slowly sees states that never go back, none
// of the log missing, and the right totals in the last event.
func TestSS09ASlowReaderOfManyStages(t *testing.T) {
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
	seen := map[string]int{} // how far stages were
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
	got, stages := n.end(t, key, time.Minute)
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
