package workflow_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/oasdiff/yaml"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/modules"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/platform/egress"
	"github.com/weft-automation/weft/internal/workflow"
)

// The example workflows of the contract can be saved with the existing components.
func TestWorkflowsOfTheContractCanBeSaved(t *testing.T) {
	t.Parallel()
	b := setup(t)
	library, err := component.NewRegistry(modules.All(egress.New(egress.Policy{}))...)
	if err != nil {
		t.Fatal(err)
	}
	service := workflow.NewService(b.scoped, library, nil)
	var doc struct {
		Components struct {
			Examples map[string]struct{ Value json.RawMessage }
			Schemas  map[string]struct{ Examples []json.RawMessage }
		}
	}
	text, err := yaml.YAMLToJSON(api.SpecYAML())
	if err == nil {
		err = json.Unmarshal(text, &doc)
	}
	if err != nil {
		t.Fatal(err)
	}
	shown := append(doc.Components.Schemas["CreateWorkflowRequest"].Examples, doc.Components.Schemas["ReplaceWorkflowRequest"].Examples...)
	for _, name := range []string{"CreateWorkflow", "Workflow", "WorkflowExport"} {
		shown = append(shown, doc.Components.Examples[name].Value)
	}
	for _, raw := range shown {
		var w api.CreateWorkflowRequest
		if err := json.Unmarshal(raw, &w); err != nil {
			t.Fatal(err)
		}
		made, _, err := service.Create(b.ctx, workflow.CreateParams{WorkspaceID: b.workspace, Draft: workflow.Draft{
			Name: w.Name, InputSchema: w.InputSchema, Components: w.Components, SequenceEdges: w.SequenceEdges, DataConnections: w.DataConnections, Triggers: w.Triggers,
		}})
		if err != nil {
			failure, _ := err.(*fault.Error)
			t.Errorf("%s: %v %+v", w.Name, err, failure.Details)
		}
		if made.Warnings == nil || slices.ContainsFunc(*made.Warnings, func(one api.WorkflowWarning) bool { return one.Code != "VARIABLE_NOT_FOUND" }) {
			t.Errorf("%s: %+v", w.Name, made.Warnings)
		}
	}
	if len(shown) < 5 || !strings.Contains(string(text), "FOR_EACH") {
		t.Errorf("%d workflows", len(shown))
	}
}
