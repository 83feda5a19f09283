package conformance

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/waittest"
)

// generator generates a client from a document. Its program in testdata/generators has the same name.
type generator struct {
	name  string
	build func(t *testing.T, folder string) (program []string)

	// What the tool itself cannot do, and why.
	noStream, noProblem string
}

var generators = []generator{
	{name: "oapi-codegen", build: buildGenerated},
	{name: "openapi-typescript", build: bundled("openapi-typescript", "openapi.json", "--output", "client/api.ts")},
	{name: "hey-api", build: bundled("openapi-ts", "--input", "openapi.json", "--output", "client", "--client", "@hey-api/client-fetch", "--no-log-file")},
	{
		name: "orval", build: bundled("orval", "--input", "openapi.json", "--output", "client/api.ts", "--client", "fetch", "--mode", "single"),
		noStream: "It reads every answer as one JSON text.",
	},
	{name: "swagger-typescript-api", build: bundled("swagger-typescript-api", "generate", "--path", "openapi.json", "--output", "client", "--name", "api.ts")},
	{
		name: "kubb", build: bundled("kubb", "generate", "--config", "kubb.config.mjs"),
		noStream:  "It reads every answer as one JSON text.",
		noProblem: "Its fetch client reads the answer to a failed request as the answer to a successful one.",
	},
	{
		name: "openapi-zod-client", build: bundled("openapi-zod-client", "openapi.json", "--output", "client/api.ts"),
		noStream: "It reads every answer as one JSON text.",
	},
}

// outcome is what a program of testdata/generators prints.
type outcome struct {
	Modules   []string
	Execution struct {
		ID, Status string
		Output     json.RawMessage
	}
	Statuses []string
	Workflow string
	Run      struct {
		ID, Status string
		TotalUsage json.Number
	}
	Listed   bool
	Schedule struct{ ID, Cron string }
	Missing  string
}

// Programs that use only required members compile in strict mode with a client of each generator,
// and the service accepts their requests.
func TestGeneratedClientsAreServedWithRequiredMembersAlone(t *testing.T) {
	if waittest.LeftToSoak(t, "conformance.TestClientsOfOtherLanguages", "conformance.TestD91ATypedClientOfTheOpenCatalogueCompilesAndIsServed") {
		return
	}
	behind := target(t)
	for _, g := range generators {
		t.Run(g.name, func(t *testing.T) {
			folder := t.TempDir()
			write(t, filepath.Join(folder, "openapi.json"), fetched(t, behind, "/openapi.json"))
			program := g.build(t, folder)
			stop := time.Now().Add(time.Until(waittest.Deadline(t)) * 9 / 10) // before runIn kills the program
			environment := []string{
				"env", "WEFT_URL=" + behind.BaseURL, "WEFT_KEY=" + behind.APIKey, "WEFT_SECRET=" + behind.APISecret,
				fmt.Sprint("WEFT_DEADLINE=", stop.UnixMilli()),
			}
			var got outcome
			if out := runIn(t, folder, "", append(environment, program...)...); json.Unmarshal(out, &got) != nil {
				t.Fatalf("the program prints %s", out)
			}
			passes(t, behind, func(p *probe.Trial) { got.check(p, g) })
		})
	}
}

// check compares what the program saw with the records of the service.
func (o outcome) check(t *probe.Trial, g generator) {
	t.Check(slices.Contains(o.Modules, "RANDOM_UUID"), "modules %v", o.Modules)
	record := t.Record(o.Execution.ID)
	t.Check(o.Execution.Status == "COMPLETED" && record.Status == "COMPLETED", "execution %+v", o.Execution)
	alike(t, "output", record.Output, o.Execution.Output)
	streams := len(o.Statuses) > 0 && o.Statuses[len(o.Statuses)-1] == "COMPLETED"
	t.Check(streams == (g.noStream == ""), "statuses of the stream %v", o.Statuses)
	run := probe.Decode[api.WorkflowRun](t, t.Get(runPath(o.Run.ID)))
	t.Check(o.Run.Status == "COMPLETED" && run.Status == "COMPLETED" && run.WorkflowID.String() == o.Workflow && o.Listed, "run %+v, listed: %t", o.Run, o.Listed)
	t.Equal("usage", o.Run.TotalUsage.String(), string(t.JSON(run.TotalUsage)))
	t.Equal("times of the schedule", o.Schedule.Cron, "0 0 1 1 *")
	t.Do(deleted(schedulePath(o.Schedule.ID)))
	if g.noProblem == "" {
		t.Equal("code", o.Missing, "NOT_FOUND")
	}
}

// buildGenerated builds the Go program with a client of oapi-codegen. The client has all operations
// except the one that returns YAML, because that operation needs a YAML package that is not a
// dependency of Weft.
func buildGenerated(t *testing.T, folder string) []string {
	return []string{generatedClient(t, waittest.Context(t), filepath.Join(folder, "openapi.json"), "testdata/generators/oapi-codegen", object{
		"name-normalizer": "ToCamelCaseWithInitialisms", "exclude-operation-ids": []string{"getOpenapiYaml"},
	})}
}

// bundled runs a generator, compiles the program of the same test strictly, and bundles it.
func bundled(tool string, arguments ...string) func(*testing.T, string) []string {
	return func(t *testing.T, folder string) []string {
		name := t.Name()[strings.LastIndex(t.Name(), "/")+1:]
		modules, err := filepath.Abs("../internal/tools/generators/node_modules")
		if err == nil {
			_, err = os.Stat(filepath.Join(modules, ".bin", tool))
		}
		if err == nil {
			err = os.Symlink(modules, filepath.Join(folder, "node_modules"))
		}
		if err != nil {
			t.Fatalf("the generators are missing (%v): run `make generators`", err)
		}
		for _, source := range []string{"testdata/generators/" + name + ".ts", "testdata/generators/story.ts", "testdata/generators/transport.ts", "testdata/generators/kubb.config.mjs", "signers/weft_signer.ts"} {
			text, err := os.ReadFile(source)
			if err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(folder, filepath.Base(source)), text)
		}
		write(t, filepath.Join(folder, "package.json"), []byte(`{"type":"module"}`))
		if err := os.Mkdir(filepath.Join(folder, "client"), 0o700); err != nil {
			t.Fatal(err)
		}
		bin := func(tool string, arguments ...string) {
			// Disable the telemetry of the tools.
			silent := []string{"env", "DO_NOT_TRACK=1", "CI=1", "node", filepath.Join("node_modules/.bin", tool)}
			runIn(t, folder, "", append(silent, arguments...)...)
		}
		bin(tool, arguments...)
		bin("tsc", "--noEmit", "--strict", "--skipLibCheck", "--target", "es2022", "--module", "esnext", "--moduleResolution", "bundler",
			"--allowImportingTsExtensions", "--lib", "es2022,dom,dom.iterable", "--types", "node", name+".ts")
		runIn(t, folder, "", "node_modules/.bin/esbuild", name+".ts", "--bundle", "--platform=node", "--format=cjs", "--log-level=error", "--outfile=program.cjs")
		return []string{"node", "program.cjs"}
	}
}
