package chaos

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/internal/kit/waittest"
)

// OP-05: a base backup is taken under traffic, work continues, and the database is restored to a
// point in between. The restored system is in quarantine: clients can read it, but it accepts and
// executes nothing until an operator releases it. The release requires a decision on unsafe calls.
// Unsafe calls that the operator fails have no second effect. All other unfinished executions
// complete, nothing is posted twice, no webhook-id arrives with different bodies, and the
// invariants hold.
func TestOP05RestoredSystemIsQuarantinedUntilItsRelease(t *testing.T) {
	if waittest.LeftToSoak(t, "internal/platform/quarantine.TestOP05ARestoredDatabaseIsHeldUntilItsRelease") {
		return
	}
	t.Parallel()
	archive := archiveFolder(t)
	before := ownServer(t, map[string]string{
		"archive_mode": "on", "archive_command": fmt.Sprintf("test ! -f %[1]s/%%f && cp %%p %[1]s/%%f", archive),
	})
	s := newScene(t, before)
	s.expect.again = 1
	node, worker := s.start("serve"), s.start("work")
	n := size(60, 1000)
	s.load(n, partlyUnsafe)
	backup := makeBackup(t, before)
	s.load(n/2, partlyUnsafe)
	moment := s.submitAround(n / 2)
	s.load(n, partlyUnsafe)
	for _, p := range []*process{node, worker} {
		s.leave(p)
		p.signal(syscall.SIGTERM)
		p.exitCode(t, 25*time.Second)
	}
	s.awaitArchive()
	name := databaseOf(t, s.dsn)

	began := time.Now()
	after := restore(t, backup, archive, moment)
	answers := time.Since(began)
	s.switchTo(after.DSN(name))
	effects, deliveries := s.upstream.total(), s.receiver.total()
	node, worker = s.start("serve"), s.start("work")
	for _, p := range []*process{node, worker} {
		if code, body := p.status("/readyz"); code != 503 || !strings.Contains(body, `"quarantined"`) {
			t.Errorf("readiness of %s is %d %s", p.name, code, body)
		}
	}
	readable := time.Since(began)
	if _, err := s.submit(t.Context(), node, order{}); err == nil || !strings.Contains(err.Error(), "UNAVAILABLE") {
		t.Errorf("a submission returned %v", err)
	}
	if got := len(s.list(node, s.tenants[0])); got == 0 {
		t.Error("the executions cannot be read")
	}
	open := s.alive()
	idle := s.start("work")
	idle.signal(syscall.SIGTERM)
	if code := idle.exitCode(t, 10*time.Second); code != 0 {
		t.Errorf("a worker stopped in quarantine exited with code %d", code)
	}
	hold(t, size(3*time.Second, 20*time.Second))
	if e, d := s.upstream.total(), s.receiver.total(); e != effects || d != deliveries {
		t.Errorf("%d effects and %d deliveries happened in quarantine", e-effects, d-deliveries)
	}
	if now := s.alive(); now != open || open == 0 {
		t.Errorf("the number of unfinished executions changed from %d to %d", open, now)
	}
	var code int
	var text string
	eventually(t, 30*time.Second, "the quarantine to be reported", func() (bool, string) {
		code, text = s.command(nil, "quarantine", "status")
		return code != 0 || strings.Contains(text, "In quarantine since"), text
	})
	if code != 0 || !strings.Contains(text, "timeline") || !strings.Contains(text, fmt.Sprint(open, " execution")) {
		t.Errorf("status: %d %s", code, text)
	}
	if code, text := s.command(nil, "quarantine", "release"); code == 0 || !strings.Contains(text, "not safe to repeat") {
		t.Errorf("a release without a decision on unsafe calls: %d %s", code, text)
	}
	unsafe := s.number("SELECT count(*) FROM component_executions WHERE finished_at IS NULL AND repeat_rule = 'unsafe'")
	if code, text := s.command(nil, "quarantine", "release", "--fail-unsafe"); code != 0 || unsafe == 0 {
		t.Fatalf("the release with %d unsafe calls: %d %s", unsafe, code, text)
	}
	if n := s.number("SELECT count(*) FROM component_executions WHERE error ->> 'code' = 'RESTORE_UNCERTAIN'"); n != unsafe {
		t.Errorf("%d of %d unsafe calls have failed", n, unsafe)
	}
	eventually(t, 30*time.Second, "both to be ready", func() (bool, string) {
		first, body := node.status("/readyz")
		second, more := worker.status("/readyz")
		return first == 200 && second == 200, body + more
	})
	s.load(20, mixed)
	took := s.finish(size(30*time.Second, 2*time.Minute))
	ids, clashes := s.receiver.recomputed()
	if ids == 0 || len(clashes) > 0 {
		t.Errorf("%d callbacks were recomputed; webhook-ids with different bodies: %v", ids, clashes)
	}
	figures.note(t, "PostgreSQL responded %.1f s and Weft could be read %.1f s after the restore started; %d executions were unfinished, %d of them unsafe and failed, and all final %.1f s after the release; %d callbacks with another webhook-id; %s",
		answers.Seconds(), readable.Seconds(), open, unsafe, took.Seconds(), ids, s.summary())
}

