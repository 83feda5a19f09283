package chaos

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weft-automation/weft/internal/kit/waittest"
)

// EX-04, LE-03: a process kills itself at each crash point, and all invariants hold, including the
// ledger's invariants. The scenarios of workflows cover P8.
func TestEX04AndLE03EveryCrashPoint(t *testing.T) {
	t.Parallel()
	points := []struct {
		point, command string
		among          int // how many times the load reaches the point at least
		what           string
	}{
		{"P1", "serve", 20, "after the commit of the acceptance, before the answer"},
		{"P2", "work", 20, "after the queue handed out the job, before the start"},
		{"P3", "work", 20, "after the effect, before the result is stored"},
		{"P4", "work", 2, "inside the transaction that stores results"}, // of many executions at once
		{"P5", "work", 2, "after its commit, before the notification"},
		{"P6", "work", 20, "after the receiver's 2xx, before it is recorded"},
		{"P7", "work", 20, "after that record, before the job is completed"},
		{"P9", "work", 1, "inside a release of credits"},
	}
	for _, c := range size(points[2:4], points) { // the effect and its result, where money is at stake
		t.Run(c.point, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, shared)
			s.expect.again = 1
			var slowest time.Duration
			times := size(1, 20)
			for i := range times {
				slowest = max(slowest, s.crashAt(fmt.Sprintf("%s:%d", c.point, 1+i*7%c.among), c.command, func(i int) order {
					return order{tenant: i % 2, millis: i % 7 * 20, unsafe: i%5 == 0, attempts: 1 + i%3, callback: true}
				}))
			}
			figures.note(t, "%d x %s: all final at most %.1f s later; %s", times, c.what, slowest.Seconds(), s.summary())
		})
	}
}

// EX-23: an execution without effect that was not accepted first is missing or final after a crash.
// It is never in between.
func TestEX23ADirectExecutionIsMissingOrFinalAfterACrash(t *testing.T) {
	t.Parallel()
	// Executions share commits, so P4 and P5 are reached less often.
	for point, among := range waittest.Chosen(map[string]int{"P3": 20, "P4": 2, "P5": 2}, "P4") {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, shared)
			s.expect.again = 1
			for i := range size(1, 20) {
				s.crashAt(fmt.Sprintf("%s:%d", point, 1+i%among), "serve", func(i int) order {
					return order{tenant: i % 2, module: "RANDOM_UUID", wait: 5 * time.Second, callback: i%3 == 0}
				})
			}
			if n := s.number("SELECT count(*) FROM component_executions WHERE finished_at IS NULL"); n != 0 {
				t.Errorf("%d executions are not final", n)
			}
			if n := s.number("SELECT count(*) FROM component_executions WHERE job_id = 0"); n == 0 {
				t.Error("no execution was stored directly")
			}
		})
	}
}

// crashAt makes one process crash at the point under a small load of orders, starts a replacement
// and checks the invariants. It returns the time until all executions were final.
func (s *scene) crashAt(setting, command string, orders func(i int) order) time.Duration {
	s.t.Helper()
	other := map[string]string{"serve": "work", "work": "serve"}[command]
	s.expire()
	stays := s.start(other)
	dies := s.launch(command, "WEFT_CRASH_AT="+setting)
	if command == "serve" {
		s.join(dies)
	} else {
		eventually(s.t, 30*time.Second, "the worker to run, or to crash before", func() (bool, string) {
			_, ops := dies.addresses()
			return ops != "" || dies.ended(), dies.tail(5)
		})
	}
	watching := s.watch()
	loaded := make(chan struct{})
	go func() {
		defer close(loaded)
		s.load(30, orders)
	}()
	eventually(s.t, 40*time.Second, "the crash at "+setting, func() (bool, string) {
		if strings.HasPrefix(setting, "P9") {
			s.expire() // the other process may have done the release before
		}
		return dies.ended(), "the process still runs"
	})
	if dies.cmd.ProcessState.ExitCode() != -1 {
		s.t.Errorf("the process was not killed by a signal: %v", dies.err)
	}
	successor := s.start(command)
	<-loaded
	took := s.finish(30 * time.Second)
	watching.stop()
	for _, p := range []*process{stays, successor} {
		s.leave(p)
		p.kill()
	}
	return took
}

// expire makes a release of credits due. It locks the accounts in the same order as the service.
func (s *scene) expire() {
	s.t.Helper()
	if _, err := s.pool.Exec(s.t.Context(), `WITH held AS (SELECT workspace_id FROM credit_accounts ORDER BY workspace_id FOR NO KEY UPDATE)
		UPDATE credit_accounts a SET valid_until = 'epoch' FROM held WHERE a.workspace_id = held.workspace_id`); err != nil {
		s.t.Fatal(err)
	}
}

// CB-07: a worker is killed after the receiver responds with 200, before the delivery is recorded.
// The callback is delivered once more with the same bytes, deliveredAt is set once, and there is no
// third delivery.
func TestCB07UnrecordedDeliveryIsRepeatedOnce(t *testing.T) {
	if waittest.LeftToSoak(t, "internal/execution/callback.TestCB07ACrashAfterTheDeliveryRepeatsItAtMostOnce") {
		return
	}
	t.Parallel()
	s := newScene(t, shared)
	s.expect.again = 1
	s.start("serve")
	dies := s.start("work", "WEFT_CRASH_AT=P6")
	record, _, err := s.submitUntilAcknowledged(t.Context(), order{module: "RANDOM_UUID", callback: true})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, 20*time.Second, "the crash", func() (bool, string) { return dies.ended(), "the process still runs" })
	if got := s.receiver.of(record.ID.String()); got == nil || !got.answered {
		t.Fatalf("the receiver did not accept exactly one delivery: %+v", got)
	}
	s.start("work")
	s.finish(30 * time.Second)
	s.start("work") // neither of two workers delivers it a third time
	hold(t, size(500*time.Millisecond, 10*time.Second))
	if got := s.receiver.of(record.ID.String()); got.count != 2 || got.differ {
		t.Errorf("got %d deliveries, want 2 equal ones; they differ: %v", got.count, got.differ)
	}
	if n := s.number("SELECT count(*) FROM callback_attempts WHERE delivered"); n != 1 {
		t.Errorf("%d deliveries are recorded, want 1", n)
	}
}
