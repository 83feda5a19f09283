package judges

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/web/contract"
)

// verdict is the result of Redocly respect for one file of flows.
type verdict struct {
	passed bool
	said   string
	steps  int // steps that were run
	bad    int // failed checks

	checked, unchecked []string // steps whose response was, or was not, validated against the schema
}

// respect runs the tool on a file of flows, against a base URL.
func respect(t *testing.T, d deployment, file, at string) verdict {
	t.Helper()
	report := filepath.Join(t.TempDir(), "report.json")
	file = withoutEvents(t, file)
	program := exec.CommandContext(t.Context(), tool(t, ".bin/redocly"), "respect", file, "--json-output="+report, fmt.Sprintf("--execution-timeout=%d", time.Until(waittest.Deadline(t)).Milliseconds()))
	inputs, err := json.Marshal(map[string]string{"callbackUrl": d.receiver + "/orders", "email": d.own.AdminEmail, "password": d.own.AdminPassword})
	if err != nil {
		t.Fatal(err)
	}
	program.Env = append(os.Environ(), "REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=true", "REDOCLY_CLI_RESPECT_INPUT="+string(inputs), "REDOCLY_CLI_RESPECT_SERVER=weft="+at)
	said, err := program.CombinedOutput()
	v := verdict{passed: err == nil, said: string(said)}
	v.read(t, report)
	return v
}

// withoutEvents copies a file of flows. The copy uses a document that has no schema for the events
// of streams, because the tool would validate the whole stream against that schema.
func withoutEvents(t *testing.T, file string) string {
	t.Helper()
	var document object
	if err := json.Unmarshal(api.SpecJSON(), &document); err != nil {
		t.Fatal(err)
	}
	for _, item := range document["paths"].(object) {
		if get, ok := item.(object)["get"].(object); ok {
			content, _ := get["responses"].(object)["200"].(object)["content"].(object)
			if stream, ok := content["text/event-stream"].(object); ok {
				delete(stream, "schema")
			}
		}
	}
	text, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	flow, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	copied := filepath.Join(folder, filepath.Base(file))
	for path, data := range map[string][]byte{
		filepath.Join(folder, "openapi.json"): text, copied: bytes.Replace(flow, []byte("url: ../../../openapi.yaml"), []byte("url: openapi.json"), 1),
	} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return copied
}

// read counts the steps in the report, so that a tool that does nothing does not pass.
func (v *verdict) read(t *testing.T, report string) {
	t.Helper()
	text, err := os.ReadFile(report)
	if err != nil {
		t.Fatalf("%v\n%s", err, v.said)
	}
	var told struct {
		Files map[string]struct {
			ExecutedWorkflows []struct {
				ExecutedSteps []struct {
					StepID string
					Checks []struct {
						Name   string
						Passed bool
					}
				}
			}
		}
	}
	if err := json.Unmarshal(text, &told); err != nil {
		t.Fatal(err)
	}
	for _, file := range told.Files {
		for _, flow := range file.ExecutedWorkflows {
			for _, step := range flow.ExecutedSteps {
				v.steps++
				schema := false
				for _, check := range step.Checks {
					schema = schema || check.Name == "schema check"
					if !check.Passed {
						v.bad++
					}
				}
				if schema {
					v.checked = append(v.checked, step.StepID)
				} else {
					v.unchecked = append(v.unchecked, step.StepID)
				}
			}
		}
	}
}

func flows(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("flows/*.arazzo.yaml")
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	return files
}

func TestTheFlowsAreRespected(t *testing.T) {
	t.Parallel()
	d := start(t)
	spared := readExclusions(t)
	for _, file := range flows(t) {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".arazzo.yaml"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			v := respect(t, d, file, d.proxy)
			if owed := strings.Count(string(text), "- stepId: "); !v.passed || v.steps < owed {
				t.Errorf("%d of %d steps, %d checks failed\n%s", v.steps, owed, v.bad, v.said)
			}
			for _, step := range v.unchecked {
				if !spared.spare("steps", step) {
					t.Errorf("the response of %s was not validated against the schema", step)
				}
			}
			for _, step := range v.checked {
				if spared.spare("steps", step) {
					t.Errorf("exclusions.yaml excludes %s, which the tool validates", step)
				}
			}
			if strings.Contains(v.said, d.own.AdminPassword) {
				t.Error("the password is shown")
			}
		})
	}
	t.Run("and a deployment that breaks the contract is not", func(t *testing.T) {
		t.Parallel()
		broken := breaking(t, d.proxy, `"requestsPerHour":{`, `"requestsPerDay":{`)
		if v := respect(t, d, "flows/around.arazzo.yaml", broken); v.passed || v.bad == 0 {
			t.Errorf("%d checks failed\n%s", v.bad, v.said)
		}
	})
}

// breaking is a proxy that replaces one string with another in the responses.
func breaking(t *testing.T, to, from, into string) string {
	t.Helper()
	return before(t, to, &httputil.ReverseProxy{ModifyResponse: func(answer *http.Response) error {
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			return err
		}
		body = bytes.ReplaceAll(body, []byte(from), []byte(into))
		answer.Body, answer.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		answer.Header.Set("Content-Length", fmt.Sprint(len(body)))
		return nil
	}})
}

func TestEachSparedStepIsInAFlow(t *testing.T) {
	var all []byte
	for _, file := range flows(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, text...)
	}
	for _, e := range readExclusions(t)["steps"] {
		if !bytes.Contains(all, []byte("- stepId: "+e.Name+"\n")) {
			t.Errorf("exclusions.yaml excludes the step %s, which is in no flow", e.Name)
		}
	}
}

func TestEveryOperationIsInAFlow(t *testing.T) {
	rules, err := contract.Load()
	if err != nil {
		t.Fatal(err)
	}
	var used []string
	for _, file := range flows(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range regexp.MustCompile(`(?m)^ +operationId: (\w+)$`).FindAllSubmatch(text, -1) {
			used = append(used, string(found[1]))
		}
	}
	used = append(used, "streamWorkspace") // it never ends, so a flow would wait for it forever
	for _, operation := range rules.Operations {
		if !slices.Contains(used, operation.ID) {
			t.Errorf("%s is in no flow", operation.ID)
		}
	}
}
