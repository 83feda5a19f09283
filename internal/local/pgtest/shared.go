//go:build linux

package pgtest

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/internal/local/devdb"
)

// The packages of one `go test` run are processes that start and exit at any time, so none of them
// can own the server that they share. Its owner is the keeper: the first test program, started once
// more in a separate session. The keeper watches a file on which every test process holds a shared
// lock, and exits once the file has been unlocked for some seconds.
//
// Two locks in the shared folder:
//   - door (exclusive): joining and shutting down are mutually exclusive;
//   - users (shared): held by every test process while it runs.

const (
	keeperEnv  = "WEFT_PGTEST_KEEPER"
	keeperIdle = 10 * time.Second
	// memoryNeeded is the free memory in /dev/shm that the server needs.
	memoryNeeded = 3 << 29
)

func init() {
	if dir := os.Getenv(keeperEnv); dir != "" {
		os.Exit(keep(place(dir)))
	}
}

// place is the shared folder of a user's test processes.
type place string

func (p place) file(name string) string { return filepath.Join(string(p), name) }

// meetingPlace returns the place for this user and choice of PostgreSQL.
func meetingPlace() (place, error) {
	name := "weft-pgtest-" + strconv.Itoa(os.Geteuid())
	if bin := os.Getenv("PG_BIN"); bin != "" {
		name += "-" + short(bin)
	}
	dir := filepath.Join(os.TempDir(), name)
	return place(dir), ownFolder(dir)
}

// ownFolder creates a folder that only this user can change. Other users can guess the folder's
// name, so ownFolder rejects a folder that a different user owns.
func ownFolder(dir string) error {
	if err := os.Mkdir(dir, 0o711); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() || int(info.Sys().(*syscall.Stat_t).Uid) != os.Geteuid() || info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s belongs to another user; remove it, or set TMPDIR", dir)
	}
	return os.Chmod(dir, 0o711) // the server's user must be able to enter it
}

func short(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:4])
}

// serverFolder returns the folder of the server's data. The folder is in memory if there is room,
// because copying the template then takes 15 ms instead of 300. Starting a server empties its
// folder, so each shared folder, which depends on TMPDIR, has a separate server folder in memory.
func (p place) serverFolder() string {
	var memory syscall.Statfs_t
	if err := syscall.Statfs("/dev/shm", &memory); err == nil && memory.Bavail*uint64(memory.Bsize) >= memoryNeeded {
		dir := filepath.Join("/dev/shm", filepath.Base(string(p))+"-"+short(string(p)))
		if err := ownFolder(dir); err == nil {
			return filepath.Join(dir, "server")
		}
	}
	return p.file("server")
}

// held are the locks that are released when this process exits.
var held []*os.File

// join returns the address of the shared server. It starts the server if necessary.
func join(ctx context.Context) (string, error) {
	p, err := meetingPlace()
	if err != nil {
		return "", err
	}
	door, err := lock(p.file("door"), syscall.LOCK_EX)
	if err != nil {
		return "", err
	}
	defer door.Close()
	users, err := lock(p.file("users"), syscall.LOCK_SH)
	if err != nil {
		return "", err
	}
	held = append(held, users)
	if dsn, err := os.ReadFile(p.file("dsn")); err == nil && answers(ctx, string(dsn)) {
		return string(dsn), nil
	}
	return p.startKeeper()
}

// answers reports whether the server accepts connections. If the server has exited, answers returns
// false immediately. It waits for a slow server until ctx is done, because starting a second server
// would empty the folder of the first.
func answers(ctx context.Context, dsn string) bool {
	return admin(ctx, dsn, func(conn *pgx.Conn) error { return conn.Ping(ctx) }) == nil
}

// startKeeper starts this program once more and waits for its report.
func (p place) startKeeper() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	word, say, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer word.Close()
	defer say.Close()
	log, err := os.Create(p.file("keeper.log"))
	if err != nil {
		return "", err
	}
	defer log.Close()
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), keeperEnv+"="+string(p))
	cmd.Stdout, cmd.Stderr = log, log // go test waits for every process that has its output open
	cmd.ExtraFiles = []*os.File{say}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	if err := errors.Join(say.Close(), cmd.Process.Release()); err != nil {
		return "", err
	}
	line, err := bufio.NewReader(word).ReadString('\x00')
	dsn, ok := strings.CutPrefix(strings.TrimSuffix(line, "\x00"), "ready ")
	if err != nil || !ok {
		return "", fmt.Errorf("%s (see %s)", strings.TrimSuffix(line, "\x00"), log.Name())
	}
	return dsn, nil
}

// keep owns the server until nobody uses it. It starts while its first user holds the door lock.
func keep(p place) int {
	say := os.NewFile(3, "word")
	server, dir, err := p.startServer()
	if err != nil {
		fmt.Fprintf(say, "%v\x00", err)
		return 1
	}
	fmt.Fprintf(say, "ready %s\x00", server.DSN("postgres"))
	say.Close()

	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	lastUse := time.Now()
	for {
		select {
		case <-server.Done():
			return 1
		case <-tick.C:
		}
		door, err := lock(p.file("door"), syscall.LOCK_EX|syscall.LOCK_NB)
		if err != nil {
			lastUse = time.Now()
			continue
		}
		used, err := lock(p.file("users"), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			used.Close()
			if time.Since(lastUse) >= keeperIdle {
				return p.closeDown(server, dir) // with the door lock held, so the next process starts a new server
			}
		} else {
			lastUse = time.Now()
		}
		door.Close()
	}
}

func (p place) startServer() (*devdb.Server, string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	dir := p.serverFolder()
	if err := os.RemoveAll(dir); err != nil { // left by a killed keeper
		return nil, "", err
	}
	server, err := devdb.Start(ctx, devdb.Config{Dir: dir, Volatile: true, Settings: map[string]string{
		"autovacuum":   "off", // there are hundreds of databases, each for some seconds
		"max_wal_size": "256MB",
	}})
	if err != nil {
		return nil, "", err
	}
	return server, dir, os.WriteFile(p.file("dsn"), []byte(server.DSN("postgres")), 0o600)
}

func (p place) closeDown(server *devdb.Server, dir string) int {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err := errors.Join(os.Remove(p.file("dsn")), server.Stop(ctx), os.RemoveAll(dir))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// lock opens and locks a file. Closing it unlocks, and so does the exit of the process.
func lock(name string, how int) (*os.File, error) {
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), how); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", name, err), file.Close())
	}
	return file, nil
}
