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
	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/account/workspace"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/local/pgtest"
	"github.com/weft-automation/weft/internal/platform/groupcommit"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// stage is a runner on a database of its own, with a workspace; nothing runs.
type stage struct {
	runner    *Runner
	deps      Deps
	pool      *pgxpool.Pool
	workspace uuid.UUID
}

func newStage(t *testing.T) *stage {
	t.Helper()
	pool, err := postgres.Open(context.Background(), pgtest.DSN(t), "test", postgres.Owner, 10)
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
	s.deps = Deps{DB: pool, Jobs: jobs, Hub: notify.NewHub(), Ledger: billing.Books{}}
	s.runner = s.process(t)
	s.workspace = s.other(t)
	return s
}

// process makes the executing half of one more process.
func (s *stage) process(t *testing.T) *Runner {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	r := NewRunner(s.deps, NewIdentity("", 10, log), 10, log)
	t.Cleanup(r.Close)
	return r
}

// other makes another workspace.
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

// insert makes a live execution; with gives further columns and their values.
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

func TestWhatCannotHaveBeenWrittenRaisesNoDoubt(t *testing.T) {
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
		h, id := newHand(), uuid.New()
		h.take(id)
		h.put(id, tc.ran, tc.err)
		if h.doubtful() != tc.want {
			t.Errorf("%s: doubt is %v", name, h.doubtful())
		}
	}
}

func TestALostResultIsOfOneEpochAndStaysUntilALookAfterTheDoubt(t *testing.T) {
	t.Parallel()
	h, id := newHand(), uuid.New()
	h.take(id)
	h.put(id, 3, errors.New("lost"))
	// The queue's job comes again and does not start it.
	h.take(id)
	h.put(id, 0, nil)
	if inHand, ran := h.of(id, 3); inHand || !ran {
		t.Errorf("in hand %v, ran %v", inHand, ran)
	}
	// A later start whose answer was lost never ran.
	if _, ran := h.of(id, 4); ran {
		t.Error("the epoch after ran")
	}
	h.looked(time.Now())
	if _, ran := h.of(id, 3); !ran || !h.doubtful() {
		t.Error("a look within the doubt ended it")
	}
	h.looked(time.Now().Add(2 * doubtLasts))
	if _, ran := h.of(id, 3); ran || h.doubtful() {
		t.Error("a look after the doubt did not end it")
	}
}

// What is listed may have begun anew, under the same worker and job, before it is
// decided on.
func TestAnExecutionThatBeganAnewIsNotRequeued(t *testing.T) {
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
		t.Errorf("it is in epoch %d of worker %v, %d jobs were made, %v", epoch, worker, jobs, err)
	}
}

func TestOfTwoJobsInOneBatchOnlyTheOneOfTheRowStarts(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	key := s.insert(t, "status, job_id", "'CREATED', 2")
	answers, err := s.runner.flushStarts(t.Context(), []begin{{key, 1, 7}, {key, 2, 7}, {key, 2, 7}})
	if err != nil || answers[0] != nil || answers[1] == nil || answers[2] != nil {
		t.Errorf("answered %v, %v", answers, err)
	}
}

func TestAReleaseBringsTheCallsOfThoseThatBeginHereOnly(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for range 3 {
		s.insert(t, "status, job_id, parked", "'CREATED', 1, true")
	}
	rows, err := db.New().ExecutionRelease(t.Context(), s.pool, db.ExecutionReleaseParams{WorkspaceID: s.workspace, Here: 1, MaxRows: 3, WorkerID: 7, SafetyNet: safetyNet})
	if err != nil || len(rows) != 3 {
		t.Fatalf("%d are released, %v", len(rows), err)
	}
	for _, row := range rows {
		if (len(row.Call) > 0) != row.Here {
			t.Errorf("one that begins here (%v) comes with %d bytes", row.Here, len(row.Call))
		}
	}
}

// What stands still in this process's own hand is told, although nothing waits in
// the queue: all else may be parked behind it.
func TestAWorkerThatStandsStillWithWhatItHasInHandSaysSo(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.runner.identity.current.Store(1)
	id := uuid.New()
	s.runner.hand.take(id)
	for _, step := range []struct {
		runs  bool
		since time.Duration
		told  bool
	}{{false, 0, false}, {false, 2 * stalledAfter, true}, {true, 2 * stalledAfter, false}} {
		s.runner.hand.taken[id] = taken{takes: 1, runs: step.runs, since: time.Now().Add(-step.since)}
		if err := s.runner.Moving(t.Context()); (err != nil) != step.told {
			t.Errorf("in hand for %v, running %v: %v", step.since, step.runs, err)
		}
	}
	s.runner.moved.Store(time.Now().UnixNano())
	s.runner.hand.runs(id, false)
	if err := s.runner.Moving(t.Context()); err != nil {
		t.Errorf("just ended: %v", err)
	}
}

func TestASlotThatIsBecomingFreeCanBeTaken(t *testing.T) {
	t.Parallel()
	s := slots{size: 2}
	for i, c := range []struct {
		ending int
		taken  bool
	}{{0, true}, {0, true}, {0, false}, {1, true}, {1, false}, {2, true}} {
		if taken := s.take(c.ending); taken != c.taken {
			t.Errorf("take %d with %d ending: %v", i, c.ending, taken)
		}
	}
	s.free()
	s.free() // the two that were ending
	if s.take(0) {
		t.Error("there are more slots than there were")
	}
	s.free()
	if !s.take(0) {
		t.Error("a free slot cannot be taken")
	}
}
