package cli_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/web/browsertest"
)

// testdata/console.mjs drives the console of a real weft dev in a real browser, and runs workflows
// from the command line meanwhile.
func TestConsoleShowsWhatTheCommandLineStarts(t *testing.T) {
	environ, baseURL := startWeft(t, "--allow-network=127.0.0.0/8")
	file, _ := strings.CutPrefix(environ[0], "WEFT_CREDENTIALS=")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var owner struct{ AdminEmail, AdminPassword string }
	if err := json.Unmarshal(text, &owner); err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	browsertest.Run(t, "testdata/console.mjs", environ[0], "WEFT_TEST_AS_WEFT=1", "WEFT="+program,
		"BASE_URL="+baseURL, "EMAIL="+owner.AdminEmail, "PASSWORD="+owner.AdminPassword)
}
