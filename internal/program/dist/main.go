// Command dist builds what users install: an archive, a software bill of materials, a Debian
// package and an npm package for each platform, a Helm chart, and the SHA-256 checksums of all files.
// `make dist` runs it.
//
// It owns the sources of the packages, which are in its folders. It does not sign or publish. Its one
// invariant: the same sources, Go release, version and time make the same bytes, so nothing here
// reads a clock or writes the name of a folder or user.
package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"
)

// platforms are the systems that get a binary.
const platforms = "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64"

// The sources of the packages, and the module that pins nfpm.
const (
	sources = "internal/program/dist/"
	nfpm    = "internal/tools/nfpm/go.mod"
)

// release is one set of packages.
type release struct {
	version string
	changed time.Time // modification time of every packed file
	out     string
	man     string // folder with the manual
}

// binary is the program of one platform.
type binary struct {
	system, arch string
	path         string
}

func (b binary) platform() string { return b.system + "_" + b.arch }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var r release
	flag.StringVar(&r.version, "version", "", "version of the release, such as v1.2.3 or a commit")
	flag.StringVar(&r.out, "out", "dist", "folder for the packages, which is replaced")
	names := flag.String("platforms", platforms, "platforms to build for, separated by commas")
	epoch := flag.Int64("epoch", 0, "modification time of packed files, in seconds since 1970")
	flag.Parse()
	r.changed = time.Unix(*epoch, 0).UTC()
	if err := r.build(ctx, strings.Split(*names, ",")); err != nil {
		fmt.Fprintf(os.Stderr, "make dist: %v\n", err)
		os.Exit(1)
	}
}

// build writes all packages and their checksums. The current folder must be the repository.
func (r release) build(ctx context.Context, platforms []string) error {
	if r.version == "" {
		return errors.New("the version is empty; set VERSION")
	}
	if err := os.RemoveAll(r.out); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "weft-dist-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	r.man = filepath.Join(work, "man1")
	if err := r.manual(ctx); err != nil {
		return fmt.Errorf("write the manual: %w", err)
	}
	var binaries []binary
	for _, name := range platforms {
		system, arch, ok := strings.Cut(name, "/")
		if !ok {
			return fmt.Errorf("invalid platform %q; write it as linux/amd64", name)
		}
		b := binary{system: system, arch: arch, path: filepath.Join(work, system+"_"+arch, "weft")}
		if err := r.compile(ctx, b); err != nil {
			return fmt.Errorf("build weft for %s: %w", name, err)
		}
		if err := r.pack(ctx, b); err != nil {
			return fmt.Errorf("package weft for %s: %w", name, err)
		}
		binaries = append(binaries, b)
	}
	if err := r.npmLauncher(binaries); err != nil {
		return fmt.Errorf("package weft for npm: %w", err)
	}
	if err := r.chart(); err != nil {
		return fmt.Errorf("package weft for Kubernetes: %w", err)
	}
	return r.checksums()
}

// compile builds a static binary that contains neither paths of this machine nor the state of git.
func (r release) compile(ctx context.Context, b binary) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false",
		"-ldflags", "-s -w -X github.com/weft-automation/weft/internal/program/app.stamp="+r.version,
		"-o", b.path, "./cmd/weft")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOOS="+b.system, "GOARCH="+b.arch, "GOAMD64=v1", "GOARM64=v8.0")
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	return cmd.Run()
}

// manual writes a page for each command, as the source of this release describes it. With -trimpath,
// compile uses the same compiled packages.
func (r release) manual(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, "go", "run", "-trimpath", "-buildvcs=false", "./cmd/weft", "help", "--man", r.man)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	return cmd.Run()
}

// pack writes the packages of one platform.
func (r release) pack(ctx context.Context, b binary) error {
	if err := r.archive(b); err != nil {
		return err
	}
	if err := r.sbom(b); err != nil {
		return err
	}
	if err := r.npmBinary(b); err != nil || b.system != "linux" {
		return err
	}
	return r.debian(ctx, b)
}

// archive writes the binary with its licence and its manual, for users of no package manager.
func (r release) archive(b binary) error {
	name := fmt.Sprintf("weft_%s_%s", r.version, b.platform())
	files := []packed{
		{name: name + "/weft", from: b.path, mode: 0o755},
		{name: name + "/LICENSE", from: "LICENSE", mode: 0o644},
	}
	pages, err := filepath.Glob(filepath.Join(r.man, "*.1")) // sorted by name
	for _, page := range pages {
		files = append(files, packed{name: name + "/man1/" + filepath.Base(page), from: page, mode: 0o644})
	}
	return errors.Join(err, r.tarball(name+".tar.gz", files))
}

// checksums writes SHA256SUMS, which `sha256sum --check` reads.
func (r release) checksums() error {
	entries, err := os.ReadDir(r.out) // sorted by name
	if err != nil {
		return err
	}
	var sums strings.Builder
	for _, entry := range entries {
		content, err := os.ReadFile(filepath.Join(r.out, entry.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(content), entry.Name())
	}
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(sums.String()), 0o644)
}
