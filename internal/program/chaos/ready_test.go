package chaos

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/internal/kit/waittest"
)

// OP-01: the database is down, slow, read-only, or its disk is full. The process reports within 5 s
// that it is not ready, stays alive, responds 503 with Retry-After, and recovers automatically.
func TestOP01TheDatabaseCannotServe(t *testing.T) {
	t.Parallel()
	database := ownServer(t, map[string]string{"fsync": "off"})
	s := newScene(t, database)
	proxy := newFaultProxy(t, s.dsn)
	node := s.start("serve", "DATABASE_URL="+proxy.dsn())
	worker := s.start("work")
	run := func(statement string) func() {
		return func() {
			t.Helper()
			// Not through the pool: its sessions are read-only too.
			if err := execute(s.dsn, statement); err != nil {
				t.Fatalf("%s: %v", statement, err)
			}
		}
	}
	cases := []struct {
		name        string
		break_, fix func()
		refuses     bool // immediately, with 503
	}{
		{"away", func() {
			if err := database.stop(); err != nil {
				t.Fatal(err)
			}
		}, func() {
			if err := database.start(t.Context()); err != nil {
				t.Fatal(err)
			}
		}, true},
		{"slow", func() { proxy.delay.Store(int64(2 * time.Second)) }, func() { proxy.delay.Store(0) }, false},
		{
			"read-only",
			func() { run("ALTER SYSTEM SET default_transaction_read_only = on")(); run("SELECT pg_reload_conf()")() },
			func() { run("ALTER SYSTEM RESET default_transaction_read_only")(); run("SELECT pg_reload_conf()")() },
			true,
		},
		{
			// The error that PostgreSQL reports when a table cannot grow.
			"full",
			run(`CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
				RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full'; END $$;
				CREATE TRIGGER full_disk BEFORE INSERT ON component_executions FOR EACH STATEMENT EXECUTE FUNCTION full_disk()`),
			run("DROP FUNCTION full_disk CASCADE"), true,
		},
	}
	for _, c := range size(cases[:1], cases) {
		c.break_()
		if c.refuses {
			s.refusals(500 * time.Millisecond)
		}
		told := eventually(t, 5*time.Second, c.name+": the node to report not ready", func() (bool, string) {
			code, body := node.status("/readyz")
			return code == http.StatusServiceUnavailable, body
		})
		for _, p := range []*process{node, worker} {
			if code, body := p.status("/healthz"); code != http.StatusOK {
				t.Errorf("%s: %s is not alive: %d %s", c.name, p.name, code, body)
			}
		}
		c.fix()
		recovered := eventually(t, 15*time.Second, c.name+": both to be ready again", func() (bool, string) {
			code, body := node.status("/readyz")
			other, more := worker.status("/readyz")
			return code == http.StatusOK && other == http.StatusOK, body + more
		})
		s.awaitWork(5 * time.Second)
		figures.note(t, "%s: reported after %.1f s, ready again after %.1f s", c.name, told.Seconds(), recovered.Seconds())
	}
	s.finish(10 * time.Second)
}

// OP-02: a worker's loop hangs while work waits. It reports within 30 s that it is not ready, and its
// metric shows that.
func TestOP02HangingWorkerReportsNotReady(t *testing.T) {
	t.Parallel()
	s := newScene(t, shared)
	s.start("serve")
	stuck := s.start("work", "WEFT_CRASH_AT=P2:stall", "WEFT_WORKERS=2")
	// All other executions of the workspace are parked behind the hanging executions.
	s.load(6, func(int) order { return order{module: "RANDOM_UUID"} })
	eventually(t, 30*time.Second, "the worker to be ready before it hangs", func() (bool, string) {
		code, body := stuck.status("/readyz")
		return code == http.StatusOK, body
	})
	told := eventually(t, 30*time.Second, "the worker to report not ready", func() (bool, string) {
		code, body := stuck.status("/readyz")
		return code == http.StatusServiceUnavailable && strings.Contains(body, "/checks/workers"), body
	})
	if ready := sum(stuck.metrics(t), "weft_ready", `check="workers"`); ready != 0 {
		t.Errorf("the weft_ready metric of the workers is %v, want 0", ready)
	}
	stuck.kill()
	s.start("work")
	s.finish(30 * time.Second)
	figures.note(t, "reported after %.1f s; %s", told.Seconds(), s.summary())
}

