package execution

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/account/workspace"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/local/pgtest"
	"github.com/weft-automation/weft/internal/platform/groupcommit"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// stage is a runner with its own database and a workspace. It runs no executions.
type stage struct {
	runner    *Runner
	deps      Deps
	pool      *pgxpool.Pool
	workspace uuid.UUID
}

func newStage(t *testing.T) *stage {
	t.Helper()
	pool, err := postgres.Open(context.Background(), pgtest.DSN(t), "test", postgres.Owner, 4)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	log := slog.New(slog.DiscardHandler)
	jobs, err := river.NewClient(riverpgxv5.New(pool), &river.Config{Schema: postgres.RiverSchema, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{pool: pool}
	s.deps = Deps{DB: pool, Jobs: jobs, Hub: notify.NewHub()}
	s.runner = s.process(t)
	s.workspace = s.other(t)
	return s
}

// process returns the Runner of another process.
func (s *stage) process(t *testing.T) *Runner {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	r := NewRunner(s.deps, NewIdentity("", 10, log), 10, log)
	t.Cleanup(r.Close)
	return r
}

// other creates a second workspace.
func (s *stage) other(t *testing.T) uuid.UUID {
	t.Helper()
	id, err := workspace.Create(t.Context(), s.pool, workspace.CreateParams{Name: uuid.NewString(), Plan: plan.Enterprise, Paid: credit.Credits(1_000_000)})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func (s *stage) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := s.pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

// insert inserts a live execution. columns and values are added to the INSERT statement.
func (s *stage) insert(t *testing.T, columns, values string) notify.Key {
	t.Helper()
	id, err := uuid.NewV7()
	if err != nil {
		t.Fatal(err)
	}
	s.exec(t, `INSERT INTO component_executions (workspace_id, id, module, call, attempts, created_at, updated_at, `+columns+`)
		VALUES ($1, $2, 'M', 'call', 1, now(), now() - interval '1 minute', `+values+`)`, s.workspace, id)
	return notify.Key{WorkspaceID: s.workspace, ID: id}
}

func TestAWriteThatWasNotCommittedRaisesNoDoubt(t *testing.T) {
	t.Parallel()
	full := groupcommit.New(groupcommit.Options[int]{}, func(error) bool { return false }, func(_ context.Context, items []int) ([]int, error) { return items, nil })
	full.Close()
	_, closed := full.Do(t.Context(), 1)
	for name, tc := range map[string]struct {
		ran  int32
		err  error
		want bool
	}{
		"all went well":               {0, nil, false},
		"the queue of writes is full": {0, fmt.Errorf("accept: %w", groupcommit.ErrFull), false},
		"the queue of writes is shut": {0, closed, false},
		"the key is another's":        {0, fault.New(fault.IdempotencyInFlight, "wait"), false},
		"the answer is lost":          {0, context.DeadlineExceeded, true},
		"a result is lost":            {1, groupcommit.ErrClosed, true},
	} {
		h, id := newInflight(), uuid.New()
		h.add(id)
		h.remove(id, tc.ran, tc.err)
		if h.doubtful() != tc.want {
			t.Errorf("%s: doubt is %v", name, h.doubtful())
		}
	}
}

func TestALostResultBelongsToOneEpochUntilACheckAfterTheDoubt(t *testing.T) {
	t.Parallel()
	h, id := newInflight(), uuid.New()
	h.add(id)
	h.remove(id, 3, errors.New("lost"))
	// The job is fetched again but does not start the execution.
	h.add(id)
	h.remove(id, 0, nil)
	if inFlight, ran := h.state(id, 3); inFlight || !ran {
		t.Errorf("in flight %v, ran %v", inFlight, ran)
	}
	// If the response to a later start was lost, that epoch never ran.
	if _, ran := h.state(id, 4); ran {
		t.Error("the epoch after ran")
	}
	h.checked(time.Now())
	if _, ran := h.state(id, 3); !ran || !h.doubtful() {
		t.Error("a check within the doubt cleared it")
	}
	h.checked(time.Now().Add(2 * doubtLasts))
	if _, ran := h.state(id, 3); ran || h.doubtful() {
		t.Error("a check after the doubt did not clear it")
	}
}

// An execution may have been started again, under the same worker and job, after it was listed.
func TestAnExecutionThatStartedAgainIsNotRequeued(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	key := s.insert(t, "status, attempt, epoch, worker_id, job_id", "'EXECUTING', 1, 2, 7, 4711")
	rows, err := db.New().ExecutionListOfWorkers(t.Context(), s.pool, db.ExecutionListOfWorkersParams{Workers: []int32{7}, MaxRows: 10})
	if err != nil || len(rows) != 1 {
		t.Fatalf("%d executions are listed, %v", len(rows), err)
	}
	s.exec(t, "UPDATE component_executions SET epoch = 3")
	if err := s.runner.reclaim(t.Context(), rows[0]); err != nil {
		t.Fatal(err)
	}
	var epoch int
	var worker *int
	var jobs int
	err = s.pool.QueryRow(t.Context(), "SELECT epoch, worker_id, (SELECT count(*) FROM river.river_job) FROM component_executions WHERE id = $1", key.ID).Scan(&epoch, &worker, &jobs)
	if err != nil || epoch != 3 || worker == nil || jobs != 0 {
		t.Errorf("it is in epoch %d of worker %v, %d jobs were inserted, %v", epoch, worker, jobs, err)
	}
}

func TestOfTwoJobsInOneBatchOnlyTheBoundOneStarts(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	key := s.insert(t, "status, job_id", "'CREATED', 2")
	answers, err := s.runner.flushStarts(t.Context(), []attemptStart{{key, 1, 7}, {key, 2, 7}, {key, 2, 7}})
	if err != nil || answers[0] != nil || answers[1] == nil || answers[2] != nil {
		t.Errorf("answered %v, %v", answers, err)
	}
}

func TestAReleaseReturnsCallsOfLocalExecutionsOnly(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for range 3 {
		s.insert(t, "status, job_id, parked", "'CREATED', 1, true")
	}
	s.exec(t, "UPDATE credit_accounts SET live = 3, parked = 3")
	rows, err := db.New().ExecutionRelease(t.Context(), s.pool, db.ExecutionReleaseParams{WorkspaceIds: []uuid.UUID{s.workspace}, Here: []int32{1}, WorkerID: 7, SafetyNet: safetyNet})
	if err != nil || len(rows) != 3 {
		t.Fatalf("%d are released, %v", len(rows), err)
	}
	here := 0
	for _, row := range rows {
		if row.Here {
			here++
		}
		if (len(row.Call) > 0) != row.Here {
			t.Errorf("starts here: %v, with a call of %d bytes", row.Here, len(row.Call))
		}
	}
	if left := s.count(t, "SELECT count(*) FROM credit_accounts WHERE parked = 0"); here != 1 || left != 1 {
		t.Errorf("%d start here, want 1; accounts without parked executions: %d", here, left)
	}
}

// An execution in flight that makes no progress is reported even if the queue is empty, because
// all other executions may be parked until it finishes.
func TestAWorkerWithStalledExecutionsIsNotFit(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.runner.identity.current.Store(1)
	id := uuid.New()
	s.runner.inflight.add(id)
	for _, step := range []struct {
		runs   bool
		since  time.Duration
		stalls bool
	}{{false, 0, false}, {false, 2 * stalledAfter, true}, {true, 2 * stalledAfter, false}} {
		s.runner.inflight.flights[id] = flight{refs: 1, running: step.runs, since: time.Now().Add(-step.since)}
		if err := s.runner.CheckProgress(t.Context()); (err != nil) != step.stalls {
			t.Errorf("in flight for %v, running %v: %v", step.since, step.runs, err)
		}
	}
	s.runner.lastProgress.Store(time.Now().UnixNano())
	s.runner.inflight.setRunning(id, false)
	if err := s.runner.CheckProgress(t.Context()); err != nil {
		t.Errorf("right after it finished: %v", err)
	}
}
