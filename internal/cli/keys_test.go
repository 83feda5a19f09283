package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/client"
	"github.com/weft-automation/weft/internal/postgres/pgtest"
)

func TestKeysCreateListRevoke(t *testing.T) {
	environ := []string{"DATABASE_URL=" + pgtest.DSN(t), "WEFT_BASE_URL=http://127.0.0.1:8080"}
	run(t, environ, "", "keys", "create").check(t, 1, "", `there is no workspace "dev"`)

	made := run(t, environ, "", "keys", "create", "--new-workspace", "--label", "for the test")
	made.check(t, 0, `"baseUrl": "http://127.0.0.1:8080"`, "shown this once")
	var credentials client.Credentials
	if err := json.Unmarshal([]byte(made.stdout), &credentials); err != nil {
		t.Fatal(err)
	}
	if _, err := client.NewSigner(credentials.APIKey, credentials.APISecret); err != nil {
		t.Error(err)
	}
	_, after, _ := strings.Cut(made.stderr, "Key ")
	keyID, _, _ := strings.Cut(after, " ")

	listed := run(t, environ, "", "keys", "list")
	listed.check(t, 0, keyID, "")
	listed.check(t, 0, "for the test", "")
	run(t, environ, "", "keys", "list", "--workspace="+credentials.WorkspaceID.String()).check(t, 0, keyID, "")
	if strings.Contains(listed.stdout, credentials.APIKey) || !strings.Contains(listed.stdout, "active") {
		t.Errorf("list: %s", listed.stdout)
	}
	run(t, environ, "", "keys", "revoke", keyID).check(t, 0, "", "is revoked")
	run(t, environ, "", "keys", "list").check(t, 0, "revoked 20", "")
	run(t, environ, "", "keys", "revoke", "019aa5f2-6c3e-7b11-9d0a-3f1c2b4a5d6e").check(t, 1, "", "NOT_FOUND")
	run(t, environ, "", "keys", "revoke", "x").check(t, 2, "", "key-id")
	run(t, environ, "", "keys", "list", "--workspace=other").check(t, 1, "", `there is no workspace "other"`)
}

func TestKeysCreateWritesAFileForItsOwnerAlone(t *testing.T) {
	environ := []string{"DATABASE_URL=" + pgtest.DSN(t)}
	file := filepath.Join(t.TempDir(), "credentials.json")
	create := []string{"keys", "create", "--new-workspace", "--workspace=w", "--out", file, "--base-url=http://x:1"}
	got := run(t, environ, "", create...)
	got.check(t, 0, "", "Key ")
	if got.stdout != "" {
		t.Errorf("stdout %q", got.stdout)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if c, err := client.ReadCredentials(file); err != nil || c.BaseURL != "http://x:1" || c.APISecret == "" {
		t.Errorf("%v, %v", c, err)
	}
	run(t, environ, "", create...).check(t, 1, "", "file exists")
}

func TestKeysNeedADatabaseThatIsUpToDate(t *testing.T) {
	nowhere := filepath.Join(t.TempDir(), "none")
	run(t, nil, "", "keys", "list", "--data-dir="+nowhere).check(t, 1, "", "set DATABASE_URL")
	run(t, nil, "", "keys", "list", "--database-url=postgres://127.0.0.1:1/x").check(t, 1, "", "connect")
	run(t, nil, "", "keys", "list", "--database-url", pgtest.ServerDSN(t)).check(t, 1, "", "weft migrate")
}
