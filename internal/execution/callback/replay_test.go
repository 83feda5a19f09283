package callback

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/waittest"
)

func TestCB08AHundredReplaysAreOneDelivery(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{settings: Settings{Schedule: times(2)}})
	r := b.receiver(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n <= 2 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	f := b.submit(t, wish{url: r.url})
	b.await(t, 2)
	replays := func() {
		var running sync.WaitGroup
		for range 100 {
			running.Go(func() {
				if err := b.service.Replay(t.Context(), Of{WorkspaceID: f.WorkspaceID, ID: f.ID}, false); err != nil {
					t.Error(err)
				}
			})
		}
		running.Wait()
	}
	replays()
	b.await(t, 1)
	if row := b.row(t, f); row.State != "DELIVERED" || row.AttemptCount != 3 || row.Round != 2 || len(r.all()) != 3 {
		t.Errorf("after the replays: state %s, %d attempts, %d requests", row.State, row.AttemptCount, len(r.all()))
	}
	replays()
	if row := b.row(t, f); row.AttemptCount != 3 || row.Round != 2 || len(r.all()) != 3 || b.jobsLeft(t) != 0 {
		t.Errorf("replays of a delivered callback: %d attempts, %d requests, %d jobs", row.AttemptCount, len(r.all()), b.jobsLeft(t))
	}
}

func TestCB09ReplaysThatAreRejected(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{settings: Settings{Schedule: times(1)}})
	r := b.receiver(t, always(500))
	secret := "s"
	running := b.accept(t, wish{url: r.url})[0]
	erased := b.submit(t, wish{url: r.url, secret: &secret})
	b.await(t, 1)
	if _, err := b.pool.Exec(t.Context(), "UPDATE callbacks SET sealed = NULL WHERE execution_id = $1", erased.ID); err != nil {
		t.Fatal(err)
	}
	without := newID(t)
	_, err := b.pool.Exec(t.Context(), `INSERT INTO component_executions
		(workspace_id, id, module, status, call, attempts, attempt, job_id, created_at, updated_at)
		VALUES ($1, $2, 'RANDOM_UUID', 'EXECUTING', '', 1, 1, 0, now(), now())`, b.workspace, without)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		workspace, execution uuid.UUID
		code                 fault.Code
	}{
		"no callback":       {b.workspace, without, fault.NoCallback},
		"another workspace": {newID(t), erased.ID, fault.NotFound},
		"unknown":           {b.workspace, newID(t), fault.NotFound},
		"not finished":      {b.workspace, running.ID, fault.ExecutionNotFinished},
		"erased secret":     {b.workspace, erased.ID, fault.Conflict},
	} {
		for _, force := range []bool{false, true} {
			if err := b.service.Replay(t.Context(), Of{WorkspaceID: c.workspace, ID: c.execution}, force); fault.CodeOf(err) != c.code {
				t.Errorf("%s, force %v: %v", name, force, err)
			}
		}
	}
	if n := len(r.all()); n != 1 {
		t.Errorf("%d requests", n)
	}
}

// The receiver is repaired before the retry is due. The delay of an hour never passes in this
// test, so each attempt after the first one is caused by a replay.
func TestReplaySendsWaitingRetryNow(t *testing.T) {
	t.Parallel()
	for name, delay := range map[string]time.Duration{"kept by the process": 25 * time.Second, "left to the queue": time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, options{settings: Settings{Schedule: []time.Duration{0, delay, time.Hour, time.Hour}}})
			r := b.receiver(t, func(n int, w http.ResponseWriter, _ *http.Request) {
				if n <= 2 {
					w.WriteHeader(http.StatusInternalServerError)
				}
			})
			secret := "s"
			f := b.submit(t, wish{url: r.url, secret: &secret})
			b.await(t, 1)
			for attempts := int32(2); attempts <= 3; attempts++ {
				if err := b.service.Replay(t.Context(), Of{WorkspaceID: f.WorkspaceID, ID: f.ID}, false); err != nil {
					t.Fatal(err)
				}
				b.await(t, 1)
				if row := b.row(t, f); row.AttemptCount != attempts {
					t.Errorf("attempt count %d, want %d", row.AttemptCount, attempts)
				}
			}
			row := b.row(t, f)
			if row.State != "DELIVERED" {
				t.Errorf("state %s", row.State)
			}
			if row.Round != 1 || row.Tries != 3 {
				t.Errorf("round %d with %d tries: a replay of a waiting retry must not start another round", row.Round, row.Tries)
			}
			for i, request := range r.all() {
				if id := request.header.Get("Webhook-Id"); id != f.ID.String() {
					t.Errorf("attempt %d: webhook-id %q", i+1, id)
				}
			}
		})
	}
}

