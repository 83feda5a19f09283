package app

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/weft-automation/weft/internal/secret/seal"
)

// masterKeyFile is where `weft dev` keeps its master key, mode 0600.
const masterKeyFile = "master.key"

// keyringOfFolder is the ring of the master keys in the data folder: one a line,
// the present one first. The first start makes the key; a later one never does,
// because what the database holds is sealed under the one that is lost.
func keyringOfFolder(dir string) (*seal.Keyring, error) {
	path := filepath.Join(dir, masterKeyFile)
	keys, err := readMasterKeys(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(filepath.Join(dir, "postgres")); err == nil {
			return nil, fmt.Errorf("%s is gone, and the database beside it is sealed under it: put it back, or begin anew in another --data-dir", path)
		}
		if err := makeMasterKey(path); err != nil {
			return nil, fmt.Errorf("make the master key: %w", err)
		}
		keys, err = readMasterKeys(path)
	}
	if err != nil {
		return nil, err
	}
	return keyring(keys[0], strings.Join(keys[1:], ","))
}

// readMasterKeys reads the lines of a key file that only its owner can read.
func readMasterKeys(path string) ([]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the master key: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read the master key: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s can be read by others: chmod 600 it", path)
	}
	if keys := strings.Fields(string(text)); len(keys) > 0 {
		return keys, nil
	}
	return nil, fmt.Errorf("%s is empty: put the master key back", path)
}

// KeyFile is the master keys in the data folder of a `weft dev` that does not
// run.
type KeyFile struct{ path string }

// KeyFileOf is the key file of a data folder, whether it is there or not.
func KeyFileOf(dir string) KeyFile { return KeyFile{filepath.Join(dir, masterKeyFile)} }

// Keyring is the ring of the keys in the file.
func (f KeyFile) Keyring() (*seal.Keyring, error) {
	keys, err := readMasterKeys(f.path)
	if err != nil {
		return nil, err
	}
	return keyring(keys[0], strings.Join(keys[1:], ","))
}

// Renew puts a new key before the present one. A file with several keys is left
// as it is: a rotation was begun and not ended.
func (f KeyFile) Renew() (*seal.Keyring, error) {
	keys, err := readMasterKeys(f.path)
	if err != nil {
		return nil, err
	}
	if len(keys) == 1 {
		keys = []string{newMasterKey(), keys[0]}
		if err := f.write(keys); err != nil {
			return nil, err
		}
	}
	return keyring(keys[0], strings.Join(keys[1:], ","))
}

// PutAside takes the old keys out of the file, each into one of its own beside it:
// a backup may need them. Nothing else may be sealed under them any more.
func (f KeyFile) PutAside() (files []string, err error) {
	keys, err := readMasterKeys(f.path)
	if err != nil {
		return nil, err
	}
	for _, text := range keys[1:] {
		key, err := seal.ParseKey(text)
		if err != nil {
			return files, err
		}
		file := KeyFile{f.path + "." + seal.Fingerprint(key.Secret)}
		if err := file.write([]string{text}); err != nil {
			return files, err
		}
		files = append(files, file.path)
	}
	return files, f.write(keys[:1])
}

// write replaces the file in one step.
func (f KeyFile) write(keys []string) error {
	next, err := writeKeys(f.path, keys)
	if err != nil {
		return fmt.Errorf("write the master keys: %w", err)
	}
	if err := os.Rename(next, f.path); err != nil {
		os.Remove(next)
		return err
	}
	return keepEntries(f.path)
}

// makeMasterKey writes a new key in one step that fails if there is one: of two
// processes that start at once, both use the first one's.
func makeMasterKey(path string) error {
	next, err := writeKeys(path, []string{newMasterKey()})
	if err != nil {
		return err
	}
	defer os.Remove(next)
	if err := os.Link(next, path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return keepEntries(path)
}

// keepEntries returns when the folder of a file is on disk: what is sealed under a key
// from now on must not outlive the file's name in it. Some file systems write no folders.
func keepEntries(path string) error {
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer folder.Close()
	if err := folder.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, errors.ErrUnsupported) {
		return fmt.Errorf("keep the master key: %w", err)
	}
	return nil
}

func newMasterKey() string {
	var random [32]byte
	rand.Read(random[:]) //nolint:errcheck // ends the program rather than fail
	return base64.StdEncoding.EncodeToString(random[:])
}

// writeKeys writes a file, mode 0600, beside the one that it is to become.
func writeKeys(path string, keys []string) (string, error) {
	next, err := os.CreateTemp(filepath.Dir(path), ".master-*")
	if err != nil {
		return "", err
	}
	_, err = next.WriteString(strings.Join(keys, "\n") + "\n")
	if err = errors.Join(err, next.Sync(), next.Close()); err != nil {
		os.Remove(next.Name())
	}
	return next.Name(), err
}
