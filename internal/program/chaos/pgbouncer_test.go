package chaos

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weft-automation/weft/internal/kit/waittest"
)

// pgbouncer is a real PgBouncer in front of a server.
type pgbouncer struct {
	t      testing.TB
	dir    string
	target string // the server's connection settings
	cmd    *exec.Cmd
}

// ignored is the value of ignore_startup_parameters in the guide to PostgreSQL (database.md).
const ignored = "enable_bitmapscan,enable_seqscan,idle_in_transaction_session_timeout,lock_timeout,plan_cache_mode,role,statement_timeout"

// startPgBouncer starts Debian's PgBouncer in front of a database.
func startPgBouncer(t testing.TB, of *server, dsn, mode, ignore string) *pgbouncer {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		if program, err = exec.LookPath("/usr/sbin/pgbouncer"); err != nil {
			t.Fatal("this scenario of the soak needs PgBouncer: apt-get install pgbouncer")
		}
	}
	dir, err := os.MkdirTemp("", "weft-pgbouncer-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil { // PgBouncer does not run as root
		t.Fatal(err)
	}
	place, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	p := &pgbouncer{t: t, dir: dir, target: fmt.Sprintf("host=%s port=5432 user=postgres", place.Query().Get("host"))}
	p.configure(mode, ignore)
	p.cmd = exec.Command(program, filepath.Join(dir, "pgbouncer.ini"))
	if os.Getuid() == 0 {
		info, err := os.Stat(fmt.Sprintf("/proc/%d", of.Pid()))
		if err != nil {
			t.Fatal(err)
		}
		owner := info.Sys().(*syscall.Stat_t)
		if _, err := user.LookupId(fmt.Sprint(owner.Uid)); err != nil {
			t.Fatal(err)
		}
		p.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}}
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.cmd.Process.Signal(syscall.SIGINT)
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	})
	eventually(t, 10*time.Second, "PgBouncer to listen", func() (bool, string) {
		_, err := os.Stat(filepath.Join(dir, ".s.PGSQL.6432"))
		return err == nil, fmt.Sprint(err)
	})
	return p
}

func (p *pgbouncer) configure(mode, ignore string) {
	p.t.Helper()
	text := fmt.Sprintf(`[databases]
* = %s
[pgbouncer]
listen_addr =
unix_socket_dir = %s
unix_socket_mode = 0777
listen_port = 6432
auth_type = any
pool_mode = %s
default_pool_size = 300
max_client_conn = 600
logfile = %s
`, p.target, p.dir, mode, filepath.Join(p.dir, "log"))
	if ignore != "" {
		text += "ignore_startup_parameters = " + ignore + "\n"
	}
	if err := os.WriteFile(filepath.Join(p.dir, "pgbouncer.ini"), []byte(text), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// setMode changes the pool mode while clients are connected.
func (p *pgbouncer) setMode(mode string) {
	p.t.Helper()
	p.configure(mode, ignored)
	if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		p.t.Fatal(err)
	}
}

func (p *pgbouncer) dsn(database string) string {
	return fmt.Sprintf("postgres://postgres@/%s?host=%s&port=6432&sslmode=disable", database, url.QueryEscape(p.dir))
}

// OP-12: Weft works through PgBouncer in session mode as it does without PgBouncer. In other modes
// Weft does not start, and a running process reports not ready once the mode changes.
func TestOP12ThroughPgBouncer(t *testing.T) {
	if waittest.LeftToSoak(t, "internal/platform/postgres.TestSessionsThroughASessionPoolerHaveRoleSettingsAndScope", "internal/platform/postgres.TestATransactionPoolerIsRefused", "internal/program/app.TestAProcessWorksThroughASessionPooler") {
		return
	}
	s := newScene(t, shared)
	name := databaseOf(t, s.dsn)
	direct := s.dsn
	for mode, cure := range map[string]string{"transaction": "pool_mode = session", "statement": "pool_mode = session"} {
		p := s.launch("serve", "DATABASE_URL="+startPgBouncer(t, shared, direct, mode, ignored).dsn(name))
		if code := p.exitCode(t, time.Minute); code == 0 || !strings.Contains(p.logged(), cure) {
			t.Errorf("in %s mode: exit code %d:\n%s", mode, code, p.tail(5))
		}
	}
	p := s.launch("serve", "DATABASE_URL="+startPgBouncer(t, shared, direct, "session", "").dsn(name))
	if code := p.exitCode(t, time.Minute); code == 0 || !strings.Contains(p.logged(), "ignore_startup_parameters = "+ignored) {
		t.Errorf("without ignore_startup_parameters: exit code %d:\n%s", code, p.tail(5))
	}

	bouncer := startPgBouncer(t, shared, direct, "session", ignored)
	s.dsn = bouncer.dsn(name)
	node, worker := s.start("serve"), s.start("work")
	began := time.Now()
	s.load(2000, mixed)
	took := s.finish(time.Minute)
	loaded := time.Since(began)
	if wrong := s.number(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'weft-%' AND application_name <> 'weft-chaos'`); wrong == 0 {
		t.Error("the server has no session of the service")
	}
	bouncer.setMode("transaction")
	told := eventually(t, 15*time.Second, "both to report not ready", func() (bool, string) {
		first, body := node.status("/readyz")
		second, more := worker.status("/readyz")
		return first == http.StatusServiceUnavailable && second == http.StatusServiceUnavailable, body + more
	})
	bouncer.setMode("session")
	ready := eventually(t, 30*time.Second, "both to be ready again", func() (bool, string) {
		first, body := node.status("/readyz")
		second, more := worker.status("/readyz")
		return first == http.StatusOK && second == http.StatusOK, body + more
	})
	figures.note(t, "2000 executions through PgBouncer in %.1f s, final %.1f s after the last; transaction mode reported after %.1f s, ready again %.1f s after session mode; %s",
		loaded.Seconds(), took.Seconds(), told.Seconds(), ready.Seconds(), s.summary())
}
