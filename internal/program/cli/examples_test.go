package cli_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/program/cli"
)

// exampleOrder lists the commands whose examples run, in an order in which each finds what it needs. A line
// that starts with $ prepares what an example needs.
const exampleOrder = `
version help completion
call components_list components_search components_get
executions_list executions_get executions_watch
$ weft call RANDOM_UUID --callback-url=UPSTREAM
$ until weft executions get --last --jq .callback.deliveredAt | grep -v null; do sleep 0.1; done
executions_replay-callback executions_cancel
run runs_list runs_get runs_watch runs_rerun
$ weft run fanOut --watch --callback-url=UPSTREAM
$ until weft runs get --last --jq .callback.deliveredAt | grep -v null; do sleep 0.1; done
runs_replay-callback
$ weft run approval
runs_signal
$ weft run approval
runs_cancel
workflows_list workflows_get workflows_new workflows_push workflows_pull workflows_diff workflows_validate workflows_quote
workflows_pause workflows_resume workflows_archive
schedules_create schedules_list schedules_get schedules_update schedules_pause schedules_resume schedules_delete
hooks_create hooks_list hooks_get hooks_update hooks_test hooks_pause hooks_resume hooks_delete
env_set env_list env_get env_unset
open whoami credits usage limits api
keys_create keys_list
$ weft keys create --new-workspace --workspace=shop && weft keys create --new-workspace --workspace=demo
admin_credits admin_plan_set admin_suspend admin_resume audit
profile_add profile_list profile_use profile_show profile_remove
`

// notRun are the commands whose examples other tests run: servers, settings, and commands for operators
// that need a master key, an answer on a terminal or a separate database.
const notRun = " dev serve work migrate config_show config_check listen proxy conform doctor keys_rotate keys_revoke keys_rotate-master " +
	"admin_owner admin_password backup restore quarantine_status quarantine_begin quarantine_release "

// The examples of the help work as they are, in a new folder next to a new weft dev, with the files that
// only the user can have.
func TestExamplesOfTheHelpRunOnTheRealService(t *testing.T) {
	t.Parallel()
	upstream := httptest.NewServer(http.HandlerFunc(recipeAPI))
	t.Cleanup(upstream.Close)
	environ, _ := startWeft(t, "--allow-network=127.0.0.0/8")
	credentials, err := os.ReadFile(strings.TrimPrefix(environ[0], "WEFT_CREDENTIALS="))
	if err != nil {
		t.Fatal(err)
	}
	home, done := t.TempDir(), map[string]bool{}
	shell := func(t *testing.T, line string) {
		w := newWorkshop(t, environ)
		w.environ = append(w.environ, environ[1], "XDG_CONFIG_HOME="+home, "PATH="+filepath.Join(w.dir, "bin")+":"+os.Getenv("PATH"))
		for name, text := range map[string]string{"secret.txt": "a secret of the hook", "token.txt": "a token", "key.json": string(credentials)} {
			w.write(t, block{title: name, code: text})
		}
		w.run(t, strings.NewReplacer("UPSTREAM", upstream.URL, "https://example.com", upstream.URL).Replace(line))
	}
	for line := range strings.Lines(exampleOrder) {
		if line, ok := strings.CutPrefix(line, "$ "); ok {
			shell(t, line)
			continue
		}
		for name := range strings.FieldsSeq(line) {
			path := strings.ReplaceAll(name, "_", " ")
			done[path] = true
			t.Run(name, func(t *testing.T) { shell(t, "weft "+strings.ReplaceAll(cli.Examples[path], "\n", "\nweft ")) })
		}
	}
	for path := range cli.Examples {
		if name := strings.ReplaceAll(path, " ", "_"); done[path] == strings.Contains(notRun, " "+name+" ") {
			t.Errorf("the examples of %s must be in one of the two lists", path)
		}
	}
}
