package execution

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/account/workspace"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/local/pgtest"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// A run and the sweep, or a run that was taken over and the one that took over,
// may end one execution in one batch. What waiters and callbacks are told is
// what the row says.
func TestTwoEndsInOneBatchTellWhatTheRowSays(t *testing.T) {
	tx := pgtest.Tx(t)
	key := notify.Key{WorkspaceID: uuid.New(), ID: uuid.New()}
	if _, err := workspace.Create(t.Context(), tx, workspace.CreateParams{ID: key.WorkspaceID, Name: key.ID.String(), Plan: plan.Enterprise, Paid: credit.Credits(1_000_000)}); err != nil {
		t.Fatal(err)
	}
	if err := (billing.Books{}).Renew(t.Context(), tx, key.WorkspaceID); err != nil {
		t.Fatal(err)
	}
	end := func(epoch int32, n int) finish {
		if n%2 == 0 {
			return finish{key: key, epoch: epoch, status: status.ExecutionCompleted, output: fmt.Appendf(nil, `{"n":%d}`, n)}
		}
		return finish{key: key, epoch: epoch, status: status.ExecutionFailed, err: fmt.Appendf(nil, `{"n":%d}`, n)}
	}
	for name, items := range map[string][]finish{
		"an end of an older turn comes last":  {end(2, 2), end(1, 1)},
		"an end of an older turn comes first": {end(1, 0), end(2, 1)},
		"the run before the sweep":            {end(2, 2), end(2, 1)},
		"the sweep before the run":            {end(2, 1), end(2, 2)},
	} {
		t.Run(name, func(t *testing.T) {
			inner, err := tx.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = inner.Rollback(t.Context()) }()
			_, err = inner.Exec(t.Context(), `INSERT INTO component_executions
				(workspace_id, id, module, status, call, attempts, attempt, epoch, job_id, created_at, updated_at)
				VALUES ($1, $2, 'M', 'EXECUTING', '', 1, 1, 2, 1, now(), now())`, key.WorkspaceID, key.ID)
			if err != nil {
				t.Fatal(err)
			}
			made, err := (&Runner{Deps: Deps{Ledger: billing.Books{}}, window: &window{}}).finishTx(t.Context(), &postgres.Tx{Tx: inner}, items)
			if err != nil || len(made.done) != 1 {
				t.Fatalf("%d ends, %v", len(made.done), err)
			}
			row, err := db.New().ExecutionGet(t.Context(), inner, db.ExecutionGetParams{WorkspaceID: key.WorkspaceID, ID: key.ID})
			if err != nil {
				t.Fatal(err)
			}
			told := made.done[0].row
			if told.Status != row.Status || string(told.Output) != string(row.Output) || string(told.Error) != string(row.Error) || told.Usage != row.Usage {
				t.Errorf("told %s %s %s, the row says %s %s %s", told.Status, told.Output, told.Error, row.Status, row.Output, row.Error)
			}
		})
	}
}

// Two processes end twenty executions, each from fifty sides at once.
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
		t.Errorf("%d postings of %d micro-credits, %d live, %d kept back, %v", postings, usage, live, reserved, err)
	}
}

// However many stages of a run end in a commit, the run is told of once.
func TestACommitTellsOfEachRunOnce(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	var told [][]notify.Key
	s.runner.Ended = func(_ context.Context, stages map[notify.Key][]uuid.UUID) {
		told = append(told, slices.Collect(maps.Keys(stages)))
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
	for range 2 { // the second time all of them are final
		if _, err := s.runner.flushFinishes(t.Context(), items); err != nil {
			t.Fatal(err)
		}
	}
	if len(told) != 1 || len(told[0]) != 2 || told[0][0].ID == told[0][1].ID || told[0][0].WorkspaceID != s.workspace {
		t.Errorf("told of %v", told)
	}
	var postings, live, reserved int
	err := s.pool.QueryRow(t.Context(), "SELECT (SELECT count(*) FROM credit_postings WHERE kind <> 'GRANT'), live, reserved FROM credit_accounts").Scan(&postings, &live, &reserved)
	if err != nil || postings != 1 || live != 0 || reserved != 0 {
		t.Errorf("%d postings, %d live, %d kept back, %v", postings, live, reserved, err)
	}
}
