//go:build linux

package devdb

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/local/sidecar"
)

// ownerDir makes this test program run a server in that folder until it is killed.
const ownerDir = "DEVDB_TEST_OWNER_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(ownerDir); dir != "" {
		own(dir)
	}
	goleak.VerifyTestMain(m)
}

func own(dir string) {
	server, err := Start(context.Background(), Config{Dir: dir, Volatile: true}) // the kernel keeps all written pages if the process is killed
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	fmt.Println(server.DSN("postgres"))
	<-server.Done()
	os.Exit(0)
}

// folderFor returns a new folder that the server's account can enter, unlike t.TempDir's.
func folderFor(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "devdb-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func start(t *testing.T, cfg Config) *Server {
	t.Helper()
	server, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, server) })
	return server
}

func stop(t *testing.T, server *Server) {
	t.Helper()
	ctx, cancel := waittest.CleanupContext(t)
	defer cancel()
	if err := server.Stop(ctx); err != nil {
		t.Error(err)
	}
}

// ask runs one statement and returns its one text value.
func ask(t *testing.T, dsn, sql string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	var answer string
	if err := conn.QueryRow(t.Context(), sql).Scan(&answer); err != nil && !errors.Is(err, pgx.ErrNoRows) {
		t.Fatalf("%s: %v", sql, err)
	}
	return answer
}

func TestARestartKeepsTheData(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(folderFor(t), "postgres")
	first := start(t, Config{Dir: dir})
	if err := first.CreateDatabase(t.Context(), "weft"); err != nil {
		t.Fatal(err)
	}
	ask(t, first.DSN("weft"), "CREATE TABLE kept AS SELECT 'here'::text AS word")
	stop(t, first)
	if pids := sidecar.ProcessesIn(filepath.Join(dir, "data")); len(pids) > 0 {
		t.Fatalf("processes %v are left after Stop", pids)
	}

	second := start(t, Config{Dir: dir})
	if err := second.CreateDatabase(t.Context(), "weft"); err != nil {
		t.Fatal(err)
	}
	if got := ask(t, second.DSN("weft"), "SELECT word FROM kept"); got != "here" {
		t.Errorf("word = %q after the restart", got)
	}
}

func TestASecondStartOnTheSameFolderIsRefused(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(folderFor(t), "postgres")
	start(t, Config{Dir: dir, Volatile: true})
	_, err := Start(t.Context(), Config{Dir: dir})
	want := "in use by process " + strconv.Itoa(os.Getpid())
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("second start: %v, want %q", err, want)
	}
}

