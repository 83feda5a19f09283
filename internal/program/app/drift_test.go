package app

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/local/client"
	"github.com/weft-automation/weft/internal/platform/telemetry"
)

// A worker's clock may be wrong within the tolerance: all due times follow PostgreSQL's clock.
func TestDueTimesFollowPostgreSQLsClock(t *testing.T) {
	t.Parallel()
	for name, off := range waittest.Chosen(map[string]time.Duration{"ten minutes fast": 10 * time.Minute, "ten minutes slow": -10 * time.Minute}, "ten minutes slow") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := startWhole(t, func(cfg *Config) {
				cfg.now = func() time.Time { return time.Now().Add(off) }
				cfg.ClockTolerance = time.Hour
				cfg.CallbackSchedule = []time.Duration{0, 100 * time.Millisecond, 100 * time.Millisecond}
			})
			var calls, deliveries atomic.Int64
			upstream := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
				if calls.Add(1) < 3 { // the accepting process attempts it once, the queue twice
					rw.WriteHeader(http.StatusServiceUnavailable)
				}
			}))
			defer upstream.Close()
			delivered := make(chan struct{})
			receiver := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
				if deliveries.Add(1) < 3 {
					rw.WriteHeader(http.StatusServiceUnavailable)
					return
				}
				close(delivered)
			}))
			defer receiver.Close()
			config := fmt.Appendf(nil, `{"apiUrl":%q,"method":"GET"}`, upstream.URL)
			record, _, err := w.client.Execute(t.Context(), api.ExecuteComponentRequest{
				Module: "API_CALL", Input: json.RawMessage(`{"headers":{}}`), Config: config, Attempts: new(int32(3)), CallbackURL: &receiver.URL,
			}, nil)
			if err != nil {
				t.Fatal(err)
			}
			var early, late time.Duration // over all jobs
			completed := func() bool {
				var least, most time.Duration
				if err := w.app.pools.system.QueryRow(t.Context(), `SELECT COALESCE(min(scheduled_at - now()), '0')::interval, COALESCE(max(scheduled_at - now()), '0')::interval
					FROM river.river_job`).Scan(&least, &most); err != nil {
					t.Fatal(err)
				}
				early, late = min(early, least), max(late, most)
				var done bool
				if err := w.app.pools.system.QueryRow(t.Context(), "SELECT finished_at IS NOT NULL FROM component_executions WHERE id = $1", record.ID).Scan(&done); err != nil {
					t.Fatal(err)
				}
				return done || late > 5*time.Minute
			}
			waittest.Until(t, "the execution to complete", completed)
			if late > 5*time.Minute || early < -5*time.Minute {
				t.Fatalf("jobs are due %v to %v from now", early, late)
			}
			<-delivered
			var started time.Duration
			if err := w.app.pools.system.QueryRow(t.Context(), "SELECT max(clock_timestamp() - started_at) FROM callback_attempts").Scan(&started); err != nil || started.Abs() > 5*time.Minute {
				t.Errorf("the last callback attempt started %v ago (%v)", started, err)
			}
		})
	}
}

