package run_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/credit"
	"github.com/weft-automation/weft/internal/fault"
	"github.com/weft-automation/weft/internal/run"
	"github.com/weft-automation/weft/internal/status"
)

// seeds are those of a number of drawings: the first ones are always the same, so that
// what was found once is found again, the others are new each time.
func seeds(t *testing.T, count int) []uint64 {
	if text := os.Getenv("WEFT_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return []uint64{seed}
	}
	base := rand.Uint64() >> 16
	t.Logf("seeds 0 to %d and %d to %d", count/2-1, base, base+uint64(count-count/2)-1)
	all := make([]uint64, count)
	for i := range all {
		if all[i] = uint64(i); i >= count/2 {
			all[i] = base + uint64(i-count/2)
		}
	}
	return all
}

// Random workflows run on the engine, in two processes that both fold whatever ends in
// one of them, and on the reference: the same states, outputs, stages and charges.
func TestRandomWorkflowsDoWhatTheReferenceSays(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	other := b.start(t, options{slots: 4})
	n := b.start(t, options{slots: 16, sweep: time.Second, also: other.engine.Ended})
	var stages, failures atomic.Int64
	var running sync.WaitGroup
	slots := make(chan struct{}, 12)
	began := time.Now()
	all := seeds(t, size(100, 10_000))
	for _, seed := range all {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			p := n.play(t, seed)
			stages.Add(int64(len(p.stages)))
			if p.run.Status != status.RunCompleted {
				failures.Add(1)
			}
		})
	}
	running.Wait()
	t.Logf("%d runs, %d of them not COMPLETED, %d stages in %.1f s", len(all), failures.Load(), stages.Load(), time.Since(began).Seconds())
	b.balanced(t)
}

// played is a run that is over.
type played struct {
	run    api.WorkflowRun
	stages map[string]api.RunStage
}

// play runs one drawing and compares.
func (n *node) play(t *testing.T, seed uint64) played {
	w := newDrawing(seed, []int{12, 25, 60}[seed%3])
	input := fmt.Appendf(nil, `{"n":%d}`, seed%7)
	want := interpret(w, input)
	id := n.save(t, w.draft())
	key := n.trigger(t, run.TriggerParams{WorkflowID: id, Input: input})
	if _, err := n.runs.Signal(n.ctx, key, anyone{}, "given", json.RawMessage(payload)); err != nil && fault.CodeOf(err) != fault.Conflict { // it may be over
		t.Errorf("seed %d: signal: %v", seed, err)
	}
	p := played{}
	p.run, p.stages = n.end(t, key, 40*time.Second)
	want.compare(t, seed, p, false)
	if t.Failed() {
		if text, err := json.Marshal(map[string]any{"components": w.parts, "sequenceEdges": w.arrows, "dataConnections": w.wires}); err == nil {
			_ = os.WriteFile(fmt.Sprintf("%s/weft-seed-%d.json", os.TempDir(), seed), text, 0o600)
		}
	}
	return p
}

// compare holds a run that is over against the reference.
func (r *reference) compare(t *testing.T, seed uint64, p played, canceled bool) {
	blame := func(format string, args ...any) {
		t.Errorf("seed %d, run %s: %s", seed, p.run.ID, fmt.Sprintf(format, args...))
	}
	end := status.RunCompleted
	if len(r.broken) > 0 {
		end = status.RunFailed
	}
	if p.run.Status != end && !(canceled && p.run.Status == status.RunCanceled) {
		blame("ended %s %s, want %s %v", p.run.Status, p.run.Error, end, r.broken)
		return
	}
	if p.run.Status == status.RunFailed {
		var failure api.RunError
		if err := json.Unmarshal(p.run.Error, &failure); err != nil || failure.ComponentID == nil || !slices.Contains(r.broken, *failure.ComponentID) || failure.StageID == nil || *failure.StageID == uuid.Nil {
			blame("failed for %s, want one of %v", p.run.Error, r.broken)
		}
	}
	loose := p.run.Status != status.RunCompleted
	if got, want := canonical(p.run.Output), canonical(r.output); got != want && !loose {
		blame("gave %s, want %s", got, want)
	}
	var usage credit.Amount
	for at, stage := range p.stages {
		usage += stage.CreditUsage
		r.judge(at, stage, loose || r.optional[at], blame)
	}
	for at, want := range r.fates {
		if _, there := p.stages[at]; !there && !loose && !r.optional[at] {
			blame("has no stage %s, want %s", at, want.status)
		}
	}
	if usage != p.run.TotalUsage {
		blame("used %s, its stages %s", p.run.TotalUsage, usage)
	}
}

// judge compares a stage. One beside a failure may have been stopped.
func (r *reference) judge(at string, stage api.RunStage, loose bool, blame func(string, ...any)) {
	want, known := r.fates[at]
	price := credit.Amount(0)
	if stage.Module == "WORK" && stage.Status == status.StageCompleted {
		price = credit.Credits(1)
	}
	if stage.CreditUsage != price {
		blame("%s used %s, want %s", at, stage.CreditUsage, price)
	}
	switch {
	case !known:
		blame("has the stage %s, which should not be", at)
	case stage.Status == status.StageCanceled && loose:
	case stage.Status != want.status:
		blame("%s is %s %s, want %s", at, stage.Status, stage.Error, want.status)
	case stage.Module == "DELAY" || stage.Module == "ON_API_CALLED":
	case stage.Module == "FOR_EACH" && r.optional[at] && loose && want.status == status.StageFailed:
	case canonical(stage.Output) != canonical(want.output):
		blame("%s gave %s, want %s", at, canonical(stage.Output), canonical(want.output))
	}
}