// partlyUnsafe is mixed with some unsafe calls.
func partlyUnsafe(i int) order {
	o := mixed(i)
	o.unsafe = i%5 == 0
	return o
}

// submitAround submits n executions and returns a time, by the database's clock, at which they are
// in flight.
func (s *scene) submitAround(n int) time.Time {
	s.t.Helper()
	s.upstream.hold()
	s.load(n, partlyUnsafe)
	s.awaitRunning(min(n/2, 90)) // one worker has a hundred slots
	var moment time.Time
	if err := s.pool.QueryRow(s.t.Context(), "SELECT clock_timestamp()").Scan(&moment); err != nil {
		s.t.Fatal(err)
	}
	s.upstream.release()
	return moment
}

// switchTo continues with a restored database. It removes the lost period's entries from the
// ledger, the upstream and the receiver, because executions that are not final, or whose callbacks
// are not delivered, start again.
func (s *scene) switchTo(dsn string) {
	s.t.Helper()
	s.dsn, s.pool = dsn, openPool(s.t, dsn)
	// The database can be read before the recovery has finished.
	eventually(s.t, 30*time.Second, "the recovery to finish", func() (bool, string) {
		var recovers bool
		err := s.pool.QueryRow(s.t.Context(), "SELECT pg_is_in_recovery()").Scan(&recovers)
		return err == nil && !recovers, fmt.Sprint(recovers, err)
	})
	rows, err := s.pool.Query(s.t.Context(), `SELECT e.id, COALESCE(c.delivered_at IS NOT NULL, false)
		FROM component_executions e LEFT JOIN callbacks c ON c.workspace_id = e.workspace_id AND c.execution_id = e.id`)
	if err != nil {
		s.t.Fatal(err)
	}
	delivered := map[uuid.UUID]bool{}
	var id uuid.UUID
	var done bool
	if _, err := pgx.ForEachRow(rows, []any{&id, &done}, func() error { delivered[id] = done; return nil }); err != nil {
		s.t.Fatal(err)
	}
	acks := s.ledger.acknowledged()
	s.ledger.init()
	for id, a := range acks {
		if _, there := delivered[id]; there {
			s.ledger.acknowledge(id, a)
		}
	}
	s.receiver.mu.Lock()
	defer s.receiver.mu.Unlock()
	for id, c := range s.receiver.seen {
		if !delivered[uuid.MustParse(id)] {
			s.receiver.forgotten += c.count
			delete(s.receiver.seen, id)
		}
	}
}

// awaitArchive waits until everything written so far is in the archive.
func (s *scene) awaitArchive() {
	s.t.Helper()
	var segment string
	if err := s.pool.QueryRow(s.t.Context(), "SELECT pg_walfile_name(pg_switch_wal())").Scan(&segment); err != nil {
		s.t.Fatal(err)
	}
	eventually(s.t, 20*time.Second, "the log to be archived", func() (bool, string) {
		return s.number("SELECT count(*) FROM pg_stat_archiver WHERE last_archived_wal >= $1", segment) == 1, segment + " is not archived"
	})
}

func databaseOf(t *testing.T, dsn string) string {
	t.Helper()
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	return config.Database
}

// archiveFolder creates the folder to which a server archives its log. PostgreSQL's user can write to
// it.
func archiveFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "weft-archive-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return dir
}

// makeBackup makes a base backup of a running server in a new folder. A second server can start
// from that folder.
func makeBackup(t *testing.T, of *server) string {
	t.Helper()
	home, err := os.MkdirTemp("", "weft-restored-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	if err := os.Chmod(home, 0o755); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(home, "pg")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	backup := exec.CommandContext(t.Context(), filepath.Join(binaries(t, of), "pg_basebackup"),
		"-d", of.DSN("postgres"), "-D", filepath.Join(dir, "data"), "-X", "stream", "-c", "fast")
	if out, err := backup.CombinedOutput(); err != nil {
		t.Fatalf("pg_basebackup: %v\n%s", err, out)
	}
	return dir
}

// binaries returns the folder of the server's programs.
func binaries(t *testing.T, of *server) string {
	t.Helper()
	program, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", of.Pid()))
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Dir(program)
}

// restore starts a server from a base backup and the archive, recovered to a point in time.
func restore(t *testing.T, dir, archive string, moment time.Time) *server {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "data", "recovery.signal"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	chownTo(t, dir, archive)
	s, err := startServer(t.Context(), dir, map[string]string{
		"restore_command":        fmt.Sprintf("cp %s/%%f %%p", archive),
		"recovery_target_time":   moment.UTC().Format("2006-01-02 15:04:05.999999+00"),
		"recovery_target_action": "promote",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// chownTo changes the owner of a folder to PostgreSQL's user, who owns the archive.
func chownTo(t *testing.T, dir, archive string) {
	t.Helper()
	files, err := os.ReadDir(archive)
	if err != nil || len(files) == 0 {
		t.Fatalf("the archive contains %d files (%v)", len(files), err)
	}
	info, err := files[0].Info()
	if err != nil {
		t.Fatal(err)
	}
	owner := info.Sys().(*syscall.Stat_t)
	err = filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, int(owner.Uid), int(owner.Gid))
	})
	if err != nil {
		t.Fatal(err)
	}
}
