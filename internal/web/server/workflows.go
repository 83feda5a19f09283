package server

import (
	"context"
	"fmt"
	"net/http"
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
	return workflowAnswer{made, replayed}, err
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
	return storedAnswer{w, newTagged(etag(w.Version), held)}, err
}

// ExportWorkflow returns a workflow, or one of its versions, as a file.
func (s *Server) ExportWorkflow(ctx context.Context, request api.ExportWorkflowRequestObject) (api.ExportWorkflowResponseObject, error) {
	w, err := s.workflows.Get(ctx, callOf(ctx).principal.WorkspaceID, request.WorkflowID, request.Params.Version)
	return exportAnswer{w, newTagged(etag(w.Version), request.Params.IfNoneMatch)}, err
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
	return workflowAnswer{record: replaced}, err
}

// ArchiveWorkflow takes a workflow out of use.
func (s *Server) ArchiveWorkflow(ctx context.Context, request api.ArchiveWorkflowRequestObject) (api.ArchiveWorkflowResponseObject, error) {
	archived, err := s.workflows.Archive(ctx, callOf(ctx).principal.WorkspaceID, request.WorkflowID, expected(request.Params.IfMatch))
	return workflowAnswer{record: archived}, err
}

// UpdateWorkflowComponent changes a component of a workflow.
func (s *Server) UpdateWorkflowComponent(ctx context.Context, request api.UpdateWorkflowComponentRequestObject) (api.UpdateWorkflowComponentResponseObject, error) {
	body := value(request.Body)
	updated, err := s.workflows.UpdateComponent(ctx, workflow.UpdateParams{
		Restricted:  callOf(ctx).principal.Restricted(),
		WorkspaceID: callOf(ctx).principal.WorkspaceID, WorkflowID: request.WorkflowID, ComponentID: request.ComponentID,
		Expected: expected(request.Params.IfMatch), Config: body.Config, Name: body.Name, Position: body.Position,
	})
	return componentAnswer(updated), err
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

// writeVersion is writeJSON of what a version has.
func writeVersion(w http.ResponseWriter, version api.WorkflowVersion, value any) error {
	w.Header().Set("ETag", etag(version))
	return writeJSON(w, value)
}

// workflowAnswer is a workflow, perhaps that of an earlier request with the same
// Idempotency-Key.
type workflowAnswer struct {
	record   api.Workflow
	replayed bool
}

// VisitCreateWorkflowResponse writes the record and marks a repeat.
func (a workflowAnswer) VisitCreateWorkflowResponse(w http.ResponseWriter) error {
	if a.replayed {
		w.Header().Set("Idempotent-Replayed", "true")
	}
	return writeVersion(w, a.record.Version, a.record)
}

// VisitReplaceWorkflowResponse writes the record.
func (a workflowAnswer) VisitReplaceWorkflowResponse(w http.ResponseWriter) error {
	return writeVersion(w, a.record.Version, a.record)
}

// VisitArchiveWorkflowResponse writes the record.
func (a workflowAnswer) VisitArchiveWorkflowResponse(w http.ResponseWriter) error {
	return writeVersion(w, a.record.Version, a.record)
}

// storedAnswer is a workflow that the client may have.
type storedAnswer struct {
	record api.Workflow
	tagged
}

// VisitGetWorkflowResponse writes the record, or that it is unchanged.
func (a storedAnswer) VisitGetWorkflowResponse(w http.ResponseWriter) error {
	if a.unchanged(w) {
		return nil
	}
	return writeJSON(w, a.record)
}

// exportAnswer is a workflow as a file.
type exportAnswer struct {
	record api.Workflow
	tagged
}

// VisitExportWorkflowResponse writes the file, or that it is unchanged.
func (a exportAnswer) VisitExportWorkflowResponse(w http.ResponseWriter) error {
	if a.unchanged(w) {
		return nil
	}
	return writeJSON(w, present.WorkflowExport(a.record))
}

// componentAnswer is a component of a workflow.
type componentAnswer api.UpdatedWorkflowComponent

// VisitUpdateWorkflowComponentResponse writes the component.
func (a componentAnswer) VisitUpdateWorkflowComponentResponse(w http.ResponseWriter) error {
	return writeVersion(w, a.WorkflowVersion, api.UpdatedWorkflowComponent(a))
}
