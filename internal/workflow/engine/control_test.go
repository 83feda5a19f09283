package engine_test

import (
	"testing"

	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/workflow/engine"
	"github.com/weft-automation/weft/internal/workflow/workflowtest"
)

// A stage that waits for a signal continues at once if the signal arrived before the stage started.
func TestEarlySignalIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	m := newGame(t, 0, &workflowtest.Drawing{Parts: []workflowtest.Part{
		{ID: "w", Module: "WAIT_FOR_SIGNAL", Config: map[string]any{"name": "given", "timeoutMs": 3_600_000}},
	}}).start(0, odds{})
	m.signal()
	m.advanceAll()
	if m.run.Status != status.RunCompleted {
		t.Errorf("the run is %s and wakes at %s, want COMPLETED", m.run.Status, m.run.WakeAt)
	}
}

// Once an item of a loop has failed, the other items finish what is running and start nothing more.
func TestFailingLoopStartsNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		onItemFailure string
		starts        bool
		want          status.Run
	}{
		"fail":     {"fail", false, status.RunFailed},
		"continue": {"continue", true, status.RunCompleted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			work := map[string]any{"salt": 1, "fails": 0}
			m := newGame(t, 0, &workflowtest.Drawing{
				Parts: []workflowtest.Part{
					{ID: "l", Module: "FOR_EACH", Input: map[string]any{"items": []int{4, 5}}, Config: map[string]any{"concurrency": 2, "onItemFailure": c.onItemFailure}},
					{ID: "a", Module: "WORK", Input: map[string]any{}, Config: work}, {ID: "b", Module: "WORK", Input: map[string]any{}, Config: work},
				},
				Arrows: []workflowtest.Arrow{{ID: "1", From: "l", To: "a", Port: "each"}, {ID: "2", From: "a", To: "b", Port: "next"}},
			}).start(0, odds{})
			m.advanceAll()
			failed, next := m.at[engine.PlaceOf("a", []int32{0})], engine.PlaceOf("b", []int32{1})
			failed.Ended, failed.EndedAt, failed.Error = string(status.ExecutionFailed), m.now, []byte(`{"code":"BROKEN","message":"it broke","retryable":false,"attempt":1,"details":null}`)
			m.news = append(m.news, *failed.ExecutionID)
			m.advanceAll()
			m.execute(m.at[engine.PlaceOf("a", []int32{1})])
			m.advanceAll()
			if starts := m.at[next] != nil; starts != c.starts {
				t.Errorf("the next stage of the other item starts: %v, want %v", starts, c.starts)
			}
			if m.at[next] != nil {
				m.execute(m.at[next])
				m.advanceAll()
			}
			if m.run.Status != c.want {
				t.Errorf("the run is %s, want %s", m.run.Status, c.want)
			}
		})
	}
}

// advanceAll advances a run until it waits for something that has not happened.
func (m *memory) advanceAll() {
	m.tried = true // so that its components are computed
	for m.turn() {
	}
}
