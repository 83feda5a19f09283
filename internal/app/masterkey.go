package app

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/weft-automation/weft/internal/seal"
)

// masterKeyFile is where `weft dev` keeps its master key, mode 0600.
const masterKeyFile = "master.key"

// keyringOfFolder is the ring of the master key in the data folder. The first
// start makes the key; a later one never does, because what the database holds
// is sealed under the one that is lost.
func keyringOfFolder(dir string) (*seal.Keyring, error) {
	path := filepath.Join(dir, masterKeyFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(filepath.Join(dir, "postgres")); err == nil {
			return nil, fmt.Errorf("%s is gone, and the database beside it is sealed under it: put it back, or begin anew in another --data-dir", path)
		}
		if err := makeMasterKey(path); err != nil {
			return nil, fmt.Errorf("make the master key: %w", err)
		}
		text, err = os.ReadFile(path)
	}
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
	return keyring(string(text), "")
}

// makeMasterKey writes a new key in one step that fails if there is one: of two
// processes that start at once, both use the first one's.
func makeMasterKey(path string) error {
	var random [32]byte
	rand.Read(random[:]) //nolint:errcheck // ends the program rather than fail
	next, err := os.CreateTemp(filepath.Dir(path), ".master-*")
	if err != nil {
		return err
	}
	defer os.Remove(next.Name())
	_, err = next.WriteString(base64.StdEncoding.EncodeToString(random[:]) + "\n")
	err = errors.Join(err, next.Sync(), next.Close())
	if err != nil {
		return err
	}
	if err := os.Link(next.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}
