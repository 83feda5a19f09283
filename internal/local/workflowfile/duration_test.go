package workflowfile_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/component/modules"
	"github.com/weft-automation/weft/internal/local/workflowfile"
	"github.com/weft-automation/weft/internal/platform/egress"
)

// Every field of a module that ends in Ms can be written as a duration, and pull writes it so.
func TestFieldsInMillisecondsAreDurationsInFiles(t *testing.T) {
	t.Parallel()
	var fields []string
	for _, module := range modules.All(egress.New(egress.Policy{})) {
		about := module.Describe()
		for part, schema := range map[string]json.RawMessage{"config": about.Config, "input": about.Input} {
			var object struct{ Properties map[string]json.RawMessage }
			if err := json.Unmarshal(schema, &object); err != nil && len(schema) > 0 {
				t.Fatal(err)
			}
			for name := range object.Properties {
				if !strings.HasSuffix(name, "Ms") {
					continue
				}
				fields = append(fields, about.Module+" "+part+" "+name)
				raw := `{"name":"x","components":[{"id":"a","module":"` + about.Module + `","` + part + `":{"` + name + `":172800000}}]}`
				text, err := workflowfile.Write([]byte(raw))
				if err != nil || !strings.Contains(string(text), strings.TrimSuffix(name, "Ms")+": 2d") {
					t.Errorf("%s is written as\n%s, %v", raw, text, err)
				}
				if file, err := workflowfile.Read(text); err != nil || !file.Same([]byte(raw)) {
					t.Errorf("%s is read as %s, %v", text, file.JSON, err)
				}
			}
		}
	}
	if slices.Sort(fields); len(fields) < 5 {
		t.Errorf("the fields are %v", fields)
	}
}

func TestDurationsOfFilesBecomeMilliseconds(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"components: {a: {module: DELAY, config: {duration: 90s}}}":                            `"config":{"durationMs":90000}`,
		"components: {a: {module: API_CALL, config: {timeout: 1m30s}}}":                        `"config":{"timeoutMs":90000}`,
		"components: {a: {module: RUN_WORKFLOW, timeout: 1h}}":                                 `"module":"RUN_WORKFLOW","timeoutMs":3600000`,
		"components: {a: {module: X, timeout: 1}}":                                             `error: line 1: components.a.timeout: expected a duration`,
		"components: [{id: a, module: DELAY, input: {duration: 2d}}]":                          `"input":{"durationMs":172800000}`,
		"components: {a: {module: DELAY, input: {durationMs: '{{start.n}}'}}}":                 `"input":{"durationMs":"{{start.n}}"}`,
		"components: {a: {module: API_CALL, input: {body: {timeout: 2d}}}}":                    `"input":{"body":{"timeout":"2d"}}`,
		"components: {a: {module: RESPOND, input: {duration: 2d}}}":                            `"input":{"duration":"2d"}`,
		"components:\n  a:\n    module: DELAY\n    config: {duration: 90s, durationMs: 90000}": `error: line 4: components.a.config: duration and durationMs are the same field: remove one of them`,
		"components:\n  a:\n    module: DELAY\n    config:\n      duration: soon":              `error: line 5: components.a.config.duration: expected a duration with the units d, h, m, s and ms, such as 90s, 36h or 1h30m; durationMs takes milliseconds`,
		"components: {a: {module: DELAY, config: {duration: 90}}}":                             `error: line 1: components.a.config.duration: expected a duration`,
		"components: {a: {module: DELAY, config: {duration: '{{start.pause}}'}}}":              `error: durationMs takes milliseconds`,
	} {
		file, err := workflowfile.Read([]byte(given))
		message, isError := strings.CutPrefix(want, "error: ")
		if isError != (err != nil) || isError && !strings.Contains(err.Error(), message) || !isError && !strings.Contains(string(file.JSON), want) {
			t.Errorf("%s\ngot  %s, %v\nwant %s", given, file.JSON, err, want)
		}
	}
	file, err := workflowfile.Read([]byte("components:\n  a:\n    module: DELAY\n    config:\n      duration: 2d"))
	if err != nil || file.Line("/components/0/config/durationMs") != 5 {
		t.Errorf("line %d, %v", file.Line("/components/0/config/durationMs"), err)
	}
	if text, err := workflowfile.Write([]byte(`{"name":"x","components":[{"id":"a","module":"RUN_WORKFLOW","timeoutMs":90000}]}`)); err != nil || !strings.Contains(string(text), "timeout: 90s") {
		t.Errorf("%s, %v", text, err)
	}
	for _, number := range []string{"1e3", "-1", "1.0", "99999999999999999"} {
		raw := `{"name":"x","components":[{"id":"a","module":"DELAY","config":{"durationMs":` + number + `}}]}`
		text, err := workflowfile.Write([]byte(raw))
		if err != nil || !strings.Contains(string(text), "durationMs: "+number) {
			t.Errorf("%s is written as\n%s, %v", raw, text, err)
		}
	}
}

// A retry policy has durations in files, too.
func TestRetryHasDurationsInFiles(t *testing.T) {
	t.Parallel()
	const policy = `"retry":{"maxElapsedMs":604800000,"initialDelayMs":200,"maxDelayMs":600000,"backoffFactor":3}`
	for _, raw := range []string{
		`{"name":"x","components":[{"id":"a","module":"RANDOM_UUID",` + policy + `}]}`,
		`{"name":"x",` + policy + `,"components":[{"id":"a","module":"RANDOM_UUID"}]}`,
	} {
		text, err := workflowfile.Write([]byte(raw))
		for _, want := range []string{"maxElapsed: 7d", "initialDelay: 200ms", "maxDelay: 10m", "backoffFactor: 3"} {
			if err != nil || !strings.Contains(string(text), want) {
				t.Errorf("%s is written as\n%s, %v; want %s", raw, text, err, want)
			}
		}
		if file, err := workflowfile.Read(text); err != nil || !file.Same([]byte(raw)) {
			t.Errorf("%s is read as %s, %v", text, file.JSON, err)
		}
	}
	if _, err := workflowfile.Read([]byte("name: x\nretry: {maxElapsed: long}\ncomponents: {}")); err == nil || !strings.Contains(err.Error(), "line 2: retry.maxElapsed: expected a duration") {
		t.Errorf("a wrong duration: %v", err)
	}
}
