//go:build linux

package pgtest

import (
	"os"
	"path/filepath"
	"testing"
)

// Starting a server empties its folder. If two shared folders used the same server folder, the
// second server would delete the data of the first.
func TestEachPlaceHasItsOwnServerFolder(t *testing.T) {
	var folders [2]string
	for i := range folders {
		p := place(filepath.Join(t.TempDir(), "weft-pgtest-of-a-test"))
		if err := os.Mkdir(string(p), 0o700); err != nil {
			t.Fatal(err)
		}
		folders[i] = p.serverFolder()
		t.Cleanup(func() { os.RemoveAll(filepath.Dir(folders[i])) })
	}
	if folders[0] == folders[1] {
		t.Errorf("two meeting places share %s", folders[0])
	}
}
