package run_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/workflow/run"
	"github.com/weft-automation/weft/internal/workflow/workflowtest"
)

// held is a component that costs a credit and runs until letGo receives or is closed.
func held(letGo <-chan struct{}) module {
	return workflowtest.Made("HELD", credit.Credits(1), workflowtest.Anything, func(ctx context.Context, _ component.Call) (component.Result, error) {
		select {
		case <-letGo:
			return component.Result{Output: json.RawMessage(`{}`)}, nil
		case <-ctx.Done():
			return component.Result{}, ctx.Err()
		}
	})
}

// poison makes the database reject every stage with the name "poison".
func (b *bench) poison(t testing.TB) {
	t.Helper()
	b.exec(t, "ALTER TABLE run_stages ADD CONSTRAINT poison CHECK (name <> 'poison')")
}

func (b *bench) exec(t testing.TB, statement string, args ...any) {
	t.Helper()
	if _, err := b.pool.Exec(context.Background(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// until repeats a query until it returns the wanted number.
func (b *bench) until(t testing.TB, want int64, meanwhile func(), query string, args ...any) {
	t.Helper()
	waittest.Until(t, fmt.Sprintf("%s %v is %d", query, args, want), func() bool {
		if b.number(t, query, args...) == want {
			return true
		}
		meanwhile()
		return false
	})
}

func nothing() {}

// cursed is a component whose check of its input panics, once it is armed.
type cursed struct {
	module
	armed *atomic.Bool
}

func (c cursed) Formats() map[string]func(string) error {
	return map[string]func(string) error{"curse": func(string) error {
		if c.armed.Load() {
			panic("the input is cursed")
		}
		return nil
	}}
}

// A run whose advances always fail or panic becomes FAILED when its executions have finished.
// Finished stages are charged and the rest of the reservation is released. Other runs continue.
func TestRunWhoseAdvancesKeepFailingIsGivenUp(t *testing.T) {
	t.Parallel()
	letGo := make(chan struct{})
	curse := cursed{workflowtest.Made("CURSED", credit.Credits(1), workflowtest.Anything, nil), new(atomic.Bool)}
	curse.Input = json.RawMessage(`{"type":"object","properties":{"text":{"type":"string","format":"curse"}}}`)
	b := newBench(t, held(letGo), curse)
	b.poison(t)
	n := b.start(t, options{slots: 4, sweep: 100 * time.Millisecond})
	ended := map[string]struct {
		components, edges, connections string
		usage                          int64
		key                            notify.Key
	}{
		"a row that is refused": {
			components: `[{"id":"a","module":"WORK"},{"id":"h","module":"HELD"},{"id":"w","module":"WAIT_FOR_SIGNAL","config":{"name":"never","timeoutMs":3600000}},
				{"id":"p","name":"poison","module":"JSON_CONSTANT","config":{"value":1}}]`,
			edges: `[{"id":"1","from":"a","to":"p","port":"next"}]`, usage: 2,
		},
		"a panic": {
			components: `[{"id":"l","module":"FOR_EACH","input":{"items":["a"]}},{"id":"c","module":"CURSED"}]`, edges: `[{"id":"1","from":"l","to":"c","port":"each"}]`,
			connections: `[{"id":"1","from":{"componentId":"l","output":"item"},"to":{"componentId":"c","input":"text"}}]`,
		},
	}
	curse.armed.Store(true)
	for what, c := range ended {
		c.key = n.trigger(t, run.TriggerParams{WorkflowID: n.draw(t, c.components, c.edges, c.connections)})
		ended[what] = c
	}
	again := func() {
		for _, c := range ended {
			n.engine.Wake(c.key)
		}
	}
	b.until(t, int64(len(ended)), again, "SELECT count(*) FROM workflow_runs WHERE error IS NOT NULL")
	if named := b.number(t, "SELECT json_array_length(output->'nonTerminalStages') FROM run_events WHERE run_id = $1 ORDER BY seq DESC LIMIT 1", ended["a row that is refused"].key.ID); named != 1 {
		t.Errorf("the last event names %d stages, one of which runs", named)
	}
	close(letGo)
	for what, c := range ended {
		got, stages := n.end(t, c.key)
		failure := api.RunError{}
		if err := json.Unmarshal(got.Error, &failure); err != nil || got.Status != status.RunFailed || failure.Code != "INTERNAL_ERROR" || got.TotalUsage != credit.Credits(c.usage) {
			t.Errorf("%s: %s %s, used %s, want %d", what, got.Status, got.Error, got.TotalUsage, c.usage)
		}
		if what == "a row that is refused" && (stages["h@[]"].Status != status.StageCompleted || stages["w@[]"].Status != status.StageCanceled) {
			t.Errorf("%s: the running stage is %s, the waiting stage %s", what, stages["h@[]"].Status, stages["w@[]"].Status)
		}
	}
	got, _ := n.end(t, n.trigger(t, run.TriggerParams{WorkflowID: n.draw(t, `[{"id":"l","module":"FOR_EACH","input":{"items":[1,2,3,4,5,6]}},{"id":"w","module":"WORK"}]`,
		`[{"id":"1","from":"l","to":"w","port":"each"}]`, "")}))
	if got.Status != status.RunCompleted {
		t.Errorf("another run is %s %s", got.Status, got.Error)
	}
	b.balanced(t)
}

// Runs whose advances fail do not delay other runs, regardless of their number.
func TestFailingAdvancesDelayNoOtherRun(t *testing.T) {
	t.Parallel()
	const others = 600
	b := newBench(t)
	b.poison(t)
	first := b.start(t, options{slots: 1})
	poisoned := first.draw(t, `[{"id":"p","name":"poison","module":"JSON_CONSTANT","config":{"value":1}}]`, "", "")
	plain := first.draw(t, `[{"id":"p","module":"JSON_CONSTANT","config":{"value":1}}]`, "", "")
	first.engine.Close() // runs that are triggered from now on wait for a sweep
	bad := first.trigger(t, run.TriggerParams{WorkflowID: poisoned})
	one := first.trigger(t, run.TriggerParams{WorkflowID: plain})
	ids := make([]uuid.UUID, others-1)
	for i := range ids {
		ids[i] = uuid.Must(uuid.NewV7())
	}
	b.exec(t, "INSERT INTO workflow_runs SELECT (jsonb_populate_record(r, jsonb_build_object('id', i.id))).* FROM workflow_runs r, unnest($2::uuid[]) AS i (id) WHERE r.id = $1", one.ID, ids)
	n := b.start(t, options{slots: 1, sweep: 100 * time.Millisecond})
	b.until(t, others, nothing, "SELECT count(*) FROM workflow_runs WHERE workflow_id = $1 AND status = 'COMPLETED'", plain)
	if got, _ := n.end(t, bad); got.Status != status.RunFailed {
		t.Errorf("the failing run is %s", got.Status)
	}
	b.balanced(t)
}

// A signal during an advance is not lost. One signal commits before the advance reads the run, without a
// notification of this process. The other signal waits for the advance.
func TestSignalDuringAnAdvanceIsNotLost(t *testing.T) {
	t.Parallel()
	letGo := make(chan struct{}, 2)
	b := newBench(t, held(letGo))
	n := b.start(t, options{slots: 4, sweep: 100 * time.Millisecond})
	id := n.draw(t, `[{"id":"h","module":"HELD"},{"id":"w","module":"WAIT_FOR_SIGNAL","config":{"name":"go","timeoutMs":3600000}},{"id":"r","module":"RESPOND"}]`,
		`[{"id":"1","from":"w","to":"r","port":"next"}]`, `[{"id":"1","from":{"componentId":"w","output":"payload"},"to":{"componentId":"r","input":"payload"}}]`)
	for what, lock := range map[string]string{
		"the run is locked": "SELECT FROM workflow_runs WHERE id = $1 FOR UPDATE",
		"the log is locked": "LOCK TABLE run_events IN EXCLUSIVE MODE",
	} {
		key := n.trigger(t, run.TriggerParams{WorkflowID: id})
		n.awaitEvents(key, 1)
		tx, err := b.pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback(context.Background()) }()
		other := lock == "LOCK TABLE run_events IN EXCLUSIVE MODE"
		args := []any{key.ID}
		if other {
			args = nil
		}
		if _, err := tx.Exec(t.Context(), lock, args...); err != nil {
			t.Fatal(err)
		}
		letGo <- struct{}{} // the held component finishes, which causes an advance
		waits := "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
		b.until(t, 1, nothing, waits)
		sent := make(chan error, 1)
		if other {
			go func() {
				_, err := n.runs.Signal(n.ctx, key, anyone{}, "go", json.RawMessage(`{"n":7}`))
				sent <- err
			}()
			b.until(t, 2, nothing, waits)
		} else {
			_, err := tx.Exec(t.Context(), "INSERT INTO run_signals VALUES ($1, $2, 'go', '{\"n\":7}', now())", key.WorkspaceID, key.ID)
			if err == nil {
				_, err = tx.Exec(t.Context(), "UPDATE workflow_runs SET wake_at = clock_timestamp() WHERE id = $1", key.ID)
			}
			sent <- err
		}
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-sent; err != nil {
			t.Errorf("%s: the signal was refused: %v", what, err)
		}
		if got, _ := n.end(t, key); got.Status != status.RunCompleted || workflowtest.Canonical(got.Output) != `{"payload":{"n":7}}` {
			t.Errorf("%s: %s %s gave %s", what, got.Status, got.Error, got.Output)
		}
	}
	b.balanced(t)
}
