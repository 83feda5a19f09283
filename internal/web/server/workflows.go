package server

import (
	"context"
	"fmt"
	"strings"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/execution/present"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/workflow"
)

// CreateWorkflow stores a workflow.
func (s *Server) CreateWorkflow(ctx context.Context, request api.CreateWorkflowRequestObject) (api.CreateWorkflowResponseObject, error) {
	call, body := callOf(ctx), request.Body
	made, replayed, err := s.workflows.Create(ctx, workflow.CreateParams{
		WorkspaceID: call.principal.WorkspaceID, Idempotency: call.idempotency(),
		Draft: workflow.Draft{
			Name: body.Name, Description: value(body.Description), Status: api.WorkflowStatus(value(body.Status)), InputSchema: body.InputSchema,
			Components: body.Components, SequenceEdges: body.SequenceEdges, DataConnections: body.DataConnections, Triggers: body.Triggers,
			Strict: call.strict, Unknown: call.unknown,
		},
	})
	return versionResponse(made.Version, made).replayed(replayed), err
}

// ListWorkflows is one page of the workspace's workflows.
func (s *Server) ListWorkflows(ctx context.Context, request api.ListWorkflowsRequestObject) (api.ListWorkflowsResponseObject, error) {
	page, err := s.workflows.List(ctx, callOf(ctx).principal.WorkspaceID, workflow.ListParams{
		Limit: limit(request.Params.Limit), Cursor: value(request.Params.Cursor), Status: value(request.Params.Status),
	})
	return api.ListWorkflows200JSONResponse(page), err
}

// GetWorkflow returns a workflow, or one of its versions.
//
// The ETag is the version, and every change of a workflow makes a new one, except its archiving.
// So a version that was asked for by its number, or an archived workflow, is never 304. The tag of
// an archived workflow names no later answer, because only a save brings the workflow back.
func (s *Server) GetWorkflow(ctx context.Context, request api.GetWorkflowRequestObject) (api.GetWorkflowResponseObject, error) {
	w, err := s.workflows.Get(ctx, callOf(ctx).principal.WorkspaceID, request.WorkflowID, request.Params.Version)
	held := request.Params.IfNoneMatch
	if request.Params.Version != nil || w.Status == api.WorkflowStatusARCHIVED {
		held = nil
	}
	return jsonResponse(w).unless(etag(w.Version), held), err
}

// ExportWorkflow returns a workflow, or one of its versions, as a file.
func (s *Server) ExportWorkflow(ctx context.Context, request api.ExportWorkflowRequestObject) (api.ExportWorkflowResponseObject, error) {
	w, err := s.workflows.Get(ctx, callOf(ctx).principal.WorkspaceID, request.WorkflowID, request.Params.Version)
	return jsonResponse(present.WorkflowExport(w)).unless(etag(w.Version), request.Params.IfNoneMatch), err
}

// ReplaceWorkflow saves a workflow anew.
func (s *Server) ReplaceWorkflow(ctx context.Context, request api.ReplaceWorkflowRequestObject) (api.ReplaceWorkflowResponseObject, error) {
	call, body := callOf(ctx), request.Body
	replaced, err := s.workflows.Replace(ctx, workflow.ReplaceParams{
		WorkspaceID: call.principal.WorkspaceID, WorkflowID: request.WorkflowID, Expected: expected(request.Params.IfMatch),
		Draft: workflow.Draft{
			Name: body.Name, Description: value(body.Description), Status: api.WorkflowStatus(value(body.Status)), InputSchema: body.InputSchema,
			Components: body.Components, SequenceEdges: body.SequenceEdges, DataConnections: body.DataConnections, Triggers: body.Triggers,
			Strict: call.strict, Unknown: call.unknown,
		},
	})
	if malformed := fault.Malformed(call.unknown); malformed != nil && fault.CodeOf(err) != fault.InvalidInput {
		err = malformed // before what it would have taken the place of (decisions 1.8)
	}
	return versionResponse(replaced.Version, replaced), err
}

// ArchiveWorkflow takes a workflow out of use.
func (s *Server) ArchiveWorkflow(ctx context.Context, request api.ArchiveWorkflowRequestObject) (api.ArchiveWorkflowResponseObject, error) {
	archived, err := s.workflows.Archive(ctx, callOf(ctx).principal.WorkspaceID, request.WorkflowID, expected(request.Params.IfMatch))
	return versionResponse(archived.Version, archived), err
}

// UpdateWorkflowComponent changes a component of a workflow.
func (s *Server) UpdateWorkflowComponent(ctx context.Context, request api.UpdateWorkflowComponentRequestObject) (api.UpdateWorkflowComponentResponseObject, error) {
	body := value(request.Body)
	updated, err := s.workflows.UpdateComponent(ctx, workflow.UpdateParams{
		Restricted:  callOf(ctx).principal.Restricted(),
		WorkspaceID: callOf(ctx).principal.WorkspaceID, WorkflowID: request.WorkflowID, ComponentID: request.ComponentID,
		Expected: expected(request.Params.IfMatch), Config: body.Config, Name: body.Name, Position: body.Position,
	})
	return versionResponse(updated.WorkflowVersion, updated), err
}

// expected returns the versions that an If-Match names, nil for any. A weak tag, or any other
// text that is not an ETag of a workflow, names no version (RFC 9110, section 13.1.1).
func expected(ifMatch *api.IfMatch) []int32 {
	if ifMatch == nil || strings.TrimSpace(*ifMatch) == "*" {
		return nil
	}
	versions := []int32{}
	for tag := range strings.SplitSeq(*ifMatch, ",") {
		var number int32
		tag = strings.TrimSpace(tag)
		if _, err := fmt.Sscanf(tag, `"%d"`, &number); err == nil && tag == etag(number) {
			versions = append(versions, number)
		}
	}
	return versions
}

// etag returns the ETag of a version.
func etag(version int32) string { return fmt.Sprintf(`"%d"`, version) }

// versionResponse is jsonResponse of what a version has.
func versionResponse(version api.WorkflowVersion, value any) response {
	return jsonResponse(value).with("ETag", etag(version))
}
