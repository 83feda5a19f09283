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

// CreateWorkflow creates a workflow.
func (s *Server) CreateWorkflow(ctx context.Context, request api.CreateWorkflowRequestObject) (api.CreateWorkflowResponseObject, error) {
	call, body := callOf(ctx), request.Body
	made, replayed, err := s.Workflows.Create(ctx, workflow.CreateParams{
		WorkspaceID: call.principal.WorkspaceID, Idempotency: call.idempotency(),
		Draft: workflow.Draft{
			Key: value(body.Key), Name: body.Name, Description: value(body.Description), Status: api.WorkflowStatus(value(body.Status)), InputSchema: body.InputSchema, Retry: body.Retry, DeadlineMs: body.DeadlineMs,
			Components: body.Components, SequenceEdges: body.SequenceEdges, DataConnections: body.DataConnections, Triggers: body.Triggers,
			Strict: call.strict, Form: call.faults,
		},
	})
	return versionResponse(made.Version, made).replayed(replayed), err
}

// ValidateWorkflow checks a workflow and saves nothing.
func (s *Server) ValidateWorkflow(ctx context.Context, request api.ValidateWorkflowRequestObject) (api.ValidateWorkflowResponseObject, error) {
	call, body := callOf(ctx), request.Body
	checked, err := s.Workflows.Validate(ctx, call.principal.WorkspaceID, workflow.Draft{
		Key: value(body.Key), Name: body.Name, Description: value(body.Description), Status: api.WorkflowStatus(value(body.Status)), InputSchema: body.InputSchema, Retry: body.Retry, DeadlineMs: body.DeadlineMs,
		Components: body.Components, SequenceEdges: body.SequenceEdges, DataConnections: body.DataConnections, Triggers: body.Triggers,
		Strict: call.strict, Form: call.faults,
	})
	if err != nil {
		return nil, err
	}
	result := api.WorkflowValidation{Faults: []api.ProblemDetail{}, Warnings: checked.Warnings}
	for _, d := range checked.Faults {
		result.Faults = append(result.Faults, api.ProblemDetail{Code: d.Code, Message: d.Message, Pointer: d.Pointer})
	}
	if checked.Plan != nil {
		quote, err := s.Runs.QuotePlan(ctx, call.principal.WorkspaceID, checked.Plan, call.principal)
		if err != nil {
			return nil, err
		}
		result.Quote = &quote
	}
	return jsonResponse(result), nil
}

// ListWorkflows returns one page of the workspace's workflows.
func (s *Server) ListWorkflows(ctx context.Context, request api.ListWorkflowsRequestObject) (api.ListWorkflowsResponseObject, error) {
	page, err := s.Workflows.List(ctx, callOf(ctx).principal.WorkspaceID, workflow.ListParams{
		Limit: limit(request.Params.Limit), Cursor: value(request.Params.Cursor), Status: value(request.Params.Status),
	})
	page.NextCursor = s.bind(ctx, page.NextCursor)
	return api.ListWorkflows200JSONResponse(page), err
}

// GetWorkflow returns a workflow, or one of its versions.
//
// The ETag is the version number. Every change except archiving creates a new version, so the tag
// says nothing about the status. Therefore GetWorkflow never responds with 304 for an archived
// workflow or an explicit version. Only saving a new version restores an archived workflow.
func (s *Server) GetWorkflow(ctx context.Context, request api.GetWorkflowRequestObject) (api.GetWorkflowResponseObject, error) {
	w, err := s.Workflows.Get(ctx, callOf(ctx).principal.WorkspaceID, request.WorkflowID, request.Params.Version)
	held := request.Params.IfNoneMatch
	if request.Params.Version != nil || w.Status == api.WorkflowStatusARCHIVED {
		held = nil
	}
	return jsonResponse(w).unless(etag(w.Version), held), err
}

// ExportWorkflow returns a workflow, or one of its versions, as a file.
func (s *Server) ExportWorkflow(ctx context.Context, request api.ExportWorkflowRequestObject) (api.ExportWorkflowResponseObject, error) {
	w, err := s.Workflows.Get(ctx, callOf(ctx).principal.WorkspaceID, request.WorkflowID, request.Params.Version)
	return jsonResponse(present.WorkflowExport(w)).unless(etag(w.Version), request.Params.IfNoneMatch), err
}

// ReplaceWorkflow saves a new version of a workflow.
func (s *Server) ReplaceWorkflow(ctx context.Context, request api.ReplaceWorkflowRequestObject) (api.ReplaceWorkflowResponseObject, error) {
	call, body := callOf(ctx), request.Body
	replaced, err := s.Workflows.Replace(ctx, workflow.ReplaceParams{
		WorkspaceID: call.principal.WorkspaceID, WorkflowID: request.WorkflowID, Expected: expected(request.Params.IfMatch),
		Draft: workflow.Draft{
			Key: value(body.Key), Name: body.Name, Description: value(body.Description), Status: api.WorkflowStatus(value(body.Status)), InputSchema: body.InputSchema, Retry: body.Retry, DeadlineMs: body.DeadlineMs,
			Components: body.Components, SequenceEdges: body.SequenceEdges, DataConnections: body.DataConnections, Triggers: body.Triggers,
			Strict: call.strict, Form: call.faults,
		},
	})
	if malformed := fault.Malformed(call.faults); malformed != nil && fault.CodeOf(err) != fault.InvalidInput {
		err = malformed // faults of the form take precedence over other errors (decisions 1.8)
	}
	return versionResponse(replaced.Version, replaced), err
}

// ArchiveWorkflow archives a workflow and returns it.
func (s *Server) ArchiveWorkflow(ctx context.Context, request api.ArchiveWorkflowRequestObject) (api.ArchiveWorkflowResponseObject, error) {
	archived, err := s.Workflows.Archive(ctx, callOf(ctx).principal.WorkspaceID, request.WorkflowID, expected(request.Params.IfMatch))
	return versionResponse(archived.Version, archived), err
}

// UpdateWorkflowComponent changes a component of a workflow.
func (s *Server) UpdateWorkflowComponent(ctx context.Context, request api.UpdateWorkflowComponentRequestObject) (api.UpdateWorkflowComponentResponseObject, error) {
	body := value(request.Body)
	updated, err := s.Workflows.UpdateComponent(ctx, workflow.UpdateParams{
		Restricted:  callOf(ctx).principal.Restricted(),
		WorkspaceID: callOf(ctx).principal.WorkspaceID, WorkflowID: request.WorkflowID, ComponentID: request.ComponentID,
		Expected: expected(request.Params.IfMatch), Config: body.Config, Name: body.Name, Position: body.Position,
	})
	return versionResponse(updated.WorkflowVersion, updated), err
}

// expected returns the versions that If-Match names, or nil if If-Match allows any version. A weak
// tag, or anything else that isn't an ETag of a workflow, names no version (RFC 9110, section
// 13.1.1).
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

// versionResponse returns value as JSON with the ETag of the version.
func versionResponse(version api.WorkflowVersion, value any) response {
	return jsonResponse(value).with("ETag", etag(version))
}
