// Package browsertest runs scripts that drive a real Chromium through Weft's pages.
//
// Only tests import it. The one invariant: a process drives one browser at a time, and no browser
// outlives its script.
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

// turn is held by the one script that runs.
var turn sync.Mutex

// Run runs a Node script of a folder two levels below the root and returns what it prints.
// The script takes its browser from internal/tools/browser.mjs, which waits as long as the
// test may. With WEFT_PICTURES, a folder, it keeps pictures of the pages.
func Run(t *testing.T, script string, environ ...string) string {
	t.Helper()
	tools, err := filepath.Abs("../../tools")
	if err != nil {
		t.Fatal(err)
	}
	turn.Lock()
	defer turn.Unlock()
	ctx := waittest.Context(t)
	// The browser gives up first: it says what it waited for.
	limit, _ := ctx.Deadline()
	patience := time.Until(limit) * 9 / 10
	command := exec.CommandContext(ctx, "node", script)
	command.Env = append(append(command.Environ(),
		"TOOLS="+tools, "PICTURES="+os.Getenv("WEFT_PICTURES"), "TMPDIR="+t.TempDir(),
		"PATIENCE_MS="+strconv.FormatInt(patience.Milliseconds(), 10)), environ...)
	command.WaitDelay = 5 * time.Second
	var complaints strings.Builder
	command.Stderr = &complaints
	output, err := command.Output()
	if err != nil {
		t.Fatalf("node %s: %v\n%s%s", script, err, output, complaints.String())
	}
	return string(output)
}
