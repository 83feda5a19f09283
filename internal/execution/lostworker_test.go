package execution_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/execution"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/local/pgtest"
)

// cutWorkers terminates the sessions by which workers show that they are alive.
func (b *bench) cutWorkers(t *testing.T) {
	t.Helper()
	var cut int
	err := b.pool.QueryRow(t.Context(), `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
		WHERE application_name = 'weft-worker' AND datname = current_database()`).Scan(&cut)
	if err != nil || cut == 0 {
		t.Fatalf("%d sessions of workers were cut, %v", cut, err)
	}
}

// slow is a component whose first call for each execution blocks until released. Later calls
// return immediately.
type slow struct {
	module
	started  chan uuid.UUID
	release  chan struct{}
	runs     sync.Map
	attempts atomic.Int32
}

func newSlow(name string, repeat component.Repeat) *slow {
	s := &slow{started: make(chan uuid.UUID, 1000), release: make(chan struct{})}
	s.module = module{name: name, price: 1, repeat: repeat, timeout: time.Minute,
		run: func(_ context.Context, call component.Call) (component.Result, error) {
			s.attempts.Add(1)
			output := json.RawMessage(`{"run":"again"}`)
			if _, again := s.runs.LoadOrStore(call.ExecutionID, true); !again {
				s.started <- call.ExecutionID
				<-s.release
				output = json.RawMessage(`{"run":"first"}`)
			}
			return component.Result{Output: output}, nil
		}}
	return s
}

func TestEX07AWorkerWhoseSessionIsCutGetsANewNumberAndNothingIsPostedTwice(t *testing.T) {
	t.Parallel()
	for way, o := range ways {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			const count = 20
			if o.slots > 0 {
				o.slots = 2 * count // because one workspace does not get all slots
			} else {
				o.workers = 2 * count
			}
			s := newSlow("SLOW", component.RepeatIdempotent)
			n := b.start(t, o, s)
			before, _ := n.identity.Worker()
			var ids []uuid.UUID
			for range count {
				ids = append(ids, b.submit(t, n, execution.SubmitParams{Module: "SLOW"}).ID)
			}
			for range count {
				<-s.started
			}
			b.cutWorkers(t)
			for _, id := range ids {
				if got := b.await(t, n, id); got.Status != status.ExecutionCompleted || string(got.Output) != `{"run":"again"}` {
					t.Errorf("ended %s with %s", got.Status, got.Output)
				}
			}
			close(s.release) // the late calls return and must change nothing
			n.stop()
			if after, _ := n.identity.Worker(); after == before {
				t.Error("the worker kept its number")
			}
			if postings, _ := b.postings(t); postings != count {
				t.Errorf("%d executions, %d postings", count, postings)
			}
		})
	}
}

func TestEX05AnUnsafeCallWhoseWorkerIsLostIsNotRepeated(t *testing.T) {
	t.Parallel()
	for way, o := range ways {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			s := newSlow("SENDS", component.RepeatUnsafe)
			n := b.start(t, o, s)
			id := b.submit(t, n, execution.SubmitParams{Module: "SENDS", Attempts: 3}).ID
			<-s.started
			b.cutWorkers(t)
			got := b.await(t, n, id)
			close(s.release)
			var e struct{ Code string }
			if err := json.Unmarshal(got.Error, &e); err != nil || e.Code != "WORKER_LOST" || s.attempts.Load() != 1 {
				t.Errorf("ended %s with %s after %d runs", got.Status, got.Error, s.attempts.Load())
			}
			if count, sum := b.postings(t); count != 1 || sum != 0 {
				t.Errorf("%d postings of %d", count, sum)
			}
		})
	}
}

// If the database does not respond for some seconds, no worker loses its lock.
func TestAnUnsafeCallOutlivesAStallOfTheDatabase(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c := pgtest.NewCutter(t, b.dsn)
	s := newSlow("SENDS", component.RepeatUnsafe)
	n := b.behind(t, c, options{slots: 2, workers: 1}, s)
	before, _ := n.identity.Worker()
	id := b.submit(t, n, execution.SubmitParams{Module: "SENDS"}).ID
	<-s.started
	becomes := func(want bool) {
		t.Helper()
		waittest.Until(t, fmt.Sprintf("alive is %v", want), func() bool {
			_, alive := n.identity.Worker()
			return alive == want
		})
	}
	c.Stall()
	becomes(false) // two seconds after the query, the worker starts no more work
	c.Resume()
	becomes(true)
	if after, _ := n.identity.Worker(); after != before {
		t.Errorf("the worker is %d and was %d", after, before)
	}
	close(s.release)
	if got := b.await(t, n, id); got.Status != status.ExecutionCompleted || s.attempts.Load() != 1 {
		t.Errorf("ended %s with %s after %d runs", got.Status, got.Error, s.attempts.Load())
	}
}

