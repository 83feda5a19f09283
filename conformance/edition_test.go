package conformance

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/kit/waittest"
)

// editionCalls are the operations that testdata/edition calls.
var editionCalls = []string{
	"listComponents", "executeComponent", "getComponentExecution", "streamComponentExecution", "replayComponentCallback",
	"createWorkflow", "updateWorkflowComponent", "quoteWorkflow", "triggerWorkflow", "getWorkflowRun", "listRunStages",
	"createSchedule", "archiveWorkflow", "setEnvironmentVariable", "getLimits", "getWorkspaceOfKey",
}

// Clients generated from the OpenAPI 3.0 and 3.1 documents must send the same requests and
// decode the same responses, without losing fields.
func TestAClientOfEachEditionIsServedAlike(t *testing.T) {
	if waittest.LeftToSoak(t, "conformance.TestClientsOfOtherLanguages", "gen.TestBothEditionsMakeTheSameClient") { // it compiles two clients
		return
	}
	behind := target(t)
	said := map[string]string{}
	for edition, document := range map[string]string{"3.1": "../openapi.yaml", "3.0": "../gen/api/openapi-3.0.json"} {
		ctx := waittest.Context(t)
		command := exec.CommandContext(ctx, editionClient(t, ctx, document))
		command.Env = append(command.Environ(), "WEFT_URL="+behind.BaseURL, "WEFT_KEY="+behind.APIKey, "WEFT_SECRET="+behind.APISecret)
		var faults strings.Builder
		command.Stderr = &faults
		output, err := command.Output()
		if err != nil {
			t.Fatalf("%s: %v: %s", edition, err, faults.String())
		}
		said[edition] = string(output)
	}
	if said["3.0"] != said["3.1"] {
		t.Errorf("from 3.0:\n%s\nfrom 3.1:\n%s", said["3.0"], said["3.1"])
	}
	for _, call := range append([]string{"waits 200 JSON200", "fails 200 JSON200", "refused 400", "invalid 422", "replayComponentCallback 409"}, editionCalls...) {
		if !strings.Contains(said["3.1"], call) {
			t.Errorf("%s was not called: %s", call, said["3.1"])
		}
	}
}

// editionClient builds the program of testdata/edition on a client from a document.
func editionClient(t *testing.T, ctx context.Context, document string) string {
	t.Helper()
	return generatedClient(t, ctx, document, "testdata/edition", object{"name-normalizer": "ToCamelCaseWithInitialisms", "include-operation-ids": editionCalls})
}

// generatedClient builds the program in a folder with a client that oapi-codegen generates from a
// document. The program imports the client as its own package client.
func generatedClient(t *testing.T, ctx context.Context, document, of string, options object) string {
	t.Helper()
	folder := t.TempDir()
	write := func(name string, value any) string {
		data, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	tool := func(arguments ...string) {
		command := exec.CommandContext(ctx, "go", arguments...)
		if output, err := command.CombinedOutput(); err != nil {
			t.Fatalf("go %v: %v: %s", arguments, err, output)
		}
	}
	source, program := filepath.Join(folder, "client.go"), filepath.Join(folder, "program")
	tool("tool", "-modfile=../internal/tools/go.mod", "oapi-codegen", "-o", source, "-config", write("client.json", object{
		"package": "client", "generate": object{"models": true, "client": true}, "output-options": options,
		"compatibility": object{"always-prefix-enum-values": true},
	}), document)
	place, err := filepath.Abs(filepath.Join(of, "client/client.go"))
	if err != nil {
		t.Fatal(err)
	}
	tool("build", "-overlay", write("overlay.json", object{"Replace": object{place: source}}), "-o", program, "./"+of)
	return program
}
