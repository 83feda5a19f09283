package run_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/workflow/engine"
	"github.com/weft-automation/weft/internal/workflow/run"
	"github.com/weft-automation/weft/internal/workflow/workflowtest"
)

// A cancel at any time leads to CANCELED, unless the run has finished before. After the response
// to the cancel, no stages or executions are created.
func TestCancelAtAnyTime(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	other := b.start(t, options{slots: 4})
	n := b.start(t, options{slots: 16, sweep: time.Second, also: other.engine.FinishStage})
	var canceled, stages atomic.Int64
	var running sync.WaitGroup
	slots := make(chan struct{}, 12)
	all := workflowtest.Seeds(t, size(8, 1_000)) // the random workflows are canceled too
	for _, seed := range all {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			p := n.cancelSomewhere(t, seed)
			stages.Add(int64(len(p.Stages)))
			if p.Run.Status == status.RunCanceled {
				canceled.Add(1)
			}
		})
	}
	running.Wait()
	t.Logf("%d runs, %d of them CANCELED, %d stages", len(all), canceled.Load(), stages.Load())
	b.balanced(t)
}

// The job of a run is deleted in the transaction that finishes the run. The job is due far in the
// future, so that River's scheduler doesn't lock it.
func TestJobOfARunIsDeletedWhenItFinishes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.start(t, options{slots: 4, sweep: time.Second})
	key := n.trigger(t, run.TriggerParams{WorkflowID: n.draw(t, `[{"id":"w","module":"WAIT_FOR_SIGNAL","config":{"name":"never","timeoutMs":3600000}}]`, "", "")})
	if _, err := b.pool.Exec(t.Context(), "UPDATE river.river_job SET scheduled_at = scheduled_at + interval '1 day' WHERE kind = 'workflow_run'"); err != nil {
		t.Fatal(err)
	}
	if _, err := n.runs.Cancel(n.ctx, key, anyone{}, engine.CancelGraceful, nil); err != nil {
		t.Fatal(err)
	}
	n.end(t, key)
	if jobs := b.number(t, "SELECT count(*) FROM river.river_job WHERE kind = 'workflow_run'"); jobs != 0 {
		t.Errorf("%d jobs are left", jobs)
	}
}

func (n *node) cancelSomewhere(t *testing.T, seed uint64) workflowtest.Played {
	w := workflowtest.Draw(seed, 40)
	input := fmt.Appendf(nil, `{"n":%d}`, seed%7)
	want := workflowtest.Interpret(w, input)
	key := n.trigger(t, run.TriggerParams{WorkflowID: n.save(t, w.Draft()), Input: input})
	chance := rand.New(rand.NewPCG(seed, 3))
	if chance.IntN(2) == 0 {
		_, _ = n.runs.Signal(n.ctx, key, anyone{}, "given", json.RawMessage(workflowtest.Payload))
	}
	n.awaitEvents(key, chance.Int64N(8))
	before, err := n.runs.Cancel(n.ctx, key, anyone{}, []string{"graceful", "immediate", ""}[chance.IntN(3)], nil)
	if err != nil {
		t.Errorf("seed %d: cancel: %v", seed, err)
		return workflowtest.Played{}
	}
	made := n.made(t, key)
	p := workflowtest.Played{}
	p.Run, p.Stages = n.end(t, key)
	if after := n.made(t, key); !maps.Equal(made, after) {
		t.Errorf("seed %d, run %s: stages and executions that were created after the cancel: %d before, %d after", seed, key.ID, len(made), len(after))
	}
	if before.Status.Terminal() && p.Run.Status != before.Status || !before.Status.Terminal() && p.Run.Status != status.RunCanceled {
		t.Errorf("seed %d, run %s: was %s when the cancel was answered, and ended %s", seed, key.ID, before.Status, p.Run.Status)
	}
	if p.Run.Status == status.RunCanceled && p.Run.CancelRequestedAt == nil {
		t.Errorf("seed %d, run %s: CANCELED without cancelRequestedAt", seed, key.ID)
	}
	compare(t, seed, want, p, true)
	return p
}

// awaitEvents returns once a run has count events or has finished.
func (n *node) awaitEvents(key notify.Key, count int64) {
	ctx, cancel := context.WithTimeout(n.ctx, 5*time.Second)
	defer cancel()
	events, err := n.runs.Watch(ctx, key, anyone{}, new(int64))
	if err != nil {
		return
	}
	for event := range events {
		if event.Seq >= count {
			return
		}
	}
}

// made returns the stages and executions of a run that were created after it.
func (n *node) made(t *testing.T, key notify.Key) map[uuid.UUID]bool {
	t.Helper()
	rows, err := n.pool.Query(context.Background(), `SELECT id FROM run_stages WHERE workspace_id = $1 AND run_id = $2
		UNION ALL SELECT id FROM component_executions WHERE workspace_id = $1 AND run_id = $2 AND id > $2`, key.WorkspaceID, key.ID)
	if err != nil {
		t.Error(err)
		return nil
	}
	defer rows.Close()
	made := map[uuid.UUID]bool{}
	for rows.Next() {
		var id uuid.UUID
		if err := rows.Scan(&id); err != nil {
			t.Error(err)
		}
		made[id] = true
	}
	return made
}

// The sweep makes up for advances that were lost with a process or never requested. No effect happens
// twice, even if all processes advance at the same time.
func TestSweepMakesUpForLostAdvances(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.start(t, options{slots: 8, sweep: 100 * time.Millisecond, deaf: true})
	eager := []*node{n, b.start(t, options{slots: 1, deaf: true})}
	id := n.draw(t, `[{"id":"a","module":"WORK"},{"id":"d","module":"DELAY","config":{"durationMs":5}},
		{"id":"l","module":"FOR_EACH","input":{"items":[1,2,3]}},{"id":"b","module":"WORK"}]`,
		`[{"id":"1","from":"a","to":"l","port":"next"},{"id":"2","from":"d","to":"l","port":"next"},{"id":"3","from":"l","to":"b","port":"each"}]`, ``)
	var running sync.WaitGroup
	for i := range 4 {
		running.Go(func() {
			key := n.trigger(t, run.TriggerParams{WorkflowID: id})
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			for range 200 * (i % 2) {
				for _, e := range eager {
					e.engine.Wake(key)
				}
				<-tick.C
			}
			got, stages := n.end(t, key)
			if got.Status != status.RunCompleted || len(stages) != 6 || got.TotalUsage != 4_000_000 {
				t.Errorf("%s %s, %d stages, used %s: %v", got.Status, got.Error, len(stages), got.TotalUsage, slices.Sorted(maps.Keys(stages)))
			}
		})
	}
	running.Wait()
	b.balanced(t)
}
