package quarantine

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/local/pgtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func poll(t *testing.T, w *Watch) bool {
	t.Helper()
	if err := w.Poll(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w.Held()
}

func change(t *testing.T, pool *pgxpool.Pool, statement string) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

func TestOP05ARestoredDatabaseIsHeldUntilItsRelease(t *testing.T) {
	const (
		copied   = "UPDATE installation SET place = '1/2/3'"
		restored = "UPDATE installation SET timeline = timeline + 1"
		older    = "UPDATE installation SET beat = beat - 1"
	)
	for _, c := range []struct {
		name    string
		happens []string
		// The results of polls by an earlier process and by a new process.
		lives, starts string
	}{
		{"nothing", nil, "free", "free"},
		{"a dump is read in", []string{copied}, "quarantine", "quarantine"},
		{"a standby takes over with everything", []string{restored}, "free", "held at first"},
		{"a standby takes over without the last writes", []string{restored, older}, "quarantine", "held at first"},
		{"an older state comes back in place", []string{older}, "quarantine", "free"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for who, want := range map[string]string{"lives": c.lives, "starts": c.starts} {
				pool := pgtest.DB(t)
				w := NewWatch(pool, slog.New(slog.DiscardHandler))
				if !w.Held() || poll(t, w) {
					t.Fatalf("%s: held before the first poll: %v, after it: %v", who, !w.Held(), w.Held())
				}
				if poll(t, w) { // no process works yet, so there are no beats
					t.Fatalf("%s: held without a beat", who)
				}
				for range 3 {
					w.Beat()
					poll(t, w)
				}
				for _, statement := range c.happens {
					change(t, pool, statement)
				}
				if who == "starts" {
					w = NewWatch(pool, slog.New(slog.DiscardHandler))
				}
				poll(t, w)
				status, err := StatusOf(t.Context(), pool)
				if err != nil {
					t.Fatal(err)
				}
				switch {
				case want == "quarantine" && (status.Since == nil || status.Reason == "" || !w.Held()):
					t.Errorf("%s: %+v, held: %v", who, status, w.Held())
				case want == "held at first" && (status.Since != nil || !w.Held()):
					t.Errorf("%s: %+v, held: %v", who, status, w.Held())
				case want == "free" && (status.Since != nil || poll(t, w)):
					t.Errorf("%s: %+v, held: %v", who, status, w.Held())
				}
			}
		})
	}
}

func TestOP05AnUnconfirmedTimelineIsARestore(t *testing.T) {
	pool := pgtest.DB(t)
	poll(t, NewWatch(pool, slog.New(slog.DiscardHandler)))
	change(t, pool, "UPDATE installation SET timeline = timeline + 1")
	var log bytes.Buffer
	w := NewWatch(pool, slog.New(slog.NewTextHandler(&log, nil)))
	if !poll(t, w) || log.Len() > 0 {
		t.Fatalf("at first: held %v, logged %s", w.Held(), log.String())
	}
	if status, err := StatusOf(t.Context(), pool); err != nil || !status.Elsewhere || status.Since != nil {
		t.Errorf("at first: %+v, %v", status, err)
	}
	w.doubt = time.Now().Add(-followWithin)
	poll(t, w)
	poll(t, w)
	if n := strings.Count(log.String(), "THE DATABASE IS IN QUARANTINE"); n != 1 || !strings.Contains(log.String(), "timeline") {
		t.Errorf("it was logged %d times: %s", n, log.String())
	}
	if code := fault.CodeOf(w.Check()); code != fault.Unavailable {
		t.Errorf("Check returns %s", code)
	}
	select {
	case <-w.Freed():
		t.Error("it was freed without a release")
	default:
	}
	if released, err := Release(t.Context(), pool); err != nil || !released {
		t.Fatalf("released %v, %v", released, err)
	}
	if poll(t, w) || w.Check() != nil {
		t.Error("it is held after the release")
	}
	<-w.Freed()
	if released, err := Release(t.Context(), pool); err != nil || released {
		t.Errorf("released again %v, %v", released, err)
	}
}

// An operator may release the database before a process writes its earlier decision.
func TestOP05AReleaseIsNotUndoneByAnEarlierDecision(t *testing.T) {
	for name, statement := range map[string]string{
		"elsewhere": "UPDATE installation SET place = '1/2/3'", "another timeline": "UPDATE installation SET timeline = timeline + 1",
		"in quarantine": "UPDATE installation SET quarantined_at = now(), reason = 'another process found it older'",
	} {
		pool := pgtest.DB(t)
		w := NewWatch(pool, slog.New(slog.DiscardHandler))
		poll(t, w)
		change(t, pool, statement)
		judged, err := read(t.Context(), pool)
		if err != nil {
			t.Fatal(err)
		}
		if released, err := Release(t.Context(), pool); err != nil || !released {
			t.Fatalf("%s: released %v, %v", name, released, err)
		}
		if err := w.start(t.Context(), pool, judged, "as it was"); err != nil {
			t.Fatal(err)
		}
		if status, err := StatusOf(t.Context(), pool); err != nil || status.Since != nil || poll(t, w) {
			t.Errorf("%s: %+v, %v, held: %v", name, status, err, w.Held())
		}
	}
}

func TestOP05AnOperatorStartsAQuarantine(t *testing.T) {
	pool := pgtest.DB(t)
	var logged bytes.Buffer
	w := NewWatch(pool, slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelWarn})))
	poll(t, w)
	for _, reason := range []string{"a copy of the disk was put in place", "another"} {
		if _, err := Start(t.Context(), pool, reason); err != nil {
			t.Fatal(err)
		}
	}
	status, err := StatusOf(t.Context(), pool)
	if err != nil || status.Reason != "a copy of the disk was put in place" || !poll(t, w) {
		t.Errorf("%+v, %v, held: %v", status, err, w.Held())
	}
	w.Beat() // has no effect during the quarantine
	if _, err := Release(t.Context(), pool); err != nil || poll(t, w) {
		t.Errorf("after the release: %v, held: %v", err, w.Held())
	}
	if !strings.Contains(logged.String(), "the quarantine has ended") {
		t.Errorf("at the log level of weft dev, the end is not logged: %s", logged.String())
	}
	if (*Watch)(nil).Held() {
		t.Error("a nil watch holds work")
	}
}