func TestAProcessWithAWrongClockStartsNoWork(t *testing.T) {
	t.Parallel()
	var off atomic.Int64
	w := startWhole(t, func(cfg *Config) { cfg.now = func() time.Time { return time.Now().Add(time.Duration(off.Load())) } })
	executeOnce(t, w)
	off.Store(int64(10 * time.Minute))
	waittest.Until(t, "the process to report not ready", func() bool {
		code, body := readiness(t, w)
		return code == http.StatusServiceUnavailable && strings.Contains(body, "/checks/clock")
	})
	_, _, err := w.client.Execute(t.Context(), api.ExecuteComponentRequest{Module: "RANDOM_UUID", Input: []byte(`{}`), Config: []byte(`{}`)}, nil)
	if problem, ok := err.(*client.Problem); !ok || problem.Status != http.StatusServiceUnavailable || problem.Reason == nil || *problem.Reason != "clock_differs" {
		t.Errorf("a submission returned %v", err)
	}
	// The difference includes the round trip, which can take seconds here.
	if metrics := w.get(t, w.app.OpsURL()+"/metrics"); !regexp.MustCompile(`weft_clock_offset_seconds -(5[5-9]\d|600)`).MatchString(metrics) {
		t.Error("the metric does not show the difference")
	}
	if !strings.Contains(w.log.String(), "CLOCK OF THIS PROCESS DIFFERS") {
		t.Error("the log does not report the difference")
	}
	// Nothing is fetched, and another process may become leader.
	waittest.Until(t, "the process to release the queue and the leadership", func() bool {
		var left int
		err := w.app.pools.system.QueryRow(t.Context(), `SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
			WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND d.datname = current_database()`).Scan(&left)
		var leader bool
		if err == nil {
			err = w.app.pools.system.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM river.river_leader)").Scan(&leader)
		}
		if err != nil {
			t.Fatal(err)
		}
		return left == 0 && !leader
	})
	off.Store(0)
	waittest.Until(t, "the process to be ready again", func() bool {
		code, _ := readiness(t, w)
		return code == http.StatusOK
	})
	executeOnce(t, w)
	waittest.Until(t, "the process to fetch again", func() bool {
		var leader bool
		if err := w.app.pools.system.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM river.river_leader)").Scan(&leader); err != nil {
			t.Fatal(err)
		}
		return leader
	})
}

// The clock of one of two workers is ten minutes fast. The tolerance is first less than that, then
// more. Each execution is attempted three times.
func TestASoakWithAFastWorker(t *testing.T) {
	if waittest.LeftToSoak(t, "internal/program/app.TestDueTimesFollowPostgreSQLsClock") {
		return
	}
	for name, tolerance := range map[string]time.Duration{"held": 5 * time.Second, "tolerated": time.Hour} {
		w := startWhole(t, func(cfg *Config) { cfg.Workers = 100 })
		cfg := w.app.cfg
		cfg.ClockTolerance, cfg.now = tolerance, func() time.Time { return time.Now().Add(10 * time.Minute) }
		fast, err := Start(t.Context(), cfg, telemetry.NewLogger(&logBook{}, slog.LevelInfo))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { fast.Stop(context.Background()) })
		var calls sync.Map
		upstream := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			n, _ := calls.LoadOrStore(r.URL.Path, new(atomic.Int64))
			if n.(*atomic.Int64).Add(1) < 3 {
				rw.WriteHeader(http.StatusServiceUnavailable)
			}
		}))
		defer upstream.Close()
		const executions = 1000
		for i := range executions {
			config := fmt.Appendf(nil, `{"apiUrl":"%s/%d","method":"GET"}`, upstream.URL, i)
			if _, _, err := w.client.Execute(t.Context(), api.ExecuteComponentRequest{
				Module: "API_CALL", Input: json.RawMessage(`{"headers":{}}`), Config: config, Attempts: new(int32(3)),
			}, nil); err != nil {
				t.Fatal(err)
			}
		}
		count := func(condition string) (n int) {
			t.Helper()
			if err := w.app.pools.system.QueryRow(t.Context(), "SELECT count(*) FROM component_executions WHERE "+condition).Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		waittest.Until(t, "all executions to finish", func() bool { return count("finished_at IS NULL") == 0 })
		if n := count("status = 'COMPLETED' AND finished_at - created_at < interval '2 minutes'"); n != executions {
			t.Errorf("%s: %d of %d completed within two minutes", name, n, executions)
		}
		var half, longest time.Duration
		if err := w.app.pools.system.QueryRow(t.Context(), `SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY finished_at - created_at), max(finished_at - created_at)
			FROM component_executions`).Scan(&half, &longest); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: three attempts took %v in the median, %v at most (backoffs alone take 3 s ± 20 %%)", name, half, longest)
		fast.Stop(t.Context())
		w.app.Stop(t.Context())
	}
}
