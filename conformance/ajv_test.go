package conformance

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/weft-automation/weft/conformance/probe"
)

// Every schema of the catalogue compiles with ajv in strict mode, and its examples are valid.
// A pattern in syntax that only Go supports would not compile.
func TestSchemasOfTheCatalogueCompileInStrictMode(t *testing.T) {
	t.Parallel()
	behind := target(t)
	const planted = "a pattern of Go"
	schemas := map[string]json.RawMessage{planted: json.RawMessage(`{"type":"string","pattern":"^(?i:get|post)$"}`)}
	passes(t, behind, func(p *probe.Trial) {
		for _, c := range catalogue(p) {
			schemas[c.Module+" input"], schemas[c.Module+" config"], schemas[c.Module+" output"] = c.Input, c.Config, c.Output
		}
	})
	for _, c := range systemComponents(t, behind) {
		for _, parameter := range c.Inputs.Parameters {
			schemas[c.Module+" jsonSchema of "+parameter.Name] = parameter.JSONSchema
		}
	}
	given, err := json.Marshal(schemas)
	if err != nil {
		t.Fatal(err)
	}
	out := runIn(t, "testdata/ajv", string(given), "node", "compile.mjs", nodeTools(t))
	var errors map[string]string
	if err := json.Unmarshal(out, &errors); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if !strings.Contains(errors[planted], "Invalid regular expression") {
		t.Errorf("ajv compiles %s: %q", schemas[planted], errors[planted])
	}
	delete(errors, planted)
	for _, name := range slices.Sorted(maps.Keys(errors)) {
		t.Errorf("%s: %s", name, errors[name])
	}
}
