package run_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/workflow/run"
	"github.com/weft-automation/weft/internal/workflow/workflowtest"
)

// span holds the stored times of a stage.
type span struct{ created, started, finished time.Time }

// spans returns the times of the stages of a run. For a stage that never started, the start is the
// time when the stage finished.
func (n *node) spans(t testing.TB, runID uuid.UUID) map[uuid.UUID]span {
	t.Helper()
	rows, err := n.pool.Query(context.Background(), `SELECT id, created_at, COALESCE(started_at, finished_at), finished_at FROM run_stages WHERE run_id = $1`, runID)
	if err != nil {
		t.Fatal(err)
	}
	spans := map[uuid.UUID]span{}
	var id uuid.UUID
	var s span
	_, err = pgx.ForEachRow(rows, []any{&id, &s.created, &s.started, &s.finished}, func() error { spans[id] = s; return nil })
	if err != nil {
		t.Fatal(err)
	}
	return spans
}

// disorder counts the rows of a run whose times go back.
const disorder = `SELECT
	(SELECT count(*) FROM workflow_runs r WHERE r.id = $1 AND NOT (r.created_at <= COALESCE(r.cancel_requested_at, r.created_at)
		AND COALESCE(r.cancel_requested_at, r.created_at) <= r.finished_at AND r.finished_at <= r.updated_at))
	+ (SELECT count(*) FROM run_events v JOIN run_events w ON w.run_id = v.run_id AND w.seq = v.seq + 1 AND w.created_at < v.created_at WHERE v.run_id = $1)
	+ (SELECT count(*) FROM component_executions e WHERE e.run_id = $1 AND NOT (e.created_at <= COALESCE(e.attempt_started_at, e.created_at)
		AND COALESCE(e.attempt_started_at, e.created_at) <= e.finished_at AND e.finished_at <= e.updated_at))`

// inOrder reports times of a finished run that go back. It compares the times in each row, the
// times of a run or a loop with the times of its stages, and the times along edges and connections.
// Reused stages keep the times of the earlier run.
func (n *node) inOrder(t *testing.T, w *workflowtest.Drawing, p workflowtest.Played, taken map[string]api.RunStage, blame func(format string, args ...any)) {
	t.Helper()
	if rows := n.number(t, disorder, p.Run.ID); rows != 0 {
		blame("%d rows with times that go back", rows)
	}
	var created, finished time.Time
	if err := n.pool.QueryRow(context.Background(), "SELECT created_at, finished_at FROM workflow_runs WHERE id = $1", p.Run.ID).Scan(&created, &finished); err != nil {
		t.Fatal(err)
	}
	spans := n.spans(t, p.Run.ID)
	for at, stage := range p.Stages {
		s := spans[stage.ID]
		if s.started.Before(s.created) || s.finished.Before(s.started) || s.finished.After(finished) {
			blame("%s: created %s, started %s, finished %s, and the run %s", at, s.created, s.started, s.finished, finished)
		}
		if _, old := taken[at]; old {
			continue
		}
		if s.created.Before(created) {
			blame("%s was created at %s, the run at %s", at, s.created, created)
		}
		for level, loop := range w.Around(stage.ComponentID) {
			if around := spans[p.Stages[workflowtest.Place(loop, stage.Iteration[:level])].ID]; s.created.Before(around.created) || s.finished.After(around.finished) {
				blame("%s from %s to %s, its loop %s from %s to %s", at, s.created, s.finished, loop, around.created, around.finished)
			}
		}
		for _, before := range waitedFor(w, stage, p.Stages) {
			if earlier := spans[before.ID]; s.created.Before(earlier.finished) {
				blame("%s was created at %s, before %s%v finished at %s", at, s.created, before.ComponentID, before.Iteration, earlier.finished)
			}
		}
	}
}

// waitedFor returns the stages that a stage waited for.
func waitedFor(w *workflowtest.Drawing, stage api.RunStage, all map[string]api.RunStage) (before []api.RunStage) {
	around := w.Around(stage.ComponentID)
	var sources []string
	for _, a := range w.Arrows {
		if a.To == stage.ComponentID && a.Port != "each" {
			sources = append(sources, a.From)
		}
	}
	for _, c := range w.Wires {
		if c.To.ComponentID == stage.ComponentID && !slices.Contains(around, c.From.ComponentID) {
			sources = append(sources, c.From.ComponentID)
		}
	}
	for _, other := range all {
		if !slices.Contains(sources, other.ComponentID) {
			continue
		}
		common := 0
		for loops := w.Around(other.ComponentID); common < min(len(around), len(loops)) && around[common] == loops[common]; {
			common++
		}
		if slices.Equal(other.Iteration[:common], stage.Iteration[:common]) {
			before = append(before, other)
		}
	}
	return before
}

// Times do not go back if an advance starts long before it locks its run, or if the clock is set back.
// In these cases, times do not advance. Timers still follow the clock.
func TestTimesOfARunDoNotGoBack(t *testing.T) {
	t.Parallel()
	for what, meanwhile := range map[string]func(t *testing.T, n *node, key notify.Key, letGo chan struct{}){
		"an advance that waits for its run": func(t *testing.T, n *node, key notify.Key, letGo chan struct{}) {
			other, err := n.pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = other.Rollback(context.Background()) }()
			if _, err := other.Exec(t.Context(), "SELECT FROM workflow_runs WHERE id = $1 FOR NO KEY UPDATE", key.ID); err != nil {
				t.Fatal(err)
			}
			n.engine.Wake(key)
			n.until(t, 1, nothing, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%RunLock%'")
			close(letGo)
			n.until(t, 1, nothing, "SELECT count(*) FROM component_executions WHERE finished_at IS NOT NULL")
		},
		"a standby whose clock is behind": func(t *testing.T, n *node, _ notify.Key, letGo chan struct{}) {
			for _, ahead := range []string{
				"component_executions SET created_at = created_at + interval '1 h', attempt_started_at = attempt_started_at + interval '1 h', updated_at = updated_at + interval '1 h'",
				"run_stages SET created_at = created_at + interval '1 h', started_at = started_at + interval '1 h', updated_at = updated_at + interval '1 h'",
				"workflow_runs SET created_at = created_at + interval '1 h', updated_at = updated_at + interval '1 h'",
			} {
				n.exec(t, "UPDATE "+ahead)
			}
			close(letGo)
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			letGo := make(chan struct{})
			b := newBench(t, held(letGo))
			n := b.start(t, options{slots: 4})
			w := &workflowtest.Drawing{Parts: []workflowtest.Part{{ID: "h", Module: "HELD"}, {ID: "w", Module: "WORK"}, {ID: "d", Module: "DELAY", Config: map[string]any{"durationMs": 20}}, {ID: "x", Module: "WORK"}}, Arrows: []workflowtest.Arrow{
				{ID: "1", From: "h", To: "w", Port: "next"}, {ID: "2", From: "w", To: "d", Port: "next"}, {ID: "3", From: "d", To: "x", Port: "next"},
			}}
			key := n.trigger(t, run.TriggerParams{WorkflowID: n.save(t, w.Draft())})
			meanwhile(t, n, key, letGo)
			got, stages := n.end(t, key)
			if got.Status != status.RunCompleted {
				t.Errorf("%s %s", got.Status, got.Error)
			}
			n.inOrder(t, w, workflowtest.Played{Run: got, Stages: stages}, nil, t.Errorf)
		})
	}
}
