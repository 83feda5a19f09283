package present

import (
	"encoding/json"
	"fmt"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/kit/timestamp"
)

// Workflow returns the record of one version of a workflow (decisions 8.1). It returns the parts
// of the definition as stored.
func Workflow(row db.WorkflowGetRow) (api.Workflow, error) {
	var parts struct {
		InputSchema, Retry, Components, SequenceEdges, DataConnections, Triggers json.RawMessage

		DeadlineMs *int64
	}
	if err := json.Unmarshal(row.Definition, &parts); err != nil {
		return api.Workflow{}, fmt.Errorf("decode stored workflow definition: %w", err)
	}
	w := api.Workflow{
		ID: row.ID, Key: row.Key, Name: row.Name, Description: row.Description, Status: api.WorkflowStatus(row.Status), Version: row.Version,
		InputSchema: parts.InputSchema, Retry: parts.Retry, DeadlineMs: parts.DeadlineMs, Components: parts.Components, SequenceEdges: parts.SequenceEdges,
		DataConnections: parts.DataConnections, Triggers: parts.Triggers,
		CreatedAt: timestamp.Of(row.CreatedAt), UpdatedAt: timestamp.Of(row.UpdatedAt),
	}
	if row.Version != row.Latest {
		w.UpdatedAt = timestamp.Of(row.SavedAt)
	}
	return w, nil
}

// WorkflowExport returns a workflow in the form of an export file, without workspace-specific
// data.
func WorkflowExport(w api.Workflow) api.WorkflowExport {
	return api.WorkflowExport{
		Format: api.WorkflowFileFormatWeftWorkflowV1, Key: w.Key, Name: w.Name, Description: w.Description, InputSchema: w.InputSchema, Retry: w.Retry, DeadlineMs: w.DeadlineMs,
		Components: w.Components, SequenceEdges: w.SequenceEdges, DataConnections: w.DataConnections, Triggers: w.Triggers,
	}
}
