package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The same files work in each environment, because they name each other by key and not by ID. There, they are
// validated together, saved in any order, found again by their keys, and restricted by them.
func TestTheSameFilesWorkInTwoServices(t *testing.T) {
	dir := t.TempDir()
	order, ship := filepath.Join(dir, "order.yaml"), filepath.Join(dir, "ship.yaml")
	for file, text := range map[string]string{
		order: "key: order\nname: Order\ncomponents:\n  start: {module: ON_API_CALLED}\n  ship: {module: RUN_WORKFLOW, config: {workflow: ship-order}, input: {item: \"{{ start.item }}\"}}\n  done: {module: RESPOND, input: {sent: \"{{ ship.sent }}\"}}\n",
		ship:  "key: ship-order\nname: Ship\ncomponents:\n  start: {module: ON_API_CALLED}\n  done: {module: RESPOND, input: {sent: \"{{ start.item }}\"}}\n",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		environ, baseURL := startWeft(t)
		if alone := run(t, environ, "", "workflows", "validate", order); !strings.Contains(alone.stdout+alone.stderr, "no workflow with this key") {
			t.Errorf("without the other file, nothing is said of it: %s%s", alone.stdout, alone.stderr)
		}
		if both := run(t, environ, "", "workflows", "validate", order, ship); both.code != 0 || strings.Contains(both.stdout+both.stderr, "no workflow") {
			t.Errorf("both files: exit code %d, %s%s", both.code, both.stdout, both.stderr)
		}
		for _, file := range []string{order, ship} {
			run(t, environ, "", "workflows", "push", file).check(t, 0, "", "version 1")
		}
		run(t, environ, "", "run", "order", "--watch", "--input", `{"item":"book"}`).check(t, 0, `"sent": "book"`, "COMPLETED in")
		run(t, environ, "", "workflows", "push", order).check(t, 0, "", "version 1") // the key finds it, and nothing changed
		pulled := run(t, environ, "", "workflows", "pull", "order")
		pulled.check(t, 0, "workflow: ship-order", "")
		if strings.Contains(pulled.stdout, "{}") || strings.Contains(pulled.stdout, `""`) {
			t.Errorf("the file has empty fields:\n%s", pulled.stdout)
		}
		own := filepath.Join(t.TempDir(), "own.json")
		run(t, environ, "", "keys", "create", "--workflow=ship-order", "--out="+own).check(t, 0, "", "Key ")
		restricted := []string{"WEFT_CREDENTIALS=" + own, "WEFT_BASE_URL=" + baseURL}
		run(t, restricted, "", "api", "/v1/sdk/workflows/ship-order").check(t, 0, `"key": "ship-order"`, "")
		for _, other := range []string{"order", "no-such-workflow"} {
			run(t, restricted, "", "api", "/v1/sdk/workflows/"+other).check(t, 3, "", "FORBIDDEN")
		}
	}
}
