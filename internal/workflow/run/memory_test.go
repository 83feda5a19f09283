package run_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/workflow/run"
)

// peak returns the maximum live heap during the call of fn.
func peak(fn func()) (most uint64) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		fn()
	}()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		most = max(most, m.HeapAlloc)
		select {
		case <-done:
			return most
		case <-tick.C:
		}
	}
}

// looped runs a workflow over the specified number of items, each with an output of the specified
// size. Meanwhile it reads the events, and the record both as a whole and in pages. It returns the
// finished run and the maximum live heap.
func (n *node) looped(t *testing.T, items, bytes int) (got api.WorkflowRun, most uint64) {
	t.Helper()
	list, _ := json.Marshal(make([]int, items))
	id := n.draw(t, fmt.Sprintf(`[{"id":"l","module":"FOR_EACH","input":{"items":%s},"config":{"concurrency":10}},{"id":"w","module":"BIG","config":{"bytes":%d}},
		{"id":"x","module":"TRANSFORM","config":{"expression":"1"}},{"id":"after","module":"TRANSFORM","config":{"expression":"len(all)"}}]`, list, bytes),
		`[{"id":"1","from":"l","to":"w","port":"each"},{"id":"2","from":"w","to":"x","port":"next"},{"id":"3","from":"l","to":"after","port":"done"}]`,
		`[{"id":"1","from":{"componentId":"x","output":"result"},"to":{"componentId":"after","input":"all"}}]`)
	most = peak(func() {
		key := n.trigger(t, run.TriggerParams{WorkflowID: id})
		events, err := n.runs.Watch(n.ctx, key, anyone{}, new(int64))
		if err != nil {
			t.Error(err)
			return
		}
		var heard int64
		for event := range events {
			if event.Seq != heard+1 && event.Seq > 0 {
				t.Errorf("event %d came after %d", event.Seq, heard)
			}
			heard = event.Seq
		}
		stages := 0
		for stage, err := range n.runs.Stages(n.ctx, key) {
			if err != nil || !stage.Status.Terminal() {
				t.Errorf("a stage is %s: %v", stage.Status, err)
			}
			stages++
		}
		if got, err = n.runs.Get(n.ctx, key, anyone{}); err != nil || got.Status == status.RunCompleted && stages != 2*items+2 {
			t.Errorf("%s %s with %d stages of %d items: %v", got.Status, got.Error, stages, items, err)
		}
		if paged, written := n.paged(t, key), n.number(t, "SELECT event_seq FROM workflow_runs WHERE id = $1", key.ID); paged != stages || heard != written {
			t.Errorf("%d stages, %d by pages; %d events, %d were heard", stages, paged, written, heard)
		}
	})
	return got, most
}

// paged counts the stages of a run in pages, and checks that each appears once.
func (n *node) paged(t *testing.T, key notify.Key) (count int) {
	t.Helper()
	var last uuid.UUID
	for p := (run.StageParams{Limit: 100}); ; {
		page, err := n.runs.StagePage(n.ctx, key, anyone{}, p)
		if err != nil {
			t.Error(err)
			return count
		}
		for _, stage := range page.Data {
			if bytes.Compare(stage.ID[:], last[:]) <= 0 {
				t.Errorf("stage %s came after %s", stage.ID, last)
			}
			count, last = count+1, stage.ID
		}
		if page.NextCursor == nil {
			return count
		}
		p.Cursor = *page.NextCursor
	}
}

// The memory for a run is bounded: a run with many items and large outputs needs no more memory
// than a run with few. No other test runs at the same time, since its memory would count too.
func TestLargeRunsKeepMemoryFlat(t *testing.T) {
	b := newBench(t, big())
	n := b.start(t, options{slots: 16, sweep: time.Second})
	n.looped(t, 10, 1) // warm up
	for what, c := range map[string]struct{ few, many, bytes int }{
		"many items": {size(20, 1_000), size(60, 10_000), 100}, "large outputs": {size(5, 20), size(10, 73), size(20_000, 900_000)},
	} {
		_, few := n.looped(t, c.few, c.bytes)
		got, many := n.looped(t, c.many, c.bytes)
		t.Logf("%s: %d MiB live at most, with a few of them %d MiB; it holds %d bytes", what, many>>20, few>>20,
			b.number(t, "SELECT output_bytes FROM workflow_runs WHERE id = $1", got.ID))
		if grown := int64(many) - int64(few); got.Status != status.RunCompleted || grown > 24<<20 {
			t.Errorf("%s: %s %s, and %d MiB more live than with a few of them", what, got.Status, got.Error, grown>>20)
		}
	}
	b.balanced(t)
}

// An advance that computes large outputs leaves the rest to the next advance: several advances run at once, and
// each needs a multiple of its outputs in memory.
func TestAdvancesOfLargeOutputsStaySmall(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.start(t, options{slots: 4, sweep: time.Second})
	key := n.trigger(t, run.TriggerParams{WorkflowID: n.draw(t, `[{"id":"l","module":"FOR_EACH","input":{"items":[1,2,3,4,5,6,7,8]}},
		{"id":"x","module":"TRANSFORM","config":{"expression":"repeat(\"a\", 900000)"}}]`, `[{"id":"1","from":"l","to":"x","port":"each"}]`, "")})
	if got, stages := n.end(t, key); got.Status != status.RunCompleted || len(stages) != 9 {
		t.Fatalf("it ended %s %s with %d stages", got.Status, got.Error, len(stages))
	}
	const most = 5_200_000 // 4 MiB and the output that exceeds them
	if of := b.number(t, `SELECT max(bytes) FROM (SELECT sum(octet_length(output::text)) AS bytes FROM run_stages
		WHERE run_id = $1 AND component_id = 'x' GROUP BY created_at) AS folds`, key.ID); of > most {
		t.Errorf("an advance stored outputs of %d bytes", of)
	}
}