// Between its fork and its exec a child has every file of this process open.
func TestStopUnlocksTheFolderWhateverAChildHasOpen(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(folderFor(t), "postgres")
	server := start(t, Config{Dir: dir, Volatile: true})
	held, err := syscall.Dup(int(server.home.lock.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(held)
	stop(t, server)
	start(t, Config{Dir: dir, Volatile: true})
}

func TestSettings(t *testing.T) {
	tests := []struct {
		name string
		cfg  Config
		want map[string]string
	}{
		{"durable", Config{}, map[string]string{"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "max_connections": "200", "listen_addresses": ""}},
		{"volatile", Config{Volatile: true}, map[string]string{"fsync": "off", "synchronous_commit": "off"}},
		{"own", Config{Volatile: true, Settings: map[string]string{"work_mem": "7MB"}}, map[string]string{"work_mem": "7MB"}},
	}
	for _, test := range waittest.Size(tests[:1], tests) {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.cfg.Dir = filepath.Join(folderFor(t), "postgres")
			server := start(t, test.cfg)
			for name, want := range test.want {
				if got := ask(t, server.DSN("postgres"), "SELECT current_setting('"+name+"')"); got != want {
					t.Errorf("%s = %q, want %q", name, got, want)
				}
			}
		})
	}
}

// A setting that a server of others does not have can hide a fault or a slow query of Weft. The
// sessions of platform/postgres set what Weft needs.
func TestPrivateServerHasNoSettingThatOtherServersLack(t *testing.T) {
	t.Parallel()
	server := start(t, Config{Dir: filepath.Join(folderFor(t), "postgres")})
	got := ask(t, server.DSN("postgres"), "SELECT string_agg(name, ' ' ORDER BY name) FROM pg_settings WHERE source = 'command line'")
	want := "cluster_name listen_addresses log_destination log_timezone logging_collector max_connections unix_socket_directories unix_socket_permissions"
	if got != want {
		t.Errorf("the private server sets %s, want %s", got, want)
	}
}

func TestLongPathGetsAShortSocket(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(folderFor(t), strings.Repeat("long-", 20), "postgres")
	server := start(t, Config{Dir: dir, Volatile: true})
	if got := ask(t, server.DSN("postgres"), "SELECT 'answers'"); got != "answers" {
		t.Errorf("got %q", got)
	}
	stop(t, server)
	if _, err := os.Stat(server.socket); !os.IsNotExist(err) {
		t.Errorf("the socket folder %s was not removed: %v", server.socket, err)
	}
}

func TestLeftoversOfACrashDoNotPreventStart(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(folderFor(t), "postgres")
	stop(t, start(t, Config{Dir: dir, Volatile: true}))

	// The process ID in the file is that of a different program.
	pid := filepath.Join(dir, "data", "postmaster.pid")
	text := fmt.Sprintf("%d\n%s\n1\n5432\n%s\n\n\nready\n", os.Getpid(), filepath.Dir(pid), dir)
	if err := os.WriteFile(pid, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	// Leftovers of an interrupted initdb.
	half := filepath.Join(dir, "init-dead")
	if err := os.Mkdir(half, 0o700); err != nil {
		t.Fatal(err)
	}
	server := start(t, Config{Dir: dir, Volatile: true})
	if got := ask(t, server.DSN("postgres"), "SELECT 'answers'"); got != "answers" {
		t.Errorf("got %q", got)
	}
}

func TestIncompleteFolderIsReplaced(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(folderFor(t), "postgres")
	half := filepath.Join(dir, "init-dead", "base")
	if err := os.MkdirAll(half, 0o700); err != nil {
		t.Fatal(err)
	}
	start(t, Config{Dir: dir, Volatile: true})
	if _, err := os.Stat(half); !os.IsNotExist(err) {
		t.Errorf("the incomplete folder was not removed: %v", err)
	}
}

func TestServerThatCannotStartReportsWhy(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(folderFor(t), "postgres")
	cfg := Config{Dir: dir, Volatile: true, Settings: map[string]string{"shared_buffers": "nonsense"}}
	if _, err := Start(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("error %v lacks PostgreSQL's message", err)
	}
	cfg.Settings = nil
	start(t, cfg) // the failure released the folder and left it complete
}

// owner is a separate process that runs a server.
type owner struct {
	cmd *exec.Cmd
	dsn string
}

// startOwner starts this test program as the owner of dir, as account if set.
func startOwner(t *testing.T, dir string, account *syscall.Credential) owner {
	t.Helper()
	program := filepath.Join(folderFor(t), "owner")
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	writeProgram(t, program, self)
	cmd := exec.Command(program)
	cmd.Dir = "/"
	home := folderFor(t)
	cmd.Env = append(os.Environ(), ownerDir+"="+dir, "HOME="+home)
	if account != nil {
		if err := os.Chown(home, int(account.Uid), int(account.Gid)); err != nil {
			t.Fatal(err)
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: account}
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "postgres://") {
		rest, _ := io.ReadAll(out)
		t.Fatalf("the owner did not start: %s%s (%v)", line, rest, err)
	}
	return owner{cmd: cmd, dsn: strings.TrimSpace(line)}
}

// writeProgram creates an executable file. A file that is open for writing cannot be executed. If a
// different test forks a child during the write, the child keeps the file open until its exec.
func writeProgram(t *testing.T, name string, text []byte) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(name, text, 0o755); err != nil {
		t.Fatal(err)
	}
}

// awaitEmpty waits until no process uses dir.
func awaitEmpty(t *testing.T, dir string) {
	t.Helper()
	waittest.Until(t, "all processes to exit with their owner", func() bool { return len(sidecar.ProcessesIn(dir)) == 0 })
}

func TestKilledOwnerLeavesNoServer(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(folderFor(t), "postgres")
	victim := startOwner(t, dir, nil)
	ask(t, victim.dsn, "CREATE TABLE kept AS SELECT 'here'::text AS word")
	if err := victim.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = victim.cmd.Wait()
	awaitEmpty(t, filepath.Join(dir, "data"))

	server := start(t, Config{Dir: dir, Volatile: true})
	if got := ask(t, server.DSN("postgres"), "SELECT word FROM kept"); got != "here" {
		t.Errorf("word = %q after the kill", got)
	}
}

func TestStartAfterAKillWaitsForTheOldServer(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(folderFor(t), "postgres")
	for range 3 {
		victim := startOwner(t, dir, nil)
		if err := victim.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = victim.cmd.Wait()
	}
	server := start(t, Config{Dir: dir, Volatile: true})
	if got := ask(t, server.DSN("postgres"), "SELECT 'answers'"); got != "answers" {
		t.Errorf("got %q", got)
	}
}

// If the tests run as root, TestAnOrdinaryUser runs a server as a different user. Otherwise every
// previous test has run as an ordinary user.
func TestAnOrdinaryUser(t *testing.T) {
	if os.Geteuid() != 0 {
		return // every other test has run as an ordinary user
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		t.Fatal(err)
	}
	uid, _ := strconv.Atoi(nobody.Uid)
	gid, _ := strconv.Atoi(nobody.Gid)
	base := folderFor(t)
	if err := os.Chown(base, uid, gid); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(base, "postgres")
	them := startOwner(t, dir, &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)})
	if got := ask(t, them.dsn, "SELECT 'answers'"); got != "answers" {
		t.Errorf("got %q", got)
	}
	info, err := os.Stat(filepath.Join(dir, "data"))
	if err != nil || ownerOf(info) != uid {
		t.Errorf("the data's owner is not %d: %v", uid, err)
	}
}
