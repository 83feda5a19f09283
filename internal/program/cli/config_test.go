package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/program/app"
)

const masterKey = "kFVXAOMxpTgbKrnUEDHQd0sJaltyyGTuDF2vW5y2x9M="

// settingsFile writes a file of --config.
func settingsFile(t *testing.T, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "weft.env")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestConfigShowNamesTheSourceOfEachSetting(t *testing.T) {
	first := settingsFile(t, "# comment", "", "WEFT_ADDR=:1", "WEFT_OPS_ADDR=:2", " WEFT_WORKERS = '3'", `WEFT_RETENTION="4d"`, "WEFT_LOG_LEVEL=warn")
	second := settingsFile(t, "WEFT_RETENTION=5d")
	r := run(t, []string{"WEFT_OPS_ADDR=:6", "WEFT_LOG_LEVEL=", "WEFT_ADDR=:7"}, "", "config", "show", "-o", "json", "--addr", ":8", "--config", first, "--config", second)
	r.check(t, 0, "", "")
	type setting struct{ Name, Value, Source string }
	var all []setting
	if err := json.Unmarshal([]byte(r.stdout), &all); err != nil {
		t.Fatal(err)
	}
	for _, want := range []setting{
		{"WEFT_ADDR", ":8", "flag"},
		{"WEFT_OPS_ADDR", ":6", "environment"},
		{"WEFT_WORKERS", "3", first},
		{"WEFT_RETENTION", "5d", second},
		{"WEFT_LOG_LEVEL", "warn", first}, // the empty variable counts as not set
		{"WEFT_CLOCK_TOLERANCE", "5s", "default"},
	} {
		if !slices.Contains(all, want) {
			t.Errorf("%v is missing in %v", want, all)
		}
	}
	if len(all) != len(app.Settings()) {
		t.Errorf("%d settings are shown, want %d", len(all), len(app.Settings()))
	}
}

func TestConfigShowHidesSecrets(t *testing.T) {
	for name, c := range map[string]struct{ value, want string }{
		"password":             {"postgres://weft:s3cret@db:5432/weft", "postgres://weft:hidden@db:5432/weft"},
		"password parameter":   {"postgres:///weft?host=db&password=s3cret&sslpassword=s3cret", "postgres:///weft?host=db"},
		"keyword form":         {"host=db password=s3cret", "(hidden)"},
		"slash in password":    {"postgres://weft:12/s3cret@db/weft", "(hidden)"},
		"question in password": {"postgres://weft:12?s3cret@db/weft", "postgres://weft:12"},
		"not a URL":            {"postgres://weft:%s3cret@db/weft", "(hidden)"},
	} {
		r := run(t, []string{"DATABASE_URL=" + c.value, "WEFT_MASTER_KEY=" + masterKey, "WEFT_MASTER_KEYS_OLD=" + masterKey,
			"WEFT_SMTP_URL=smtps://me:s3cret@mail", "OTEL_EXPORTER_OTLP_ENDPOINT=https://traces/s3cret?key=s3cret"}, "",
			"config", "show", "--jq", `.[] | select(.name == "DATABASE_URL").value`)
		if r.code != 0 || strings.TrimSpace(r.stdout) != c.want {
			t.Errorf("%s: code %d, %q, want %q", name, r.code, r.stdout, c.want)
		}
		r = run(t, []string{"DATABASE_URL=" + c.value, "WEFT_MASTER_KEY=" + masterKey, "WEFT_MASTER_KEYS_OLD=" + masterKey,
			"WEFT_SMTP_URL=smtps://me:s3cret@mail", "OTEL_EXPORTER_OTLP_ENDPOINT=https://traces/s3cret?key=s3cret"}, "", "config", "show")
		if out := r.stdout + r.stderr; strings.Contains(out, "s3cret") || strings.Contains(out, masterKey) {
			t.Errorf("%s: a secret is shown: %s", name, out)
		}
	}
}

func TestConfigCheckReportsAllFaultsOfAllSourcesAtOnce(t *testing.T) {
	file := settingsFile(t, "WEFT_WORKERS=many", "PGHOST=db", masterKey, "WEFT_NONSENSE=1", `WEFT_PUBLIC_URL="a"b"`)
	environ := []string{"WEFT_RETENTION=1h", "WEFT_ADDR=8080"}
	r := run(t, environ, "", "config", "check", "--config", file, "--config", "/nowhere")
	r.check(t, 2, "", "")
	for _, want := range []string{
		"DATABASE_URL: must be set", "WEFT_MASTER_KEY: must be set", "WEFT_WORKERS: must be", "WEFT_NONSENSE: unknown", "WEFT_RETENTION: must be",
		"WEFT_ADDR: must be", "--config: open /nowhere",
		file + `, line 2: "PGHOST" is not a setting`, file + ", line 3: must be NAME=VALUE", file + ", line 5: the value of WEFT_PUBLIC_URL",
	} {
		if !strings.Contains(r.stderr, want) {
			t.Errorf("%q is missing in %s", want, r.stderr)
		}
	}
	if strings.Contains(r.stderr, masterKey[:20]) {
		t.Errorf("the error shows a secret: %s", r.stderr)
	}
	run(t, []string{"DATABASE_URL=postgres://db/weft"}, "", "config", "check", "--config", settingsFile(t, "WEFT_MASTER_KEY="+masterKey)).check(t, 0, "", "valid")
}

// Faults in the file stop any other command before it does something with half of the settings.
func TestCommandsReadTheirSettingsFromFiles(t *testing.T) {
	for _, command := range [][]string{{"serve"}, {"work"}, {"migrate"}, {"keys", "list", "--workspace", "acme"}, {"doctor"}} {
		run(t, nil, "", append(command, "--config", settingsFile(t, "nonsense"))...).check(t, 2, "", "line 1: must be NAME=VALUE")
	}
	good := settingsFile(t, "DATABASE_URL=postgres://127.0.0.1:1/weft?connect_timeout=1", "WEFT_WORKERS=many")
	run(t, nil, "", "serve", "--config", good).check(t, 1, "", "WEFT_WORKERS: must be")
	run(t, nil, "", "migrate", "--config", good).check(t, 5, "", "127.0.0.1:1")
}
