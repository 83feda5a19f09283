package run_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/run"
	"github.com/weft-automation/weft/internal/status"
)

// peak is the most that lived on the heap while something was done.
func peak(do func()) (most uint64) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
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

// looped runs a workflow over so many items, each of which gives so many bytes, and reads its
// record and its log. It returns how the run ended and the most that lived on the heap.
func (n *node) looped(t *testing.T, items, bytes int) (got api.WorkflowRun, most uint64) {
	t.Helper()
	list, _ := json.Marshal(make([]int, items))
	id := n.draw(t, fmt.Sprintf(`[{"id":"l","module":"FOR_EACH","input":{"items":%s},"config":{"concurrency":10}},{"id":"w","module":"BIG","config":{"bytes":%d}},
		{"id":"x","module":"TRANSFORM","config":{"expression":"1"}},{"id":"after","module":"TRANSFORM","config":{"expression":"len(all)"}}]`, list, bytes),
		`[{"id":"1","from":"l","to":"w","port":"each"},{"id":"2","from":"w","to":"x","port":"next"},{"id":"3","from":"l","to":"after","port":"done"}]`,
		`[{"id":"1","from":{"componentId":"x","output":"result"},"to":{"componentId":"after","input":"all"}}]`)
	most = peak(func() {
		key := n.trigger(t, run.TriggerParams{WorkflowID: id})
		events, err := n.runs.Watch(n.ctx, key, anyone{}, nil)
		if err != nil {
			t.Error(err)
			return
		}
		for range events {
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
	})
	return got, most
}

// However many items a run has, and however much all of these give, what of it lives in memory
// is bounded: no more than of a run with a few of them. Nothing runs beside this, which would
// be counted too.
func TestLargeRunsKeepMemoryFlat(t *testing.T) {
	b := newBench(t, big())
	n := b.start(t, options{slots: 16, sweep: time.Second})
	n.looped(t, 10, 1) // what is made once is made
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
