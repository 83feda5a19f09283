package cli_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestProfilesSelectTheCredentials(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, workspaceText) })
	home := t.TempDir()
	environ := []string{"HOME=" + home, "WEFT_DATA_DIR=" + home}
	run(t, environ, "", "profile", "list").check(t, 0, "", "No profiles. Create one: weft profile add")
	run(t, environ, "", "profile", "show").check(t, 4, "", "no profile is in use")
	run(t, environ, "", "whoami").check(t, 3, "", "there is no credentials file")

	run(t, environ, "", "profile", "add", "shop", s.credentials).check(t, 0, "", "To use it: weft profile use shop")
	run(t, environ, "", "profile", "add", "shop", s.credentials).check(t, 2, "", "the profile shop exists")
	run(t, environ, "", "profile", "add", "gone", s.credentials, "--base-url=http://127.0.0.1:1").check(t, 0, "", "")
	for _, name := range []string{"../shop", "a.b", "in/use", ""} {
		run(t, environ, "", "profile", "add", name, s.credentials).check(t, 2, "", "is not a name of a profile")
	}
	run(t, environ, "", "profile", "add", "other", filepath.Join(home, "none.json")).check(t, 3, "", "there is no credentials file")
	run(t, nil, "", "profile", "add", "shop", s.credentials).check(t, 2, "", "set HOME or XDG_CONFIG_HOME")
	info, err := os.Stat(filepath.Join(home, ".config", "weft", "profiles", "shop.json"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the stored profile: %v, %v", info, err)
	}

	run(t, environ, "", "whoami", "--profile=shop").check(t, 0, "Workspace     shop\n", "")
	run(t, environ, "", "whoami", "--profile=shopp").check(t, 4, "", "did you mean shop?")
	run(t, environ, "", "whoami", "--profile=../profiles/shop").check(t, 4, "", "there is no profile")
	run(t, environ, "", "whoami", "--profile=shop", "--credentials="+s.credentials).check(t, 2, "", "--profile and --credentials")
	run(t, environ, "", "profile", "use", "gone").check(t, 0, "", "")
	run(t, environ, "", "whoami").check(t, 5, "", "no Weft answers at http://127.0.0.1:1")
	run(t, append(environ, "WEFT_PROFILE=shop"), "", "whoami").check(t, 0, "shop", "")
	run(t, append(environ, "WEFT_CREDENTIALS="+s.credentials), "", "whoami").check(t, 0, "shop", "")
	run(t, append(environ, "WEFT_CREDENTIALS="+s.credentials), "", "whoami", "--profile=gone").check(t, 5, "", "no Weft answers")
	run(t, append(environ, "WEFT_CREDENTIALS="+s.credentials), "", "profile", "use", "gone").check(t, 0, "", "overrides the profile in use")

	listed := run(t, environ, "", "profile", "list", "--jq=.[].inUse")
	listed.check(t, 0, "true\nfalse\n", "")
	shown := run(t, environ, "", "profile", "show", "-o", "json")
	shown.check(t, 0, `"baseUrl": "http://127.0.0.1:1"`, "")
	if strings.Contains(shown.stdout, "apiSecret") {
		t.Errorf("the secret is shown: %s", shown.stdout)
	}
	run(t, environ, "", "profile", "remove", "gone").check(t, 0, "", "No profile is in use.")
	run(t, environ, "", "profile", "remove", "gone").check(t, 4, "", "there is no profile")
	run(t, environ, "", "profile", "use", "shop").check(t, 0, "", "")
	run(t, environ, "", "whoami").check(t, 0, "shop", "")
	run(t, environ, "", "profile", "use").check(t, 0, "", "No profile is in use.")
	run(t, environ, "", "whoami").check(t, 3, "", "there is no credentials file")
}

func TestOpenPrintsTheAddressWithoutATerminal(t *testing.T) {
	t.Parallel()
	s := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("weft open sent a request") })
	want := s.URL + "/console/019aa5f2-6c3e-7b11-9d0a-3f1c2b4a5d6e/runs"
	run(t, append(s.environ(), "BROWSER=false"), "", "open").check(t, 0, want+"\n", "")
	run(t, s.environ(), "", "open", "--base-url=http://127.0.0.1:1/weft", "--jq=.url").check(t, 0, "http://127.0.0.1:1/weft/console/", "")
	run(t, s.environ(), "", "open", "--base-url=file:///etc/passwd").check(t, 2, "", "--base-url")
}
