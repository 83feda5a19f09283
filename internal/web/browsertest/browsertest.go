// Package browsertest runs scripts that drive a real Chromium through Weft's pages.
//
// Only tests import package browsertest. Invariant: A process drives one browser at a time, and no
// browser outlives its script.
package browsertest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weft-automation/weft/internal/kit/waittest"
)

// mutex is held while a script runs.
var mutex sync.Mutex

// Run runs a Node script in the directory of the test, and returns its output. It fails the
// test if the script fails. The script imports the browser from internal/tools/browser.mjs. If
// WEFT_PICTURES is set to a directory, the script saves screenshots there.
func Run(t *testing.T, script string, environ ...string) string {
	t.Helper()
	tools, err := filepath.Abs("../../tools")
	if err != nil {
		t.Fatal(err)
	}
	mutex.Lock()
	defer mutex.Unlock()
	ctx := waittest.Context(t)
	// The browser times out first, because its message names what it waited for.
	limit, _ := ctx.Deadline()
	browserTimeout := time.Until(limit) * 9 / 10
	command := exec.CommandContext(ctx, "node", script)
	command.Env = append(append(command.Environ(),
		"TOOLS="+tools, "PICTURES="+os.Getenv("WEFT_PICTURES"), "TMPDIR="+t.TempDir(),
		"PATIENCE_MS="+strconv.FormatInt(browserTimeout.Milliseconds(), 10)), environ...)
	command.WaitDelay = 5 * time.Second
	var stderr strings.Builder
	command.Stderr = &stderr
	output, err := command.Output()
	if err != nil {
		t.Fatalf("node %s: %v\n%s%s", script, err, output, stderr.String())
	}
	return string(output)
}
