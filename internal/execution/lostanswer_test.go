package execution_test

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/execution"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/local/pgtest"
	"github.com/weft-automation/weft/internal/platform/idempotency"
)

// behind starts a node that connects through the cutter.
func (b *bench) behind(t *testing.T, c *pgtest.Cutter, o options, modules ...component.Module) *node {
	t.Helper()
	direct := b.dsn
	b.dsn = c.DSN
	defer func() { b.dsn = direct }()
	return b.start(t, o, modules...)
}

// settled waits until no execution is live. This includes the time until a lost response is
// noticed.
func (b *bench) settled(t *testing.T) {
	t.Helper()
	b.until(t, "SELECT count(*) = 0 FROM component_executions WHERE finished_at IS NULL")
}

func TestEX14AStartWhoseAnswerIsLostIsNotStuck(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	accepts := b.start(t, options{idle: true}, echo())
	c := pgtest.NewCutter(t, b.dsn)
	b.behind(t, c, options{workers: 2}, echo())
	c.Lose(pgtest.Loss{Response: []string{"ECHO", "UPDATE 1\x00"}})
	id := b.submit(t, accepts, execution.SubmitParams{Module: "ECHO"}).ID
	b.settled(t)
	if !c.Lost() {
		t.Fatal("no answer was lost")
	}
	if got := b.await(t, accepts, id); got.Status != status.ExecutionCompleted {
		t.Errorf("ended %s", got.Status)
	}
}

// acceptance is the loss of the response to an acceptance. With an Idempotency-Key, the acceptance ends
// with a COMMIT. Without one, it is one statement, whose row has four columns: an empty reason, and 8, 1 and 8 bytes.
func acceptance(workspace uuid.UUID, keyed bool) pgtest.Loss {
	loss := pgtest.Loss{Request: string(workspace[:]), Response: []string{"D\x00\x00\x00\x27\x00\x04\x00\x00\x00\x00\x00\x00\x00\x08"}}
	if keyed {
		loss.Response = committed
	}
	return loss
}

// committed marks the response to a COMMIT.
var committed = []string{"COMMIT\x00"}

func TestEX14AnAcceptanceWhoseAnswerIsLostRunsOnce(t *testing.T) {
	t.Parallel()
	for name, tc := range waittest.Chosen(map[string]struct {
		keyed  bool
		repeat component.Repeat
	}{
		"without a key":        {false, component.RepeatPure},
		"with a key":           {true, component.RepeatPure},
		"of a call that sends": {false, component.RepeatUnsafe},
	}, "with a key") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			c := pgtest.NewCutter(t, b.dsn)
			m := echo()
			m.repeat = tc.repeat
			n := b.behind(t, c, options{slots: 4, workers: 2}, m)
			params := execution.SubmitParams{
				WorkspaceID: b.workspace, Module: "ECHO", Input: json.RawMessage(`{}`), Config: json.RawMessage(`{}`), Attempts: 1,
			}
			if tc.keyed {
				params.Idempotency = &idempotency.Key{WorkspaceID: b.workspace, Operation: "x", Path: "/x", Key: uuid.NewString()}
			}
			c.Lose(acceptance(b.workspace, tc.keyed))
			made, err := n.service.Submit(t.Context(), params)
			if err != nil || made.Replayed || !c.Lost() {
				t.Fatalf("returned %+v, %v; lost: %v", made, err, c.Lost())
			}
			b.settled(t)
			if count, sum := b.postings(t); count != 1 || sum != 1_000_000 {
				t.Errorf("%d postings of %d micro-credits", count, sum)
			}
			if !tc.keyed {
				return
			}
			again, err := n.service.Submit(t.Context(), params)
			if err != nil || !again.Replayed || again.Record.ID != made.Record.ID || again.Record.Status != status.ExecutionCompleted {
				t.Errorf("the repeat returned %+v, %v", again, err)
			}
		})
	}
}

func TestEX14AFinishWhoseAnswerIsLostIsPublishedAndPostedOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c := pgtest.NewCutter(t, b.dsn)
	s := newSlow("SLOW", component.RepeatUnsafe)
	n := b.behind(t, c, options{slots: 2}, s)
	id := b.submit(t, n, execution.SubmitParams{Module: "SLOW"}).ID
	awaited := make(chan api.ComponentExecution, 1)
	go func() {
		got, err := n.service.Await(t.Context(), b.workspace, id, time.Until(waittest.Deadline(t)))
		if err != nil {
			t.Error(err)
		}
		awaited <- got
	}()
	<-s.started
	c.Lose(pgtest.Loss{Request: string(id[:]), Response: committed})
	close(s.release)
	if got := <-awaited; got.Status != status.ExecutionCompleted {
		t.Errorf("the waiter received %s", got.Status)
	}
	if count, _ := b.postings(t); count != 1 || s.attempts.Load() != 1 || !c.Lost() {
		t.Errorf("%d postings after %d runs; lost: %v", count, s.attempts.Load(), c.Lost())
	}
}

func TestAFinishThatCommitsLateReachesWaiters(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.start(t, options{idle: true}, echo())
	id := b.submit(t, n, execution.SubmitParams{Module: "ECHO"}).ID
	tx, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// updated_at is the time when the transaction started, long before its commit.
	_, err = tx.Exec(t.Context(), `UPDATE component_executions SET status = 'COMPLETED', output = '1', epoch = 1, attempt = 1,
		finished_at = now() - interval '1 minute', updated_at = now() - interval '1 minute'`)
	if err != nil {
		t.Fatal(err)
	}
	awaited := make(chan status.Execution, 1)
	go func() {
		got, _ := n.service.Await(t.Context(), b.workspace, id, time.Until(waittest.Deadline(t)))
		awaited <- got.Status
	}()
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := waittest.Receive(t, "the result", awaited); got != status.ExecutionCompleted {
		t.Errorf("received %s", got)
	}
}

func TestAPageOfLargeOutputsEndsEarly(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	big := json.RawMessage(`"` + string(bytes.Repeat([]byte("x"), 1<<20-16)) + `"`)
	n := b.start(t, options{slots: 32}, module{name: "BIG", repeat: component.RepeatPure, run: bigOutput(big)})
	const count = 20
	seen := map[uuid.UUID]bool{}
	for range count {
		b.submit(t, n, execution.SubmitParams{Module: "BIG", WaitFor: 15 * time.Second})
	}
	cursor := ""
	for range count {
		page, err := n.service.List(t.Context(), b.workspace, execution.ListParams{Limit: 100, Cursor: cursor})
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Data) == 0 || len(page.Data) > 8 {
			t.Fatalf("a page of 1 MiB outputs holds %d", len(page.Data))
		}
		for _, e := range page.Data {
			seen[e.ID] = true
		}
		if !page.HasMore {
			break
		}
		cursor = *page.NextCursor
	}
	if len(seen) != count {
		t.Errorf("the pages held %d of %d executions", len(seen), count)
	}
}

func bigOutput(output json.RawMessage) func(context.Context, component.Call) (component.Result, error) {
	return func(context.Context, component.Call) (component.Result, error) {
		return component.Result{Output: output}, nil
	}
}
