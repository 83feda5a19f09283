package run_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/workflow/engine"
	"github.com/weft-automation/weft/internal/workflow/run"
)

// seeds returns the seeds of drawings. The first seeds are fixed, so that known failures recur. The
// other seeds are random.
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

// Random workflows run on two processes, both of which fold the runs, and on the reference.
// States, outputs, stages and charges are equal. Every fourth run is canceled.
func TestRandomRunsMatchReference(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	other := b.start(t, options{slots: 4})
	n := b.start(t, options{slots: 16, sweep: time.Second, also: other.engine.ExecutionsFinished})
	var mu sync.Mutex
	var stages, widest, deepest int
	ended := map[status.Run]int{}
	var running sync.WaitGroup
	slots := make(chan struct{}, 12)
	began := time.Now()
	all := seeds(t, size(20, 10_000))
	for i, seed := range all {
		if i%500 == 100 {
			b.analyze(t)
		}
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			w, p := n.play(t, seed, seed%4 == 3)
			mu.Lock()
			defer mu.Unlock()
			ended[p.run.Status]++
			stages, widest = stages+len(p.stages), max(widest, len(w.parts))
			for _, part := range w.parts {
				deepest = max(deepest, len(w.around(part.ID)))
			}
		})
	}
	running.Wait()
	t.Logf("%d runs %v of up to %d components, %d loops deep, %d stages in %.1f s", len(all), ended, widest, deepest, stages, time.Since(began).Seconds())
	if len(all) > 1 && (widest != 60 || deepest < 3 || ended[status.RunCompleted] == 0 || ended[status.RunFailed] == 0 || ended[status.RunCanceled] == 0) {
		t.Error("the drawings lack some cases")
	}
	b.balanced(t)
}

// played is a finished run.
type played struct {
	run    api.WorkflowRun
	stages map[string]api.RunStage
}

// compute replaces each WORK of a drawing with a PURE if share is 2, about half of them if it is 1,
// and none if it is 0.
func (w *drawing) compute(share int) {
	for i := range w.parts {
		if p := &w.parts[i]; p.Module == "WORK" && w.IntN(2) < share {
			p.Module = "PURE"
		}
	}
}

// play runs a drawing, cancels it if requested, and compares it with the reference.
func (n *node) play(t *testing.T, seed uint64, cancels bool) (*drawing, played) {
	w := newDrawing(seed, []int{12, 25, 60}[seed%3])
	w.compute(int(seed / 12 % 3))
	input := fmt.Appendf(nil, `{"n":%d}`, seed%7)
	want := interpret(w, input)
	id := n.save(t, w.draft())
	quote := n.quote(t, id)
	key := n.trigger(t, run.TriggerParams{WorkflowID: id, Input: input})
	if _, err := n.runs.Signal(n.ctx, key, anyone{}, "given", json.RawMessage(payload)); err != nil && fault.CodeOf(err) != fault.Conflict { // the run may have finished
		t.Errorf("seed %d: signal: %v", seed, err)
	}
	var made map[uuid.UUID]bool // stages at the time of the response to the cancel
	if cancels {
		chance := rand.New(rand.NewPCG(seed, 5))
		n.awaitEvents(key, chance.Int64N(12))
		if _, err := n.runs.Cancel(n.ctx, key, anyone{}, []string{engine.CancelGraceful, engine.CancelImmediate}[chance.IntN(2)], nil); err != nil {
			t.Errorf("seed %d: cancel: %v", seed, err)
		}
		made = n.made(t, key)
	}
	p := played{}
	p.run, p.stages = n.end(t, key)
	if cancels && !maps.Equal(made, n.made(t, key)) {
		t.Errorf("seed %d, run %s: stages or executions were created after the cancel", seed, key.ID)
	}
	want.compare(t, seed, p, cancels)
	n.inOrder(t, w, p, nil, func(format string, args ...any) {
		t.Errorf("seed %d, run %s: %s", seed, p.run.ID, fmt.Sprintf(format, args...))
	})
	within(t, seed, quote, p.run)
	if t.Failed() {
		if text, err := json.Marshal(map[string]any{"components": w.parts, "sequenceEdges": w.arrows, "dataConnections": w.wires}); err == nil {
			_ = os.WriteFile(fmt.Sprintf("%s/weft-seed-%d.json", os.TempDir(), seed), text, 0o600)
		}
	}
	return w, p
}

// compare compares a finished run with the reference.
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

// judge compares a stage with the reference. If loose is true, a failure elsewhere may have
// stopped the stage.
func (r *reference) judge(at string, stage api.RunStage, loose bool, blame func(string, ...any)) {
	want, known := r.fates[at]
	price := credit.Amount(0)
	if _, taken := r.taken[at]; !taken && slices.Contains([]string{"WORK", "SEND", "PURE"}, stage.Module) && stage.Status == status.StageCompleted {
		price = credit.Credits(1)
	}
	if stage.CreditUsage != price {
		blame("%s used %s, want %s", at, stage.CreditUsage, price)
	}
	switch {
	case !known:
		blame("has the stage %s, which is unexpected", at)
	case stage.Status == status.StageCanceled && loose:
	case stage.Status != want.status:
		blame("%s is %s %s, want %s", at, stage.Status, stage.Error, want.status)
	case stage.Module == "DELAY" || stage.Module == "ON_API_CALLED":
	case stage.Module == "FOR_EACH" && r.optional[at] && loose && want.status == status.StageFailed:
	case canonical(stage.Output) != canonical(want.output):
		blame("%s gave %s, want %s", at, canonical(stage.Output), canonical(want.output))
	}
}
