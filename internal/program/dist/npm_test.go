//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/kit/waittest"
)

// npm installs the packed files without a network. The packages of other platforms are missing, as
// they are for users.
func TestNpmPackageRunsTheBinary(t *testing.T) {
	if waittest.LeftToSoak(t, "internal/program/dist.TestLauncherOfNpmParses") {
		return
	}
	atRoot(t)
	r, dir := built(t, "v0.1.0"), t.TempDir()
	here := binary{system: "linux", arch: runtime.GOARCH}
	if err := r.npmLauncher([]binary{here, {system: "darwin", arch: "arm64"}}); err != nil {
		t.Fatal(err)
	}
	packs := []string{"npm-weft-0.1.0.tgz", "npm-" + platformPackage(here) + "-0.1.0.tgz"}
	for i, name := range packs {
		packs[i] = filepath.Join(r.out, name)
	}
	must(t, "npm", append([]string{"install", "--offline", "--no-audit", "--no-fund", "--cache", t.TempDir(), "--prefix", dir}, packs...)...)
	launcher := filepath.Join(dir, "node_modules", ".bin", "weft")
	if got := must(t, launcher, "--version"); !strings.Contains(got, "v0.1.0") {
		t.Errorf("the installed version is %s", got)
	}
	cmd, _ := prepare(t, launcher, "no-such-command")
	var exit *exec.ExitError
	if err := cmd.Run(); !errors.As(err, &exit) || exit.ExitCode() < 1 {
		t.Errorf("an unknown command exits with %v", err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "node_modules", filepath.FromSlash(scope+platformPackage(here)))); err != nil {
		t.Fatal(err)
	}
	cmd, out := prepare(t, launcher, "--version")
	if err := cmd.Run(); err == nil || !strings.Contains(out.String(), fmt.Sprintf("the package %s%s is not installed", scope, platformPackage(here))) {
		t.Errorf("without its binary: %v: %s", err, out)
	}
}
