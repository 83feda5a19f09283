package run_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/workflow/run"
	"github.com/weft-automation/weft/internal/workflow/workflowtest"
)

// row is a sequence of three components, followed by a loop that runs one item at a time.
const (
	row = `[{"id":"a","module":"WORK"},{"id":"b","module":"WORK"},{"id":"c","module":"WORK"},
		{"id":"l","module":"FOR_EACH","config":{"concurrency":1},"input":{"items":[1,2]}},{"id":"d","module":"WORK"}]`
	rowEdges = `[{"id":"1","from":"a","to":"b","port":"next"},{"id":"2","from":"b","to":"c","port":"next"},
		{"id":"3","from":"c","to":"l","port":"next"},{"id":"4","from":"l","to":"d","port":"each"}]`
	rowLength = 5 // number of executions
)

// together counts the executions of a run that became final in a transaction that also wrote an
// event of the run.
const together = `SELECT count(*) FROM component_executions e JOIN run_stages s ON s.execution_id = e.id
	WHERE s.run_id = $1 AND e.xmin IN (SELECT v.xmin FROM run_events v WHERE v.run_id = $1)`

// If a run waits for one execution, the advance commits in the transaction that finishes the
// execution. If a run waits for several executions, it is advanced afterwards, so that no execution
// waits for the run's lock.
func TestOnlyExecutionFinishesTogetherWithTheAdvance(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.start(t, options{slots: 4})
	for what, c := range map[string]struct {
		components, edges string
		least, most       int64 // an execution that finishes before the advance that created it returns is committed separately
	}{
		"one after the other": {row, rowEdges, 1, rowLength},
		"two concurrent ones": {`[{"id":"a","module":"WORK"},{"id":"b","module":"WORK"}]`, `[]`, 0, 1},
	} {
		key := n.trigger(t, run.TriggerParams{WorkflowID: n.draw(t, c.components, c.edges, "")})
		if got, _ := n.end(t, key); got.Status != status.RunCompleted {
			t.Errorf("%s: %s %s", what, got.Status, got.Error)
		}
		if got := b.number(t, together, key.ID); got < c.least || got > c.most {
			t.Errorf("%s: %d executions finished together with an advance", what, got)
		}
	}
	b.balanced(t)
}

// refuseSettlements makes every second settlement of an execution fail with an error code of
// PostgreSQL, starting with the first one.
func (b *bench) refuseSettlements(t testing.TB, code string) {
	t.Helper()
	b.exec(t, `CREATE SEQUENCE settlements; GRANT USAGE ON SEQUENCE settlements TO weft_api, weft_system;
		CREATE FUNCTION refuse_settlement() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			IF nextval('settlements') % 2 = 1 THEN
				RAISE EXCEPTION 'the settlement is refused' USING ERRCODE = '`+code+`';
			END IF;
			RETURN NEW;
		END $$;
		CREATE TRIGGER refuse_settlement BEFORE UPDATE ON credit_accounts
			FOR EACH ROW WHEN (NEW.live < OLD.live) EXECUTE FUNCTION refuse_settlement()`)
}

// If an execution cannot finish in the transaction of the advance, it finishes separately, exactly
// once, and the run continues afterwards.
func TestExecutionFinishesSeparatelyIfTheAdvanceFails(t *testing.T) {
	t.Parallel()
	for what, code := range waittest.Chosen(map[string]string{
		"an error":                 "P0001",
		"a period that is over":    "WF002",
		"a connection that breaks": "08006",
	}, "an error") {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			n := b.start(t, options{slots: 4})
			drawn := n.draw(t, row, rowEdges, "")
			b.refuseSettlements(t, code)
			key := n.trigger(t, run.TriggerParams{WorkflowID: drawn})
			got, stages := n.end(t, key)
			if got.Status != status.RunCompleted || got.TotalUsage != credit.Credits(rowLength) {
				t.Errorf("%s, usage %v, %s", got.Status, got.TotalUsage, got.Error)
			}
			for at, stage := range stages {
				if stage.Status != status.StageCompleted {
					t.Errorf("%s is %s", at, stage.Status)
				}
			}
			b.balanced(t)
		})
	}
}

