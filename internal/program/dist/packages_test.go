//go:build linux

package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/local/pgtest"
)

// built returns a release of the real binary for this machine.
func built(t *testing.T, version string) release {
	t.Helper()
	r := release{version: version, changed: time.Unix(1_000_000_000, 0).UTC(), out: t.TempDir()}
	if err := r.build(t.Context(), []string{"linux/" + runtime.GOARCH}); err != nil {
		t.Fatal(err)
	}
	return r
}

// prepare returns a program whose output is logged if the test fails.
func prepare(t *testing.T, name string, args ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s %v:\n%s", filepath.Base(name), args, out.String())
		}
	})
	return cmd, &out
}

func must(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd, out := prepare(t, name, args...)
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v", filepath.Base(name), err)
	}
	return out.String()
}

// host is a folder into which dpkg installs as if it were the root of a machine.
type host struct {
	root     string
	uid, gid uint32
}

func newHost(t *testing.T) *host {
	t.Helper()
	root := t.TempDir()
	// The package's own user must be able to run the binary below the folder.
	if err := os.Chmod(filepath.Dir(root), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"var/lib/dpkg/updates", "var/lib/dpkg/info", "etc"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"status", "available"} {
		if err := os.WriteFile(filepath.Join(root, "var/lib/dpkg", file), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return &host{root: root}
}

func (h *host) path(name string) string { return filepath.Join(h.root, name) }

// dpkg runs dpkg on the folder. The scripts run outside of it, because it contains no shell. The
// packages that weft depends on are those of the machine.
func (h *host) dpkg(t *testing.T, args ...string) {
	t.Helper()
	must(t, "dpkg", append([]string{"--root=" + h.root, "--force-script-chrootless", "--force-depends"}, args...)...)
}

func (h *host) install(t *testing.T, r release) {
	t.Helper()
	h.dpkg(t, "--install", filepath.Join(r.out, "weft_"+r.debianVersion()+"_"+runtime.GOARCH+".deb"))
	for line := range strings.Lines(read(t, h.path("etc/passwd"))) {
		if fields := strings.Split(line, ":"); fields[0] == "weft" {
			uid, _ := strconv.Atoi(fields[2])
			gid, _ := strconv.Atoi(fields[3])
			h.uid, h.gid = uint32(uid), uint32(gid)
		}
	}
	if h.uid == 0 {
		t.Fatal("the package created no user")
	}
}

func (h *host) expectMode(t *testing.T, name string, want fs.FileMode) {
	t.Helper()
	info, err := os.Stat(h.path(name))
	if err != nil {
		t.Error(err)
	} else if info.Mode().Perm() != want {
		t.Errorf("%s has mode %o, want %o", name, info.Mode().Perm(), want)
	}
}

func (h *host) expectMissing(t *testing.T, name string) {
	t.Helper()
	if _, err := os.Stat(h.path(name)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s: %v, want it to be missing", name, err)
	}
}

// unit prepares the ExecStart of a unit, with its environment files and as its user.
func (h *host) unit(t *testing.T, name string, extra ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	var command, env []string
	for _, line := range statements(read(t, h.path("usr/lib/systemd/system/"+name+".service"))) {
		key, value, _ := strings.Cut(line, "=")
		switch key {
		case "ExecStart":
			command = strings.Fields(value)
		case "EnvironmentFile":
			env = append(env, statements(read(t, h.path(value)))...)
		}
	}
	cmd, out := prepare(t, h.path(command[0]), command[1:]...)
	cmd.Env = append(env, extra...)
	cmd.Dir = "/"
	cmd.SysProcAttr = h.user()
	return cmd, out
}

// user makes a process run as the user of the package.
func (h *host) user() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: h.uid, Gid: h.gid}}
}

// start starts a unit and returns its process and addresses.
func (h *host) start(t *testing.T, name string) (cmd *exec.Cmd, api, ops string) {
	t.Helper()
	api, ops = freeAddress(t), freeAddress(t)
	cmd, _ = h.unit(t, name, "WEFT_ADDR="+api, "WEFT_OPS_ADDR="+ops, "WEFT_DRAIN_DELAY=0s")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, api, ops
}

