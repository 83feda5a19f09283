package run_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/workflow/engine"
	"github.com/weft-automation/weft/internal/workflow/run"
	"github.com/weft-automation/weft/internal/workflow/workflowtest"
)

// Random workflows run on two processes, both of which advance the runs, and on the reference.
// States, outputs, stages and charges are equal. Every fourth run is canceled.
func TestRandomRunsMatchReference(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	other := b.start(t, options{slots: 4})
	n := b.start(t, options{slots: 16, sweep: time.Second, also: other.engine.FinishStage})
	var mu sync.Mutex
	var stages, widest, deepest int
	ended := map[status.Run]int{}
	var running sync.WaitGroup
	slots := make(chan struct{}, 12)
	began := time.Now()
	all := workflowtest.Seeds(t, size(20, 10_000))
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
			ended[p.Run.Status]++
			stages, widest = stages+len(p.Stages), max(widest, len(w.Parts))
			for _, part := range w.Parts {
				deepest = max(deepest, len(w.Around(part.ID)))
			}
		})
	}
	running.Wait()
	t.Logf("%d runs %v of up to %d components, %d loops deep, %d stages in %.1f s", len(all), ended, widest, deepest, stages, time.Since(began).Seconds())
	full := len(all) > 100 // otherwise, all runs may end before they are canceled
	if len(all) > 1 && (widest < 60 || deepest < 3 || ended[status.RunCompleted] == 0 || ended[status.RunFailed] == 0 || full && ended[status.RunCanceled] == 0) {
		t.Error("the drawings lack some cases")
	}
	b.balanced(t)
}

// play runs a drawing, cancels it if requested, and compares it with the reference.
func (n *node) play(t *testing.T, seed uint64, cancels bool) (*workflowtest.Drawing, workflowtest.Played) {
	w := workflowtest.Draw(seed, []int{12, 25, 60}[seed%3])
	w.Compute(int(seed / 12 % 3))
	input := fmt.Appendf(nil, `{"n":%d}`, seed%7)
	want := workflowtest.Interpret(w, input)
	id := n.save(t, w.Draft())
	quote := n.quote(t, id)
	key := n.trigger(t, run.TriggerParams{WorkflowID: id, Input: input})
	if _, err := n.runs.Signal(n.ctx, key, anyone{}, "given", json.RawMessage(workflowtest.Payload)); err != nil && fault.CodeOf(err) != fault.Conflict { // the run may have finished
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
	p := workflowtest.Played{}
	p.Run, p.Stages = n.end(t, key)
	if cancels && !maps.Equal(made, n.made(t, key)) {
		t.Errorf("seed %d, run %s: stages or executions were created after the cancel", seed, key.ID)
	}
	compare(t, seed, want, p, cancels)
	n.inOrder(t, w, p, nil, func(format string, args ...any) {
		t.Errorf("seed %d, run %s: %s", seed, p.Run.ID, fmt.Sprintf(format, args...))
	})
	within(t, seed, quote, p.Run)
	if t.Failed() {
		_ = os.WriteFile(fmt.Sprintf("%s/weft-seed-%d.json", os.TempDir(), seed), []byte(w.String()), 0o600)
	}
	return w, p
}

// compare compares a finished run with the reference.
func compare(t *testing.T, seed uint64, want *workflowtest.Reference, p workflowtest.Played, canceled bool) {
	t.Helper()
	want.Compare(p, canceled, func(format string, args ...any) {
		t.Errorf("seed %d, run %s: %s", seed, p.Run.ID, fmt.Sprintf(format, args...))
	})
}
