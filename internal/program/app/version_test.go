package app

import (
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
)

func TestVersionFallsBackFromReleaseToCommit(t *testing.T) {
	commit := []debug.BuildSetting{{Key: "vcs.revision", Value: "4eaa9cd0123456789abcdef"}, {Key: "vcs.modified", Value: "true"}}
	for name, tc := range map[string]struct {
		info *debug.BuildInfo
		want string
	}{
		"a released module": {&debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}, Settings: commit}, "v1.2.3"},
		"a checkout":        {&debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: commit}, "4eaa9cd01234-dirty"},
		"nothing":           {&debug.BuildInfo{}, "(devel)"},
	} {
		if got := version(tc.info, true); got != tc.want {
			t.Errorf("%s: got version %q, want %q", name, got, tc.want)
		}
	}
	if got := version(nil, false); got != "(devel)" {
		t.Errorf("got version %q without build information", got)
	}
}

// The Makefile derives the version from the commit in a clone, and from the sources elsewhere.
func TestMakeSetsTheVersionInACloneAndInASourceTree(t *testing.T) {
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	tree := t.TempDir()
	for _, command := range [][]string{
		{"cp", filepath.Join(root, "Makefile"), filepath.Join(root, "go.sum"), filepath.Join(root, "openapi.yaml"), tree},
		{"mkdir", "-p", tree + "/cmd", tree + "/gen", tree + "/internal", tree + "/queries"},
	} {
		if out, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v failed: %v: %s", command, err, out)
		}
	}
	named := func() string {
		t.Helper()
		command := exec.CommandContext(t.Context(), "make", "-s", "--no-print-directory", "-C", tree, "version")
		command.Env = append(command.Environ(), "MAKEFLAGS=") // without the flags of the make that runs the tests
		out, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("make version failed: %v: %s", err, out)
		}
		return strings.TrimSpace(string(out))
	}
	sources := named()
	if !strings.HasPrefix(sources, "source-") || named() != sources {
		t.Errorf("got version %q of a source tree", sources)
	}
	if _, err := exec.LookPath("git"); err != nil {
		return // without git there is no clone to test
	}
	for _, arguments := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qm", "one"}} {
		if out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", tree}, arguments...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", arguments, err, out)
		}
	}
	out, err := exec.CommandContext(t.Context(), "git", "-C", tree, "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		t.Fatal(err)
	}
	if got := named(); got != strings.TrimSpace(string(out)) {
		t.Errorf("a clone at %s has the version %q", out, got)
	}
}
