package run_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/workflow/run"
)

// row is three components in a row, and after them a loop that takes one item at a time.
const (
	row = `[{"id":"a","module":"WORK"},{"id":"b","module":"WORK"},{"id":"c","module":"WORK"},
		{"id":"l","module":"FOR_EACH","config":{"concurrency":1},"input":{"items":[1,2]}},{"id":"d","module":"WORK"}]`
	rowEdges = `[{"id":"1","from":"a","to":"b","port":"next"},{"id":"2","from":"b","to":"c","port":"next"},
		{"id":"3","from":"c","to":"l","port":"next"},{"id":"4","from":"l","to":"d","port":"each"}]`
	rowLength = 5 // executions
)

// together counts the executions of a run that became final in the transaction that wrote one
// of its events.
const together = `SELECT count(*) FROM component_executions e JOIN run_stages s ON s.execution_id = e.id
	WHERE s.run_id = $1 AND e.xmin IN (SELECT v.xmin FROM run_events v WHERE v.run_id = $1)`

// A run that waits for one execution goes on in the transaction that ends it; one that waits for
// several goes on after that, so that none waits for its lock.
func TestTheOnlyExecutionOfARunEndsWhereTheRunGoesOn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.start(t, options{slots: 4})
	for what, c := range map[string]struct {
		components, edges string
		least, most       int64 // one that ends before the fold that made it has returned ends apart
	}{
		"one after the other":   {row, rowEdges, 1, rowLength},
		"two beside each other": {`[{"id":"a","module":"WORK"},{"id":"b","module":"WORK"}]`, `[]`, 0, 1},
	} {
		key := n.trigger(t, run.TriggerParams{WorkflowID: n.draw(t, c.components, c.edges, "")})
		if got, _ := n.end(t, key); got.Status != status.RunCompleted {
			t.Errorf("%s: %s %s", what, got.Status, got.Error)
		}
		if got := b.number(t, together, key.ID); got < c.least || got > c.most {
			t.Errorf("%s: %d executions ended with their run", what, got)
		}
	}
	b.balanced(t)
}

// refusing is a ledger that fails when an execution is settled for the first time.
type refusing struct {
	billing.Books
	err error

	mu   sync.Mutex
	once map[uuid.UUID]bool
}

func (r *refusing) SettleTx(ctx context.Context, tx pgx.Tx, charges []billing.Charge) (map[uuid.UUID]billing.Load, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range charges {
		if !r.once[c.ExecutionID] {
			r.once[c.ExecutionID] = true
			return nil, r.err
		}
	}
	return r.Books.SettleTx(ctx, tx, charges)
}

// What keeps an execution from ending where its run goes on keeps it from nothing: it ends
// apart, once, and the run goes on after that.
func TestAnExecutionThatCannotEndWithItsRunEndsApart(t *testing.T) {
	t.Parallel()
	for what, err := range map[string]error{
		"an error":                 errors.New("the account was refused"),
		"a period that is over":    &billing.PeriodOver{},
		"a connection that breaks": context.DeadlineExceeded,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			n := b.start(t, options{slots: 4, ledger: &refusing{err: err, once: map[uuid.UUID]bool{}}})
			key := n.trigger(t, run.TriggerParams{WorkflowID: n.draw(t, row, rowEdges, "")})
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

// An execution does not wait for a run that somebody else holds.
func TestAnExecutionEndsApartFromARunThatIsLocked(t *testing.T) {
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
			t.Error("the end waits for the run")
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

// A process that stops begins nothing in the place of what ends, or it would never have done.
func TestAProcessThatStopsLeavesTheNextStageToTheQueue(t *testing.T) {
	t.Parallel()
	first, second := make(chan struct{}), make(chan struct{})
	b := newBench(t, held(first), made("LATER", credit.Credits(1), anything, func(context.Context, component.Call) (component.Result, error) {
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
