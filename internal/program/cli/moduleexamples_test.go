package cli_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/modules"
	"github.com/weft-automation/weft/internal/platform/egress"
	"github.com/weft-automation/weft/internal/web/catalog"
)

var (
	exampleInput = regexp.MustCompile(`(?m)^# Input: (.*)$`)
)

// notStarted are the modules whose examples are not run, with the reason.
var notStarted = map[string]string{
	"ON_SCHEDULE": "only a schedule starts it; the recipe sync has the same form and runs",
	"ON_WEBHOOK":  "only a hook starts it; the recipe github has the same form and runs",
}

// The example at the start of each component's page is a workflow file without faults and warnings that
// uses the component, and it runs to its end if it needs no EVM node.
func TestExampleOfEachComponentRuns(t *testing.T) {
	t.Parallel()
	guard := egress.New(egress.Policy{})
	t.Cleanup(guard.Close)
	registry, err := component.NewRegistry(modules.All(guard)...)
	if err != nil {
		t.Fatal(err)
	}
	all := catalog.New(registry).All()

	environ, _ := startWeft(t, "--allow-network=127.0.0.0/8")
	upstream := httptest.NewServer(http.HandlerFunc(recipeAPI))
	t.Cleanup(upstream.Close)
	for name, value := range map[string]string{
		"API_URL": upstream.URL, "ETH_RPC_URL": upstream.URL, "SIGNING_KEY": "open sesame", "WALLET_KEY": "0x" + strings.Repeat("46", 32),
		"AGE_IDENTITY": "AGE-SECRET-KEY-184JMZMVQH3E6U0PSL869004Y3U2NYV7R30EU99CSEDNPH02YUVFSZW44VU",
	} {
		run(t, environ, "", "env", "set", name, value).check(t, 0, "", name+" is set")
	}
	dir := t.TempDir()
	child := filepath.Join(dir, "child.yaml")
	if err := os.WriteFile(child, []byte(catalog.Example("RESPOND")), 0o600); err != nil {
		t.Fatal(err)
	}
	childID := uuids.FindString(run(t, environ, "", "workflows", "push", child).stderr)
	move := strings.NewReplacer("AGE_RECIPIENT", "age1cy0su9fwf3gf9mw868g5yut09p6nytfmmnktexz2ya5uqg9vl9sss4euqm", "019aa5f3-0a1b-7c2d-8e3f-4a5b6c7d8e9f", childID)
	for _, c := range all {
		t.Run(c.Module, func(t *testing.T) { checkExample(t, environ, filepath.Join(dir, c.Module+".yaml"), c, move.Replace) })
	}
}

// A fault of the file is not followed by faults that it causes.
func TestValidateReportsNoConsequencesOfFaults(t *testing.T) {
	t.Parallel()
	environ, _ := startWeft(t)
	file := filepath.Join(t.TempDir(), "a.yaml")
	if err := os.WriteFile(file, []byte(`name: a
components:
  start: {module: ON_API_CALLED}
  wait: {module: DELAY, needs: strat, config: {duration: 2 days}}
  text: RESPOND
  answer: {module: RESPOND, attempts: "x", after: wait}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	checked := run(t, environ, "", "workflows", "validate", file)
	checked.check(t, 6, "", "")
	var places []string
	for _, found := range regexp.MustCompile(`\((components\S+)\)\n`).FindAllStringSubmatch(checked.stdout, -1) {
		places = append(places, found[1])
	}
	if got, want := strings.Join(places, " "), "components.wait.needs components.wait.after components.wait.config.duration components.text components.answer.attempts"; got != want {
		t.Errorf("%s\ngot  %s\nwant %s", checked.stdout, got, want)
	}
}

func checkExample(t *testing.T, environ []string, file string, c api.Component, move func(string) string) {
	t.Helper()
	text := catalog.Example(c.Module)
	if !regexp.MustCompile(`module: ` + c.Module + `\b`).MatchString(text) {
		t.Fatalf("there is no example that uses it: internal/web/catalog/examples/%s.yaml", c.Module)
	}
	if err := os.WriteFile(file, []byte(move(text)), 0o600); err != nil {
		t.Fatal(err)
	}
	checked := run(t, environ, "", "workflows", "validate", file)
	checked.check(t, 0, "", "")
	if told := checked.stdout + checked.stderr; strings.Contains(told, "warning") || strings.Contains(told, "WARNING") {
		t.Errorf("the example has a warning: %s", told)
	}
	if notStarted[c.Module] != "" || strings.Contains(text, "ETH_RPC_URL") {
		return
	}
	input := exampleInput.FindStringSubmatch(text)
	if input == nil {
		t.Fatal("the example has no line # Input")
	}
	arguments := []string{"run", file, "--input=" + move(input[1])}
	if c.Module != "WAIT_FOR_SIGNAL" {
		run(t, environ, "", append(arguments, "--watch")...).check(t, 0, "", "COMPLETED")
		return
	}
	id := startedRun(t, run(t, environ, "", append(arguments, "-o", "json")...).stdout)
	run(t, environ, "", "workflows", "signal", id, "approved", `--payload={"by": "ada"}`).check(t, 0, "", "")
	run(t, environ, "", "workflows", "watch", id).check(t, 0, `"approvedBy": "ada"`, "COMPLETED")
}