// The process that made an attempt still has work to do after the attempt is recorded. A replay
// that arrives in between is not delayed until the retry is due.
func TestReplayIsSentAlthoughAttemptIsClosing(t *testing.T) {
	t.Parallel()
	for name, byQueue := range map[string]bool{"of this process": false, "of the queue": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, options{settings: Settings{Schedule: []time.Duration{0, time.Hour, time.Hour}}, full: byQueue, idle: true})
			closed, first := make(chan struct{}), true
			b.deliverer.Attempted = func(class string, _ time.Duration) {
				b.attempts <- class
				if first {
					first = false
					<-closed
				}
			}
			b.start(t)
			f := b.submit(t, wish{url: b.receiver(t, always(500)).url})
			b.await(t, 1)
			if err := b.service.Replay(t.Context(), Of{WorkspaceID: f.WorkspaceID, ID: f.ID}, false); err != nil {
				t.Fatal(err)
			}
			waittest.Until(t, "the queue snoozes the job", func() bool {
				var put bool
				err := b.pool.QueryRow(t.Context(), "SELECT metadata ? 'snoozes' FROM river.river_job WHERE id = $1", *b.row(t, f).JobID).Scan(&put)
				if err != nil {
					t.Fatal(err)
				}
				return put
			})
			close(closed)
			b.await(t, 1)
			if row := b.row(t, f); row.AttemptCount != 2 || row.Round != 1 {
				t.Errorf("%d attempts in round %d", row.AttemptCount, row.Round)
			}
		})
	}
}

// A replay notifies the queue, which polls only once an hour in this test.
func TestReplayNotifiesQueue(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{settings: Settings{Schedule: []time.Duration{0, time.Hour, time.Hour}}, full: true, notified: true})
	f := b.submit(t, wish{url: b.receiver(t, always(500)).url})
	b.await(t, 1)
	if err := b.service.Replay(t.Context(), Of{WorkspaceID: f.WorkspaceID, ID: f.ID}, false); err != nil {
		t.Fatal(err)
	}
	b.await(t, 1)
	if row := b.row(t, f); row.AttemptCount != 2 || row.Round != 1 {
		t.Errorf("%d attempts in round %d", row.AttemptCount, row.Round)
	}
}

// River completes the job after the attempt is recorded. So a replay must use a different job.
func TestReplayBindsCallbackToNewJob(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{settings: Settings{Schedule: []time.Duration{0, time.Hour}}, idle: true})
	f := b.accept(t, wish{url: b.receiver(t, always(500)).url})[0]
	b.finish(t, true, f)
	b.await(t, 1)
	waited := *b.row(t, f).JobID
	if err := b.service.Replay(t.Context(), Of{WorkspaceID: f.WorkspaceID, ID: f.ID}, false); err != nil {
		t.Fatal(err)
	}
	if bound := *b.row(t, f).JobID; bound == waited {
		t.Errorf("still bound to job %d", waited)
	}
}

// A retry that is due keeps its place in the queue, however often it is replayed.
func TestReplayKeepsPlaceOfDueRetry(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{settings: Settings{Schedule: []time.Duration{0, time.Hour}}, idle: true})
	r := b.receiver(t, always(500))
	f := b.accept(t, wish{url: r.url})[0]
	b.finish(t, true, f)
	b.await(t, 1)
	scheduled := func() (at time.Time) {
		t.Helper()
		if err := b.pool.QueryRow(t.Context(), "SELECT scheduled_at FROM river.river_job WHERE id = $1", *b.row(t, f).JobID).Scan(&at); err != nil {
			t.Fatal(err)
		}
		return at
	}
	waiting := scheduled()
	for range 2 {
		if err := b.service.Replay(t.Context(), Of{WorkspaceID: f.WorkspaceID, ID: f.ID}, false); err != nil {
			t.Fatal(err)
		}
	}
	first := scheduled()
	if !first.Before(waiting) {
		t.Errorf("scheduled at %v, then %v", waiting, first)
	}
	if err := b.service.Replay(t.Context(), Of{WorkspaceID: f.WorkspaceID, ID: f.ID}, false); err != nil {
		t.Fatal(err)
	}
	if again := scheduled(); !again.Equal(first) {
		t.Errorf("a repeated replay moved the job from %v to %v", first, again)
	}
}

