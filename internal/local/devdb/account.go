//go:build linux

package devdb

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/weft-automation/weft/internal/local/sidecar"
)

// account is the user that PostgreSQL runs as. It refuses root, so a Weft that
// is root lends it another.
type account struct {
	uid, gid   int
	credential *syscall.Credential // nil: the user of this process
}

// accountFor picks the account: this process's own; as root the owner of what
// already lies at dir, else postgres, else nobody. The account must be one that
// the system knows by name, because initdb looks it up.
func accountFor(dir string) (account, error) {
	if uid := os.Geteuid(); uid != 0 {
		return account{uid: uid, gid: os.Getegid()}, nil
	}
	if info, err := os.Stat(filepath.Join(dir, "data")); err == nil {
		if stat := info.Sys().(*syscall.Stat_t); stat.Uid != 0 {
			return lent(int(stat.Uid), int(stat.Gid)), nil
		}
	}
	for _, name := range []string{"postgres", "nobody"} {
		known, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errUID := strconv.Atoi(known.Uid)
		gid, errGID := strconv.Atoi(known.Gid)
		if err := errors.Join(errUID, errGID); err != nil {
			return account{}, fmt.Errorf("user %s: %w", name, err)
		}
		return lent(uid, gid), nil
	}
	return account{}, errors.New("PostgreSQL does not run as root, and there is neither a user postgres nor nobody: run Weft as an ordinary user, or set DATABASE_URL")
}

func lent(uid, gid int) account {
	return account{uid: uid, gid: gid, credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
}

// own hands path to the account.
func (a account) own(path string) error {
	if a.credential == nil {
		return nil
	}
	if err := os.Chown(path, a.uid, a.gid); err != nil {
		return fmt.Errorf("hand %s to the user of PostgreSQL: %w", path, err)
	}
	return nil
}

// makeHome makes the folder of a server and returns its real path. When root
// asks for a place that the account cannot get to (below /root, say), the
// folder lies under /var/lib/weft and dir is a link to it.
func (a account) makeHome(dir string, log *slog.Logger) (string, error) {
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) && !a.reaches(filepath.Dir(dir)) {
		place, err := shelter("postgres-")
		if err != nil {
			return "", err
		}
		if err := os.Symlink(place, dir); err != nil {
			return "", fmt.Errorf("link the data folder: %w", err)
		}
		log.Warn("the data folder lies elsewhere, because PostgreSQL's user cannot get into this one",
			"folder", dir, "real_folder", place)
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("data folder: %w", err)
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", fmt.Errorf("data folder: %w", err)
	}
	info, err := os.Stat(real)
	if err != nil {
		return "", fmt.Errorf("data folder: %w", err)
	}
	switch {
	case !info.IsDir():
		return "", fmt.Errorf("the data folder %s is not a folder", dir)
	case a.credential == nil && ownerOf(info) != a.uid:
		return "", fmt.Errorf("the data folder %s belongs to user %d: run Weft as that user, or choose another folder", dir, ownerOf(info))
	case !a.reaches(filepath.Dir(real)):
		return "", fmt.Errorf("PostgreSQL's user (%d) cannot get into %s: choose a data folder elsewhere", a.uid, filepath.Dir(real))
	}
	return real, a.own(real)
}

// reaches reports whether the account may walk down to dir.
func (a account) reaches(dir string) bool {
	if a.credential == nil {
		return true
	}
	for {
		info, err := os.Stat(dir)
		if err != nil || !a.mayEnter(info) {
			return false
		}
		if dir == filepath.Dir(dir) {
			return true
		}
		dir = filepath.Dir(dir)
	}
}

func (a account) mayEnter(info fs.FileInfo) bool {
	stat := info.Sys().(*syscall.Stat_t)
	switch {
	case int(stat.Uid) == a.uid:
		return info.Mode()&0o100 != 0
	case int(stat.Gid) == a.gid:
		return info.Mode()&0o010 != 0
	default:
		return info.Mode()&0o001 != 0
	}
}

func ownerOf(info fs.FileInfo) int { return int(info.Sys().(*syscall.Stat_t).Uid) }

// shelter makes a folder that every account can get to.
func shelter(pattern string) (string, error) {
	for _, base := range []string{"/var/lib/weft", "/var/tmp/weft"} {
		if err := sidecar.OpenToAll(base); err != nil {
			continue
		}
		if dir, err := os.MkdirTemp(base, pattern); err == nil {
			return dir, nil
		}
	}
	return "", errors.New("no place for PostgreSQL's data: neither /var/lib/weft nor /var/tmp/weft can be made")
}