// An execution does not wait for a run that a different transaction has locked.
func TestExecutionFinishesSeparatelyIfTheRunIsLocked(t *testing.T) {
	t.Parallel()
	letGo := make(chan struct{})
	b := newBench(t, held(letGo))
	n := b.start(t, options{slots: 4})
	key := n.trigger(t, run.TriggerParams{WorkflowID: n.draw(t, `[{"id":"h","module":"HELD"}]`, "", "")})
	other, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Rollback(context.Background()) }()
	if _, err := other.Exec(t.Context(), "SELECT FROM workflow_runs WHERE id = $1 FOR NO KEY UPDATE", key.ID); err != nil {
		t.Fatal(err)
	}
	close(letGo)
	const finished = "SELECT count(*) FROM component_executions WHERE finished_at IS NOT NULL"
	b.until(t, 1, func() {
		waiting := b.number(t, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%RunLock%'")
		if waiting > 0 && b.number(t, finished) == 0 {
			t.Error("finishing the execution waits for the run")
		}
	}, finished)
	if ended := b.number(t, "SELECT count(*) FROM run_stages WHERE finished_at IS NOT NULL"); ended != 0 {
		t.Error("the run was not locked")
	}
	if err := other.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, _ := n.end(t, key); got.Status != status.RunCompleted {
		t.Errorf("%s %s", got.Status, got.Error)
	}
	b.balanced(t)
}

// If a run ends in the commit that finishes its last execution, that commit also releases a parked
// execution.
func TestARunThatEndsMakesRoomForAParkedExecution(t *testing.T) {
	t.Parallel()
	letGo := make(chan struct{})
	b := newBench(t, held(letGo))
	b.exec(t, `CREATE TABLE releases (by xid); GRANT INSERT ON releases TO weft_api, weft_system;
		CREATE FUNCTION note_release() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN INSERT INTO releases VALUES (pg_current_xact_id()::xid); RETURN NEW; END $$;
		CREATE TRIGGER note_release BEFORE UPDATE ON component_executions
			FOR EACH ROW WHEN (OLD.parked AND NOT NEW.parked) EXECUTE FUNCTION note_release()`)
	n := b.start(t, options{slots: 2}) // four with those of the queue, of which a workspace may use three
	drawn := n.draw(t, `[{"id":"h","module":"HELD"}]`, "", "")
	var keys []notify.Key
	for range 4 {
		keys = append(keys, n.trigger(t, run.TriggerParams{WorkflowID: drawn}))
	}
	b.until(t, 1, nothing, "SELECT count(*) FROM component_executions WHERE parked")
	close(letGo)
	for _, key := range keys {
		if got, _ := n.end(t, key); got.Status != status.RunCompleted {
			t.Errorf("%s %s", got.Status, got.Error)
		}
	}
	if with := b.number(t, "SELECT count(*) FROM releases r JOIN run_events v ON v.xmin = r.by"); with != 1 {
		t.Errorf("%d executions were released with the end of a run", with)
	}
	b.balanced(t)
}

// A process that is stopping does not start the next stage when an execution finishes. Otherwise
// it would never stop.
func TestStoppingProcessLeavesNextStageToTheQueue(t *testing.T) {
	t.Parallel()
	first, second := make(chan struct{}), make(chan struct{})
	b := newBench(t, held(first), workflowtest.Made("LATER", credit.Credits(1), workflowtest.Anything, func(context.Context, component.Call) (component.Result, error) {
		<-second
		return component.Result{Output: json.RawMessage(`{}`)}, nil
	}))
	n := b.start(t, options{slots: 4})
	key := n.trigger(t, run.TriggerParams{WorkflowID: n.draw(t, `[{"id":"h","module":"HELD"},{"id":"l","module":"LATER"}]`, `[{"id":"1","from":"h","to":"l","port":"next"}]`, "")})
	const fetched = "SELECT count(*) FROM river.river_job WHERE kind = 'component_execution' AND state = 'running'"
	if got := b.number(t, fetched); got != 0 {
		t.Errorf("%d executions went through the queue before", got)
	}
	n.windUp()
	close(first)
	b.until(t, 1, nothing, fetched)
	close(second)
	if got, _ := n.end(t, key); got.Status != status.RunCompleted {
		t.Errorf("%s %s", got.Status, got.Error)
	}
	b.balanced(t)
}