func TestForcedReplays(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{settings: Settings{Schedule: []time.Duration{0, time.Hour, time.Hour}}})
	r := b.receiver(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n == 1 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	f := b.submit(t, wish{url: r.url})
	b.await(t, 1)
	if err := b.service.Replay(t.Context(), Of{WorkspaceID: f.WorkspaceID, ID: f.ID}, true); err != nil {
		t.Fatal(err)
	}
	b.await(t, 1)
	delivered := b.row(t, f)
	if delivered.State != "DELIVERED" || delivered.AttemptCount != 2 {
		t.Errorf("a forced replay of a retry that waits: state %s, %d attempts", delivered.State, delivered.AttemptCount)
	}
	if err := b.service.Replay(t.Context(), Of{WorkspaceID: f.WorkspaceID, ID: f.ID}, true); err != nil {
		t.Fatal(err)
	}
	b.await(t, 1)
	if row := b.row(t, f); row.State != "DELIVERED" || row.AttemptCount != 3 || *row.DeliveredAt != *delivered.DeliveredAt || len(r.all()) != 3 {
		t.Errorf("a forced replay of a delivered callback: %+v", row)
	}
}

func TestAFailedForcedReplayLeavesTheCallbackDelivered(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{settings: Settings{Schedule: times(2)}})
	r := b.receiver(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n > 1 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	f := b.submit(t, wish{url: r.url})
	b.await(t, 1)
	if err := b.service.Replay(t.Context(), Of{WorkspaceID: f.WorkspaceID, ID: f.ID}, true); err != nil {
		t.Fatal(err)
	}
	b.await(t, 2)
	if row := b.row(t, f); row.State != "DELIVERED" || row.AttemptCount != 3 || row.DeliveredAt == nil || row.LastError == nil || b.jobsLeft(t) != 0 {
		t.Errorf("%+v", row)
	}
}

func TestAttemptsArePagedNewestFirst(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{settings: Settings{Schedule: times(5)}})
	r := b.receiver(t, always(500))
	f := b.submit(t, wish{url: r.url})
	b.await(t, 5)
	var numbers []int32
	cursor := ""
	for pages := 1; ; pages++ {
		page, err := b.service.Attempts(t.Context(), Of{WorkspaceID: f.WorkspaceID, ID: f.ID}, 2, cursor)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range page.Data {
			numbers = append(numbers, a.Attempt)
			if class, code := failure(t, a.Error); class != "status" || code != 500 || a.Delivered || a.DurationMs < 0 || time.Time(a.StartedAt).IsZero() {
				t.Errorf("%+v", a)
			}
		}
		if !page.HasMore {
			if page.NextCursor != nil || pages != 3 {
				t.Errorf("page %d is the last, cursor %v", pages, page.NextCursor)
			}
			break
		}
		cursor = *page.NextCursor
	}
	if len(numbers) != 5 || numbers[0] != 5 || numbers[4] != 1 {
		t.Errorf("attempts %v", numbers)
	}
	if _, err := b.service.Attempts(t.Context(), Of{WorkspaceID: newID(t), ID: f.ID}, 2, ""); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("another workspace: %v", err)
	}
	for _, cursor := range []string{"x", "AAAA", "!"} {
		if _, err := b.service.Attempts(t.Context(), Of{WorkspaceID: f.WorkspaceID, ID: f.ID}, 2, cursor); fault.CodeOf(err) != fault.InvalidInput {
			t.Errorf("cursor %q: %v", cursor, err)
		}
	}
}

// A forced replay while an attempt is in flight changes nothing and is not in the audit log.
func TestAForcedReplayThatChangesNothingIsNotAudited(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{settings: Settings{Schedule: []time.Duration{0, time.Hour}}})
	r := b.receiver(t, always(500))
	f := b.accept(t, wish{url: r.url})[0]
	b.finish(t, true, f)
	b.await(t, 1)
	due := func(in string) time.Time {
		t.Helper()
		_, err := b.pool.Exec(t.Context(), "UPDATE callbacks SET due_at = now() + $1::interval WHERE execution_id = $2", in, f.ID)
		if err != nil {
			t.Fatal(err)
		}
		return *b.row(t, f).DueAt
	}
	events := func() (n int) {
		t.Helper()
		if err := b.pool.QueryRow(t.Context(), "SELECT count(*) FROM audit_events WHERE action = 'callback.replayed'").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	passed := due("-1 second") // the state while an attempt is sent
	if err := b.service.Replay(t.Context(), Of{WorkspaceID: f.WorkspaceID, ID: f.ID}, true); err != nil {
		t.Fatal(err)
	}
	if row := b.row(t, f); *row.DueAt != passed || events() != 0 {
		t.Errorf("due %v, then %v, with %d events", passed, row.DueAt, events())
	}
	due("1 hour")
	if err := b.service.Replay(t.Context(), Of{WorkspaceID: f.WorkspaceID, ID: f.ID}, true); err != nil {
		t.Fatal(err)
	}
	b.await(t, 1)
	if n := events(); n != 1 {
		t.Errorf("a replay of a scheduled retry recorded %d events, want 1", n)
	}
}
