package conformance

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weft-automation/weft/conformance/clients"
	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/conformance/signers"
	"github.com/weft-automation/weft/internal/kit/waittest"
)

// language describes how to build and start the client in one language. Next to the files that
// users copy is the program `check`, which verifies callbacks and reads a stream.
type language struct {
	name, needs string
	check       string // in testdata/clients
	build       func(t *testing.T, behind *probe.Target, folder string)
	start       func(program string) []string // journey or check
}

var languages = []language{
	{
		name: "go", needs: "go", check: "check/main.go", build: buildGo,
		start: func(program string) []string { return []string{"./bin/" + program} },
	},
	{
		name: "java", needs: "javac", check: "Check.java", build: compileJava,
		start: func(program string) []string {
			return []string{"java", "-XX:TieredStopAtLevel=1", strings.ToUpper(program[:1]) + program[1:]}
		},
	},
	{
		name: "python", needs: "python3", check: "check.py",
		start: func(program string) []string { return []string{"python3", program + ".py"} },
	},
	{
		name: "typescript", needs: "node", check: "check.ts", build: compileTypeScript,
		start: func(program string) []string { return []string{"node", program + ".js"} },
	},
}

// built returns a folder with the compiled client and checks. It returns false if the machine
// does not have the tools of the language; CI must have them.
func (l language) built(t *testing.T, behind *probe.Target) (string, bool) {
	t.Helper()
	if !present(t, l.needs) {
		return "", false
	}
	folder := t.TempDir()
	for _, known := range clients.Languages {
		if known.Name != l.name {
			continue
		}
		for _, name := range known.Files {
			text, err := clients.Files.ReadFile(known.Name + "/" + name)
			if err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(folder, name), text)
		}
		text, err := signers.Files.ReadFile(known.Signer)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(folder, known.Signer), text)
	}
	check, err := os.ReadFile(filepath.Join("testdata/clients", l.check))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(folder, l.check), check)
	if l.build != nil {
		l.build(t, behind, folder)
	}
	return folder, true
}

// present reports whether the machine has the tools of a language, and logs missing tools. CI has
// the tools of all languages.
func present(t *testing.T, program string) bool {
	t.Helper()
	_, err := exec.LookPath(program)
	if err == nil {
		return true
	}
	if os.Getenv("CI") != "" {
		t.Fatalf("there is no %s, which CI is to have", program)
	}
	t.Logf("there is no %s: what needs it is not run", program)
	return false
}

func write(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// runIn runs a program in a folder with input lines, and returns its output.
func runIn(t *testing.T, folder, lines string, command ...string) []byte {
	t.Helper()
	out, _ := runBoth(t, folder, lines, command...)
	return out
}

// runBoth is runIn that also returns what the command wrote to stderr.
func runBoth(t *testing.T, folder, lines string, command ...string) (out, warnings []byte) {
	t.Helper()
	ctx := waittest.Context(t)
	program := exec.CommandContext(ctx, command[0], command[1:]...)
	program.Dir, program.Stdin = folder, strings.NewReader(lines)
	var said bytes.Buffer
	program.Stderr = &said
	out, err := program.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s%s", command, err, out, said.Bytes())
	}
	return out, said.Bytes()
}

// buildGo builds the programs in place, because Go clients can also be imported.
func buildGo(t *testing.T, _ *probe.Target, folder string) {
	t.Helper()
	runIn(t, ".", "", "go", "build", "-o", folder+"/bin/", "./clients/go/journey", "./testdata/clients/check")
}

func compileJava(t *testing.T, _ *probe.Target, folder string) {
	t.Helper()
	sources, err := filepath.Glob(filepath.Join(folder, "*.java"))
	if err != nil {
		t.Fatal(err)
	}
	runIn(t, folder, "", append([]string{"javac", "-encoding", "UTF-8", "-Xlint:all", "-Werror"}, sources...)...)
}

// nodeTools is the folder of the Node tools for tests.
func nodeTools(t *testing.T) string {
	t.Helper()
	modules, err := filepath.Abs("../internal/tools/node_modules")
	if err == nil {
		_, err = os.Stat(filepath.Join(modules, "openapi-typescript"))
	}
	if err != nil {
		t.Fatalf("the Node tools of the tests are missing (%v): run `make tools`", err)
	}
	return modules
}

// compileTypeScript follows the instructions at the top of the client: it generates the types from
// the service's document, and compiles the client in strict mode.
func compileTypeScript(t *testing.T, behind *probe.Target, folder string) {
	t.Helper()
	modules := nodeTools(t)
	write(t, filepath.Join(folder, "package.json"), []byte(`{"type":"module"}`))
	runIn(t, folder, "", "node", filepath.Join(modules, "openapi-typescript/bin/cli.js"),
		behind.BaseURL+"/openapi.json", "--default-non-nullable", "false", "--output", "weft_api.ts")
	runIn(t, folder, "", "node", filepath.Join(modules, "typescript/bin/tsc"),
		"--strict", "--exactOptionalPropertyTypes", "--noUncheckedIndexedAccess", "--noImplicitReturns", "--noUnusedLocals",
		"--erasableSyntaxOnly", "--skipLibCheck", "--rewriteRelativeImportExtensions", "--target", "es2022", "--module", "nodenext",
		"--lib", "es2022,dom,dom.iterable", "--typeRoots", filepath.Join(modules, "@types"), "--types", "node", "journey.ts", "check.ts")
}