// run starts a unit, waits until it is ready and returns its process and address.
func (h *host) run(t *testing.T, name string) (*exec.Cmd, string) {
	t.Helper()
	cmd, api, ops := h.start(t, name)
	waittest.Until(t, name+" is ready", func() bool { code, _ := readiness(t.Context(), ops); return code == http.StatusOK })
	return cmd, api
}

func stop(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %v", cmd.Args, err)
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// readiness returns the response of /readyz; 0: none.
func readiness(ctx context.Context, ops string) (int, string) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+ops+"/readyz", nil)
	if err != nil {
		return 0, err.Error()
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(body)
}

// emptyDatabase creates a database without Weft's schema.
func emptyDatabase(t *testing.T) string {
	t.Helper()
	server := pgtest.ServerDSN(t)
	name := "dist_" + strings.ToLower(rand.Text()[:10])
	administer(t, server, "CREATE DATABASE "+name)
	t.Cleanup(func() { administer(t, server, "DROP DATABASE "+name+" WITH (FORCE)") })
	address, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	address.Path = "/" + name
	return address.String()
}

func administer(t *testing.T, dsn, statement string) {
	t.Helper()
	ctx, cancel := waittest.CleanupContext(t)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, statement); err != nil {
		t.Fatal(err)
	}
}

// count returns the number of tables, or of rows of a table.
func count(t *testing.T, dsn, from string) (rows int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM "+from).Scan(&rows); err != nil {
		t.Fatal(err)
	}
	return rows
}

func TestDebianPackageInstallsUpgradesAndKeepsTheMasterKey(t *testing.T) {
	if waittest.LeftToSoak(t, "internal/program/dist.TestUnitsRunAsTheirUserWithoutPrivileges", "internal/program/dist.TestPackageScriptsNeitherMigrateNorDelete", "internal/program/dist.TestDebianPackageNamesFilesThatExist") {
		return
	}
	atRoot(t)
	dsn := emptyDatabase(t)
	first, second, h := built(t, "v0.1.0"), built(t, "v0.2.0"), newHost(t)

	h.install(t, first)
	h.expectMode(t, "usr/bin/weft", 0o755)
	h.expectMode(t, "usr/share/man/man1/weft-runs-list.1", 0o644)
	h.expectMode(t, "etc/weft", 0o750)
	h.expectMode(t, "etc/weft/weft.env", 0o640)
	h.expectMode(t, "etc/weft/master-key.env", 0o600)
	key := read(t, h.path("etc/weft/master-key.env"))
	for name, readable := range map[string]bool{"etc/weft/weft.env": true, "etc/weft/master-key.env": false} {
		cmd, _ := prepare(t, "cat", h.path(name))
		cmd.SysProcAttr = h.user()
		if err := cmd.Run(); (err == nil) != readable {
			t.Errorf("the user weft reads %s: %v", name, err)
		}
	}
	// The units refer to units of systemd.
	must(t, "cp", "-a", "/usr/lib/systemd/system/.", h.path("usr/lib/systemd/system"))
	for _, unit := range []string{"weft-serve.service", "weft-work.service", "weft-migrate.service"} {
		must(t, "systemd-analyze", "verify", "--man=no", "--root="+h.root, unit)
		must(t, "systemd-analyze", "security", "--offline=true", "--threshold=20", "--root="+h.root, unit)
	}

	settings := h.use(t, dsn)
	const tables = "pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
	if n := count(t, dsn, tables); n != 0 {
		t.Errorf("the installation created %d tables", n)
	}
	h.migrate(t)
	serve, api := h.run(t, "weft-serve")
	work, _ := h.run(t, "weft-work")
	credentials := h.newKey(t, api)
	h.weft(t, "call", "RANDOM_UUID", "--credentials", credentials)

	h.install(t, second)
	if got := must(t, h.path("usr/bin/weft"), "--version"); !strings.Contains(got, "v0.2.0") {
		t.Errorf("the upgraded binary is %s", got)
	}
	if read(t, h.path("etc/weft/master-key.env")) != key || read(t, h.path("etc/weft/weft.env")) != settings {
		t.Error("the upgrade changed the settings or the master key")
	}
	// The processes of the first version continue until the operator restarts them.
	h.weft(t, "call", "RANDOM_UUID", "--credentials", credentials)
	stop(t, serve)
	stop(t, work)
	serve, _ = h.run(t, "weft-serve")
	stop(t, serve)
	if n := count(t, dsn, "component_executions"); n != 2 {
		t.Errorf("%d executions after the upgrade, want 2", n)
	}

	h.dpkg(t, "--remove", "weft")
	h.expectMissing(t, "usr/bin/weft")
	h.expectMode(t, "etc/weft/weft.env", 0o640)
	h.dpkg(t, "--purge", "weft")
	h.expectMissing(t, "etc/weft/weft.env")
	h.expectMode(t, "etc/weft/master-key.env", 0o600)
	if read(t, h.path("etc/weft/master-key.env")) != key || count(t, dsn, "component_executions") != 2 {
		t.Error("the purge changed the master key or the database")
	}
}

