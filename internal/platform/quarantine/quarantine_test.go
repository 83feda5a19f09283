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

func look(t *testing.T, w *Watch) bool {
	t.Helper()
	if err := w.Look(t.Context()); err != nil {
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
		// What a process finds that had worked on it before, and a new one.
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
				if !w.Held() || look(t, w) {
					t.Fatalf("%s: held before the first look: %v, after it: %v", who, !w.Held(), w.Held())
				}
				if look(t, w) { // nobody works yet, and so nobody beats
					t.Fatalf("%s: held without a beat", who)
				}
				for range 3 {
					w.Beat()
					look(t, w)
				}
				for _, statement := range c.happens {
					change(t, pool, statement)
				}
				if who == "starts" {
					w = NewWatch(pool, slog.New(slog.DiscardHandler))
				}
				look(t, w)
				status, err := StatusOf(t.Context(), pool)
				if err != nil {
					t.Fatal(err)
				}
				switch {
				case want == "quarantine" && (status.Since == nil || status.Reason == "" || !w.Held()):
					t.Errorf("%s: %+v, held: %v", who, status, w.Held())
				case want == "held at first" && (status.Since != nil || !w.Held()):
					t.Errorf("%s: %+v, held: %v", who, status, w.Held())
				case want == "free" && (status.Since != nil || look(t, w)):
					t.Errorf("%s: %+v, held: %v", who, status, w.Held())
				}
			}
		})
	}
}

func TestOP05ANewTimelineThatNobodyVouchesForIsARestore(t *testing.T) {
	pool := pgtest.DB(t)
	look(t, NewWatch(pool, slog.New(slog.DiscardHandler)))
	change(t, pool, "UPDATE installation SET timeline = timeline + 1")
	var log bytes.Buffer
	w := NewWatch(pool, slog.New(slog.NewTextHandler(&log, nil)))
	if !look(t, w) || log.Len() > 0 {
		t.Fatalf("at first: held %v, said %s", w.Held(), log.String())
	}
	if status, err := StatusOf(t.Context(), pool); err != nil || !status.Elsewhere || status.Since != nil {
		t.Errorf("at first: %+v, %v", status, err)
	}
	w.doubt = time.Now().Add(-followWithin)
	look(t, w)
	look(t, w)
	if n := strings.Count(log.String(), "THE DATABASE IS IN QUARANTINE"); n != 1 || !strings.Contains(log.String(), "timeline") {
		t.Errorf("it was said %d times: %s", n, log.String())
	}
	if code := fault.CodeOf(w.Check()); code != fault.Unavailable {
		t.Errorf("callers are told %s", code)
	}
	select {
	case <-w.Freed():
		t.Error("it was freed without a release")
	default:
	}
	if released, err := Release(t.Context(), pool); err != nil || !released {
		t.Fatalf("released %v, %v", released, err)
	}
	if look(t, w) || w.Check() != nil {
		t.Error("it is held after the release")
	}
	<-w.Freed()
	if released, err := Release(t.Context(), pool); err != nil || released {
		t.Errorf("released again %v, %v", released, err)
	}
}

// What one process judged, an operator may have released before it is written.
func TestOP05AReleaseIsNotUndoneByAnOlderJudgement(t *testing.T) {
	for name, statement := range map[string]string{
		"elsewhere": "UPDATE installation SET place = '1/2/3'", "another timeline": "UPDATE installation SET timeline = timeline + 1",
		"in quarantine": "UPDATE installation SET quarantined_at = now(), reason = 'another process found it older'",
	} {
		pool := pgtest.DB(t)
		w := NewWatch(pool, slog.New(slog.DiscardHandler))
		look(t, w)
		change(t, pool, statement)
		judged, err := read(t.Context(), pool)
		if err != nil {
			t.Fatal(err)
		}
		if released, err := Release(t.Context(), pool); err != nil || !released {
			t.Fatalf("%s: released %v, %v", name, released, err)
		}
		if err := w.begin(t.Context(), judged, "as it was"); err != nil {
			t.Fatal(err)
		}
		if status, err := StatusOf(t.Context(), pool); err != nil || status.Since != nil || look(t, w) {
			t.Errorf("%s: %+v, %v, held: %v", name, status, err, w.Held())
		}
	}
}

func TestOP05AnOperatorBeginsAQuarantine(t *testing.T) {
	pool := pgtest.DB(t)
	var logged bytes.Buffer
	w := NewWatch(pool, slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelWarn})))
	look(t, w)
	for _, reason := range []string{"a copy of the disk was put in place", "another"} {
		if _, err := Begin(t.Context(), pool, reason); err != nil {
			t.Fatal(err)
		}
	}
	status, err := StatusOf(t.Context(), pool)
	if err != nil || status.Reason != "a copy of the disk was put in place" || !look(t, w) {
		t.Errorf("%+v, %v, held: %v", status, err, w.Held())
	}
	w.Beat() // counts nothing meanwhile
	if _, err := Release(t.Context(), pool); err != nil || look(t, w) {
		t.Errorf("after the release: %v, held: %v", err, w.Held())
	}
	if !strings.Contains(logged.String(), "the quarantine has ended") {
		t.Errorf("at the log level of weft dev its end is not logged: %s", logged.String())
	}
	if (*Watch)(nil).Held() {
		t.Error("no watch holds")
	}
}
