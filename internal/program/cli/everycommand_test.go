package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/weft-automation/weft/internal/program/cli"
)

// commandsOf returns all commands that a user can see, from the parser.
func commandsOf(t *testing.T) (parser *kong.Kong, all []*kong.Node) {
	t.Helper()
	parser, err := cli.Parser(cli.Process{Stdout: os.Stdout, Stderr: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	for _, leaf := range parser.Model.Leaves(true) {
		all = append(all, leaf)
	}
	return parser, all
}

// callsService reports whether a command calls the service and returns its answer.
func callsService(node *kong.Node) bool {
	waits := []string{"conform", "proxy", "doctor"} // other tests cover them
	return slices.ContainsFunc(node.Flags, func(one *kong.Flag) bool { return one.Name == "credentials" }) && !slices.Contains(waits, node.Path())
}

// unknown returns arguments for a command that name something that does not exist, or nil if none of its
// arguments can.
func unknown(node *kong.Node, file string) []string {
	args := strings.Fields(node.Path())
	named := false
	for _, one := range node.Positional {
		switch one.Name {
		case "workflow":
			args, named = append(args, "nonsense"), true
		case "module":
			args, named = append(args, "NONSENSE"), true
		case "run", "execution", "schedule", "hook":
			args, named = append(args, runID), true
		case "name", "text":
			args, named = append(args, "NONSENSE"), true
		case "signal":
			args = append(args, "approved")
		case "cron":
			args = append(args, "@daily")
		case "file":
			args = append(args, file)
		case "method":
			args, named = append(args, "GET"), true
		case "path":
			args = append(args, "/v1/sdk/nonsense")
		case "value":
			return nil // env set creates what does not exist
		}
	}
	switch node.Path() {
	case "schedules update":
		args = append(args, "--cron=@daily")
	case "hooks update":
		args = append(args, "--name=x")
	case "env unset": // removing a variable that does not exist is done
		return nil
	}
	if !named {
		return nil
	}
	return args
}

// Every command has a sentence and examples, rejects unknown flags, and has the exit codes of the
// design.
func TestEveryCommandKeepsTheRulesOfTheCommandLine(t *testing.T) {
	_, all := commandsOf(t)
	environ, _ := startWeft(t)
	none := filepath.Join(t.TempDir(), "none.json") // credentials of a workspace without anything
	text, err := os.ReadFile(strings.TrimPrefix(environ[0], "WEFT_CREDENTIALS="))
	var own struct{ BaseURL string }
	if err != nil || json.Unmarshal(text, &own) != nil {
		t.Fatal(err)
	}
	run(t, environ, "", "keys", "create", "--new-workspace", "--workspace=none", "--plan=enterprise", "--base-url="+own.BaseURL, "--out="+none).check(t, 0, "", "Key ")
	environ = []string{"WEFT_CREDENTIALS=" + none, environ[1]}
	file := writeYAML(t, workflowYAML)
	for _, node := range all {
		path := strings.Fields(node.Path())
		with := func(args ...string) []string { return append(slices.Clone(path), args...) }
		t.Run(node.Path(), func(t *testing.T) {
			if !strings.HasSuffix(node.Help, ".") {
				t.Errorf("the help %q is not a sentence", node.Help)
			}
			if text := cli.Examples[node.Path()]; !strings.Contains("\n"+text, "\n"+node.Path()) && !strings.Contains(text, "&& weft "+node.Path()) {
				t.Errorf("no example shows the command: %s", text)
			}
			run(t, environ, "", with("--help")...).check(t, 0, "\nExamples:\n  weft ", "")
			run(t, environ, "", with("--nonsense")...).check(t, 2, "", "unknown flag --nonsense")
			if !callsService(node) {
				return
			}
			if args := unknown(node, file); args != nil {
				run(t, environ, "{}", args...).check(t, 4, "", "weft: ")
				run(t, environ, "{}", append(args, "--base-url=http://127.0.0.1:1")...).check(t, 5, "", "no Weft answers at http://127.0.0.1:1")
			}
			required := slices.ContainsFunc(node.Positional, func(one *kong.Positional) bool { return one.Required })
			if required || slices.ContainsFunc(node.Flags, func(one *kong.Flag) bool { return one.Name == "last" }) {
				return
			}
			got := run(t, environ, "", with("-o", "json")...)
			if got.code != 0 || !json.Valid([]byte(got.stdout)) {
				t.Errorf("-o json: code %d, %s%s", got.code, got.stdout, got.stderr)
			}
			if node.Name == "list" && node.Path() != "components list" {
				run(t, environ, "", path...).check(t, 0, "", ": weft ")
			}
			if slices.ContainsFunc(node.Flags, func(one *kong.Flag) bool { return one.Name == "limit" }) {
				run(t, nil, "", with("--limit=-1")...).check(t, 2, "", "--limit must be at least 1, got -1")
			}
		})
	}
	for path := range cli.Examples {
		if !slices.ContainsFunc(all, func(node *kong.Node) bool { return node.Path() == path }) {
			t.Errorf("%s has examples, and is not a command", path)
		}
	}
}
