package schedule_test

import (
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/platform/idempotency"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/workflow"
	"github.com/weft-automation/weft/internal/workflow/schedule"
)

const ofSchedule = "SELECT count(*) FROM workflow_runs WHERE trigger = 'SCHEDULE' AND trigger_id = $1"

// A time has one run, regardless of how many processes try to start it.
func TestEX18EachTimeHasOneRun(t *testing.T) {
	t.Parallel()
	b := newBench(t, 0)
	nodes := []*node{b.start(t), b.start(t)}
	key := nodes[0].schedule(t, nodes[0].save(t, waits, edge), schedule.Draft{Overlap: "allow"})
	for round := range int64(5) {
		b.due(t, key, time.Second)
		var all sync.WaitGroup
		for i := range 12 {
			all.Go(func() {
				if err := nodes[i%2].Advance(b.ctx, key); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if runs := b.number(t, ofSchedule, key.ID); runs != round+1 {
			t.Fatalf("%d runs after %d times", runs, round+1)
		}
	}
	shown := nodes[1].show(t, key)
	if shown.LastRunID == nil || shown.LastAt == nil || shown.NextAt == nil || !shown.NextAt.Std().After(time.Now()) || shown.LastSkipReason != nil {
		t.Errorf("%+v", shown)
	}
	if got := b.number(t, "SELECT count(*) FROM workflow_runs WHERE id = $1 AND (input->>'scheduledAt')::timestamptz = date_trunc('milliseconds', $2::timestamptz)", shown.LastRunID, shown.LastAt.Std()); got != 1 {
		t.Errorf("the last run has another time: %+v", shown)
	}
	if jobs := b.number(t, "SELECT count(*) FROM river.river_job WHERE kind = 'workflow_run'"); jobs != 5 {
		t.Errorf("%d jobs", jobs)
	}
}

// The run and the next time are committed together, so the schedule is unchanged if the process
// crashes before the commit.
func TestTimeStaysDueIfItsRunIsNotCommitted(t *testing.T) {
	t.Parallel()
	b := newBench(t, 0)
	n := b.start(t)
	key := n.schedule(t, n.save(t, waits, edge), schedule.Draft{})
	for _, table := range []string{"workflow_runs", "schedules"} {
		b.due(t, key, time.Second)
		b.exec(t, `CREATE OR REPLACE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'broken'; END $$`)
		b.exec(t, "CREATE TRIGGER broken BEFORE INSERT OR UPDATE ON "+table+" FOR EACH ROW EXECUTE FUNCTION broken()")
		if err := n.Advance(b.ctx, key); err == nil {
			t.Error("it went well")
		}
		if runs := b.number(t, ofSchedule, key.ID); runs != 0 || n.show(t, key).NextAt.Std().After(time.Now()) {
			t.Errorf("%s: %d runs, %+v", table, runs, n.show(t, key))
		}
		b.exec(t, "DROP TRIGGER broken ON "+table)
	}
	if err := n.Advance(b.ctx, key); err != nil || b.number(t, ofSchedule, key.ID) != 1 {
		t.Errorf("afterwards: %v", err)
	}
}

// The engine's sweep enqueues schedules that are due, and schedules whose waiting runs can start.
func TestSweepAdvancesSchedules(t *testing.T) {
	t.Parallel()
	b := newBench(t, 0)
	n := b.start(t)
	workflowID := n.save(t, waits, edge)
	key := n.schedule(t, workflowID, schedule.Draft{Overlap: "queue"})
	later, paused := n.schedule(t, workflowID, schedule.Draft{}), n.schedule(t, workflowID, schedule.Draft{Status: "PAUSED"})
	begun := map[uuid.UUID]bool{}
	for i := range 3 {
		b.due(t, key, time.Duration(i+1)*time.Second)
		n.until(t, "taken", func() bool { return n.show(t, key).NextAt.Std().After(time.Now()) })
	}
	first := n.show(t, key)
	if first.LastRunID == nil || len(first.Waiting) != 2 || b.number(t, ofSchedule, key.ID) != 1 {
		t.Fatalf("%+v", first)
	}
	for left := 2; left >= 0; left-- {
		last := *n.show(t, key).LastRunID
		begun[last] = true
		if b.number(t, "SELECT count(*) FROM workflow_runs WHERE trigger_id = $1 AND finished_at IS NULL", key.ID) != 1 {
			t.Fatal("two runs are unfinished")
		}
		n.until(t, "waiting for the signal", func() bool {
			return b.number(t, "SELECT count(*) FROM run_stages WHERE run_id = $1 AND signal = 'go'", last) == 1
		})
		if _, err := n.runs.Signal(n.ctx, notify.Key{WorkspaceID: n.workspace, ID: last}, anyone{}, "go", []byte(`{}`)); err != nil {
			t.Fatal(err)
		}
		if left > 0 {
			n.until(t, "the next", func() bool { shown := n.show(t, key); return len(shown.Waiting) == left-1 && *shown.LastRunID != last })
		}
	}
	if len(begun) != 3 {
		t.Errorf("%d runs", len(begun))
	}
	for _, other := range []notify.Key{later, paused} {
		if b.number(t, ofSchedule, other.ID) != 0 {
			t.Errorf("%s was not due", other.ID)
		}
	}
}

// Many schedules are due on the hour. Failing schedules do not delay other schedules, regardless
// of their number.
func TestFailingSchedulesDelayNoOther(t *testing.T) {
	t.Parallel()
	b := newBench(t, 0)
	n := b.start(t)
	workflowID := n.save(t, waits, edge)
	due, waiting := n.schedule(t, workflowID, schedule.Draft{}), n.schedule(t, workflowID, schedule.Draft{Overlap: "queue"})
	hour := time.Now().Truncate(time.Hour)
	b.exec(t, `INSERT INTO schedules (workspace_id, id, workflow_id, name, cron, time_zone, overlap, status, next_at, waiting)
		SELECT $1, ('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, $2, '', 'broken', 'UTC', 'queue', 'ACTIVE', $3, ARRAY[now()]
		FROM generate_series(1, 500) AS n`, b.workspace, workflowID, hour)
	b.exec(t, "UPDATE schedules SET next_at = $2 WHERE id = $1", due.ID, hour)
	b.exec(t, "UPDATE schedules SET waiting = ARRAY[now()] WHERE id = $1", waiting.ID)
	n.until(t, "the due schedule advances", func() bool { return n.show(t, due).NextAt.Std().After(time.Now()) })
	n.until(t, "begun the one that waits", func() bool { return b.number(t, ofSchedule, waiting.ID) == 1 })
}

// said counts the lines of a log.
type said struct {
	mu    sync.Mutex
	lines []string
}

func (s *said) Write(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, string(line))
	return len(line), nil
}

func (s *said) of(key notify.Key) (times int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, line := range s.lines {
		if strings.Contains(line, key.ID.String()) {
			times++
		}
	}
	return times
}

// A failing schedule is logged and retried, but not every second. During a quarantine nothing is
// logged, because the quarantine is reported elsewhere.
func TestFailingScheduleIsRetriedAfterADelay(t *testing.T) {
	t.Parallel()
	b := newBench(t, credit.Credits(10))
	log := &said{}
	b.log = slog.New(slog.NewTextHandler(log, nil))
	n := b.start(t)
	began, free := time.Now(), n.save(t, waits, edge)
	broken, good := n.schedule(t, free, schedule.Draft{}), n.schedule(t, free, schedule.Draft{Overlap: "allow"})
	stopped := n.schedule(t, n.save(t, `[{"id":"a","module":"PRICED"}]`, "[]"), schedule.Draft{})
	b.exec(t, "UPDATE schedules SET cron = 'broken' WHERE id = $1", broken.ID)
	b.exec(t, "UPDATE credit_accounts SET stopped = true")
	b.due(t, broken, time.Second)
	b.due(t, stopped, time.Second)
	for round := range int64(5) {
		b.due(t, good, time.Second)
		n.until(t, "followed the other", func() bool { return b.number(t, ofSchedule, good.ID) == round+1 })
	}
	n.until(t, "said what is wrong", func() bool { return log.of(broken) > 0 })
	if times := log.of(broken); times > 1+int(time.Since(began)/(5*time.Second)) {
		t.Errorf("it was tried %d times in %v", times, time.Since(began))
	}
	if shown := n.show(t, stopped); log.of(stopped) > 0 || shown.NextAt.Std().After(time.Now()) || shown.LastRunID != nil || shown.LastSkipReason != nil {
		t.Errorf("it was logged %d times: %+v", log.of(stopped), shown)
	}
}

// If the run for a time cannot start, the reason is recorded and the schedule advances.
func TestSkippedTimeHasAReason(t *testing.T) {
	t.Parallel()
	b := newBench(t, 0)
	n := b.start(t)
	free, costly := n.save(t, waits, edge), n.save(t, `[{"id":"a","module":"PRICED"}]`, "[]")
	replace := func(components, edges, status string) {
		_, err := n.workflows.Replace(n.ctx, workflow.ReplaceParams{WorkspaceID: n.workspace, WorkflowID: free, Draft: workflow.Draft{
			Name: "test", Status: api.WorkflowStatus(status), Components: []byte(components), SequenceEdges: []byte(edges),
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	key := n.schedule(t, free, schedule.Draft{})
	passed := func(key notify.Key, want string) {
		t.Helper()
		b.due(t, key, time.Second)
		due := n.show(t, key).NextAt
		if err := n.Advance(b.ctx, key); err != nil {
			t.Fatal(err)
		}
		shown := n.show(t, key)
		if shown.LastSkipReason == nil || *shown.LastSkipReason != want || *shown.LastSkippedAt != *due || shown.LastRunID != nil || !shown.NextAt.Std().After(time.Now()) {
			t.Errorf("%s: %+v", want, shown)
		}
	}
	passed(n.schedule(t, costly, schedule.Draft{}), "insufficient_credits")
	if _, err := billing.Suspend(b.ctx, b.pool, b.workspace, "test"); err != nil {
		t.Fatal(err)
	}
	passed(key, "workspace_suspended")
	if _, err := billing.EndSuspension(b.ctx, b.pool, b.workspace); err != nil {
		t.Fatal(err)
	}
	replace(waits, edge, "PAUSED")
	passed(key, "workflow_paused")
	replace(strings.Replace(waits, `"ON_SCHEDULE","config":{"cron":"* * * * *"}`, `"ON_API_CALLED"`, 1), edge, "ACTIVE")
	passed(key, "no_trigger")
	if _, err := n.workflows.Archive(n.ctx, n.workspace, free, nil); err != nil {
		t.Fatal(err)
	}
	passed(key, "workflow_archived")
	if runs := b.number(t, "SELECT count(*) FROM workflow_runs"); runs != 0 {
		t.Errorf("%d runs", runs)
	}
}

// The schedules of a workflow and of a workspace are limited, even if many are created
// concurrently.
func TestSchedulesAreLimited(t *testing.T) {
	t.Parallel()
	b := newBench(t, 0)
	n := b.start(t)
	workflowID := n.save(t, waits, edge)
	b.exec(t, `INSERT INTO schedules (workspace_id, id, workflow_id, name, cron, time_zone, overlap, status)
		SELECT $1, gen_random_uuid(), $2, '', '@daily', 'UTC', 'skip', 'PAUSED' FROM generate_series(1, 47)`, b.workspace, workflowID)
	errs := make(chan error)
	for range 8 {
		go func() {
			_, _, err := n.Create(n.ctx, schedule.CreateParams{WorkspaceID: n.workspace, WorkflowID: workflowID, Draft: schedule.Draft{Cron: "@daily"}})
			errs <- err
		}()
	}
	made := 0
	for range 8 {
		if err := <-errs; err == nil {
			made++
		} else if fault.CodeOf(err) != fault.Conflict {
			t.Error(err)
		}
	}
	if made != 3 {
		t.Errorf("%d were created, although only 3 were left", made)
	}
	other := n.save(t, waits, edge)
	create := func() error {
		_, _, err := n.Create(n.ctx, schedule.CreateParams{WorkspaceID: n.workspace, WorkflowID: other, Draft: schedule.Draft{Cron: "@daily"}})
		return err
	}
	b.exec(t, `INSERT INTO schedules (workspace_id, id, workflow_id, name, cron, time_zone, overlap, status)
		SELECT $1, gen_random_uuid(), $2, '', '@daily', 'UTC', 'skip', 'PAUSED' FROM generate_series(1, 449)`, b.workspace, workflowID)
	if err := create(); err != nil {
		t.Errorf("the five hundredth: %v", err)
	}
	if err := create(); fault.CodeOf(err) != fault.Conflict {
		t.Errorf("one more: %v", err)
	}
}

// If a schedule is replaced while it is due, no run starts for its old times. If the times stay
// the same, no time is lost.
func TestReplacementLosesNoTime(t *testing.T) {
	t.Parallel()
	b := newBench(t, 0)
	n := b.start(t)
	key := n.schedule(t, n.save(t, waits, edge), schedule.Draft{Overlap: "queue"})
	b.due(t, key, time.Second)
	due := n.show(t, key).NextAt
	if same, err := n.Replace(n.ctx, key, schedule.Draft{Cron: "0 0 1 1 *", Overlap: "queue", Name: "named"}); err != nil || *same.NextAt != *due {
		t.Errorf("%+v, %v", same, err)
	}
	if other, err := n.Replace(n.ctx, key, schedule.Draft{Cron: "0 0 2 1 *"}); err != nil || !other.NextAt.Std().After(time.Now()) {
		t.Errorf("%+v, %v", other, err)
	}
	if err := n.Advance(b.ctx, key); err != nil || b.number(t, ofSchedule, key.ID) != 0 {
		t.Errorf("it was no longer due: %v", err)
	}
	b.exec(t, "UPDATE schedules SET overlap = 'queue', waiting = ARRAY[now()] WHERE id = $1", key.ID)
	if stopped, err := n.Replace(n.ctx, key, schedule.Draft{Cron: "0 0 2 1 *", Overlap: "queue", Status: "PAUSED"}); err != nil || stopped.NextAt != nil || len(stopped.Waiting) > 0 {
		t.Errorf("%+v, %v", stopped, err)
	}
	var told string
	err := b.pool.QueryRow(t.Context(), "SELECT string_agg(action, ' ' ORDER BY id) FROM audit_events WHERE subject_id = $1", key.ID.String()).Scan(&told)
	if err != nil || told != "schedule.created schedule.updated schedule.updated schedule.updated" {
		t.Errorf("the audit log has %q, %v", told, err)
	}
}

// A deleted schedule starts nothing. If its creation is repeated, the response does not contain
// the deleted schedule.
func TestDeletedScheduleStartsNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, 0)
	n := b.start(t)
	p := schedule.CreateParams{
		WorkspaceID: n.workspace, WorkflowID: n.save(t, waits, edge), Draft: schedule.Draft{Cron: "@daily"},
		Idempotency: &idempotency.Key{WorkspaceID: n.workspace, Operation: "createSchedule", Path: "/", Key: "once"},
	}
	made, _, err := n.Create(n.ctx, p)
	if err != nil {
		t.Fatal(err)
	}
	key := notify.Key{WorkspaceID: n.workspace, ID: made.ID}
	if again, replayed, err := n.Create(n.ctx, p); err != nil || !replayed || again.ID != made.ID {
		t.Errorf("%+v, %v, %v", again, replayed, err)
	}
	b.due(t, key, time.Second)
	if _, err := n.Delete(n.ctx, key); err != nil {
		t.Fatal(err)
	}
	if err := n.Advance(b.ctx, key); err != nil || b.number(t, ofSchedule, key.ID) != 0 {
		t.Errorf("it was started: %v", err)
	}
	if _, _, err := n.Create(n.ctx, p); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("repeated: %v", err)
	}
}

// The clocks in Berlin skip 02:30 in spring and repeat it in autumn.
func TestScheduleShowsClockChanges(t *testing.T) {
	t.Parallel()
	b := newBench(t, 0)
	n := b.start(t)
	workflowID := n.save(t, waits, edge)
	key := n.schedule(t, workflowID, schedule.Draft{Cron: "30 2 * * *", TimeZone: "Europe/Berlin"})
	if made := n.show(t, key); made.LastClockChange != nil {
		t.Errorf("a new schedule: %+v", made.LastClockChange)
	}
	b.exec(t, "UPDATE schedules SET updated_at = now() - interval '1 year' WHERE id = $1", key.ID)
	shown := n.show(t, key)
	last, next := shown.LastClockChange, shown.NextClockChange
	if last == nil || next == nil {
		t.Fatalf("%+v", shown)
	}
	if now := time.Now(); !last.At.Std().Before(now) || !next.At.Std().After(now) || next.At.Std().Sub(last.At.Std()) > 240*24*time.Hour {
		t.Errorf("last %s, next %s", last.At.Std(), next.At.Std())
	}
	if last.Kind == next.Kind {
		t.Errorf("both are %s", last.Kind)
	}
	for _, change := range []*api.ScheduleClockChange{last, next} {
		at := change.At.Std().UTC()
		want := api.ScheduleClockChange{At: change.At, Kind: "skipped", LocalTime: at.Format("2006-01-02") + "T02:30", Count: 1}
		if at.Month() == time.October {
			want.Kind = "repeated"
		}
		if *change != want || at.Weekday() != time.Sunday || at.Hour() != 1 {
			t.Errorf("%+v, want %+v", *change, want)
		}
	}
	if other := n.show(t, n.schedule(t, workflowID, schedule.Draft{Cron: "30 4 * * *", TimeZone: "Europe/Berlin"})); other.NextClockChange != nil {
		t.Errorf("a schedule without clock changes: %+v", other.NextClockChange)
	}
	paused, err := n.Replace(n.ctx, key, schedule.Draft{Cron: "30 2 * * *", TimeZone: "Europe/Berlin", Status: "PAUSED"})
	if err != nil || paused.LastClockChange != nil || paused.NextClockChange != nil {
		t.Errorf("paused: %+v, %v", paused, err)
	}
}