func TestEX03AnExecutionWithoutItsJobIsRequeued(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	accepts := b.start(t, options{idle: true}, echo())
	id := b.submit(t, accepts, execution.SubmitParams{Module: "ECHO"}).ID
	if _, err := b.pool.Exec(t.Context(), "DELETE FROM river.river_job"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.pool.Exec(t.Context(), "UPDATE component_executions SET updated_at = now() - interval '1 minute'"); err != nil {
		t.Fatal(err)
	}
	b.start(t, options{workers: 2}, echo())
	if got := b.await(t, accepts, id); got.Status != status.ExecutionCompleted {
		t.Errorf("ended %s", got.Status)
	}
}

func TestAnExecutionThatKeepsLosingItsWorkerIsQuarantined(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	accepts := b.start(t, options{idle: true}, echo())
	id := b.submit(t, accepts, execution.SubmitParams{Module: "ECHO"}).ID
	if _, err := b.pool.Exec(t.Context(), `WITH crashed AS (INSERT INTO workers (host, slots) VALUES ('gone', 1) RETURNING id)
		UPDATE component_executions SET status = 'EXECUTING', worker_id = crashed.id, attempt = 1, epoch = 1, attempt_started_at = now(), crashes = 3
		FROM crashed`); err != nil {
		t.Fatal(err)
	}
	b.start(t, options{workers: 2}, echo())
	got := b.await(t, accepts, id)
	var e struct{ Code string }
	if err := json.Unmarshal(got.Error, &e); err != nil || e.Code != "QUARANTINED" {
		t.Errorf("ended %s with %s", got.Status, got.Error)
	}
}

// The process is alive, so its broken session is not counted as a crash of its executions.
func TestALostSessionOfALivingWorkerIsNotACrash(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := newSlow("LIVELY", component.RepeatPure)
	n := b.start(t, options{slots: 1, workers: 1}, s)
	id := b.submit(t, n, execution.SubmitParams{Module: "LIVELY"}).ID
	<-s.started
	if _, err := b.pool.Exec(t.Context(), "UPDATE component_executions SET crashes = 3"); err != nil {
		t.Fatal(err)
	}
	b.cutWorkers(t)
	got := b.await(t, n, id)
	close(s.release)
	if got.Status != status.ExecutionCompleted {
		t.Errorf("ended %s with %s", got.Status, got.Error)
	}
}

func TestANodeSeesTheFinishOnAnotherNode(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	serves := b.start(t, options{idle: true}, echo())
	b.start(t, options{workers: 2}, echo())
	made := b.submit(t, serves, execution.SubmitParams{Module: "ECHO"})
	events, err := serves.service.Watch(t.Context(), b.workspace, made.ID)
	if err != nil {
		t.Fatal(err)
	}
	var last status.Execution
	for event := range events {
		if last.Terminal() {
			t.Errorf("an event %s came after %s", event.Status, last)
		}
		last = event.Status
	}
	if last != status.ExecutionCompleted {
		t.Errorf("the last event is %s", last)
	}
}

// A process that has not noticed that its session is gone may start work under a number that the
// sweep has already deleted.
func TestAnExecutionOfAnUnregisteredWorkerIsRequeued(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	accepts := b.start(t, options{idle: true}, echo())
	id := b.submit(t, accepts, execution.SubmitParams{Module: "ECHO"}).ID
	if _, err := b.pool.Exec(t.Context(), `UPDATE component_executions
		SET status = 'EXECUTING', worker_id = 4711, attempt = 1, epoch = 1, attempt_started_at = now()`); err != nil {
		t.Fatal(err)
	}
	b.start(t, options{workers: 2}, echo())
	if got := b.await(t, accepts, id); got.Status != status.ExecutionCompleted {
		t.Errorf("ended %s", got.Status)
	}
}
