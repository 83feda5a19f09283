//go:build linux

package devdb

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/weft-automation/weft/internal/local/sidecar"
)

// maxSocketPath is the longest path that sockaddr_un can hold on Linux.
const maxSocketPath = 107

// maxLog is the size beyond which the server's log is rotated at the start.
const maxLog = 8 << 20

// folder is a server's folder, locked by this process.
type folder struct {
	dir     string // real path; the caller's path may be a link
	account account
	lock    *os.File // nil once unlocked
}

func (f *folder) data() string { return filepath.Join(f.dir, "data") }

func logFile(dir string) string { return filepath.Join(dir, "server.log") }

// openFolder creates dir if necessary, makes the server's account its owner, and locks it.
func openFolder(dir string, log *slog.Logger) (*folder, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open the data folder: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return nil, fmt.Errorf("open the data folder: %w", err)
	}
	owner, err := accountFor(dir)
	if err != nil {
		return nil, err
	}
	real, err := owner.makeHome(dir, log)
	if err != nil {
		return nil, err
	}
	lock, err := sidecar.Lock(real)
	if err != nil {
		return nil, err
	}
	return &folder{dir: real, account: owner, lock: lock}, nil
}

// unlock releases the folder.
func (f *folder) unlock() error {
	if f.lock == nil {
		return nil
	}
	err := sidecar.Unlock(f.lock)
	f.lock = nil
	return err
}

// version returns the PostgreSQL major version of the data, or 0 if there is no data.
func (f *folder) version() (int, error) {
	text, err := os.ReadFile(filepath.Join(f.data(), "PG_VERSION"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the version of the data folder: %w", err)
	}
	version, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, fmt.Errorf("the data folder %s has no readable PG_VERSION: %w", f.data(), err)
	}
	return version, nil
}

// initialise creates the data in a temporary folder and renames the folder once it is complete, so
// that a crash leaves no incomplete data folder.
func (f *folder) initialise(ctx context.Context, bin string, volatile bool) error {
	old, _ := filepath.Glob(filepath.Join(f.dir, "init-*"))
	for _, leftover := range old {
		if err := os.RemoveAll(leftover); err != nil {
			return fmt.Errorf("remove an incomplete data folder: %w", err)
		}
	}
	fresh, err := os.MkdirTemp(f.dir, "init-")
	if err != nil {
		return fmt.Errorf("create the data folder: %w", err)
	}
	if err := f.account.own(fresh); err != nil {
		return err
	}
	args := []string{
		"-D", fresh, "-U", superuser, "-A", "trust", "--encoding=UTF8", "--locale=C.UTF-8",
		"--data-checksums", "--no-instructions",
	}
	if volatile {
		args = append(args, "--no-sync")
	}
	proc, err := f.spawn(filepath.Join(bin, "initdb"), args, syscall.SIGKILL)
	if err != nil {
		return err
	}
	select {
	case <-proc.Done():
	case <-ctx.Done():
		proc.Stop(ctx, fast, immediate)
		return fmt.Errorf("create the data folder: %w", ctx.Err())
	}
	if err := proc.Err(); err != nil {
		return fmt.Errorf("initdb: %w; the end of %s:\n%s", err, logFile(f.dir), logTail(f.dir))
	}
	if err := os.Rename(fresh, f.data()); err != nil {
		return fmt.Errorf("create the data folder: %w", err)
	}
	return nil
}

// clearLeftovers waits until the server of a killed predecessor has exited. That server is already
// exiting: the kernel signaled it when the predecessor died. clearLeftovers also removes a stale
// postmaster.pid: a different program may have the process ID in the file by now, and PostgreSQL
// would mistake that program for a server.
func (f *folder) clearLeftovers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := sidecar.AwaitNone(ctx, f.data()); err != nil { // PostgreSQL's processes keep the data folder as their working directory
		return err
	}
	err := os.Remove(filepath.Join(f.data(), "postmaster.pid"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove a stale postmaster.pid: %w", err)
	}
	return nil
}

// socketFolder returns the folder itself, or a short private one under /tmp if the path is too long
// for a socket.
func (f *folder) socketFolder() (string, error) {
	if len(filepath.Join(f.dir, ".s.PGSQL.5432")) <= maxSocketPath {
		return f.dir, nil
	}
	sum := sha256.Sum256([]byte(f.dir))
	dir := filepath.Join("/tmp", "weft-"+hex.EncodeToString(sum[:8]))
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("make the socket folder: %w", err)
	} else if err == nil {
		return dir, f.account.own(dir)
	}
	// The name can be guessed, so a folder that a different user created is rejected.
	info, err := os.Lstat(dir)
	if err != nil {
		return "", fmt.Errorf("socket folder: %w", err)
	}
	if !info.IsDir() || info.Mode().Perm() != 0o700 || ownerOf(info) != f.account.uid {
		return "", fmt.Errorf("the socket folder %s belongs to another user; remove it, or use a shorter data folder path", dir)
	}
	return dir, nil
}

// spawn starts one of PostgreSQL's programs as the folder's account, with its output in the log. The
// program gets the signal onDeath when this process dies.
func (f *folder) spawn(program string, args []string, onDeath syscall.Signal) (*sidecar.Process, error) {
	name := logFile(f.dir)
	if info, err := os.Stat(name); err == nil && info.Size() > maxLog {
		if err := os.Rename(name, name+".1"); err != nil {
			return nil, fmt.Errorf("rotate the server's log: %w", err)
		}
	}
	out, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the server's log: %w", err)
	}
	defer out.Close()
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = f.dir, out, out
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + f.dir, "TZ=UTC"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: f.account.credential}
	return sidecar.Launch(cmd, onDeath)
}

// logTail returns the end of the server's log.
func logTail(dir string) string {
	text, err := os.ReadFile(logFile(dir))
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-12):], "\n")
}
