package present

import (
	"encoding/json"
	"fmt"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/kit/timestamp"
)

// Workflow is the record of a workflow, as one of its versions has it (decisions 8.1).
// What the definition is made of passes as it is stored.
func Workflow(row db.WorkflowGetRow) (api.Workflow, error) {
	var parts struct{ InputSchema, Components, SequenceEdges, DataConnections, Triggers json.RawMessage }
	if err := json.Unmarshal(row.Definition, &parts); err != nil {
		return api.Workflow{}, fmt.Errorf("read the stored definition: %w", err)
	}
	w := api.Workflow{
		ID: row.ID, Name: row.Name, Description: row.Description, Status: api.WorkflowStatus(row.Status), Version: row.Version,
		InputSchema: parts.InputSchema, Components: parts.Components, SequenceEdges: parts.SequenceEdges,
		DataConnections: parts.DataConnections, Triggers: parts.Triggers,
		CreatedAt: timestamp.Of(row.CreatedAt), UpdatedAt: timestamp.Of(row.UpdatedAt),
	}
	if row.Version != row.Latest {
		w.UpdatedAt = timestamp.Of(row.SavedAt)
	}
	return w, nil
}

// WorkflowExport is a workflow as a file, which says nothing of its workspace.
func WorkflowExport(w api.Workflow) api.WorkflowExport {
	return api.WorkflowExport{
		Format: api.WorkflowFileFormatWeftWorkflowV1, Name: w.Name, Description: w.Description, InputSchema: w.InputSchema,
		Components: w.Components, SequenceEdges: w.SequenceEdges, DataConnections: w.DataConnections, Triggers: w.Triggers,
	}
}
