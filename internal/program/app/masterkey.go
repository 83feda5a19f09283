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

// masterKeyFile is the file with the master keys of `weft dev`. It has mode 0600.
const masterKeyFile = "master.key"

// keyringOfFolder returns the keyring of the data folder's key file, whose lines are keys, primary
// first. It creates a key on the first start only: if the key is lost later, a new key could not
// open the values in the database.
func keyringOfFolder(dir string) (*seal.Keyring, error) {
	path := filepath.Join(dir, masterKeyFile)
	keys, err := readMasterKeys(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(filepath.Join(dir, "postgres")); err == nil {
			return nil, fmt.Errorf("%s is missing, and the database in the same folder is encrypted with it; restore the file, or start with another --data-dir", path)
		}
		if err := makeMasterKey(path); err != nil {
			return nil, fmt.Errorf("create the master key: %w", err)
		}
		keys, err = readMasterKeys(path)
	}
	if err != nil {
		return nil, err
	}
	return keyring(keys[0], strings.Join(keys[1:], ","))
}

// readMasterKeys returns the lines of a key file. It returns an error if other users can read the
// file.
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
		return nil, fmt.Errorf("%s is readable by other users; run chmod 600 on it", path)
	}
	if keys := strings.Fields(string(text)); len(keys) > 0 {
		return keys, nil
	}
	return nil, fmt.Errorf("%s is empty; restore the master key", path)
}

// KeyFile is the master key file of a data folder. It must not be changed while `weft dev` runs in
// that folder.
type KeyFile struct{ path string }

// KeyFileOf returns the key file of a data folder, whether or not it exists.
func KeyFileOf(dir string) KeyFile { return KeyFile{filepath.Join(dir, masterKeyFile)} }

// Keyring returns a keyring of the keys in the file.
func (f KeyFile) Keyring() (*seal.Keyring, error) {
	keys, err := readMasterKeys(f.path)
	if err != nil {
		return nil, err
	}
	return keyring(keys[0], strings.Join(keys[1:], ","))
}

// AddKey adds a new primary key before the current one and returns the keyring. It leaves a file
// with several keys unchanged: a rotation was started and has not finished.
func (f KeyFile) AddKey() (*seal.Keyring, error) {
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

// ArchiveOldKeys moves each old key to a file in the same folder, because a backup may need it, and
// returns those files. Nothing may be sealed under these keys any more.
func (f KeyFile) ArchiveOldKeys() (files []string, err error) {
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

// write replaces the file atomically.
func (f KeyFile) write(keys []string) error {
	next, err := writeKeys(f.path, keys)
	if err != nil {
		return fmt.Errorf("write the master keys: %w", err)
	}
	if err := os.Rename(next, f.path); err != nil {
		os.Remove(next)
		return err
	}
	return syncFolder(f.path)
}

// makeMasterKey creates a key file atomically, and does nothing if the file exists. If two
// processes start at the same time, both use the key of the first.
func makeMasterKey(path string) error {
	next, err := writeKeys(path, []string{newMasterKey()})
	if err != nil {
		return err
	}
	defer os.Remove(next)
	if err := os.Link(next, path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncFolder(path)
}

// syncFolder flushes the folder of a file to disk: values sealed under a key must not survive a
// crash that loses its file. It ignores the error of file systems that cannot flush folders.
func syncFolder(path string) error {
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer folder.Close()
	if err := folder.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, errors.ErrUnsupported) {
		return fmt.Errorf("flush the folder of the master key: %w", err)
	}
	return nil
}

func newMasterKey() string {
	var random [32]byte
	rand.Read(random[:]) //nolint:errcheck // crashes the program instead of failing
	return base64.StdEncoding.EncodeToString(random[:])
}

// writeKeys writes the keys to a temporary file of mode 0600 in the folder of path, and returns its
// name.
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

// KeyringFromEnv returns the master keys from the environment, read as `weft serve` and `weft work`
// do.
func KeyringFromEnv(environ []string) (*seal.Keyring, error) {
	env := map[string]string{}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		env[name] = value
	}
	return keyring(env["WEFT_MASTER_KEY"], env["WEFT_MASTER_KEYS_OLD"])
}

// keyring returns a keyring whose primary key seals. The other keys, as "base64,base64", only open
// values. They are older keys, or the next primary key.
func keyring(primary, old string) (*seal.Keyring, error) {
	if primary == "" {
		return nil, errors.New("WEFT_MASTER_KEY: must be set to the base64 of 32 random bytes (openssl rand -base64 32)")
	}
	key, err := seal.ParseKey(primary)
	if err != nil {
		return nil, fmt.Errorf("WEFT_MASTER_KEY: %w", err)
	}
	var others []seal.Key
	for _, text := range split(old) {
		other, err := seal.ParseKey(text)
		if err != nil {
			return nil, fmt.Errorf("WEFT_MASTER_KEYS_OLD: %w", err)
		}
		others = append(others, other)
	}
	return seal.NewKeyring(key, others...)
}
