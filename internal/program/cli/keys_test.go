package cli_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/internal/local/client"
	"github.com/weft-automation/weft/internal/local/pgtest"
	"github.com/weft-automation/weft/internal/program/cli"
)

func TestKeysCreateListRevoke(t *testing.T) {
	environ := []string{"DATABASE_URL=" + pgtest.DSN(t), "WEFT_BASE_URL=http://127.0.0.1:8080"}
	run(t, environ, "", "keys", "create").check(t, 4, "", `workspace "dev" not found`)

	made := run(t, environ, "", "keys", "create", "--new-workspace", "--label", "for the test")
	made.check(t, 0, `"baseUrl": "http://127.0.0.1:8080"`, "The secret is not shown again")
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
	rotated := run(t, environ, "", "keys", "rotate", keyID, "--overlap=2d")
	rotated.check(t, 0, `"workspaceId": "`+credentials.WorkspaceID.String(), "The old key works until 20")
	run(t, environ, "", "keys", "list").check(t, 0, "  active  20", "")
	run(t, environ, "", "keys", "rotate", keyID).check(t, 6, "", "was already rotated")
	run(t, environ, "", "keys", "rotate", keyID, "--overlap=8d").check(t, 2, "", "--overlap must be from 0s to 7d")
	_, after, _ = strings.Cut(rotated.stderr, "Key ")
	keyID, _, _ = strings.Cut(after, " ")
	run(t, environ, "", "keys", "revoke", keyID).check(t, 0, "", "is revoked")
	run(t, environ, "", "keys", "list").check(t, 0, "  revoked  20", "")
	run(t, environ, "", "keys", "revoke", "019aa5f2-6c3e-7b11-9d0a-3f1c2b4a5d6e").check(t, 4, "", "weft: There is no")
	run(t, environ, "", "keys", "create", "--workflow=019aa5f2-6c3e-7b11-9d0a-3f1c2b4a5d6e").check(t, 6, "", "the workspace has no workflow 019aa5f2")
	run(t, environ, "", "keys", "create", "--workspace=new", "--new-workspace", "--workflow=019aa5f2-6c3e-7b11-9d0a-3f1c2b4a5d6e").check(t, 1, "", "a new workspace has no workflows")
	run(t, environ, "", "keys", "list", "--workspace=new").check(t, 4, "", `workspace "new" not found`)
	if again := run(t, environ, "", "keys", "list"); strings.Count(again.stdout, "\n") != 3 {
		t.Errorf("a rejected command created a key:\n%s", again.stdout)
	}
	run(t, environ, "", "keys", "revoke", "x").check(t, 2, "", "key-id")
	run(t, environ, "", "keys", "list", "--workspace=other").check(t, 4, "", `workspace "other" not found`)
}

func TestKeysCreateWritesAPrivateFile(t *testing.T) {
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
		t.Errorf("unexpected credentials %v (%v)", c, err)
	}
	// A key that cannot be written is not created, and neither is its workspace.
	run(t, environ, "", create...).check(t, 1, "", "file exists (no key was created)")
	if listed := run(t, environ, "", "keys", "list", "--workspace=w").stdout; strings.Count(listed, "active") != 1 {
		t.Errorf("unexpected keys:\n%s", listed)
	}
	create[3] = "--workspace=v"
	run(t, environ, "", create...).check(t, 1, "", "file exists (no key was created)")
	run(t, environ, "", "keys", "list", "--workspace=v").check(t, 4, "", `workspace "v" not found`)
	// A key that cannot be created leaves no file. A key that cannot be written because the disk is
	// full is revoked.
	none := filepath.Join(t.TempDir(), "none.json")
	run(t, environ, "", "keys", "create", "--workspace=v", "--out", none).check(t, 4, "", `workspace "v" not found`)
	if _, err := os.Stat(none); err == nil {
		t.Error("a file was written although no key was created")
	}
	var stderr strings.Builder
	code := cli.Run(t.Context(), cli.Process{Args: []string{"keys", "create", "--workspace=w"}, Environ: environ, Stdout: full{}, Stderr: &stderr})
	if listed := run(t, environ, "", "keys", "list", "--workspace=w").stdout; code != 1 || strings.Count(listed, "active") != 1 || strings.Count(listed, "revoked") != 1 {
		t.Errorf("code %d, %s\n%s", code, stderr.String(), listed)
	}
}

// full is a full disk.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// interrupted is a pipe whose reader is interrupted together with the command.
type interrupted struct{ cancel context.CancelFunc }

func (i interrupted) Write([]byte) (int, error) {
	i.cancel()
	return 0, syscall.EPIPE
}

func TestUndeliveredKeyIsRevokedAfterAnInterrupt(t *testing.T) {
	environ := []string{"DATABASE_URL=" + pgtest.DSN(t)}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var stderr strings.Builder
	code := cli.Run(ctx, cli.Process{Args: []string{"keys", "create", "--new-workspace"}, Environ: environ, Stdout: interrupted{cancel}, Stderr: &stderr})
	if code != 1 || !strings.Contains(stderr.String(), "the key is revoked") {
		t.Errorf("code %d, %s", code, stderr.String())
	}
	if listed := run(t, environ, "", "keys", "list").stdout; strings.Count(listed, "  revoked  20") != 1 || strings.Contains(listed, "active") {
		t.Errorf("an undelivered key still works:\n%s", listed)
	}
}

func TestKeysListAndRevokeShowRevokedAndExpiredKeys(t *testing.T) {
	dsn := pgtest.DSN(t)
	environ := []string{"DATABASE_URL=" + dsn}
	run(t, environ, "", "keys", "create", "--help").check(t, 0, "(weft keys create)", "")
	made := run(t, environ, "", "keys", "create", "--new-workspace")
	_, after, _ := strings.Cut(made.stderr, "Key ")
	keyID, _, _ := strings.Cut(after, " ")
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	for ends, state := range map[string]string{"1 hour": "  active  20", "-1 minute": "  expired  20"} {
		if _, err := conn.Exec(t.Context(), "UPDATE api_keys SET expires_at = now() + $1::interval", ends); err != nil {
			t.Fatal(err)
		}
		listed := run(t, environ, "", "keys", "list")
		listed.check(t, 0, state, "")
		listed.check(t, 0, "  all        "+keyID, "")
	}
	run(t, environ, "", "keys", "revoke", "ws_nope").check(t, 2, "", "the ID column of `weft keys list`")
	run(t, environ, "", "keys", "revoke", keyID).check(t, 0, "", "is revoked")
	run(t, environ, "", "keys", "revoke", keyID).check(t, 0, "", "was already revoked, at 20")
}

func TestKeysNeedADatabaseThatIsUpToDate(t *testing.T) {
	nowhere := filepath.Join(t.TempDir(), "none")
	run(t, nil, "", "keys", "list", "--data-dir="+nowhere).check(t, 1, "", "set DATABASE_URL")
	run(t, nil, "", "keys", "list", "--database-url=postgres://127.0.0.1:1/x").check(t, 5, "", "connect")
	run(t, nil, "", "keys", "list", "--database-url", pgtest.ServerDSN(t)).check(t, 1, "", "weft migrate")
}
