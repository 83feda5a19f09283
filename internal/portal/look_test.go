package portal

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// browsers has one at a time: two on two cores would only wait for each other.
var browsers sync.Mutex

// Look lets a real browser do what a script of testdata says. With WEFT_PICTURES, a
// folder, it keeps how the pages look.
func Look(t *testing.T, script string, environ ...string) {
	t.Helper()
	tools, err := filepath.Abs("../tools")
	if err != nil {
		t.Fatal(err)
	}
	browsers.Lock()
	defer browsers.Unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, "node", script)
	command.Env = append(append(command.Environ(), "TOOLS="+tools, "PICTURES="+os.Getenv("WEFT_PICTURES"), "TMPDIR="+t.TempDir()), environ...)
	command.WaitDelay = 5 * time.Second
	if out, err := command.CombinedOutput(); err != nil || !strings.Contains(string(out), "seen") {
		t.Errorf("node: %v\n%s", err, out)
	}
}
