package conformance

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/internal/kit/waittest"
)

// Users can generate typed clients from the open catalogue (decisions 9.1). The client in
// testdata/typed must compile in the strict mode of TypeScript and must reject invalid calls at
// compile time. Then it runs against the service.
func TestD91ATypedClientOfTheOpenCatalogueCompilesAndIsServed(t *testing.T) {
	t.Parallel()
	behind := target(t)
	compiler, err := filepath.Abs("../internal/tools/node_modules/typescript/bin/tsc")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(compiler); err != nil {
		t.Fatalf("the TypeScript compiler of the tests is missing (%v): run `make tools`", err)
	}
	folder := t.TempDir()
	keep := func(name string, text []byte, err error) {
		t.Helper()
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	listed := fetched(t, behind, "/v1/system/components")
	keep("components.json", listed, nil)
	keep("package.json", []byte(`{"type":"module"}`), nil)
	use, err := os.ReadFile("testdata/typed/use.ts")
	keep("use.ts", use, err)

	runNode(t, nil, "testdata/typed/generate.mjs", filepath.Join(folder, "components.json"), filepath.Join(folder, "client.ts"))
	runNode(t, nil, compiler, "--strict", "--exactOptionalPropertyTypes", "--noUncheckedIndexedAccess", "--noImplicitReturns", "--noUnusedLocals",
		"--target", "es2022", "--module", "nodenext", "--lib", "es2022", filepath.Join(folder, "use.ts"))
	out := runNode(t, []string{"WEFT_URL=" + behind.BaseURL, "WEFT_KEY=" + behind.APIKey, "WEFT_SECRET=" + behind.APISecret}, "testdata/typed/main.mjs", folder)
	if !strings.Contains(out, "served") {
		t.Errorf("the client says %q", out)
	}
}

// fetched returns the body of a path that requires no authentication.
func fetched(t *testing.T, behind *probe.Target, path string) []byte {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, behind.BaseURL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%d, %v", answer.StatusCode, err)
	}
	return body
}

// runNode runs a script and returns its output.
func runNode(t *testing.T, environ []string, arguments ...string) string {
	t.Helper()
	ctx := waittest.Context(t)
	command := exec.CommandContext(ctx, "node", arguments...)
	command.Env = append(command.Environ(), environ...)
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("node %s: %v\n%s", arguments[0], err, out)
	}
	return string(out)
}
