package chaos

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/kit/waittest"
)

// standbyOf starts an asynchronous standby of a server and waits until it has all data.
func standbyOf(t *testing.T, primary *server) *server {
	t.Helper()
	dir := makeBackup(t, primary)
	for name, text := range map[string]string{
		"standby.signal":       "",
		"postgresql.auto.conf": fmt.Sprintf("primary_conninfo = 'host=%s user=postgres'\n", hostOf(t, primary)),
	} {
		if err := os.WriteFile(filepath.Join(dir, "data", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(fmt.Sprintf("/proc/%d", primary.Pid()))
	if err != nil {
		t.Fatal(err)
	}
	owner := info.Sys().(*syscall.Stat_t)
	if err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, int(owner.Uid), int(owner.Gid))
	}); err != nil {
		t.Fatal(err)
	}
	standby, err := startServer(t.Context(), dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := standby.stop(); err != nil {
			t.Error(err)
		}
	})
	return standby
}

// hostOf returns the folder of a server's socket.
func hostOf(t *testing.T, s *server) string {
	t.Helper()
	place, err := url.Parse(s.DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	return place.Query().Get("host")
}

// catchUp waits until the standby has replayed what the primary has written.
func (s *scene) catchUp(standby *server) {
	s.t.Helper()
	var at string
	if err := s.pool.QueryRow(s.t.Context(), "SELECT pg_current_wal_flush_lsn()::text").Scan(&at); err != nil {
		s.t.Fatal(err)
	}
	behind := openPool(s.t, standby.DSN("postgres"))
	eventually(s.t, time.Minute, "the standby to catch up", func() (bool, string) {
		var has bool
		err := behind.QueryRow(s.t.Context(), "SELECT pg_last_wal_replay_lsn() >= $1::text::pg_lsn", at).Scan(&has)
		return err == nil && has, fmt.Sprint(err)
	})
}

// OP-14: the primary is lost and its asynchronous standby is promoted. If the standby has every
// acknowledged execution, work continues. If it lacks the last execution, which was acknowledged
// just before the loss, the database goes into quarantine, even if no process survived the loss.
func TestOP14AFailoverToAStandby(t *testing.T) {
	if waittest.LeftToSoak(t, "internal/platform/quarantine.TestOP14AServerThatLacksAcknowledgedWorkIsDetected") {
		return
	}
	t.Parallel()
	for _, c := range []struct {
		name       string
		lags, dies bool
	}{{"with everything", false, false}, {"without the last execution", true, false}, {"and no process survived", false, true}} {
		if !soak && c.name != "without the last execution" {
			continue // the rules are in TestOP14AServerThatLacksAcknowledgedWorkIsDetected
		}
		t.Run(c.name, func(t *testing.T) {
			primary := ownServer(t, nil)
			s := newScene(t, primary)
			name := databaseOf(t, s.dsn)
			standby := standbyOf(t, primary)
			s.catchUp(standby)
			s.dsn = fmt.Sprintf("postgres://postgres@/%s?host=%s,%s&target_session_attrs=read-write", name, hostOf(t, primary), hostOf(t, standby))
			node, worker := s.start("serve"), s.start("work")
			s.load(size(20, 500), mixed)
			s.catchUp(standby)
			if c.lags {
				if err := execute(standby.DSN("postgres"), "ALTER SYSTEM SET primary_conninfo = ''"); err != nil {
					t.Fatal(err)
				}
				if err := execute(standby.DSN("postgres"), "SELECT pg_reload_conf()"); err != nil {
					t.Fatal(err)
				}
				eventually(t, 20*time.Second, "the standby to be cut off", func() (bool, string) {
					return s.number("SELECT count(*) FROM pg_stat_replication") == 0, "it is still connected"
				})
				if _, err := s.submit(t.Context(), node, order{module: "RANDOM_UUID", wait: 5 * time.Second}); err != nil {
					t.Fatal(err)
				}
				hold(t, 100*time.Millisecond)
			} else {
				s.finish(time.Minute)
				hold(t, 100*time.Millisecond)
				s.catchUp(standby)
			}
			if c.dies {
				node.kill()
				worker.kill()
				<-node.done
				<-worker.done
				s.catchUp(standby)
			}
			if err := primary.crash(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { // the scene's cleanups use it
				if err := primary.start(context.Background()); err != nil {
					t.Error(err)
				}
			})
			var promoted string
			if err := openPool(t, standby.DSN("postgres")).QueryRow(t.Context(), "SELECT clock_timestamp()::text").Scan(&promoted); err != nil {
				t.Fatal(err)
			}
			if err := execute(standby.DSN("postgres"), "SELECT pg_promote()"); err != nil {
				t.Fatal(err)
			}
			if c.dies {
				node, worker = s.start("serve"), s.start("work")
			}
			held := c.lags || c.dies
			took := eventually(t, time.Minute, "both to report the quarantine", func() (bool, string) {
				first, body := node.status("/readyz")
				second, more := worker.status("/readyz")
				if held {
					return first == http.StatusServiceUnavailable && second == first && strings.Contains(body, "/checks/quarantine") && strings.Contains(more, "/checks/quarantine"), body + more
				}
				return first == http.StatusOK && second == http.StatusOK, body + more
			})
			s.pool = openPool(t, standby.DSN(name))
			if held {
				eventually(t, time.Minute, "the quarantine to start", func() (bool, string) {
					return s.number("SELECT count(*) FROM installation WHERE quarantined_at IS NOT NULL") == 1, "it did not start"
				})
				// Two checks detect lost work, and either may run first. The first check compares
				// the last acknowledged position. The second check compares the state that each
				// process saw last.
				reasons := map[bool][]string{true: {"acknowledged work is lost", "an older state came back"}, false: {"timeline"}}[c.lags]
				code, text := s.command(nil, "quarantine", "status")
				if code != 0 || !slices.ContainsFunc(reasons, func(reason string) bool { return strings.Contains(text, reason) }) {
					t.Errorf("status: %d %s", code, text)
				}
				// No process starts work on the standby before it has compared its position.
				started := s.number("SELECT count(*) FROM component_executions WHERE attempt_started_at > $1::text::timestamptz", promoted)
				sent := s.number("SELECT count(*) FROM callback_attempts WHERE started_at > $1::text::timestamptz", promoted)
				if started != 0 {
					t.Errorf("%d executions were started after the promotion", started)
				}
				figures.note(t, "%s: %d callbacks were sent after the promotion", c.name, sent)
			} else {
				s.load(20, mixed)
				s.finish(time.Minute)
				if n := s.number("SELECT count(*) FROM installation WHERE quarantined_at IS NOT NULL"); n != 0 {
					t.Error("a quarantine started although no work was lost")
				}
			}
			figures.note(t, "%s: reported %.1f s after the promotion", c.name, took.Seconds())
		})
	}
}

// With synchronous replication, a position is reported only after a standby has stored the log up
// to that position. Work that only the primary has stored was never acknowledged, so a failover may
// lose it.
func TestOP14APositionWaitsForSynchronousStandbys(t *testing.T) {
	if waittest.LeftToSoak(t, "internal/platform/quarantine.TestOP14APositionIsReadAfterACommit") {
		return
	}
	t.Parallel()
	primary := ownServer(t, nil)
	pool := openPool(t, primary.database(t))
	if err := db.New().InstallationInsert(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	synchronous := func(names string) {
		t.Helper()
		for _, statement := range []string{"ALTER SYSTEM SET synchronous_standby_names = '" + names + "'", "SELECT pg_reload_conf()"} {
			if err := execute(primary.DSN("postgres"), statement); err != nil {
				t.Fatal(err)
			}
		}
		waittest.Until(t, "the setting to take effect", func() bool {
			var now string
			err := pool.QueryRow(t.Context(), "SHOW synchronous_standby_names").Scan(&now)
			return err == nil && now == names
		})
	}
	synchronous("missing")
	reported := make(chan error, 1)
	report := func() {
		_, err := db.New().InstallationPosition(t.Context(), pool)
		reported <- err
	}
	go report()
	waittest.Until(t, "the position to wait for the standby", func() bool {
		select {
		case err := <-reported: // the checkpointer, which makes commits wait, has not read the setting yet
			if err != nil {
				t.Fatal(err)
			}
			go report()
		default:
		}
		var waits bool
		err := pool.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE '%confirmed_position%')").Scan(&waits)
		return err == nil && waits
	})
	if now, err := db.New().InstallationGet(t.Context(), pool); err != nil || now.Flushed != 0 {
		t.Errorf("a read reports %d, %v", now.Flushed, err)
	}
	synchronous("")
	if err := waittest.Receive(t, "the position", reported); err != nil {
		t.Error(err)
	}
}
