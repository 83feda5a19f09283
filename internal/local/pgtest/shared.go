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

// The packages of one `go test` run are processes that begin and end at any
// time, so none of them can own the server that they share. The owner is a
// keeper: the first test program, run once more in a session of its own. It
// watches a file that every user holds a shared lock on, and ends when nobody
// has held it for a while.
//
// Two locks in the meeting place:
//   - door (exclusive): coming in and closing down happen one at a time;
//   - users (shared): held by every test process as long as it lives.

const (
	keeperEnv  = "WEFT_PGTEST_KEEPER"
	keeperIdle = 10 * time.Second
	// memoryNeeded is what /dev/shm must have free to hold the server.
	memoryNeeded = 3 << 29
)

func init() {
	if dir := os.Getenv(keeperEnv); dir != "" {
		os.Exit(keep(place(dir)))
	}
}

// place is the meeting place of a user's test processes.
type place string

func (p place) file(name string) string { return filepath.Join(string(p), name) }

// meetingPlace is private to the user and to the choice of PostgreSQL.
func meetingPlace() (place, error) {
	name := "weft-pgtest-" + strconv.Itoa(os.Geteuid())
	if bin := os.Getenv("PG_BIN"); bin != "" {
		name += "-" + short(bin)
	}
	dir := filepath.Join(os.TempDir(), name)
	return place(dir), ownFolder(dir)
}

// ownFolder makes a folder that is this user's alone to change. Its name can be
// guessed: one that somebody else put there is refused.
func ownFolder(dir string) error {
	if err := os.Mkdir(dir, 0o711); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() || int(info.Sys().(*syscall.Stat_t).Uid) != os.Geteuid() || info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s belongs to somebody else: remove it, or set TMPDIR", dir)
	}
	return os.Chmod(dir, 0o711) // the server's user passes through
}

func short(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:4])
}

// serverFolder is in memory where there is room: a copy of the template then
// takes 15 ms instead of 300. Each meeting place has a folder of its own there: another
// TMPDIR means another server, and starting one empties its folder.
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

// held are the locks that end with this process.
var held []*os.File

// join returns the address of the shared server, which is started if need be.
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

// answers reports whether the server is there. One that is gone fails at once. A slow one has
// as long as ctx, because starting another empties the folder of the first.
func answers(ctx context.Context, dsn string) bool {
	return admin(ctx, dsn, func(conn *pgx.Conn) error { return conn.Ping(ctx) }) == nil
}

// startKeeper runs this program once more and waits for its word.
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
	cmd.Stdout, cmd.Stderr = log, log // go test waits for whoever holds its own
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

// keep owns the server until nobody uses it. It starts while its first user
// holds the door.
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
				return p.closeDown(server, dir) // with the door held: the next comer finds nothing
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
	if err := os.RemoveAll(dir); err != nil { // of a keeper that was killed
		return nil, "", err
	}
	server, err := devdb.Start(ctx, devdb.Config{Dir: dir, Volatile: true, Settings: map[string]string{
		"autovacuum":   "off", // hundreds of databases, each for seconds
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

// lock opens a file and locks it; closing it, or the end of the process, unlocks.
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