// use writes the address of the database to the settings, and returns them. The package's user may
// not open the folder of the test server's socket.
func (h *host) use(t *testing.T, dsn string) (settings string) {
	t.Helper()
	settings = "DATABASE_URL=" + pgtest.NewCutter(t, dsn).DSN + "\n"
	if err := os.WriteFile(h.path("etc/weft/weft.env"), []byte(settings), 0o640); err != nil {
		t.Fatal(err)
	}
	return settings
}

func (h *host) migrate(t *testing.T) {
	t.Helper()
	migrate, _ := h.unit(t, "weft-migrate")
	if err := migrate.Run(); err != nil {
		t.Fatal(err)
	}
}

// newKey creates a workspace with credits, and returns the file with its API key.
func (h *host) newKey(t *testing.T, api string) (credentials string) {
	t.Helper()
	credentials = filepath.Join(t.TempDir(), "credentials.json")
	h.weft(t, "admin", "owner", "acme", "ada@example.org", "--new-workspace")
	h.weft(t, "admin", "credits", "acme", "1000", "--reference", "order 1")
	h.weft(t, "keys", "create", "--workspace", "acme", "--label", "first", "--base-url", "http://"+api, "--out", credentials)
	return credentials
}

// weft runs a command of the installed binary with the settings of the units.
func (h *host) weft(t *testing.T, args ...string) {
	t.Helper()
	cmd, _ := prepare(t, h.path("usr/bin/weft"), args...)
	for _, name := range []string{"weft.env", "master-key.env"} {
		cmd.Env = append(cmd.Env, statements(read(t, h.path("etc/weft/"+name)))...)
	}
	cmd.Env = append(cmd.Env, "WEFT_ADMIN_PASSWORD=correct horse battery staple", "PATH="+os.Getenv("PATH"))
	if err := cmd.Run(); err != nil {
		t.Fatalf("weft %v: %v", args, err)
	}
}

func TestPackagesAreReproducible(t *testing.T) {
	if waittest.LeftToSoak(t, "internal/program/dist.TestPackagesOfOneBinaryAreReproducible", "internal/program/dist.TestBillOfMaterialsIsRepeatable") {
		return
	}
	atRoot(t)
	r := built(t, "v0.1.0")
	one := read(t, filepath.Join(r.out, "SHA256SUMS"))
	if two := read(t, filepath.Join(built(t, "v0.1.0").out, "SHA256SUMS")); one != two {
		t.Errorf("first:\n%ssecond:\n%s", one, two)
	}
	t.Logf("SHA256SUMS of both:\n%s", one)
	if list := read(t, filepath.Join(r.out, "weft_v0.1.0_linux_"+runtime.GOARCH+".cdx.json")); !strings.Contains(list, `"pkg:golang/github.com/jackc/pgx/v5@v`) {
		t.Errorf("the bill of materials lacks a module: %s", list)
	}
}
