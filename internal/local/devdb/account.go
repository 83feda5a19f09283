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

// account is the user that PostgreSQL runs as. PostgreSQL refuses to run as root, so as root Weft
// runs it as another user.
type account struct {
	uid, gid   int
	credential *syscall.Credential // nil: the user of this process
}

// accountFor chooses the account. It is the account of this process, except if that is root. Then
// it is the owner of the data in dir, else postgres, else nobody. The system must have an entry for
// the account, because initdb looks up its name.
func accountFor(dir string) (account, error) {
	if uid := os.Geteuid(); uid != 0 {
		return account{uid: uid, gid: os.Getegid()}, nil
	}
	if info, err := os.Stat(filepath.Join(dir, "data")); err == nil {
		if stat := info.Sys().(*syscall.Stat_t); stat.Uid != 0 {
			return accountOf(int(stat.Uid), int(stat.Gid)), nil
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
		return accountOf(uid, gid), nil
	}
	return account{}, errors.New("PostgreSQL does not run as root, and the users postgres and nobody do not exist; run Weft as another user, or set DATABASE_URL")
}

func accountOf(uid, gid int) account {
	return account{uid: uid, gid: gid, credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
}

// own makes the account the owner of path.
func (a account) own(path string) error {
	if a.credential == nil {
		return nil
	}
	if err := os.Chown(path, a.uid, a.gid); err != nil {
		return fmt.Errorf("change the owner of %s to PostgreSQL's user: %w", path, err)
	}
	return nil
}

// makeHome creates the folder of a server and returns its real path. If Weft runs as root and the
// account cannot reach dir, for example because dir is below /root, makeHome creates the folder
// under /var/lib/weft and makes dir a link to that folder.
func (a account) makeHome(dir string, log *slog.Logger) (string, error) {
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) && !a.reaches(filepath.Dir(dir)) {
		place, err := sharedFolder("postgres-")
		if err != nil {
			return "", err
		}
		if err := os.Symlink(place, dir); err != nil {
			return "", fmt.Errorf("link the data folder: %w", err)
		}
		log.Warn("PostgreSQL's user cannot enter the data folder, so the data is stored in another one",
			"folder", dir, "real_folder", place)
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("create the data folder: %w", err)
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", fmt.Errorf("create the data folder: %w", err)
	}
	info, err := os.Stat(real)
	if err != nil {
		return "", fmt.Errorf("create the data folder: %w", err)
	}
	switch {
	case !info.IsDir():
		return "", fmt.Errorf("the data folder %s is not a folder", dir)
	case a.credential == nil && ownerOf(info) != a.uid:
		return "", fmt.Errorf("the data folder %s belongs to user %d; run Weft as that user, or choose another folder", dir, ownerOf(info))
	case !a.reaches(filepath.Dir(real)):
		return "", fmt.Errorf("PostgreSQL's user (%d) cannot enter %s; choose another data folder", a.uid, filepath.Dir(real))
	}
	return real, a.own(real)
}

// reaches reports whether the account may enter every folder down to dir.
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

// sharedFolder creates a folder that every user can reach.
func sharedFolder(pattern string) (string, error) {
	for _, base := range []string{"/var/lib/weft", "/var/tmp/weft"} {
		if err := sidecar.OpenToAll(base); err != nil {
			continue
		}
		if dir, err := os.MkdirTemp(base, pattern); err == nil {
			return dir, nil
		}
	}
	return "", errors.New("cannot create a folder for PostgreSQL's data in /var/lib/weft or /var/tmp/weft")
}
