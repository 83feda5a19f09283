package quarantine

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/internal/local/pgtest"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

func TestOP14ANewSessionIsAdmittedUnlessItsServerMayLackWork(t *testing.T) {
	const here = "1/2/3"
	for _, c := range []struct {
		name  string
		on    postgres.Server
		admit bool
	}{
		{"the same server", postgres.Server{Place: here, Timeline: 1}, true},
		{"recovered from a crash with everything", postgres.Server{Place: here, Timeline: 1, Recovered: 5000}, true},
		{"recovered from a crash without the last commits", postgres.Server{Place: here, Timeline: 1, Recovered: 4999}, false},
		{"a standby with everything", postgres.Server{Place: here, Timeline: 2, Recovered: 5000}, true},
		{"a standby without the last commits", postgres.Server{Place: here, Timeline: 2, Recovered: 4999}, false},
		{"a standby that is not promoted yet", postgres.Server{Place: here, Recovered: 9000}, false},
		{"a dump that was read in", postgres.Server{Place: "1/2/4", Timeline: 1}, false},
	} {
		var p position
		if !p.admits(c.on) {
			t.Errorf("%s: refused by a process that has seen nothing", c.name)
		}
		p.follow(server{timeline: 1}, here, 5000)
		if p.admits(c.on) != c.admit {
			t.Errorf("%s: admitted: %v", c.name, !c.admit)
		}
		p.judge(c.on)
		if !p.admits(c.on) {
			t.Errorf("%s: refused after it was judged", c.name)
		}
	}
	var p position
	p.follow(server{}, here, 0)
	if !p.admits(postgres.Server{Place: here}) {
		t.Error("a service that never shows its timeline is refused")
	}
}

// No poll runs in this test: the first session on the other server starts the quarantine.
func TestOP14NothingIsWrittenBeforeTheQuarantine(t *testing.T) {
	direct := pgtest.DSN(t)
	for name, dsn := range map[string]string{"direct": direct, "through a pooler": pgtest.NewPooler(t, direct, pgtest.PoolSessions).DSN} {
		t.Run(name, func(t *testing.T) {
			var w *Watch
			gate := func(ctx context.Context, session *pgx.Conn, on postgres.Server) error {
				return w.Admit(ctx, session, on)
			}
			owner, err := postgres.Open(t.Context(), direct, "test", postgres.Owner, 1)
			if err != nil {
				t.Fatal(err)
			}
			defer owner.Close()
			system, err := postgres.Open(t.Context(), dsn, "test", postgres.System, 2, gate)
			if err != nil {
				t.Fatal(err)
			}
			defer system.Close()
			api, err := postgres.Open(t.Context(), dsn, "test", postgres.API, 2, gate)
			if err != nil {
				t.Fatal(err)
			}
			defer api.Close()
			w = NewWatch(system, slog.New(slog.DiscardHandler))
			if poll(t, w) {
				t.Fatal("held at first")
			}
			use := func() error {
				_, err := api.Exec(t.Context(), "SELECT count(*) FROM component_executions")
				return err
			}
			if err := use(); err != nil {
				t.Fatal(err)
			}
			change(t, system, "UPDATE installation SET beat = 7")

			w.position.server.timeline-- // this process has seen more, on an earlier timeline
			w.position.stored = 1 << 60
			api.Reset()
			if err := use(); !postgres.Unavailable(err) {
				t.Errorf("the first session is used: %v", err)
			}
			if w.CheckRestore() == nil {
				t.Error("work may start")
			}
			status, err := StatusOf(t.Context(), owner)
			if err != nil || status.Since == nil || !strings.Contains(status.Reason, "acknowledged") {
				t.Fatalf("the quarantine has not started: %+v, %v", status, err)
			}
			system.Reset()
			if err := use(); err != nil {
				t.Errorf("in quarantine, reads fail: %v", err)
			}
			if !poll(t, w) {
				t.Error("a poll ended the quarantine")
			}

			if released, err := Release(t.Context(), owner); err != nil || !released || poll(t, w) {
				t.Errorf("released: %v, %v, held: %v", released, err, w.Held())
			}
			w.position.server.timeline--
			w.position.stored = 1 << 60
			change(t, owner, "UPDATE installation SET released_at = now()")
			api.Reset()
			if err := use(); !postgres.Unavailable(err) || w.Held() {
				t.Errorf("after a release that this process had not seen: %v, held: %v", err, w.Held())
			}
			if err := use(); err != nil {
				t.Errorf("after the release: %v", err)
			}
		})
	}
}
