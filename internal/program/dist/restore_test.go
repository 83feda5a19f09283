//go:build linux

package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/kit/waittest"
)

// A backup and the file of the master key are all that a new machine needs. It follows the guide backup.
func TestBackupIsRestoredOnAnotherMachine(t *testing.T) {
	if waittest.LeftToSoak(t, "internal/program/app.TestOP03WrongSchemaPreventsStartWithAClearError") {
		return
	}
	atRoot(t)
	r, first, second := built(t, "v0.1.0"), newHost(t), newHost(t)
	old, restored := emptyDatabase(t), emptyDatabase(t)
	first.install(t, r)
	first.use(t, old)
	first.migrate(t)
	serve, api := first.run(t, "weft-serve")
	credentials := first.newKey(t, api)
	first.weft(t, "call", "RANDOM_UUID", "--credentials", credentials)
	stop(t, serve)

	dir := filepath.Join(t.TempDir(), "backup")
	first.weft(t, "backup", dir)
	second.install(t, r)
	second.use(t, restored)
	keyFile := second.path("etc/weft/master-key.env")
	other, key := read(t, keyFile), read(t, first.path("etc/weft/master-key.env")) // the package made another key
	setKey := func(key string) {
		t.Helper()
		if err := os.WriteFile(keyFile, []byte(key), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	setKey(key)
	second.weft(t, "restore", dir)
	second.migrate(t)
	setKey(other)

	waits := func(reason string) (api string, stopped func()) {
		t.Helper()
		cmd, api, ops := second.start(t, "weft-serve")
		waittest.Until(t, "readiness waits for "+reason, func() bool {
			code, body := readiness(t.Context(), ops)
			return code == http.StatusServiceUnavailable && strings.Contains(body, reason)
		})
		return api, func() { stop(t, cmd) }
	}
	_, stopped := waits("/checks/master_key")
	stopped()
	setKey(key)
	_, stopped = waits("/checks/quarantine")
	stopped()
	second.weft(t, "quarantine", "release")
	serve, api = second.run(t, "weft-serve")
	second.weft(t, "call", "RANDOM_UUID", "--credentials", credentials, "--base-url", "http://"+api)
	second.weft(t, "audit")
	stop(t, serve)
	if n := count(t, restored, "component_executions"); n != 2 {
		t.Errorf("the restored database has %d executions, want 2", n)
	}

	administer(t, restored, "INSERT INTO schema_migrations (number, name, checksum) VALUES (999, 'later', '')")
	for _, unit := range []string{"weft-serve", "weft-work", "weft-migrate"} {
		cmd, out := second.unit(t, unit, "WEFT_ADDR="+freeAddress(t), "WEFT_OPS_ADDR="+freeAddress(t))
		if err := cmd.Run(); err == nil || !strings.Contains(out.String(), "use a newer binary") {
			t.Errorf("%s on a newer schema: %v", unit, err)
		}
	}
}