// OP-03 and OP-08: a process that must not start exits with a clear error and a non-zero exit code.
func TestOP03AndOP08ProcessMustNotStart(t *testing.T) {
	t.Parallel()
	s := newScene(t, shared)
	cases := []struct{ name, change, setting, text string }{
		{"schema older", "DELETE FROM schema_migrations", "", "weft migrate"},
		{
			"schema newer", `INSERT INTO schema_migrations
				SELECT (jsonb_populate_record(m, '{"number": 999, "name": "later"}')).* FROM schema_migrations m LIMIT 1`, "", "newer",
		},
		{"no queue", "DROP SCHEMA river CASCADE", "", "weft migrate"},
		{"no master key", "", "WEFT_MASTER_KEY=", "WEFT_MASTER_KEY"},
		{"weak master key", "", "WEFT_MASTER_KEY=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", "WEFT_MASTER_KEY"},
		{"unknown setting", "", "WEFT_WORKRES=3", "WEFT_WORKRES"},
	}
	commands := waittest.Size([]string{"serve"}, []string{"serve", "work"}) // both run the same checks
	for _, c := range size(cases[:1], cases) {
		for _, command := range commands {
			dsn := s.dsn
			if c.change != "" {
				dsn = shared.database(t)
				if err := execute(dsn, c.change); err != nil {
					t.Fatal(err)
				}
			}
			p := s.launch(command, "DATABASE_URL="+dsn, c.setting)
			if code := p.exitCode(t, time.Minute); code == 0 || !strings.Contains(p.logged(), c.text) {
				t.Errorf("%s, %s: exit code %d:\n%s", c.name, command, code, p.tail(5))
			}
		}
	}
	if p := s.start("serve"); !strings.Contains(p.logged(), "127.0.0.0/8") || !strings.Contains(p.logged(), `"WARN"`) {
		t.Errorf("the log has no warning about open egress:\n%s", p.tail(5))
	}
}

// OP-07: after faults that the processes survive, their counters match the database.
func TestOP07MetricsAgreeWithTheDatabase(t *testing.T) {
	if waittest.LeftToSoak(t, "internal/platform/telemetry.TestMetricsAreServed", "internal/platform/telemetry.TestCountersToAlertOnStartAtZero") {
		return
	}
	t.Parallel()
	s := newScene(t, shared)
	s.expect.failures = true
	var answers int
	s.receiver.answer = func(w http.ResponseWriter, _ *http.Request, _ string) {
		s.mu.Lock()
		answers++
		code := http.StatusOK
		if answers%3 == 0 {
			code = http.StatusInternalServerError
		}
		s.mu.Unlock()
		w.WriteHeader(code)
	}
	nodes := []*process{s.start("serve"), s.start("serve"), s.start("work"), s.start("work")}
	watching := s.watch()
	cutting := make(chan struct{})
	go func() {
		defer close(cutting)
		during(t.Context(), 2*time.Second, 300*time.Millisecond, func() { s.cutListeners() })
	}()
	s.load(size(100, 2000), func(i int) order {
		o := mixed(i)
		if i%10 == 0 {
			o.refuse = true
		}
		o.attempts = 1 + i%2
		return o
	})
	<-cutting
	s.finish(60 * time.Second)
	watching.stop()
	var all []map[string]float64
	for _, p := range nodes {
		all = append(all, p.metrics(t))
	}
	for _, c := range []struct {
		metric string
		labels []string
		query  string
	}{
		{"weft_executions_submitted_total", nil, "SELECT count(*) FROM component_executions"},
		{"weft_executions_finished_total", []string{`state="COMPLETED"`}, "SELECT count(*) FROM component_executions WHERE status = 'COMPLETED'"},
		{"weft_executions_finished_total", []string{`state="FAILED"`}, "SELECT count(*) FROM component_executions WHERE status = 'FAILED'"},
		{"weft_execution_attempts_total", nil, "SELECT sum(attempt) FROM component_executions"},
		{"weft_usage_postings_total", nil, "SELECT count(*) FROM credit_postings WHERE kind = 'EXECUTION'"},
		{"weft_callback_attempts_total", nil, "SELECT count(*) FROM callback_attempts"},
		{"weft_callback_attempts_total", []string{`class="delivered"`}, "SELECT count(*) FROM callbacks WHERE delivered_at IS NOT NULL"},
	} {
		counted := 0.0
		for _, values := range all {
			counted += sum(values, c.metric, c.labels...)
		}
		if stored := s.number(c.query); int(counted) != stored || stored <= 0 {
			t.Errorf("%s%v is %v, but the database has %d", c.metric, c.labels, counted, stored)
		}
	}
	figures.note(t, "%s", s.summary())
}

// execute runs one statement on a new connection.
func execute(dsn, statement string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "SET default_transaction_read_only = off"); err != nil {
		return err
	}
	if _, err = conn.Exec(ctx, statement); err != nil {
		return fmt.Errorf("%.40s: %w", statement, err)
	}
	return nil
}
