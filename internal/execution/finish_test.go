package execution

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// Two finishes of one execution may be in one batch, for example by a worker and the sweep, or by
// a lost worker and its replacement. Waiters and callbacks receive the state in the row.
func TestTwoFinishesInOneBatchPublishWhatTheRowSays(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	var key notify.Key
	end := func(epoch int32, n int) func() finish {
		return func() finish {
			if n%2 == 0 {
				return finish{key: key, epoch: epoch, status: status.ExecutionCompleted, output: fmt.Appendf(nil, `{"n":%d}`, n)}
			}
			return finish{key: key, epoch: epoch, status: status.ExecutionFailed, err: fmt.Appendf(nil, `{"n":%d}`, n)}
		}
	}
	for name, ends := range map[string][]func() finish{
		"the finish of an older epoch comes last":  {end(2, 2), end(1, 1)},
		"the finish of an older epoch comes first": {end(1, 0), end(2, 1)},
		"the worker before the sweep":              {end(2, 2), end(2, 1)},
		"the sweep before the worker":              {end(2, 1), end(2, 2)},
	} {
		t.Run(name, func(t *testing.T) {
			s.exec(t, "UPDATE credit_accounts SET live = 1 WHERE workspace_id = $1", s.workspace)
			key = s.insert(t, "status, job_id, attempt, attempt_started_at, epoch", "'EXECUTING', 1, 1, now(), 2")
			var items []finish
			for _, end := range ends {
				items = append(items, end())
			}
			var f *Finishing
			err := s.runner.finishNow(t.Context(), func(batch *postgres.Batch) *Finishing {
				f = s.runner.queueFinish(batch, items)
				return f
			})
			if err != nil || len(f.rows.All()) != 1 {
				t.Fatalf("%d executions finished, %v", len(f.rows.All()), err)
			}
			row, err := db.New().ExecutionGet(t.Context(), s.pool, db.ExecutionGetParams{WorkspaceID: key.WorkspaceID, ID: key.ID})
			if err != nil {
				t.Fatal(err)
			}
			published := f.record(f.rows.All()[0])
			if published.Status != row.Status || string(published.Output) != string(row.Output) || string(published.Error) != string(row.Error) || published.Usage != row.Usage {
				t.Errorf("published %s %s %s, the row says %s %s %s", published.Status, published.Output, published.Error, row.Status, row.Output, row.Error)
			}
		})
	}
}

// Two processes finish twenty executions. Each execution is finished 50 times concurrently.
func TestLE02AnExecutionFinishedManyTimesIsPostedOnce(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	processes := []*Runner{s.runner, s.process(t)}
	s.exec(t, "UPDATE credit_accounts SET live = 20, reserved = 100 WHERE workspace_id = $1", s.workspace)
	var ends sync.WaitGroup
	for range 20 {
		key := s.insert(t, "status, job_id, reserved, attempt, attempt_started_at, epoch", "'EXECUTING', 1, 5, 1, now(), 1")
		for side := range 50 {
			ends.Go(func() {
				f := finish{key: key, epoch: 1, status: status.ExecutionCompleted, output: []byte(`{}`), local: side%3 == 0}
				if err := processes[side%2].settle(t.Context(), f); err != nil {
					t.Error(err)
				}
			})
		}
	}
	ends.Wait()
	var postings, usage, live, reserved int
	err := s.pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM credit_postings WHERE kind = 'EXECUTION'),
		(SELECT sum(usage)::bigint FROM credit_postings WHERE kind = 'EXECUTION'), live, reserved FROM credit_accounts`).Scan(&postings, &usage, &live, &reserved)
	if err != nil || postings != 20 || usage != 100 || live != 0 || reserved != 0 {
		t.Errorf("%d postings of %d micro-credits, %d live, %d reserved, %v", postings, usage, live, reserved, err)
	}
}

// If several stages of a run finish in one commit, the run is reported once.
func TestACommitReportsEachRunOnce(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	var reported []Outcome
	s.runner.Finish = func(_ context.Context, out Outcome) error {
		reported = append(reported, out)
		return nil
	}
	s.exec(t, "UPDATE credit_accounts SET live = 7, reserved = 5 WHERE workspace_id = $1", s.workspace)
	var items []finish
	end := func(of string) {
		key := s.insert(t, "status, job_id, reserved, attempt, attempt_started_at, epoch, run_id", "'EXECUTING', 1, 5, 1, now(), 1, "+of)
		items = append(items, finish{key: key, epoch: 1, status: status.ExecutionCompleted, output: []byte(`{}`)})
	}
	first, second := uuid.New(), uuid.New()
	for range 3 {
		end("'" + first.String() + "'")
		end("'" + second.String() + "'")
	}
	end("NULL")
	for range 2 { // the second time all executions are final
		if _, err := s.runner.flushFinishes(t.Context(), items, true); err != nil {
			t.Fatal(err)
		}
	}
	if len(reported) != 2 || reported[0].Run == reported[1].Run || len(reported[0].Executions) != 3 || reported[0].Run.WorkspaceID != s.workspace {
		t.Errorf("reported runs: %v", reported)
	}
	var postings, live, reserved int
	err := s.pool.QueryRow(t.Context(), "SELECT (SELECT count(*) FROM credit_postings WHERE kind <> 'GRANT'), live, reserved FROM credit_accounts").Scan(&postings, &live, &reserved)
	if err != nil || postings != 1 || live != 0 || reserved != 0 {
		t.Errorf("%d postings, %d live, %d reserved, %v", postings, live, reserved, err)
	}
}
