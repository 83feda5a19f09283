package execution_test

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/execution"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/kit/waittest"
)

// interleavings returns how many races of a finish against a watcher to run: 10,000 in the soak
// test.
func interleavings() int { return waittest.Size(200, 10_000) }

func TestSS03AWatcherSeesTheFinalStateOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	gates := sync.Map{}
	n := b.start(t, options{slots: 64, workers: 8}, module{name: "GATED", repeat: component.RepeatPure,
		run: func(ctx context.Context, call component.Call) (component.Result, error) {
			var in struct{ Gate string }
			_ = json.Unmarshal(call.Input, &in)
			gate, _ := gates.Load(in.Gate)
			select {
			case <-gate.(chan struct{}):
			case <-ctx.Done():
			}
			return component.Result{Output: json.RawMessage(`{}`)}, nil
		}})
	work := make(chan struct{}, interleavings())
	for range interleavings() {
		work <- struct{}{}
	}
	close(work)
	var watchers sync.WaitGroup
	for range 32 {
		watchers.Go(func() {
			for range work {
				b.raceOnce(t, n, &gates)
			}
		})
	}
	watchers.Wait()
}

// raceOnce makes an execution finish at about the time when a watcher subscribes.
func (b *bench) raceOnce(t *testing.T, n *node, gates *sync.Map) {
	name, gate := uuid.NewString(), make(chan struct{})
	gates.Store(name, gate)
	defer gates.Delete(name)
	made := b.submit(t, n, execution.SubmitParams{Module: "GATED", Input: json.RawMessage(`{"gate":"` + name + `"}`)})
	before, after := rand.N(200), rand.N(200)
	go func() {
		for range before {
			runtime.Gosched()
		}
		close(gate)
	}()
	for range after {
		runtime.Gosched()
	}
	events, err := n.service.Watch(t.Context(), b.workspace, made.ID)
	if err != nil {
		t.Error(err)
		return
	}
	checkEvents(t, events)
}

func checkEvents(t *testing.T, events <-chan api.ComponentExecutionEvent) {
	t.Helper()
	rank := map[status.Execution]int{status.ExecutionCreated: 1, status.ExecutionExecuting: 2, status.ExecutionCompleted: 3, status.ExecutionFailed: 3}
	last, ends := status.Execution(""), 0
	for event := range events {
		if rank[event.Status] <= rank[last] {
			t.Errorf("%s came after %s", event.Status, last)
		}
		if last = event.Status; last.Terminal() {
			ends++
		}
	}
	if ends != 1 {
		t.Errorf("%d final events, the last event was %s", ends, last)
	}
}

func TestOP02AWorkerThatStartsNoDueWorkIsNotFit(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.start(t, options{slots: 0, workers: 0}, echo()) // alive, but fetches nothing
	if err := n.runner.CheckProgress(t.Context()); err != nil {
		t.Errorf("without work: %v", err)
	}
	b.submit(t, n, execution.SubmitParams{Module: "ECHO"})
	if err := n.runner.CheckProgress(t.Context()); err != nil {
		t.Errorf("right after the submission: %v", err)
	}
	if _, err := b.pool.Exec(t.Context(), "UPDATE river.river_job SET scheduled_at = now() - interval '31 seconds'"); err != nil {
		t.Fatal(err)
	}
	if n.runner.CheckProgress(t.Context()) == nil {
		t.Error("no error although work has waited for 31 s")
	}
	n.stop()
	if n.runner.CheckProgress(t.Context()) == nil {
		t.Error("no error without a session")
	}
}
