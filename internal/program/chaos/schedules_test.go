package chaos

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/waittest"
)

// byClock is a workflow that a schedule starts. Its runs are charged.
const byClock = `{"name": "by a clock", "components": [
	{"id": "start", "module": "ON_SCHEDULE", "name": "start", "input": {}, "config": {"cron": "0 0 1 1 *"}},
	{"id": "work", "module": "RANDOM_UUID", "name": "work", "input": {}, "config": {}}],
	"sequenceEdges": [{"id": "1", "from": "start", "to": "work"}]}`

// EX-18: the process that triggers schedules is killed at one of three points: inside the
// transaction that advances the schedule, after its commit, and while the run executes. Each due
// time has one run, which is charged once.
func TestEX18SchedulesSurviveKilledProcesses(t *testing.T) {
	if waittest.LeftToSoak(t, "internal/workflow/schedule.TestEX18EachTimeHasOneRun") {
		return
	}
	t.Parallel()
	points := map[string]string{
		"P10": "inside the transaction that advances a schedule", "P1": "after its commit, before the run is started", "P8": "inside a fold of the run",
	}
	for point, what := range points {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, shared)
			s.start("serve")
			const many = 20
			s.makeSchedules(s.makeWorkflow(byClock), many)
			s.exec("CREATE TABLE due (schedule_id uuid, at timestamptz)")
			var slowest time.Duration
			times := size(1, 20)
			for i := range times {
				dies := s.start("work", fmt.Sprintf("WEFT_CRASH_AT=%s:%d", point, 1+i*7%many))
				s.exec(`WITH now_due AS (UPDATE schedules SET next_at = date_trunc('milliseconds', now() - random() * interval '1 minute') RETURNING id, next_at)
					INSERT INTO due SELECT id, next_at FROM now_due`)
				eventually(t, 30*time.Second, "the crash", func() (bool, string) { return dies.ended(), "the worker still runs" })
				stays := s.start("work")
				slowest = max(slowest, eventually(t, 60*time.Second, "a run for each time", func() (bool, string) {
					left := s.number(`SELECT (SELECT count(*) FROM schedules WHERE next_at <= now()) + (SELECT count(*) FROM workflow_runs WHERE finished_at IS NULL)`)
					return left == 0, fmt.Sprint(left, " are due or unfinished")
				}))
				s.checkSchedules((i + 1) * many)
				stays.kill()
			}
			s.start("work")
			s.finish(30 * time.Second)
			figures.note(t, "%d x %d schedules due, killed %s: all runs finished at most %.1f s after the next worker started", times, many, what, slowest.Seconds())
		})
	}
}

// makeSchedules creates schedules that are due in the distant future.
func (s *scene) makeSchedules(workflow uuid.UUID, many int) {
	s.t.Helper()
	body := fmt.Appendf(nil, `{"workflowId":%q,"cron":"0 0 1 1 *","overlap":"allow"}`, workflow)
	for range many {
		var made api.Schedule
		s.ask(http.MethodPost, "/v1/sdk/schedules", body, &made)
	}
}

func (s *scene) exec(query string) {
	s.t.Helper()
	if _, err := s.pool.Exec(s.t.Context(), query); err != nil {
		s.t.Fatal(err)
	}
}

// checkSchedules compares the runs of schedules with the times that were due.
func (s *scene) checkSchedules(want int) {
	s.t.Helper()
	for what, query := range map[string]string{
		"times that were due":        `SELECT count(*) FROM due`,
		"runs of schedules":          `SELECT count(*) FROM workflow_runs WHERE trigger = 'SCHEDULE' AND status = 'COMPLETED'`,
		"postings of runs":           `SELECT count(*) FROM credit_postings WHERE kind = 'RUN' AND usage = (SELECT max(usage) FROM credit_postings WHERE kind = 'RUN')`,
		"charged stages":             `SELECT count(*) FROM run_stages WHERE module = 'RANDOM_UUID' AND status = 'COMPLETED' AND usage > 0`,
		"times that have their run":  `SELECT count(DISTINCT (schedule_id, at)) FROM due JOIN workflow_runs ON trigger_id = schedule_id AND (input ->> 'scheduledAt')::timestamptz = at`,
		"runs of a time that is due": `SELECT count(*) FROM workflow_runs JOIN due ON trigger_id = schedule_id AND (input ->> 'scheduledAt')::timestamptz = at`,
	} {
		if got := s.number(query); got != want {
			s.t.Errorf("there are %d %s, want %d", got, what, want)
		}
	}
	// A job that River locked when its run finished goes to a worker once it is due.
	eventually(s.t, 45*time.Second, "the queue to remove the jobs of finished runs", func() (bool, string) {
		n := s.number("SELECT count(*) FROM river.river_job WHERE kind = 'workflow_run' AND state IN ('available', 'scheduled')")
		return n == 0, fmt.Sprintf("%d jobs are left", n)
	})
	if n := s.number("SELECT count(*) FROM schedules WHERE last_skip_reason IS NOT NULL OR last_run_id IS NULL OR next_at IS NULL"); n != 0 {
		s.t.Errorf("%d schedules skipped a time", n)
	}
}
