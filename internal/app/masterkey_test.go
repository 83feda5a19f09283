package app

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/weft-automation/weft/internal/seal"
)

func TestTheMasterKeyOfAFolderIsMadeOnceAndNeverReplaced(t *testing.T) {
	dir := t.TempDir()
	rings := make([]*seal.Keyring, 8)
	var starts sync.WaitGroup
	for i := range rings {
		starts.Go(func() {
			ring, err := keyringOfFolder(dir)
			if err != nil {
				t.Error(err)
			}
			rings[i] = ring
		})
	}
	starts.Wait()
	sealed, err := rings[0].Seal([]byte("x"), seal.AAD{Table: "t"})
	if err != nil {
		t.Fatal(err)
	}
	for _, ring := range rings {
		if _, err := ring.Open(sealed, seal.AAD{Table: "t"}); err != nil {
			t.Errorf("two starts at once have two keys: %v", err)
		}
	}
	path := filepath.Join(dir, masterKeyFile)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v", info, err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := keyringOfFolder(dir); err == nil {
		t.Error("a key that others can read was taken")
	}
	if err := os.Mkdir(filepath.Join(dir, "postgres"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := keyringOfFolder(dir); err == nil {
		t.Error("a lost key was replaced beside its database")
	}
}
