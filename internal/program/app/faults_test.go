package app

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/weft-automation/weft/gen/api"
)

// Faults of types hide no faults of the graph, whether the workflow is saved or validated.
func TestWorkflowsReportTheFaultsOfTypesAndGraphTogether(t *testing.T) {
	n := startWhole(t, nil).tenant(t, "faults")
	const rest = `"name":"a","sequenceEdges":[{"id":"e1","from":"a","to":"gone"}]`
	component := func(fields string) string {
		return `{` + rest + `,"components":[{"id":"a","module":"HASHH","config":{}` + fields + `}]}`
	}
	const graph = " /components/0/module /sequenceEdges/0/to"
	for _, c := range []struct{ name, body, pointers string }{
		{"a number as text", component(`,"attempts":"x"`), "/components/0/attempts" + graph},
		{"a number that is too large", component(`,"attempts":9999999999`), "/components/0/attempts" + graph},
		{"a fraction", component(`,"timeoutMs":1.5`), "/components/0/timeoutMs" + graph},
		{"a list as a choice", component(`,"onFailure":["continue"]`), "/components/0/onFailure" + graph},
		{"text as an object", component(`,"input":"x"`), "/components/0/input" + graph},
		{"text as a policy", component(`,"retry":"always"`), "/components/0/retry" + graph},
		{"a number as the name of a component", component(`,"name":5`), "/components/0/name" + graph},
		{"a number as the name of the workflow", strings.Replace(component(""), `"name":"a"`, `"name":5`, 1), "/name" + graph},
		{"a component that can't be read", `{` + rest + `,"components":["a"]}`, "/components/0"},
		{"components that can't be read", `{` + rest + `,"components":{}}`, "/components"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, path := range []string{"/v1/sdk/workflows", "/v1/sdk/workflows/validate"} {
				got := n.sign(t, http.MethodPost, path, json.RawMessage(c.body))
				var problem api.Problem
				if err := json.Unmarshal([]byte(got.body), &problem); err != nil {
					t.Fatal(err)
				}
				var pointers []string
				for _, one := range problem.Errors {
					pointers = append(pointers, one.Pointer)
				}
				if all := strings.Join(pointers, " "); got.status != 400 || all != c.pointers {
					t.Errorf("%s: %d %s, want %s", path, got.status, all, c.pointers)
				}
			}
		})
	}
}
