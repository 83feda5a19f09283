package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/kit/fault"
)

// Outline is the graph of a version and what is known about it.
type Outline struct {
	Plan     *graph.Plan           // its literals contain secrets; nil if the version doesn't work with the components of this deployment
	Problem  string                // why Plan is nil
	Warnings []api.WorkflowWarning // about the version
	Schema   json.RawMessage       // of the input of a run; may be empty or null
	Secrets  []string              // places of secrets in the input, in the form of component.SecretPaths
}

// Outline returns the outline of a version. It returns NOT_FOUND for an unknown workflow or version.
func (s *Service) Outline(ctx context.Context, workspaceID, workflowID uuid.UUID, number int32) (o Outline, err error) {
	row, err := read(ctx, s.db, workspaceID, workflowID, &number)
	if err != nil {
		return o, err
	}
	var d definition
	if err := json.Unmarshal(row.Definition, &d); err != nil {
		return o, fmt.Errorf("decode the stored definition: %w", err)
	}
	o.Warnings, _ = review(d, s.modules) // ignore errors: the version may have been saved when the checks were less strict
	o.Schema = d.InputSchema
	for _, c := range d.Components {
		entry, known := s.modules.Lookup(c.Module)
		if known && entry.Flow().RunInput != nil && (len(o.Schema) == 0 || string(o.Schema) == "null") {
			o.Schema = entry.Flow().RunInput(c.Config)
		}
	}
	loaded, err := s.LoadVersion(ctx, s.db, workspaceID, workflowID, number)
	if failure, ok := errors.AsType[*fault.Error](err); ok && failure.Code == fault.InvalidInput {
		o.Problem, o.Secrets = failure.Message, []string{""}
		return o, nil
	}
	o.Plan, o.Secrets = loaded.Plan, loaded.Input.SecretPaths()
	return o, err
}
